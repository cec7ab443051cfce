"""The floor on latency, memory, price and speed-up: what is breached, and what cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specq.report import price
from specq.report.case import Case, Ground
from specq.report.words import milliseconds, ratio, size
from specq.stats.intervals import SpeedUp

# Ceilings of [floor] that hold for what was seen: the key, the measure that is held against it, and how it is shown.
# A tail of a latency and a peak of memory have no interval.
CEILINGS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    *(
        (f"{name}_p{tail}", f"{name}.p{tail}", lambda value: f"{milliseconds(value)} ms")
        for name in ("ttft_s", "tpot_s", "e2e_s")
        for tail in (95, 99)
    ),
    ("peak_bytes", "peak_bytes", size),
)


def least(speed: SpeedUp, ground: Ground) -> tuple[list[str], list[str]]:
    """The floor's least speed-up: whether it is breached, or cannot be told."""
    wanted, found = ground.floor.get("speedup"), speed.pooled
    if wanted is None:
        return [], []
    if found.low is not None and found.low >= wanted:
        return [], []
    ends = "" if found.low is None or found.high is None else f" ({found.low:.2f} to {found.high:.2f})"
    said = f"{ground.measure} {ratio(found.value)}{ends}, allowed is {wanted} or more"
    if found.high is not None and found.high < wanted:
        return [f"the floor's speedup is breached: {said}"], []
    return [], [f"the floor's speedup cannot be told: {said}"]


def ceilings(case: Case, floor: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Ceilings of the floor that are breached, and those that cannot be told."""
    broken, unknown = [], []
    for key, name, show in CEILINGS:
        ceiling = floor.get(key)
        if ceiling is None:
            continue
        measure = case.measures.get(name)
        if measure is None or measure.value is None:
            why = "it was not measured" if measure is None else measure.note
            unknown.append(f"the floor's {key} cannot be told: {why}")
        elif measure.value > float(ceiling):
            broken.append(f"the floor's {key} is breached: {show(measure.value)}, allowed is {show(float(ceiling))}")
    ceiling = floor.get(price.NAME)
    if ceiling is not None and case.price is not None:
        more, untold = price.floor(case.price, float(ceiling))
        broken, unknown = [*broken, *more], [*unknown, *untold]
    elif ceiling is not None:
        unknown.append(f"the floor's {price.NAME} cannot be told: it has no scores, or no answers of the workload")
    return broken, unknown
