"""One slot that keeps its key-value cache from request to request, so that a shared beginning is read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specq.decoding.session import Session


class Slot:
    """A session of keep "everything" and the tokens that its cache holds.

    A request reuses what its prompt and the slot's last text begin with alike, up to the prompt's last token, whose
    pass gives the first new one; what the slot holds beyond that is taken back. Only models of `keeps_prefixes` may
    have one: a recurrent state would be rolled back without a complaint, to a state that is not the earlier token's.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._held: list[int] = []

    def ready(self, ids: Sequence[int]) -> int:
        """Take the session back to what it shares with a prompt; returns how many tokens that is.

        Until `keep` nothing counts as held, so that a request that raised leaves nothing to reuse.
        """
        held, self._held = self._held, []
        reused = min(shared(held, ids), len(ids) - 1)
        if reused > 0:
            self.session.rollback(self.session.length - reused)
            return reused
        self.session.restart()
        return 0

    def keep(self, ids: Sequence[int]) -> None:
        """What the request came to, prompt and answer; its last token was drawn and not read."""
        self._held = list(ids[: self.session.length])


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
