"""What an answer costs: the device's time or the tokens of it, their price, and the share that is right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from specq.report.evals import EvalReport
from specq.report.measures import Measure
from specq.report.runfile import RunFile
from specq.report.targets import model_name
from specq.report.words import number
from specq.stats.floor import MOST_ITEMS
from specq.stats.intervals import MOST_PROMPTS, Interval, SpeedUp, pooled_ratio
from specq.stats.scores import LEVEL, Rate

NAME, ADVANTAGE = "price_per_correct_answer", "price_advantage"
PER_ANSWER, TOKENS_PER_ANSWER = "price_per_answer", "token_price_per_answer"
_MILLION = 1e6
_Z = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True)
class _Half:
    """How far a bound of one factor lies from its value, on the logarithm, down and up; it rests on n of `what`."""

    down: float
    up: float
    n: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a correct answer with its one-sided 95 % bounds, None where it has none: then `why` says why not.

    The value is infinite where no answer is right.
    """

    value: float
    low: float | None
    high: float | None
    halves: tuple[_Half, _Half] | None = None
    why: str = ""

    def more(self, ceiling: float) -> str:
        """In words, what would decide whether it lies within a ceiling, were values and spreads to stay."""
        if self.halves is None:
            return self.why
        above = ceiling > self.value
        distance = abs(math.log(ceiling / self.value))
        narrow, wide = sorted(self.halves, key=lambda half: half.up if above else half.down)
        # The wider half first: more of what it rests on moves the bound most.
        for half, other in ((wide, narrow), (narrow, wide)):
            own, rest = (one.up if above else one.down for one in (half, other))
            if rest < distance and (needed := math.ceil(half.n * own**2 / (distance**2 - rest**2)) - half.n) > 0:
                most = MOST_PROMPTS if half.what == "prompts" else MOST_ITEMS
                if needed <= most:
                    return f"about {needed} more {half.what} at this spread would decide"
        times = sum((half.up if above else half.down) ** 2 for half in self.halves) / max(distance, 1e-9) ** 2
        if times * max(half.n for half in self.halves) > MOST_PROMPTS:
            return "no number of prompts and items in reach would decide"
        return f"about {times:.1f} times as many prompts and items at this spread would decide"


def per_answer(run: RunFile, arm: str, known: Mapping[str, Measure]) -> tuple[Measure, ...]:
    """`price_per_answer` by the machine's hour, and `token_price_per_answer` by a price sheet, where they are given.

    Tokens are those of the workload's answers: prompts less what a prefix cache held, that at its own price where
    there is one, and what was answered.
    """
    currency, found = str(run.setting("price", "currency", default="")), []
    per_hour, seconds = run.setting("price", "per_hour", default=None), known.get("device_s_per_answer")
    if per_hour is not None and seconds is not None and seconds.value is not None:
        a_second = float(per_hour) / 3600
        low, high = (None if end is None else end * a_second for end in (seconds.low, seconds.high))
        found.append(
            Measure(
                name=PER_ANSWER,
                unit=currency,
                value=seconds.value * a_second,
                low=low,
                high=high,
                n=seconds.n,
                note=f"{per_hour} {currency} an hour, {seconds.note}",
            )
        )
    sheet = {key: run.setting("price", key, default=None) for key in ("input_price", "cached_price", "output_price")}
    own = list(run.generated[arm].values())
    if sheet["input_price"] is None or sheet["output_price"] is None or not own:
        return tuple(found)
    cached_price = sheet["input_price"] if sheet["cached_price"] is None else sheet["cached_price"]
    cached = sum(g.cached_tokens or 0 for g in own)
    read = sum(g.prompt_tokens for g in own) - cached
    bill = read * sheet["input_price"] + cached * cached_price + sum(g.new_tokens for g in own) * sheet["output_price"]
    note = f"{number(read / len(own))} prompt tokens read, {number(cached / len(own))} cached, by the price sheet"
    value = bill / len(own) / _MILLION
    found.append(Measure(name=TOKENS_PER_ANSWER, unit=currency, value=value, n=len(own), note=f"{note}; n = answers"))
    return tuple(found)


def measures(
    run: RunFile, evals: tuple[EvalReport, ...], arm: str, known: Mapping[str, Measure], gain: SpeedUp | None
) -> tuple[Measure, ...]:
    """`price_per_correct_answer` of an arm and, beside the baseline, `price_advantage`; nothing without a price.

    The price is that of the device for as long as one answer of the workload takes, one request at a time, over the
    share of the eval's items that are right. The halves of both intervals' logarithms add up as the root of the sum of
    their squares.
    """
    per_hour, right = run.setting("price", "per_hour", default=None), _right(run, evals, arm)
    seconds = known.get("device_s_per_answer")
    if per_hour is None or right is None or not right.value or seconds is None or seconds.value is None:
        return ()
    currency = str(run.setting("price", "currency", default=""))
    value, low, high = seconds.value / 3600 * float(per_hour) / right.value, None, None
    if halves := _halves(seconds, right.value, right.low, right.high, right.n):
        low, high = _ends(value, halves)
    note = f"{per_hour} {currency} an hour, {seconds.note}, {100 * right.value:.1f} % right on {evals[0].name}"
    note += f", answered by {name}" if (name := model_name(run, arm)) else ""
    found = [Measure(name=NAME, unit=currency, value=value, low=low, high=high, n=right.n, note=note)]
    if gain is not None:
        pooled = gain.pooled
        note = f"throughput_speedup times the ratio of the shares right on {evals[0].name}"
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


def bounded(run: RunFile, evals: tuple[EvalReport, ...], arm: str) -> Price | None:
    """The price of an arm's correct answer as the floor holds it; None where the floor names none, or none is known."""
    per_hour, right = run.setting("price", "per_hour", default=None), _right(run, evals, arm)
    if run.setting("floor", NAME, default=None) is None or per_hour is None or right is None:
        return None
    by_prompt: dict[str, list[float]] = {}
    for g in run.generated[arm].values():
        by_prompt.setdefault(g.prompt, []).append(g.device_s)
    if not by_prompt:
        return None
    rows = [[sum(times) for times in by_prompt.values()]], [[float(len(times)) for times in by_prompt.values()]]
    seconds = pooled_ratio(*rows, level=2 * LEVEL - 1)
    a_second = float(per_hour) / 3600
    value = seconds.value * a_second / right.value if right.value else math.inf
    if seconds.low is None or right.high_one_sided is None:
        why = "one prompt has no spread: give at least two" if seconds.low is None else "its items are one cluster"
        return Price(value=value, low=None, high=None, why=why)
    if not right.value:
        low = seconds.low * a_second / max(right.high_one_sided, 1e-9)
        return Price(value=value, low=low, high=math.inf, why=f"none of {right.n} items is right")
    halves = _halves(seconds, right.value, right.low_one_sided, right.high_one_sided, right.n)
    assert halves is not None
    low, high = _ends(value, halves)
    return Price(value=value, low=low, high=high, halves=halves)


def floor(found: Price, ceiling: float) -> tuple[list[str], list[str]]:
    """The floor's ceiling on the price: whether it is breached, or cannot be told.

    It holds where the one-sided 95 % upper bound lies within it, and is breached where the lower bound lies beyond.
    """
    if found.high is not None and found.high <= ceiling:
        return [], []
    value = "no answer of it is right" if math.isinf(found.value) else number(found.value)
    if found.low is not None and found.low > ceiling:
        said = f"{value} (at least {number(found.low)}), allowed is {number(ceiling)}"
        return [f"the floor's {NAME} is breached: {said}"], []
    ends = "" if found.low is None or found.high is None else f" ({number(found.low)} to {_at_most(found.high)})"
    return [], [
        f"the floor's {NAME} cannot be told: {value}{ends}, allowed is {number(ceiling)}; {found.more(ceiling)}"
    ]


def _at_most(value: float) -> str:
    return "any" if math.isinf(value) else number(value)


def _right(run: RunFile, evals: tuple[EvalReport, ...], arm: str) -> Rate | None:
    """The share of the one eval's items that an arm gets right; None where that is not known."""
    if len(evals) != 1 or not evals[0].binary:
        return None
    if arm in run.baselines:
        return evals[0].baseline
    found = evals[0].arm(arm)
    return None if found is None or found.all is None else found.all.rate


def _halves(
    seconds: Measure | Interval, share: float, low: float | None, high: float | None, n: int
) -> tuple[_Half, _Half] | None:
    """Of the seconds of an answer and of one over the share right; None where one of them has no interval."""
    value = seconds.value
    if value is None or seconds.low is None or seconds.high is None or low is None or high is None:
        return None
    time = _Half(down=math.log(value / seconds.low), up=math.log(seconds.high / value), n=seconds.n, what="prompts")
    # The more are right the lower the price: up and down change places.
    return time, _Half(down=math.log(high / share), up=math.log(share / max(low, 1e-9)), n=n, what="items")


def _ends(value: float, halves: tuple[_Half, _Half]) -> tuple[float, float]:
    down, up = math.hypot(*(half.down for half in halves)), math.hypot(*(half.up for half in halves))
    return value * math.exp(-down), value * math.exp(up)


def advantage(device: SpeedUp | None, evals: tuple[EvalReport, ...], arm: str) -> SpeedUp | None:
    """How many times as many correct answers the same money buys: throughput_speedup times the ratio of shares right.

    Prompts and items are different texts, so the two logarithms vary independently: the halves of their intervals add
    up as the root of the sum of their squares, each side for itself. The baseline's share is taken as known.
    """
    if len(evals) != 1 or not evals[0].binary:
        return None
    found, base = evals[0].arm(arm), evals[0].baseline
    if device is None or found is None or found.all is None or base is None or base.value <= 0:
        return None
    change = found.all.change
    if found.proved:
        # Its answers are the baseline's own: nothing of their price is in doubt but the time.
        return device
    ratio = (base.value + change.value) / base.value
    if ratio <= 0:
        return None
    value = device.pooled.value * ratio
    ends: list[float] = []
    for speed, moved, side in ((device.pooled.low, change.low, -1), (device.pooled.high, change.high, 1)):
        if speed is None:
            return replace(device, pooled=_interval(device, value, None, None), p_not_faster=None)
        share = max((base.value + moved) / base.value, 1e-9)
        off = math.hypot(math.log(speed / device.pooled.value), math.log(share / ratio))
        ends.append(value * math.exp(side * off))
    below = max(math.log(value / ends[0]), 1e-12) / _Z
    p = 0.5 * math.erfc(math.log(value) / below / math.sqrt(2))
    return replace(device, pooled=_interval(device, value, *ends), p_not_faster=p)


def _interval(device: SpeedUp, value: float, low: float | None, high: float | None) -> Interval:
    return replace(device.pooled, value=value, low=low, high=high)
