"""From an arm's generations to its measures: a number with unit, interval and n.

Every pooled measure is a ratio of sums over all generations; its interval goes over prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specq.core.nouns import counted
from specq.core.records import Generated, StepRow
from specq.stats.intervals import TAIL_FROM, Interval, percentiles, pooled_ratio, t_interval

PARTS = ("draft", "verify", "sample", "rest")
_NO_STEPS = (0,) * len(StepRow._fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number derived from records; value is None where it cannot be known, and note says why.

    low and high are a two-sided 95 % interval over prompts, None where there is none; n counts
    what the note names, prompts unless it says otherwise.
    """

    name: str
    unit: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    note: str = ""


def from_interval(name: str, unit: str, found: Interval, note: str = "", *, top: float = math.inf) -> Measure:
    """A measure from an interval; `top` is the largest possible value and cuts the interval."""
    high = None if found.high is None else min(found.high, top)
    return Measure(name=name, unit=unit, value=found.value, low=found.low, high=high, n=found.n, note=note)


def of_arm(generations: Sequence[Generated]) -> tuple[Measure, ...]:
    """All measures of one arm that need no other arm; empty when there are no generations."""
    if not generations:
        return ()
    sums = _Sums(generations)
    on_server = any(g.served is not None for g in generations)
    columns = {id(g): _columns(g) for g in generations}

    def column(index: int) -> Callable[[Generated], float]:
        return lambda g: columns[id(g)][index]

    has_draft = any(g.rule is not None for g in generations)
    found = [
        *(
            []
            if on_server
            else [sums.ratio("tokens_per_step", "tokens/step", _decoded, _steps, "(n - 1) / steps, pooled")]
        ),
        sums.ratio("decode_tokens_per_s", "tokens/s", _decoded, _decode_s, "tokens after the first, pooled"),
        *_latency("ttft_s", [g.ttft_s for g in generations], sums),
        *_latency("tpot_s", [_decode_s(g) / _decoded(g) for g in generations if _decoded(g)], sums),
        *_latency("e2e_s", [g.e2e_s for g in generations], sums),
        sums.ratio("device_s_per_answer", "s", lambda g: g.device_s, lambda g: 1, _at_once(generations)),
        sums.ratio("answered_tokens_per_s", "tokens/s", lambda g: g.new_tokens, lambda g: g.device_s, "all time in it"),
        *_step_times(generations, columns),
        *_cache_share(generations),
        *_cached(generations),
        sums.ratio("repeated_share", "share", lambda g: g.repeated_share, lambda g: 1, "4-grams seen before", top=1.0),
        Measure(
            name="past_stop_tokens",
            unit="tokens",
            value=float(sum(g.past_stop for g in generations)),
            n=len(generations),
            note="after the model's own stop, which equal lengths ignore; n = generations",
        ),
    ]
    if has_draft and not on_server:
        found += [
            sums.ratio(
                "draft_acceptance",
                "share",
                column(2),
                column(1),
                "accepted / proposed, pooled",
                top=1.0,
                nothing="nothing was proposed",
            ),
            sums.ratio(
                "target_rows_per_token",
                "rows/token",
                lambda g: columns[id(g)][1] + len(g.steps),
                column(3),
                "sum(proposed + 1) / emitted",
            ),
            sums.ratio("draft_tokens_per_token", "tokens/token", column(1), column(3), "proposed / emitted"),
            *acceptance_by_position(generations),
        ]
    return tuple(found)


def acceptance_by_position(generations: Iterable[Generated]) -> tuple[Measure, ...]:
    """`survival[j]` and `conditional_acceptance[j]` for j = 1 to the most that a step proposed.

    survival[j] is the share of all steps whose first j proposals were all accepted; a step that
    proposed fewer than j does not survive at j. conditional_acceptance[j] is the share of those
    accepted at j among the steps that accepted j - 1 and proposed at least j, so that a short
    proposal is no refusal. With proposals of one length it is survival[j] / survival[j - 1].
    """
    rows = np.asarray([step[1:3] for g in generations for step in g.steps], dtype=int).reshape(-1, 2)
    proposed, accepted = rows[:, 0], rows[:, 1]
    survival, conditional = [], []
    for j in range(1, int(proposed.max(initial=0)) + 1):
        survivors = int((accepted >= j).sum())
        asked = int(((accepted >= j - 1) & (proposed >= j)).sum())
        survival.append(
            Measure(name=f"survival[{j}]", unit="share", value=survivors / len(rows), n=len(rows), note="n = steps")
        )
        conditional.append(
            Measure(
                name=f"conditional_acceptance[{j}]",
                unit="share",
                value=survivors / asked if asked else None,
                n=asked,
                note="n = steps that accepted j - 1 and proposed j",
            )
        )
    return (*survival, *conditional)


def accepted_histogram(generations: Iterable[Generated]) -> list[int]:
    """How many steps accepted 0, 1, 2, ... proposals."""
    accepted = [step[2] for g in generations for step in g.steps]
    return np.bincount(accepted).tolist() if accepted and min(accepted) >= 0 else []


class _Sums:
    """Sums a quantity per prompt, so that repeats of a prompt never pass for prompts."""

    def __init__(self, generations: Sequence[Generated]) -> None:
        self._by_prompt: dict[str, list[Generated]] = {}
        for g in generations:
            self._by_prompt.setdefault(g.prompt, []).append(g)

    def of(self, quantity: Callable[[Generated], float]) -> list[float]:
        return [float(sum(map(quantity, group))) for group in self._by_prompt.values()]

    def mean(self, quantity: Callable[[Generated], float]) -> Interval:
        return t_interval([sum(map(quantity, group)) / len(group) for group in self._by_prompt.values()])

    def ratio(
        self,
        name: str,
        unit: str,
        up: Callable[[Generated], float],
        down: Callable[[Generated], float],
        note: str,
        *,
        top: float = math.inf,
        nothing: str = "nothing to divide by",
    ) -> Measure:
        ups, downs = self.of(up), self.of(down)
        if sum(downs) <= 0:
            return Measure(name=name, unit=unit, value=None, n=len(downs), note=f"{nothing}; {note}")
        return from_interval(name, unit, pooled_ratio([ups], [downs]), note, top=top)


def _latency(name: str, values: Sequence[float], sums: _Sums) -> list[Measure]:
    if name == "tpot_s":
        head = sums.ratio(name, "s", _decode_s, _decoded, "(e2e - ttft) / (n - 1), pooled")
    else:
        quantity = (lambda g: g.ttft_s) if name == "ttft_s" else (lambda g: g.e2e_s)
        head = from_interval(name, "s", sums.mean(quantity), "mean")
    if not values:
        return [head]
    tails = [
        Measure(
            name=f"{name}.{tail}",
            unit="s",
            value=value,
            n=len(values),
            note="n = generations" if value is not None else _too_few(tail, len(values)),
        )
        for tail, value in percentiles(values).items()
    ]
    return [head, *tails]


def _too_few(tail: str, n: int) -> str:
    return f"{counted(n, 'generation')}, and {tail} needs {TAIL_FROM[tail]}"


def _cache_share(generations: Sequence[Generated]) -> list[Measure]:
    """What attention read from a quantized cache, of the keys and values it read; nothing without such a cache."""
    known = [g for g in generations if g.cache_share is not None]
    if not known:
        return []
    note = "of the keys and values that attention read"
    mean = _Sums(known).mean(lambda g: g.cache_share or 0.0)
    return [from_interval("quantized_cache_share", "share", mean, note, top=1.0)]


def _cached(generations: Sequence[Generated]) -> list[Measure]:
    """What of its prompts an arm found in a prefix cache; of a server `cached_prompt_share` says so."""
    known = [g for g in generations if g.cached_tokens is not None and g.served is None]
    if not known:
        return []
    note = "of prompt tokens, kept from the request before"
    return [
        _Sums(known).ratio("cached_share", "share", lambda g: g.cached_tokens or 0, lambda g: g.prompt_tokens, note)
    ]


def _at_once(generations: Sequence[Generated]) -> str:
    most = max((g.batch or 1 for g in generations), default=1)
    return "one request at a time on the device" if most == 1 else f"up to {most} requests at once on the device"


def _step_times(generations: Sequence[Generated], columns: Mapping[int, Sequence[float]]) -> list[Measure]:
    """Where the time of a step goes; `outside` is decode time that no step was billed for."""
    steps = sum(len(g.steps) for g in generations)
    decode = sum(map(_decode_s, generations))
    if not steps or decode <= 0:
        return []
    parts = {part: sum(columns[id(g)][4 + i] for g in generations) for i, part in enumerate(PARTS)}
    outside = decode - sum(parts.values())
    parts["outside"] = outside if outside > 1e-9 * decode else 0.0
    found = []
    for part, seconds in parts.items():
        found.append(Measure(name=f"step_{part}_s", unit="s", value=seconds / steps, n=steps, note="n = steps"))
        found.append(
            Measure(name=f"step_{part}_share", unit="share", value=seconds / decode, n=steps, note="of decode time")
        )
    return found


def _columns(g: Generated) -> Sequence[float]:
    """The sums of the steps' columns, each in the order of the steps."""
    return tuple(map(sum, zip(*g.steps, strict=True))) or _NO_STEPS


def _decoded(g: Generated) -> int:
    return max(g.new_tokens - 1, 0)


def _steps(g: Generated) -> int:
    return len(g.steps)


def _decode_s(g: Generated) -> float:
    return g.e2e_s - g.ttft_s if g.new_tokens > 1 else 0.0
