"""The margin that is proposed for [floor] quality: never one that the items cannot decide."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from specq.core.nouns import counted
from specq.evals import describe

# Margins in shares that people give; the least that the items can decide is proposed.
MARGINS = (0.02, 0.03, 0.05, 0.1, 0.2)
# What TOML takes as a key without quotes.
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A line for [floor], and what is to be said of it.

    `line` is TOML for the key `quality`; it names MARGINS' largest where `margin` is None, for then the items decide
    none of them and the line must stay a comment.
    """

    line: str
    margin: float | None
    about: str

    @property
    def words(self) -> str:
        """One part of a sentence for a message or a report: the line to write, or why there is none yet."""
        return f"no margin can be given, for {self.about}" if self.margin is None else f"for example: {self.line}"


def deciding(clusters: int) -> float:
    """The least margin that so many independent items decide without a flip, rounded up to a thousandth."""
    found = math.ceil(1000 * describe.least_margin(clusters)) / 1000
    return found if not describe.cannot_decide(clusters, found) else found + 0.001


def proposed(name: str, clusters: int, *, binary: bool, items: int | None = None) -> Proposal:
    """The margin to propose for an eval `name` (or "eval:tag") of so many independent items, or clusters of them.

    `items` is how many there are where some share a cluster, which the words then say.
    A score that is not 0 or 1 is decided by how far scores differ, which only a run tells: it gets the same margins in
    its own unit, and the largest where its items are few.
    """
    enough = [margin for margin in MARGINS if not describe.cannot_decide(clusters, margin)]
    margin = enough[0] if enough else MARGINS[-1] if not binary else None
    key = name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    line = f"quality = {{ {key} = {MARGINS[-1] if margin is None else margin} }}"
    if margin is None:
        needed = describe.least_items(MARGINS[-1])
        who, those = counted(clusters, "item"), ""
        if items is not None and items > clusters:
            who = f"{counted(items, 'item')} in {counted(clusters, 'cluster')}, which count once each,"
            those = " clusters"
        what = f"{who} cannot decide even {describe.points(MARGINS[-1])}; {needed}{those} or more can"
        return Proposal(line=line, margin=None, about=what)
    if not binary:
        about = f"at most {margin} worse in the score's own unit; what they can decide a run tells"
    else:
        about = (
            f"at most {describe.points(margin)} worse; without a flip these items decide "
            f"{describe.points(deciding(clusters))} at the least"
        )
    return Proposal(line=line, margin=margin, about=about)
