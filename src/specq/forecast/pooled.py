"""From the steps that were measured to the points of a curve, each in plain steps.

Few steps fit into some seconds, and a machine's speed moves within them, so no point stands on its own steps alone. A
draft has one number for a drafted token: the median over all its steps of drafting by proposals. The target's pass over
so many rows is measured apart, once for all drafts. A draft with weights of its own, which push the target's out of the
caches, has one factor for it, at all contexts; to one without, such as a lookup, that pass is what it is to any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from specq.core.errors import Unsupported
from specq.core.types import DraftSpec, Step
from specq.engines.base import LoadedTarget
from specq.forecast.cost import Curve, Point

ENOUGH = 5
"""Steps with proposals from which on a draft's own steps say how far steps lie from its curve."""
TEXTS = 4
"""Texts from which on a draft has a factor of its own; with fewer it is 1."""
_SECONDS = ("draft_s", "verify_s", "sample_s", "rest_s")
# The standard error of a median over that of a mean, of many normal values: the root of pi / 2.
_OF_MEDIAN = math.sqrt(math.pi / 2)


def prober(target: LoadedTarget, say: Callable[[str], None]) -> DraftSpec | None:
    """The target's first layer as a draft: it costs little, and proposes at every step as many as are asked for."""
    draft = DraftSpec(method="early_exit", layers=1, k=1)
    try:
        target.decoder(draft)
    except Unsupported as error:
        say(f"the target's passes are measured with each draft apart, since its first layer is none ({error})")
        return None
    return draft


def point(proposed: int, texts: Sequence[Sequence[Step]]) -> Point:
    """Medians of steps of one kind, text by text."""
    steps = [step for text in texts for step in text]
    parts = np.array([_parts(step) for step in steps])
    whole = parts.sum(axis=1)
    middle = float(np.median(whole))
    draft, verify, rest = np.median(parts, axis=0)
    return Point(
        proposed=proposed,
        draft_s=float(draft),
        verify_s=float(verify),
        rest_s=float(rest),
        n=len(texts),
        spread=float(np.median(np.abs(whole - middle))) / middle,
        context=int(np.median([step.context for step in steps])),
    )


def scaled(steps: Iterable[tuple[Sequence[Step], float]], plain_s: float) -> list[list[Step]]:
    """Steps, text by text, as where a plain step takes `plain_s`; each text comes with the plain step around it."""
    return [
        [
            replace(
                step,
                **{name: plain_s / around * getattr(step, name) for name in _SECONDS},
            )
            for step in text
        ]
        for text, around in steps
    ]


def factor(texts: Iterable[tuple[Sequence[Step], float, Mapping[int, Point]]]) -> float:
    """By what a draft's own weights make the target's passes slower: the median over its texts, drawn towards 1.

    The steps of a text lie within a second, so that a text counts once. What they differ by from text to text says how
    little the median is worth: as much of its distance from 1 is kept as is likely to be more than that (the positive
    part of James and Stein's estimator, 1961, of one mean).

    Args:
        texts: the steps of each, the seconds of a plain step around it, and the passes in plain steps.
    """
    each = [
        float(np.median([step.verify_s / around / passes[step.proposed].verify_s for step in known]))
        for steps, around, passes in texts
        if (known := [step for step in steps if step.proposed in passes])
    ]
    if len(each) < TEXTS:
        return 1.0
    off = float(np.median(each)) - 1
    error = float(np.std(each, ddof=1)) * _OF_MEDIAN / math.sqrt(len(each))
    return 1 + off * max(0.0, 1 - (error / off) ** 2) if off else 1.0


def in_plain_steps(curve: Curve) -> list[dict[int, Point]]:
    """The target's pass by proposals at each depth of a curve."""
    return [
        {one.proposed: times(one, 1 / depth.plain.step_s) for one in depth.points if one.proposed}
        for depth in curve.depths
    ]


def times(one: Point, by: float) -> Point:
    """A point whose seconds are so many times as long."""
    return replace(one, draft_s=by * one.draft_s, verify_s=by * one.verify_s, rest_s=by * one.rest_s)


def points(
    texts: Sequence[Sequence[Step]], passes: Mapping[int, Point], sizes: Iterable[int], *, slower: float = 1.0
) -> tuple[Point, ...]:
    """The points of a draft, rising in proposals.

    Args:
        texts: the steps of each with the draft, in seconds of the machine at one speed.
        passes: the target's pass by proposals, at the same speed; none: each size has the medians of its own steps.
        sizes: the proposals that are wanted where `passes` is empty.
        slower: the draft's factor for the target's passes.
    """
    by_size: dict[int, list[list[Step]]] = {}
    for text in texts:
        for size in dict.fromkeys(step.proposed for step in text):
            by_size.setdefault(size, []).append([step for step in text if step.proposed == size])
    steps = [step for text in texts for step in text]
    idle = [point(0, by_size[0])] if 0 in by_size else []
    if not passes:
        return (*idle, *(point(size, by_size[size]) for size in sorted(by_size) if size and size in sizes))
    own = [step for step in steps if step.proposed]
    known = [step for step in own if step.proposed in passes]
    token = float(np.median([step.draft_s / step.proposed for step in own])) if own else 0.0
    seen = sorted({step.proposed for step in known})
    rests = [
        float(np.median([step.sample_s + step.rest_s for text in by_size[size] for step in text])) for size in seen
    ]
    made = []
    for size in sorted(passes):
        there = passes[size]
        rest = float(np.interp(size, seen, rests)) if seen else there.rest_s
        made.append(replace(there, draft_s=size * token, verify_s=slower * there.verify_s, rest_s=rest))
    if len(known) >= ENOUGH:
        whole = {one.proposed: one.step_s for one in made}
        off = [abs(sum(_parts(step)) / whole[step.proposed] - 1) for step in known]
        of_texts = sum(any(step.proposed in passes for step in text if step.proposed) for text in texts)
        made = [replace(one, n=of_texts, spread=float(np.median(off))) for one in made]
    return (*idle, *made)


def _parts(step: Step) -> tuple[float, float, float]:
    return step.draft_s, step.verify_s, step.sample_s + step.rest_s
