"""Cost curves: the seconds of a step by what it proposes and by the tokens before it, and what follows from them.

`measuring` makes them in the loop itself, before anything is forecast. From a curve alone follow the ceiling with a
perfect draft, (k + 1) T(1) / step(k), and the tokens per step at which drafting breaks even, step(k) / T(1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

MEDIAN_ERROR = 1.2533 / 0.6745
"""A median's standard error times sqrt(n), in units of the spread of n normal values, their median distance from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Seconds of a step with `proposed` proposals: medians of its parts over the steps of `n` texts.

    `rest_s` holds sampling, verifying, rolling back and bookkeeping. `spread` is the median distance of whole steps
    from their median, as a share of it. Steps of one text lie within a second and share what the machine does in it, so
    that texts are what is counted. `context` is the tokens before such a step, the median; 0: not known.
    """

    proposed: int
    draft_s: float
    verify_s: float
    rest_s: float
    n: int
    spread: float
    context: int = 0

    @property
    def step_s(self) -> float:
        """The whole step."""
        return self.draft_s + self.verify_s + self.rest_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A draft's steps by what they propose, and the plain steps (no draft) that took turns with them.

    `points` rise in `proposed`, from 0 where a step without proposals was seen (a lookup without a match).
    `context` is the tokens before a step, in the middle of what was measured; `measured_s` what measuring took.

    `depths` are the curves of each context that was measured, the shortest first; all but the first may have fewer
    points. Where there are several, `points` and `plain` lie between them, at `context`. `prefill_s` is what the
    target took to read a prompt of `prefill_tokens` tokens, None where that was not measured.

    `copies` is the curve of the lookup that goes before the draft, whose own curve this is; None without one. What a
    draft's pass over the tokens of copied blocks takes beyond a pass over one token is in neither. `quantized`: the
    target's weights are. `no_kernel` says why layers of the draft run on no packed kernel, "" where all have theirs.

    `passes_error` is the relative standard error of the target's passes where they were measured once for all drafts,
    whose curves are then off together; 0 where this one has passes of its own.
    """

    plain: Point
    points: tuple[Point, ...]
    context: int
    measured_s: float
    prefill_tokens: int = 0
    prefill_s: float | None = None
    depths: tuple[Curve, ...] = ()
    copies: Curve | None = None
    quantized: bool = False
    no_kernel: str = ""
    passes_error: float = 0.0

    def parts(self, most: int, contexts: Sequence[int] | np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Seconds of "draft", "verify" and "rest" for 0 .. most proposals, [most + 1] each.

        Between measured points on a line, beyond the last one on the line of the last two. A step that proposes
        nothing passes over one token as a plain step does, so that it costs one and what finding no proposal took.
        No step costs less than a plain one: it reads the same weights.

        With `contexts` [T], the tokens before each of T steps, [T, most + 1] each: between measured contexts on a line,
        outside of them as at the nearest one.
        """
        if contexts is None:
            return _parts(self.plain, self.points, most)
        if len(self.depths) < 2:
            return {
                name: np.broadcast_to(seconds, (len(contexts), most + 1)) for name, seconds in self.parts(most).items()
            }
        own = [_deeper(self.depths[0], depth, most) for depth in self.depths]
        weights = self._weights(contexts)
        return {name: weights @ np.array([each[name] for each in own]) for name in own[0]}

    def copied_parts(self, most: int, contexts: Sequence[int] | np.ndarray | None = None) -> dict[str, np.ndarray]:
        """As `parts`, of a step whose proposals a lookup copied, in plain steps of this curve.

        Where no copy was seen, it costs what a drafted step does without its drafting.
        """
        own = self.parts(most, contexts)
        if self.copies is None or not any(one.proposed for one in self.copies.points):
            return own | {"draft": np.zeros_like(own["draft"])}
        plain, other = self.plain.step_s, self.copies.plain.step_s
        if contexts is None:
            scale: Any = plain / other
        else:
            # The machine may have been faster for one curve than for the other.
            scale = (self.plain_s(contexts) / self.copies.plain_s(contexts))[:, None]
        return {name: scale * seconds for name, seconds in self.copies.parts(most, contexts).items()}

    def step_s(self, most: int, contexts: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Seconds of a step with 0 .. most proposals, [most + 1], or [T, most + 1] at `contexts` [T]."""
        draft, verify, rest = self.parts(most, contexts).values()
        whole: np.ndarray = draft + verify + rest
        return whole

    def plain_s(self, contexts: Sequence[int] | np.ndarray) -> np.ndarray:
        """Seconds of a plain step after `contexts` [T] tokens, [T]."""
        if len(self.depths) < 2:
            return np.full(len(contexts), self.plain.step_s)
        found: np.ndarray = self._weights(contexts) @ np.array([depth.plain.step_s for depth in self.depths])
        return found

    def at(self, context: int) -> Curve:
        """The curve at a context that lies among its depths, which are kept."""
        first = self.depths[0]
        seen: dict[int, list[Point]] = {}
        for depth in self.depths:
            for one in depth.points:
                seen.setdefault(one.proposed, []).append(one)
        parts = self.parts(max(seen), [context])
        points = tuple(_between(seen[one.proposed], parts, context) for one in first.points)
        plains, weights = [depth.plain for depth in self.depths], self._weights([context])[0]
        verify, rest = (float(weights @ [getattr(one, name) for one in plains]) for name in ("verify_s", "rest_s"))
        plain = replace(_worst(plains), verify_s=verify, rest_s=rest, context=context)
        return replace(self, plain=plain, points=points, context=context)

    def _weights(self, contexts: Sequence[int] | np.ndarray) -> np.ndarray:
        """How much of each depth a step takes, [T, depths]: two neighbours share it, outside the nearest has it all."""
        at, each = [depth.context for depth in self.depths], np.eye(len(self.depths))
        return np.stack([np.interp(np.asarray(contexts, dtype=float), at, row) for row in each], axis=-1)

    def ceiling(self, k: int) -> float:
        """The speed-up of a draft of k tokens that is always right: (k + 1) T(1) / step(k).

        With a lookup before it, that of the better one: its place may be found at every step.
        """
        step_s = float(self.step_s(k)[k])
        if self.copies is not None:
            step_s = min(step_s, sum(float(seconds[k]) for seconds in self.copied_parts(k).values()))
        return (k + 1) * self.plain.step_s / step_s

    def break_even(self, k: int) -> float:
        """The tokens per step at which a draft of k tokens is as fast as none: step(k) / T(1)."""
        return float(self.step_s(k)[k]) / self.plain.step_s

    def why_hopeless(self, most: int) -> str:
        """Why even a perfect draft loses at every k up to `most`; "" where it can win.

        A quantized target is named where its passes would let a perfect draft win if they were flat, and a quantized
        draft that has no kernel here where its own passes are too slow.
        """
        if any(self.ceiling(k) > 1 for k in range(1, most + 1)):
            return ""
        k = max(range(1, most + 1), key=self.ceiling)
        parts, plain = self.parts(k), self.plain.step_s
        draft, verify = float(parts["draft"][k]), float(parts["verify"][k])
        said = f"with k = {k} and every token right it reaches {self.ceiling(k):.2f} times plain decoding"
        if draft / k >= plain:
            why = f", for its quantized layers have no kernel here ({self.no_kernel})" if self.no_kernel else ""
            return f"{said}: a drafted token takes {draft / k / plain:.2f} of a plain step{why}"
        flat = draft + self.plain.verify_s + float(parts["rest"][k])
        also = (
            ", for the target's weights are quantized and its pass is cheap over one token alone"
            if self.quantized and verify > self.plain.verify_s and flat < (k + 1) * plain
            else ""
        )
        if verify >= (k + 1) * plain:
            return f"{said}: verifying {k + 1} tokens takes {verify / plain:.2f} plain steps{also}"
        return f"{said}: drafting takes {draft / plain:.2f} and verifying {verify / plain:.2f} plain steps{also}"


def relative_error(points: Iterable[Point]) -> float:
    """The relative standard error of steps in plain steps, of the worst of these points.

    They are medians over n texts; as many plain ones stand below.
    """
    return max((math.sqrt(2) * MEDIAN_ERROR * one.spread / math.sqrt(one.n) for one in points), default=0.0)


def named(curves: Mapping[str, Curve]) -> Iterator[tuple[str, Curve]]:
    """Curves as tables have them: of each draft its own, then that of the lookup that goes before it."""
    for name, curve in curves.items():
        yield name, curve
        if curve.copies is not None:
            yield f"{name}, copied", curve.copies


def grid(most: int) -> tuple[int, ...]:
    """The k that are measured for a forecast up to `most`: powers of two, and `most`; between them lies a line."""
    return tuple(sorted({1 << power for power in range(most.bit_length())} | {most}))


def _parts(plain: Point, measured: Sequence[Point], most: int) -> dict[str, np.ndarray]:
    idle = [one.draft_s for one in measured if one.proposed == 0]
    points = [replace(plain, draft_s=max(idle, default=0.0)), *(one for one in measured if one.proposed)]
    at, wanted = np.array([point.proposed for point in points], dtype=float), np.arange(most + 1.0)
    found = {}
    for name in ("draft", "verify", "rest"):
        seconds = np.array([getattr(point, f"{name}_s") for point in points])
        line = np.interp(wanted, at, seconds)
        if len(at) > 1:
            slope = (seconds[-1] - seconds[-2]) / (at[-1] - at[-2])
            line = np.where(wanted > at[-1], seconds[-1] + slope * (wanted - at[-1]), line)
        found[name] = line
    return _no_less(found, plain)


def _no_less(parts: Mapping[str, np.ndarray], plain: Point) -> dict[str, np.ndarray]:
    """Parts of steps of which none is cheaper than a plain one, which would be noise."""
    least = {"draft": 0.0, "verify": plain.verify_s, "rest": plain.rest_s}
    return {name: np.maximum(seconds, least[name]) for name, seconds in parts.items()}


def _deeper(first: Curve, depth: Curve, most: int) -> dict[str, np.ndarray]:
    """The parts at a depth of few points: those of the first depth, and what the context adds at the points of both.

    What it adds lies on lines between those points. It grows with the proposals and has no jumps of its own, which the
    seconds themselves have where a kernel changes its ways.
    """
    both = {one.proposed for one in first.points} & {one.proposed for one in depth.points}
    here, there = (
        _parts(curve.plain, [one for one in curve.points if one.proposed in both], most) for curve in (first, depth)
    )
    whole = _parts(first.plain, first.points, most)
    return _no_less({name: whole[name] + there[name] - here[name] for name in whole}, depth.plain)


def _between(seen: Sequence[Point], parts: dict[str, np.ndarray], context: int) -> Point:
    k = seen[0].proposed
    draft, verify, rest = (float(parts[name][0, k]) for name in ("draft", "verify", "rest"))
    return replace(_worst(seen), draft_s=draft, verify_s=verify, rest_s=rest, context=context)


def _worst(points: Sequence[Point]) -> Point:
    """A point that is as uncertain as the most uncertain of these."""
    return replace(points[0], n=min(one.n for one in points), spread=max(one.spread for one in points))
