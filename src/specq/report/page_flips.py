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
LONGEST, SHORTEST = 2000, 200
OPEN = 20


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
    shown = sum(min(len(arm.flips), each) for _, arm in found)
    length = min(LONGEST, max(SHORTEST, CHARACTERS // max(5 * shown, 1)))
    by_eval: dict[str, list[FlipTable]] = {}
    for name, arm in found:
        first = _ordered(arm.flips)[:each]
        by_eval.setdefault(name, []).append(
            FlipTable(
                label=arm.label,
                worse=sum(flip.worse for flip in arm.flips),
                better=sum(not flip.worse for flip in arm.flips),
                flips=first,
                left=len(arm.flips) - len(first),
                length=length,
                open=shown <= OPEN,
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
