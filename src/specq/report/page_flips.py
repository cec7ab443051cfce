"""The items whose score changed, with prompt, reference and both answers side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specq.report.assemble import Report
from specq.report.evals import EvalReport, Flip

# So many on one page, shared by all arms and evals: a page is to be read, and all of them stand in report.json.
FLIPS = 600
LEAST = 5
# Characters of all their texts together, which bounds the page whatever a model wrote.
CHARACTERS = 800_000
LENGTHS = (2000, 1000, 500, 250)
OPEN = 20
# A character that is spelled out takes at most so many.
_SPELLED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipTable:
    """An arm's flips on an eval, the worst first. `length` is where texts are cut; `left` counts those not shown."""

    label: str
    worse: int
    better: int
    flips: tuple[Flip, ...]
    left: int
    length: int
    open: bool


def tables(report: Report) -> dict[str, tuple[FlipTable, ...]]:
    """Per eval its tables of flips, one for each arm that has any; critical items that got worse come first."""
    found = [(one.name, arm) for one in report.evals for arm in one.arms if arm.flips and arm.source == arm.arm]
    each = max(FLIPS // max(len(found), 1), LEAST)
    ordered = [_ordered(arm.flips)[:each] for _, arm in found]
    length = _length([flip for flips in ordered for flip in flips])
    by_eval: dict[str, list[FlipTable]] = {}
    for (name, arm), first in zip(found, ordered, strict=True):
        by_eval.setdefault(name, []).append(
            FlipTable(
                label=arm.label,
                worse=sum(flip.worse for flip in arm.flips),
                better=sum(not flip.worse for flip in arm.flips),
                flips=first,
                left=len(arm.flips) - len(first),
                length=length,
                open=sum(map(len, ordered)) <= OPEN,
            )
        )
    return {name: tuple(made) for name, made in by_eval.items()}


def score(value: float, report: EvalReport) -> str:
    """An item's score: right or wrong, or a number."""
    if report.binary:
        return "right" if value == 1 else "wrong"
    return f"{value:.3f}"


def _ordered(flips: Sequence[Flip]) -> tuple[Flip, ...]:
    return tuple(sorted(flips, key=lambda flip: (not flip.worse, not flip.critical)))


def _length(flips: Sequence[Flip]) -> int:
    """The longest cut at which all texts together stay below CHARACTERS."""
    texts = [text for one in flips for text in (one.prompt, one.reference, one.before, one.after, one.why)]
    rooms = [len(text) if text.replace("\n", "").isprintable() else _SPELLED * len(text) for text in texts]
    fits = (length for length in LENGTHS if sum(min(room, length) for room in rooms) <= CHARACTERS)
    return next(fits, LENGTHS[-1])
