"""What a correct answer costs: the time of an answer, the price of that time, and the share that is right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from specq.report.evals import EvalReport
from specq.report.measures import Measure
from specq.report.runfile import RunFile
from specq.stats.intervals import Interval, SpeedUp

NAME, ADVANTAGE = "price_per_correct_answer", "price_advantage"
_Z = 1.959964


def measures(
    run: RunFile, evals: tuple[EvalReport, ...], arm: str, known: Mapping[str, Measure], gain: SpeedUp | None
) -> tuple[Measure, ...]:
    """`price_per_correct_answer` of an arm and, beside the baseline, `price_advantage`; nothing without a price.

    The price is that of the device for as long as one answer of the workload takes, one request at a time, over the
    share of the eval's items that are right.
    """
    per_hour = run.setting("price", "per_hour", default=None)
    if per_hour is None or len(evals) != 1 or not evals[0].binary:
        return ()
    one = evals[0]
    right = one.baseline if arm in run.baselines else getattr(getattr(one.arm(arm), "all", None), "rate", None)
    seconds = known.get("device_s_per_answer")
    if right is None or not right.value or seconds is None or seconds.value is None:
        return ()
    currency = str(run.setting("price", "currency", default=""))
    value = seconds.value / 3600 * float(per_hour) / right.value
    note = f"{per_hour} {currency} an hour, one request at a time, {100 * right.value:.1f} % right on {one.name}"
    found = [Measure(name=NAME, unit=currency, value=value, n=right.n, note=note)]
    if gain is not None:
        pooled = gain.pooled
        note = f"e2e_speedup times the ratio of the shares right on {one.name}"
        found.append(
            Measure(
                name=ADVANTAGE,
                unit="ratio",
                value=pooled.value,
                low=pooled.low,
                high=pooled.high,
                n=pooled.n,
                note=note,
            )
        )
    return tuple(found)


def advantage(e2e: SpeedUp | None, evals: tuple[EvalReport, ...], arm: str) -> SpeedUp | None:
    """How many times as many correct answers the same money buys: e2e_speedup times the ratio of the shares right.

    Prompts and items are different texts, so the two logarithms vary independently: the halves of their intervals add
    up as the root of the sum of their squares, each side for itself. The baseline's share is taken as known.
    """
    if len(evals) != 1 or not evals[0].binary:
        return None
    found, base = evals[0].arm(arm), evals[0].baseline
    if e2e is None or found is None or found.all is None or base is None or base.value <= 0:
        return None
    change = found.all.change
    if found.proved:
        # Its answers are the baseline's own: nothing of their price is in doubt but the time.
        return e2e
    ratio = (base.value + change.value) / base.value
    if ratio <= 0:
        return None
    value = e2e.pooled.value * ratio
    ends: list[float] = []
    for speed, moved, side in ((e2e.pooled.low, change.low, -1), (e2e.pooled.high, change.high, 1)):
        if speed is None:
            return replace(e2e, pooled=_interval(e2e, value, None, None), p_not_faster=None)
        share = max((base.value + moved) / base.value, 1e-9)
        off = math.hypot(math.log(speed / e2e.pooled.value), math.log(share / ratio))
        ends.append(value * math.exp(side * off))
    below = max(math.log(value / ends[0]), 1e-12) / _Z
    p = 0.5 * math.erfc(math.log(value) / below / math.sqrt(2))
    return replace(e2e, pooled=_interval(e2e, value, *ends), p_not_faster=p)


def _interval(e2e: SpeedUp, value: float, low: float | None, high: float | None) -> Interval:
    return replace(e2e.pooled, value=value, low=low, high=high)
