"""The forecast: speed-up of every (draft, k, rule), with its uncertainty, from replayed texts and cost curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specq.core.types import EXACT_RULES, Rule
from specq.forecast import MOST_K, replay
from specq.forecast.cost import Curve, relative_error
from specq.forecast.replay import Copied, Traced
from specq.stats.intervals import more_prompts, t_interval

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One way to decode: a draft, how many tokens it proposes, and the rule that verifies them."""

    draft: str
    k: int
    rule: Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is expected of a cell; intervals are 95 %, over prompts and over the spread of the cost curve.

    `tokens_per_step` and `speedup` (of tpot_s, over plain decoding) are pooled over prompts. `p_faster` is the share of
    resamples, as wide as the interval, in which it is faster than plain decoding, `slower_prompts` the share of prompts
    that it slows down, and `regret` the mean share of time lost against the best cell, over resamples (plain decoding
    is a cell too). The seconds are those of a step in the middle of the curve; with a lookup before the draft, of a
    step that it drafts.
    """

    cell: Cell
    tokens_per_step: float
    steps_sd: float
    speedup: float
    low: float | None
    high: float | None
    tokens_per_s: float
    p_faster: float
    slower_prompts: float
    regret: float
    draft_s: float
    verify_s: float
    rest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """All cells, the fastest first; `best` None where plain decoding is expected to be the fastest.

    `near` counts how many more prompts would part the best draft from the next, or from plain decoding, None where
    nothing can be said or they are apart already.
    """

    forecasts: tuple[Forecast, ...]
    prompts: int
    plain_tokens_per_s: float
    near: int | None

    @property
    def best(self) -> Forecast | None:
        """The cell that is expected to be the fastest, if it is faster than plain decoding."""
        first = self.forecasts[0] if self.forecasts else None
        return first if first is not None and first.speedup > 1 else None

    def of(self, cell: Cell) -> Forecast:
        """The forecast of a cell."""
        return next(one for one in self.forecasts if one.cell == cell)


def rank(
    texts: Mapping[str, Sequence[Traced | Copied]],
    curves: Mapping[str, Curve],
    *,
    ks: Sequence[int] = tuple(range(1, MOST_K + 1)),
    rules: Sequence[Rule] = EXACT_RULES,
    resamples: int = RESAMPLES,
    seed: int = 0,
    asked: Mapping[str, Rule] | None = None,
    prompt_tokens: Sequence[int] | None = None,
) -> Ranking:
    """Forecast every draft with every k and rule.

    Args:
        texts: of each draft, what it says along the target's texts; the same texts in the same order for all.
        curves: of each draft, the seconds of its steps.
        ks: how many tokens a step proposes, each of them.
        rules: how they are verified, each of them.
        resamples: of the bootstrap over prompts.
        seed: of the same.
        asked: the rule that each draft was asked with; of cells that are equally fast it comes first.
        prompt_tokens: of the prompt of each text, so that a step costs what it does at its context; None: all steps
            cost what they do in the middle of each curve.

    Raises:
        ValueError: no prompt has a token after its first.
    """
    tokens = np.array([_size(one) for one in next(iter(texts.values()), ())], dtype=float)
    if not (tokens > 0).any():
        raise ValueError("forecast: no text has a token after its first: let the target write more of them")
    rng, written = np.random.default_rng(seed), tokens > 0
    count = int(written.sum())
    # An answer of one token has no steps: a resample of such answers alone would have no speed at all.
    drawn = rng.multinomial(count, written / count, size=resamples)
    weights = np.vstack([np.ones(len(tokens)), drawn])
    begins: Sequence[int | None] = [None] * len(tokens) if prompt_tokens is None else prompt_tokens
    together = rng.normal(size=resamples + 1)
    cells, times, rows, plains = [], [], [], []
    reach: dict[str, np.ndarray] = {}
    for name, some in texts.items():
        curve, most = curves[name], max(ks)
        costs = [step_costs(one, curve, most, start) for one, start in zip(some, begins, strict=True)]
        seconds = replay.summed(some, [each for each, _ in costs]).mean
        base = np.array([plain[1:].sum() for _, plain in costs])
        plains.append(base.sum() / tokens.sum())
        counts = replay.steps(some, most)
        reach[name] = limits(costs, curve_error(curve))
        # What a curve has of its own, and the target's passes, which all curves are off by together.
        error = np.exp(rng.normal(0.0, own_error(curve), size=resamples + 1) + shared_error(curve) * together)
        error[0] = 1.0
        for rule in rules:
            for k in ks:
                at = (slice(None), EXACT_RULES.index(rule), k - 1)
                cells.append(Cell(draft=name, k=k, rule=rule))
                times.append(error * (weights @ seconds[at]) / (weights @ base))
                # In plain steps of the prompt itself; one without tokens has none.
                per_prompt = seconds[at] * tokens / np.where(written, base, 1.0)
                rows.append((per_prompt, counts.mean[at], counts.variance[at]))
    shares = np.array(times)
    best = np.minimum(shares.min(axis=0, initial=1.0), 1.0)
    # The machine may have been faster for one curve than for another: tokens a second stand on one plain step for all.
    plain = float(np.median(plains))
    made = []
    for cell, share, (per_prompt, steps, variance) in zip(cells, shares, rows, strict=True):
        curve = curves[cell.draft]
        speeds = resampled(1 / share, count, reach[cell.draft][cell.k])
        low, high = ends(speeds, count)
        parts = curve.parts(cell.k)
        made.append(
            Forecast(
                cell=cell,
                tokens_per_step=float(tokens.sum() / steps.sum()),
                steps_sd=float(np.sqrt(variance.sum())),
                speedup=float(1 / share[0]),
                low=low,
                high=high,
                tokens_per_s=float(1 / (share[0] * plain)),
                p_faster=float((speeds > 1).mean()) if count > 1 else float("nan"),
                # As fast as plain decoding is not slower, however its sum was rounded.
                slower_prompts=float((per_prompt > tokens * (1 + 1e-9))[written].mean()),
                regret=float((share[1:] / best[1:] - 1).mean()),
                draft_s=float(parts["draft"][cell.k]),
                verify_s=float(parts["verify"][cell.k]),
                rest_s=float(parts["rest"][cell.k]),
            )
        )
    wanted = asked or {}
    made.sort(key=lambda one: (-round(one.speedup, 9), one.cell.rule != wanted.get(one.cell.draft), one.cell.k))
    plain_steps = {cell: per_prompt for cell, (per_prompt, _, _) in zip(cells, rows, strict=True)}
    return Ranking(
        forecasts=tuple(made),
        prompts=len(tokens),
        plain_tokens_per_s=1 / plain,
        near=_near([plain_steps[one.cell] for one in one_a_draft(made)], tokens),
    )


def one_a_draft(ranked: Sequence[Forecast]) -> list[Forecast]:
    """The best of each draft, the fastest first: neighbours in k are no question."""
    found: dict[str, Forecast] = {}
    for one in ranked:
        found.setdefault(one.cell.draft, one)
    return list(found.values())


def _near(best: Sequence[np.ndarray], tokens: np.ndarray) -> int | None:
    """Prompts beyond those that were replayed, until the fastest of these is apart from the next, or from no draft."""
    kept = tokens > 0
    if not best or kept.sum() < 2:
        return None
    first = best[0]
    second = best[1] if len(best) > 1 and best[1].sum() < tokens.sum() else tokens
    logs = t_interval(np.log(second[kept] / first[kept]))
    if logs.low is None or logs.high is None or logs.low > 0 or logs.high < 0:
        return None
    return more_prompts(replace(logs, value=float(np.exp(logs.value))))


def step_costs(
    text: Traced | Copied, curve: Curve, most: int, prompt_tokens: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of a step with 0 .. most proposals at each token of a text [T, most + 1], and of a plain step there [T].

    The first token came from the prefill, so that a step at token t has prompt_tokens + t tokens before it. Where
    those are not known, all steps cost what they do in the middle of the curve.
    """
    whole = sum(step_parts(text, curve, most, prompt_tokens).values())
    assert isinstance(whole, np.ndarray)
    if prompt_tokens is None:
        return whole, np.full(len(text), curve.plain.step_s)
    return whole, curve.plain_s(prompt_tokens + np.arange(len(text)))


def step_parts(text: Traced | Copied, curve: Curve, most: int, prompt_tokens: int | None) -> dict[str, np.ndarray]:
    """The parts of a step with 0 .. most proposals at each token of a text, [T, most + 1] each, as `step_costs`.

    Where a lookup goes before a draft, a step costs what it does of the one that proposes there.
    """
    contexts = None if prompt_tokens is None else prompt_tokens + np.arange(len(text))
    parts = curve.parts(most, contexts)
    if isinstance(text, Copied) and text.elsewhere is not None:
        here, copied = (text.proposed > 0)[:, None], curve.copied_parts(most, contexts)
        parts = {name: np.where(here, copied[name], seconds) for name, seconds in parts.items()}
    return {name: np.broadcast_to(seconds, (len(text), most + 1)) for name, seconds in parts.items()}


def _size(text: Traced | Copied) -> int:
    return max(0, len(text) - 1)


def curve_error(curve: Curve) -> float:
    """The relative standard error of a step's seconds over a plain step's."""
    return float(np.hypot(own_error(curve), shared_error(curve)))


def own_error(curve: Curve) -> float:
    """The part of it that is this draft's alone."""
    return relative_error([curve.plain, *curve.points, *(() if curve.copies is None else curve.copies.points)])


def shared_error(curve: Curve) -> float:
    """The part of it that all drafts share whose passes of the target were measured together.

    Of the seconds of a step it is off by the share that the pass has in them.
    """
    error = max(one.passes_error for one in (curve, *curve.depths))
    return error * max((one.verify_s / one.step_s for one in curve.points if one.proposed), default=1.0)


def limits(costs: Sequence[tuple[np.ndarray, np.ndarray]], error: float) -> np.ndarray:
    """The least and the greatest speed-up that steps of these costs can give, [most + 1, 2], for k = 0 .. most.

    The least is that of the dearest step up to k with all its proposals wrong, the greatest that of the best one with
    all of them right, or of a step that proposes nothing. `costs` are those of `step_costs`, of each text; `error` is
    that of the curve, whose 95 % are allowed for.
    """
    shares = np.concatenate([plain[:, None] / seconds for seconds, plain in costs])
    least = np.minimum.accumulate(shares.min(axis=0))
    greatest = np.maximum.accumulate((shares * np.arange(1, shares.shape[1] + 1)).max(axis=0))
    off = np.exp(1.96 * error)
    return np.stack([least / off, np.maximum(1.0, greatest) * off], axis=1)


def resampled(values: np.ndarray, prompts: int, within: Sequence[float] | np.ndarray = (0.0, np.inf)) -> np.ndarray:
    """The resamples of values[0] from values[1:], as much wider as Student's t is than the normal law, in logarithms.

    What would lie outside of the least and the greatest that is possible, `within`, lies there.
    """
    from scipy.special import ndtri, stdtrit

    if prompts < 2:
        return values[1:]
    tail = (1 - LEVEL) / 2
    wider = stdtrit(prompts - 1, tail) / ndtri(tail) * np.sqrt(prompts / (prompts - 1))
    middle = np.log(values[0])
    spread: np.ndarray = np.exp(middle + wider * (np.log(values[1:]) - middle))
    return np.clip(spread, *within)


def ends(spread: np.ndarray, prompts: int) -> tuple[float | None, float | None]:
    """The interval that holds `LEVEL` of resamples, None where one prompt tells nothing of others."""
    if prompts < 2:
        return None, None
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(spread, [tail, 1 - tail])
    return float(low), float(high)
