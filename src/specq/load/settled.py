"""How sure a load run's numbers are, and how its floors stand: sections of text and tables."""

from __future__ import annotations

from collections.abc import Iterator

from specq.load.by_level import name_of
from specq.load.curve import Held
from specq.load.found import Found
from specq.report.section import Section, table
from specq.report.words import NOTHING, milliseconds, number
from specq.stats.crossed import FEWEST, Estimate

SURE, FLOORS = "How sure the numbers are", "The floor"
FEWEST_OF = {"p95": 59, "p99": 299}
"""Requests below which no upper bound of a quantile holds at 95 %: with 58, all lie below the p95 once in 20 times."""


def sections(found: Found) -> list[Section]:
    """Both; the floor's without rows where there is none."""
    return [_sure(found), _floors(found)]


def told(one: Estimate | None, thousandths: bool = False) -> str:
    """The interval of a number, or of seconds in ms."""
    if one is None or (one.low is None and one.high is None):
        return NOTHING
    return _ends(one.low, one.high, thousandths)


def _ends(low: float | None, high: float | None, thousandths: bool) -> str:
    show = milliseconds if thousandths else number
    return f"{'?' if low is None else show(low)} to {'?' if high is None else show(high)}"


def _sure(found: Found) -> Section:
    rows = []
    for one in found.levels:
        known = one.sure.ttft_s_p50 or one.sure.e2e_s_p50
        rows.append(
            (
                name_of(found, one),
                told(one.sure.tokens_per_s),
                told(one.sure.requests_per_s),
                told(one.sure.ttft_s_p50, True),
                told(one.sure.tpot_s_p50, True),
                NOTHING if known is None else str(known.clusters),
                str(one.repeats),
            )
        )
    lines = [
        "95 % intervals. Latencies: bootstrap over prompts, a prompt with all its requests. Rates: over ten slices of "
        "each steady state. Both over repeats too, where there are some, which errs wide.",
        f"None below {FEWEST} prompts. They speak for this run: other hours of the machine may differ by more.",
    ]
    columns = ("tokens/s", "requests/s", "ttft ms p50", "tpot ms p50", "prompts", "repeats")
    return table(SURE, (found.asked.unit, *columns), rows, lines)


def _floors(found: Found) -> Section:
    def rows() -> Iterator[tuple[str, ...]]:
        for one in found.levels:
            if one.held is None:
                continue
            for name, limit in one.held.limits.items():
                ends = one.held.ends[name]
                bounds = NOTHING if ends == (None, None) else _ends(*ends, True)
                value, word = one.held.values[name], _only(one.held, name).word
                yield name_of(found, one), name, milliseconds(value), bounds, milliseconds(limit), word

    lines = [
        "In ms. held: the upper bound is within the limit; broken: the lower one is beyond it; else not settled. Each "
        "bound holds at 95 % taken alone; it needs 59 requests for a p95 and 299 for a p99.",
    ]
    columns = (found.asked.unit, "what", "found", "bounds", "limit", "")
    return table(FLOORS, columns, list(rows()), lines)


def _only(held: Held, name: str) -> Held:
    return Held(values={name: held.values[name]}, limits={name: held.limits[name]}, ends={name: held.ends[name]})
