"""The first tokens of an arm over repeated seeds, tested against their exact law."""

from __future__ import annotations

from dataclasses import dataclass

from specq.core.records import FirstTokens
from specq.stats.counts import g_test, tv_upper

# A law below this is no law but what rounding leaves of a token that truncation cut.
EDGE = 1e-6
EDGE_SHARE, EDGE_DRAWS = 0.02, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokenTest:
    """Early tokens over repeated seeds at one prompt: G-test and an upper 95 % bound of the distance.

    `outside` counts draws of tokens that the law leaves less than 1e-6; the G-test is of the others.
    `plain_only`: the arm has a draft that proposed nothing in any draw, so that plain sampling alone was tested.
    """

    prompt: str
    draws: int
    outside: int
    p: float
    tv_upper: float
    plain_only: bool = False


def of_record(record: FirstTokens, drafted: bool) -> FirstTokenTest:
    """The test of one prompt's draws; `drafted`: their arm has a draft."""
    cells = list(zip(record.counts, record.expected, strict=True))
    inside = [(count, law) for count, law in cells if law >= EDGE]
    counts, law = [count for count, _ in inside], [p for _, p in inside]
    return FirstTokenTest(
        prompt=record.prompt,
        draws=record.draws,
        outside=sum(count for count, p in cells if p < EDGE),
        p=g_test(counts, law) if sum(counts) else 1.0,
        tv_upper=tv_upper(record.counts, record.expected),
        plain_only=drafted and record.proposed == 0,
    )


def edge_draws(draws: int) -> int:
    """How many draws outside the law rounding explains at most."""
    return max(EDGE_DRAWS, int(EDGE_SHARE * draws))
