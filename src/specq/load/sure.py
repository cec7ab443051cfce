"""How sure a level's numbers are: intervals of its rates and latencies, of its power, and of what floors ask for.

Latencies go over prompts, a prompt with all its requests; rates have no prompts, and go over equal slices of each
steady state (batch means: Law, Simulation Modeling and Analysis, 9.5.3), which is a little too narrow where slices are
short against a request. Both go over repeats as well, where there are some (stats.crossed says how).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from specq.load.measures import Attempt, e2e_s, requests_between, slices_of, tokens_between, tpot_s, ttft_s
from specq.load.rows import Requested
from specq.stats import crossed
from specq.stats.crossed import Estimate

ONE_SIDED = 0.90
"""The level of a two-sided interval whose ends each hold at 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sure:
    """Intervals at 95 % of a level's rates and of the medians of its latencies; None where there are no values."""

    tokens_per_s: Estimate | None
    requests_per_s: Estimate | None
    ttft_s_p50: Estimate | None
    tpot_s_p50: Estimate | None
    e2e_s_p50: Estimate | None


def sure(attempts: Sequence[Attempt], *, closed: bool) -> Sure:
    """The intervals of a level, its repeats together."""
    medians = {name: _quantile(attempts, f"{name}_p50", 0.95, closed) for name in ("ttft_s", "tpot_s", "e2e_s")}
    return Sure(
        tokens_per_s=_rate(attempts, tokens_between),
        requests_per_s=_rate(attempts, requests_between),
        ttft_s_p50=medians["ttft_s"],
        tpot_s_p50=medians["tpot_s"],
        e2e_s_p50=medians["e2e_s"],
    )


def of_floors(attempts: Sequence[Attempt], floors: Sequence[str], *, closed: bool) -> dict[str, Estimate | None]:
    """What each floor asks for, with ends that hold at 95 % each, taken alone."""
    return {name: _quantile(attempts, name, ONE_SIDED, closed) for name in floors}


def power_draws(attempts: Sequence[Attempt], *, closed: bool, seed: int) -> np.ndarray | None:
    """Tokens a second over the median e2e_s in each resample [resamples]; None where one has no interval."""
    values, prompts, repeats = _latencies(attempts, lambda row: e2e_s(row, closed=closed))
    counts, seconds, slices, of = _slices(attempts, tokens_between)
    if len(set(prompts)) < crossed.FEWEST or not sum(seconds):
        return None
    # With one seed the same repeats are drawn for both, for a slow one has fewer tokens and longer requests.
    latency = crossed.draw_quantiles(values, prompts, repeats, 0.5, seed=seed)
    rate = crossed.draw_ratios(counts, seconds, slices, of, seed=seed)
    return rate / latency


def _quantile(attempts: Sequence[Attempt], name: str, level: float, closed: bool) -> Estimate | None:
    """A quantile of a latency by its name, such as ttft_s_p95."""
    measure, _, which = name.rpartition("_")
    of: dict[str, Callable[[Requested], float | None]] = {
        "ttft_s": lambda row: ttft_s(row, closed=closed),
        "tpot_s": tpot_s,
        "e2e_s": lambda row: e2e_s(row, closed=closed),
    }
    values, prompts, repeats = _latencies(attempts, of[measure])
    return crossed.quantile(values, prompts, repeats, int(which[1:]) / 100, level=level) if values else None


def _latencies(
    attempts: Sequence[Attempt], of: Callable[[Requested], float | None]
) -> tuple[list[float], list[str], list[int]]:
    """The values of steady requests that ended well, their prompts and their repeats."""
    told = [(of(row), row.prompt, number) for number, one in enumerate(attempts) for row in one.steady if not row.error]
    known = [(value, prompt, number) for value, prompt, number in told if value is not None]
    return [value for value, _, _ in known], [prompt for _, prompt, _ in known], [number for _, _, number in known]


def _rate(attempts: Sequence[Attempt], count: Callable[[Attempt, float, float], float]) -> Estimate | None:
    counts, seconds, slices, repeats = _slices(attempts, count)
    return crossed.ratio(counts, seconds, slices, repeats) if sum(seconds) else None


def _slices(
    attempts: Sequence[Attempt], count: Callable[[Attempt, float, float], float]
) -> tuple[list[float], list[float], list[tuple[int, int]], list[int]]:
    """Counts and seconds of all slices, their names and their repeats."""
    found = [
        (count(one, first, last), last - first, (number, place), number)
        for number, one in enumerate(attempts)
        for place, (first, last) in enumerate(slices_of(one))
    ]
    return [row[0] for row in found], [row[1] for row in found], [row[2] for row in found], [row[3] for row in found]
