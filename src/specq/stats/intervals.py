"""Intervals over prompts: a prompt is the cluster, never a token and never a repeat.

Inputs are one number a prompt, summed over its repeats. Below `BOOTSTRAP_FROM` prompts a pooled
ratio gets Student's t on its linearised contributions (the delta method); from there on a BCa
bootstrap over prompts (Efron 1987, as scipy.stats.bootstrap does it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BOOTSTRAP_FROM = 30
P95_FROM = 20
P99_FROM = 100
# The fewest values that each quantile is told of.
TAIL_FROM = {"p50": 1, "p95": P95_FROM, "p99": P99_FROM}
MOST_PROMPTS = 100_000
# A spread over fewer prompts than these says next to nothing of how many more are needed.
FEWEST_PROMPTS = 5

Values = Sequence[float] | np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with its two-sided interval; low and high are None where there are too few prompts.

    `spread` is the standard deviation over prompts of what each adds: of the values themselves
    (t_interval), or of the contributions to the logarithm (pooled_ratio). spread / sqrt(n) is
    the standard error on that scale. `method` is "t", "bca" or "none".
    """

    value: float
    low: float | None
    high: float | None
    n: int
    spread: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedUp:
    """How much faster an arm is on the same prompts; above 1 is faster.

    `pooled` is what the clock sees, `per_prompt` the geometric mean of the prompts' own ratios;
    the five quantiles and `slower` (share of prompts below 1) describe those ratios.
    `p_not_faster` is the one-sided p-value of "the pooled ratio is at most 1", or None.
    """

    pooled: Interval
    per_prompt: Interval
    minimum: float
    q1: float
    median: float
    q3: float
    maximum: float
    slower: float
    p_not_faster: float | None


def t_interval(values: Values, level: float = 0.95) -> Interval:
    """Mean of independent values with Student's t interval, n - 1 degrees of freedom.

    Raises:
        ValueError: there are no values.
    """
    x = np.asarray(values, dtype=float)
    if x.size == 0:
        raise ValueError("an interval needs at least one value")
    mean = float(x.mean())
    if x.size == 1:
        return Interval(value=mean, low=None, high=None, n=1, spread=0.0, method="none")
    spread = float(x.std(ddof=1))
    half = _t_quantile(level, x.size) * spread / math.sqrt(x.size)
    return Interval(value=mean, low=mean - half, high=mean + half, n=int(x.size), spread=spread, method="t")


def pooled_ratio(
    up: Sequence[Values], down: Sequence[Values], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Product of the sums of `up` over the product of the sums of `down`, with an interval over prompts.

    Each argument is a list of rows [prompts]. The contribution of prompt i to the logarithm is
    n * (sum of up[i] / sum(up) less the same of down). A numerator of 0 gives the value 0
    without an interval.

    Raises:
        ValueError: no prompts, or a denominator that sums to 0.
    """
    rows = np.asarray([*up, *down], dtype=float)
    signs = np.asarray([1.0] * len(up) + [-1.0] * len(down))
    n = rows.shape[1]
    sums = rows.sum(axis=1)
    if n == 0 or np.any(sums[signs < 0] <= 0):
        raise ValueError("a pooled ratio needs prompts and a denominator above 0")
    if np.any(sums[signs > 0] <= 0):
        return Interval(value=0.0, low=None, high=None, n=n, spread=0.0, method="none")
    value = _ratio_of(sums[signs > 0], sums[signs < 0])
    log_value = math.log(value)
    if n == 1:
        return Interval(value=value, low=None, high=None, n=1, spread=0.0, method="none")
    spread = float((n * (signs @ (rows / sums[:, None]))).std(ddof=1))
    # Rounding alone must not pass for a spread, nor reach the bootstrap, which has no acceleration there.
    if spread < 1e-12:
        return Interval(value=value, low=value, high=value, n=n, spread=0.0, method="t")
    if n >= BOOTSTRAP_FROM:
        low, high = _bca(rows, signs, level, resamples, seed)
        if math.isfinite(low) and math.isfinite(high):
            return Interval(value=value, low=math.exp(low), high=math.exp(high), n=n, spread=spread, method="bca")
    half = _t_quantile(level, n) * spread / math.sqrt(n)
    low, high = math.exp(log_value - half), math.exp(log_value + half)
    return Interval(value=value, low=low, high=high, n=n, spread=spread, method="t")


def log_ratio(
    base_time: Values,
    base_tokens: Values,
    arm_time: Values,
    arm_tokens: Values,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> SpeedUp:
    """Speed-up of an arm: (base seconds / base tokens) / (arm seconds / arm tokens), all [prompts].

    Prompts that lack time or tokens in either (answers of one token have no decoding) are left out.

    Raises:
        ValueError: no prompt is left.
    """
    tb, nb, ta, na = _with_all(base_time, base_tokens, arm_time, arm_tokens)
    pooled = pooled_ratio([tb, na], [nb, ta], level=level, resamples=resamples, seed=seed)
    logs = np.log(tb) + np.log(na) - np.log(nb) - np.log(ta)
    mean = t_interval(logs, level)
    ratios = np.exp(logs)
    minimum, q1, median, q3, maximum = (float(q) for q in np.quantile(ratios, (0.0, 0.25, 0.5, 0.75, 1.0)))
    per_prompt = Interval(
        value=math.exp(mean.value),
        low=None if mean.low is None else math.exp(mean.low),
        high=None if mean.high is None else math.exp(mean.high),
        n=mean.n,
        spread=mean.spread,
        method=mean.method,
    )
    return SpeedUp(
        pooled=pooled,
        per_prompt=per_prompt,
        minimum=minimum,
        q1=q1,
        median=median,
        q3=q3,
        maximum=maximum,
        slower=float((ratios < 1).mean()),
        p_not_faster=_p_at_most_one(pooled),
    )


def speed_ratio(base_time: Values, base_tokens: Values, arm_time: Values, arm_tokens: Values) -> float:
    """The value of `log_ratio`'s pooled ratio alone, without the cost of its interval.

    Raises:
        ValueError: as `log_ratio`.
    """
    # As rows of their own, so that each is summed in the order of `pooled_ratio`, to the last digit.
    tb, nb, ta, na = (row.copy().sum() for row in _with_all(base_time, base_tokens, arm_time, arm_tokens))
    return _ratio_of(np.asarray([tb, na]), np.asarray([nb, ta]))


def _with_all(base_time: Values, base_tokens: Values, arm_time: Values, arm_tokens: Values) -> np.ndarray:
    """The four rows on the prompts that have time and tokens in both arms [4, prompts]."""
    rows = np.asarray([base_time, base_tokens, arm_time, arm_tokens], dtype=float)
    rows = rows[:, np.all(rows > 0, axis=0)]
    if rows.shape[1] == 0:
        raise ValueError("a speed-up needs at least one prompt with time and tokens in both arms")
    return rows


def _ratio_of(up: np.ndarray, down: np.ndarray) -> float:
    return float(np.prod(up) / np.prod(down))


def more_prompts(ratio: Interval, level: float = 0.95) -> int | None:
    """How many prompts beyond `ratio.n` would move its interval off 1, were value and spread to stay.

    None when nothing can be said: fewer than 5 prompts, a value of exactly 1, or more than 100,000 prompts.
    """
    if ratio.n < FEWEST_PROMPTS or ratio.value <= 0 or ratio.value == 1.0:
        return None
    distance = abs(math.log(ratio.value))

    def clear(n: int) -> bool:
        return _t_quantile(level, n) * ratio.spread / math.sqrt(n) < distance

    if not clear(MOST_PROMPTS):
        return None
    low, high = 1, MOST_PROMPTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if clear(middle) else (middle, high)
    return max(high - ratio.n, 1)


def percentiles(values: Values) -> dict[str, float | None]:
    """p50, p95 and p99 of values (linear interpolation).

    p95 is None below 20 values and p99 below 100: a tail that was not seen is not printed.
    """
    x = np.asarray(values, dtype=float)
    return {
        name: float(np.quantile(x, int(name[1:]) / 100)) if x.size >= needed else None
        for name, needed in TAIL_FROM.items()
    }


def _t_quantile(level: float, n: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.5 + level / 2))


def _p_at_most_one(ratio: Interval) -> float | None:
    if ratio.n < 2 or ratio.value <= 0 or ratio.spread == 0.0:
        return None
    from scipy.special import stdtr

    return float(stdtr(ratio.n - 1, -math.log(ratio.value) / (ratio.spread / math.sqrt(ratio.n))))


def _bca(rows: np.ndarray, signs: np.ndarray, level: float, resamples: int, seed: int) -> tuple[float, float]:
    from scipy.stats import bootstrap

    def log_of(index: np.ndarray, axis: int) -> np.ndarray:
        # A resample may miss every prompt that has something; its logarithm is -inf, and the caller falls back.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.tensordot(signs, np.log(rows[:, index].sum(axis=-1)), axes=1)

    with np.errstate(divide="ignore", invalid="ignore"):
        found = bootstrap(
            (np.arange(rows.shape[1]),),
            log_of,
            confidence_level=level,
            n_resamples=resamples,
            method="BCa",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return float(found.low), float(found.high)
