"""Who speaks after whom: chat templates refuse a user after a user."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

_SPEAKERS = ("user", "assistant")


def still_take_turns(roles: Sequence[str], gone: Collection[int]) -> bool:
    """Whether the messages that are left take turns as before.

    No two messages of one speaker come together that were apart, and the same speaker is the first and the last.
    """
    left = [(place, role) for place, role in enumerate(roles) if place not in gone]
    spoken = [role for role in roles if role in _SPEAKERS]
    staying = [role for _, role in left if role in _SPEAKERS]
    if (spoken[:1], spoken[-1:]) != (staying[:1], staying[-1:]):
        return False
    return not any(
        role == after and role in _SPEAKERS and there > here + 1 for (here, role), (there, after) in pairwise(left)
    )
