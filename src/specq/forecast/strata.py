"""Strata: what is forecast of a draft on parts of the prompts and of the texts, for a mean hides who loses.

Prompts are parted by tag, by how sure the target is of its text, and by how many tokens prompt and text have; the
tokens of all texts by where they stand. A step belongs to the token at which it starts, with all that it emits
(`replay.starts`), so that the parts of a text add up to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from specq.core.types import Prompt
from specq.forecast import replay
from specq.forecast.cost import Curve
from specq.forecast.predict import RESAMPLES, Cell, Forecast, curve_error, ends, limits, resampled, step_costs
from specq.forecast.replay import Copied, Traced

By = Literal["tag", "entropy", "context", "position"]
FEWEST = 5
"""Prompts that an interval over them needs; below it a part has its numbers alone."""
_THIRDS_FROM = 6
_PLACES = ("first third", "middle third", "last third")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """What is expected of a cell on one part: `by` says what the parts are made of, `name` which one it is.

    `n` counts prompts, of a position tokens. `tokens_per_step` and `speedup` are pooled; the 95 % interval and the
    share of resamples in which the cell is faster than plain decoding go over prompts, None below FEWEST of them.
    """

    by: By
    name: str
    n: int
    tokens_per_step: float
    speedup: float
    low: float | None
    high: float | None
    p_faster: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strata:
    """The parts of a cell's forecast, and what they say that the whole does not, in words."""

    cell: Cell
    parts: tuple[Stratum, ...]
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """Of each token of each text: expected steps that start there, their seconds, those of plain decoding, tokens."""

    steps: np.ndarray
    seconds: np.ndarray
    plain: np.ndarray
    emitted: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noise:
    """What an interval is made with: the curve's own error, the limits that its seconds allow, and resamples."""

    error: float
    within: np.ndarray
    resamples: int


def strata(
    forecast: Forecast,
    texts: Sequence[Traced | Copied],
    curve: Curve,
    prompts: Sequence[Prompt],
    entropy: Sequence[float],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Strata:
    """The parts of one forecast. What all prompts have in common is no part.

    Args:
        forecast: the whole.
        texts: what its draft says along the target's texts.
        curve: the seconds of its steps.
        prompts: of the texts, in their order.
        entropy: of each text, the mean entropy of the target's law along it, in nats.
        seed: of the bootstrap over prompts.
        resamples: of the same.
    """
    cell = forecast.cell
    costs = [step_costs(one, curve, cell.k, len(prompt.ids)) for one, prompt in zip(texts, prompts, strict=True)]
    sums = [_along(one, cell, *own) for one, own in zip(texts, costs, strict=True)]
    per_prompt = np.array([[one.steps.sum(), one.seconds.sum(), one.plain.sum(), one.emitted.sum()] for one in sums])
    written = per_prompt[:, 3] > 0
    length = [len(prompt.ids) + len(text) for prompt, text in zip(prompts, texts, strict=True)]
    groups: list[tuple[By, str, np.ndarray]] = [
        *(("tag", name, mask) for name, mask in _tagged(prompts, written)),
        *(("entropy", name, mask) for name, mask in _parted(np.array(entropy), written, "{:.3g}", "nats")),
        *(
            ("context", name, mask)
            for name, mask in _parted(np.array(length, dtype=float), written, "{:.0f}", "tokens")
        ),
    ]
    noise = _Noise(error=curve_error(curve), within=limits(costs, curve_error(curve))[cell.k], resamples=resamples)
    rng = np.random.default_rng(seed)
    found = [_stratum(by, name, int(mask.sum()), per_prompt[mask], noise, rng) for by, name, mask in groups]
    places = []
    for place, name in enumerate(_PLACES):
        own = np.array([_third(one, place) for one in sums])
        tokens = sum(int((_thirds(len(one.steps)) == place).sum()) for one in sums)
        if (begun := own[:, 0] > 0).any():
            places.append(_stratum("position", name, tokens, own[begun], noise, rng))
    found += places if len(places) > 1 else []
    return Strata(cell=cell, parts=tuple(found), said=tuple(said(forecast, found)))


def said(forecast: Forecast, parts: Sequence[Stratum]) -> list[str]:
    """Where parts tell another tale than the whole: sentences, none where they agree."""
    draft, wins = forecast.cell.draft, forecast.speedup > 1
    against = [one for one in parts if (one.speedup > 1) is not wins]
    sure = [one for one in against if (one.high is not None and one.high < 1) or (one.low is not None and one.low > 1)]
    unsure = [one for one in against if one not in sure]
    whole = f"{draft} is {'faster' if wins else 'not faster'} than plain decoding over all prompts"
    other = "slower" if wins else "faster"
    found = []
    # What is printed as even, and is not surely otherwise, tells no other tale.
    against = [one for one in against if one in sure or f"{one.speedup:.2f}" != "1.00"]
    if sure:
        found.append(f"{whole} ({forecast.speedup:.2f}), but {other} on {_listed(sure)}.")
    if unsure:
        found.append(f"{whole} ({forecast.speedup:.2f}), but may be {other} on {_listed(unsure)}.")
    for by in dict.fromkeys(one.by for one in parts):
        known = [one for one in parts if one.by == by and one.low is not None and one.high is not None]
        if len(known) < 2:
            continue
        best, worst = max(known, key=lambda one: one.speedup), min(known, key=lambda one: one.speedup)
        if (best.low or 0.0) > (worst.high or 0.0):
            found.append(f"What {draft} brings depends on the {by}: {_named(best)} against {_named(worst)}.")
    return found


def _along(text: Traced | Copied, cell: Cell, costs: np.ndarray, plain: np.ndarray) -> _Sums:
    starts = replay.starts(text, cell.rule, cell.k)
    at = np.arange(len(text))
    # A step that accepts N tokens emits N + 1: each has a plain step of its own, at its own context.
    saved = np.zeros(len(text))
    for j in range(min(cell.k, len(text) - 1) + 1):
        saved[: len(text) - j] += starts.alive[: len(text) - j, j] * plain[j:]
    return _Sums(
        steps=starts.chance,
        seconds=starts.chance * costs[at, starts.proposed],
        plain=starts.chance * saved,
        emitted=starts.chance * starts.emitted,
    )


def _stratum(by: By, name: str, n: int, rows: np.ndarray, noise: _Noise, rng: np.random.Generator) -> Stratum:
    """From steps, seconds, plain seconds and tokens of each prompt, [prompts, 4]."""
    steps, seconds, plain, emitted = rows.sum(axis=0)
    prompts = len(rows)
    low, high, p_faster = None, None, None
    if prompts >= FEWEST:
        weights = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=noise.resamples)
        errors = np.exp(rng.normal(0.0, noise.error, size=noise.resamples))
        shares = errors * (weights @ rows[:, 1]) / (weights @ rows[:, 2])
        speeds = resampled(np.append(plain / seconds, 1 / shares), prompts, noise.within)
        low, high = ends(speeds, prompts)
        p_faster = float((speeds > 1).mean())
    return Stratum(
        by=by,
        name=name,
        n=n,
        tokens_per_step=float(emitted / steps),
        speedup=float(plain / seconds),
        low=low,
        high=high,
        p_faster=p_faster,
    )


def _thirds(total: int) -> np.ndarray:
    """Which third each token of a text stands in, [T]; -1 for token 0, which the prefill gave."""
    return np.concatenate([np.full(min(1, total), -1), 3 * np.arange(max(0, total - 1)) // max(1, total - 1)])


def _third(one: _Sums, place: int) -> list[float]:
    here = _thirds(len(one.steps)) == place
    return [float(each[here].sum()) for each in (one.steps, one.seconds, one.plain, one.emitted)]


def _tagged(prompts: Sequence[Prompt], written: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The prompts of each tag, the most frequent tag first; a prompt with several is in several."""
    tags = [prompt.tags or ("no tag",) for prompt in prompts]
    masks = {tag: np.array([tag in own for own in tags]) & written for tag in dict.fromkeys(sum(tags, ()))}
    found = sorted(masks.items(), key=lambda item: -int(item[1].sum()))
    return _apart(found, written)


def _parted(values: np.ndarray, written: np.ndarray, form: str, unit: str) -> list[tuple[str, np.ndarray]]:
    """Thirds by a value, halves of few prompts; equal values stay together."""
    ordered = np.sort(values[written])
    count = len(ordered)
    parts = 3 if count >= _THIRDS_FROM else 2
    cuts = sorted({float(ordered[-(-count * part // parts) - 1]) for part in range(1, parts)} - {float(ordered[-1])})
    names = [f"up to {form.format(cut)} {unit}" for cut in cuts[:1]]
    names += [f"{form.format(low)} to {form.format(high)} {unit}" for low, high in pairwise(cuts)]
    names += [f"above {form.format(cut)} {unit}" for cut in cuts[-1:]]
    place = np.searchsorted(np.array(cuts), values, side="left")
    return _apart([(name, (place == number) & written) for number, name in enumerate(names)], written)


def _apart(groups: Sequence[tuple[str, np.ndarray]], written: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Those that hold some of the prompts, and not all of them."""
    return [(name, mask) for name, mask in groups if 0 < mask.sum() < written.sum()]


def _listed(parts: Sequence[Stratum]) -> str:
    return ", ".join(_named(one) for one in parts)


def _named(one: Stratum) -> str:
    interval = "" if one.low is None or one.high is None else f", {one.low:.2f} to {one.high:.2f}"
    return f"{one.by} {one.name} ({one.speedup:.2f}{interval})"
