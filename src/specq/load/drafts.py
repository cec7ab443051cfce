"""What drafts gave at a level, from the server's counters or from the numbers that it told of each request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specq.load.measures import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """Counts over a steady state, and where they are from; None where the server does not tell.

    `steps` are passes that verified proposals, `decode_s` the seconds that the server decoded, of all requests.
    """

    source: Literal["counters", "requests"]
    steps: int | None
    proposed: int
    accepted: int
    decode_s: float | None

    @property
    def draft_acceptance(self) -> float | None:
        """Accepted over proposed."""
        return self.accepted / self.proposed if self.proposed else None

    @property
    def accepted_per_step(self) -> float | None:
        """Accepted proposals a verifying pass of one request."""
        return self.accepted / self.steps if self.steps else None

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens a pass gives: the accepted ones and the target's own."""
        return None if self.accepted_per_step is None else self.accepted_per_step + 1

    @property
    def step_s(self) -> float | None:
        """Seconds a step of one request, drafting and verifying together: no server tells them apart."""
        return self.decode_s / self.steps if self.steps and self.decode_s is not None else None


def drafting(attempts: Sequence[Attempt]) -> Drafting | None:
    """What drafts gave; None where the server tells nothing, or nothing was proposed."""
    counters = [one.point.numbers for one in attempts]
    if all("proposed" in one and "accepted" in one for one in counters):
        return _made("counters", counters)
    told = [
        {name: value for name in _NAMES if (value := getattr(row, name)) is not None}
        for one in attempts
        for row in one.steady
        if row.error is None
    ]
    if told and all("proposed" in one and "accepted" in one for one in told):
        return _made("requests", told)
    return None


_NAMES = ("draft_steps", "proposed", "accepted", "decode_s")


def _made(source: Literal["counters", "requests"], counts: Sequence[dict[str, Any]]) -> Drafting | None:
    def total(name: str) -> Any:
        return sum(one[name] for one in counts) if all(name in one for one in counts) else None

    if not total("proposed"):
        return None
    return Drafting(
        source=source,
        steps=total("draft_steps"),
        proposed=total("proposed"),
        accepted=total("accepted"),
        decode_s=total("decode_s"),
    )
