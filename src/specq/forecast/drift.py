"""Whether the machine kept its speed while a target was measured, by its own plain steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specq.forecast.cost import Curve

MOST = 1.5
"""A plain step that took more than so many times another one at the same context is told."""


def told(curves: Mapping[str, Curve], others: Sequence[float] = ()) -> str:
    """How far the plain steps of one target lie apart between its measurements; "" where they do not.

    Args:
        curves: of its drafts, each measured beside plain steps, in turn.
        others: seconds of plain steps that were measured elsewhere, on the same prompts; they count where the curves
            have one context, since steps at several differ by themselves.
    """
    seconds: dict[int, list[float]] = {}
    for curve in curves.values():
        for one in (curve, curve.copies):
            if one is not None:
                for depth in one.depths or (one,):
                    seconds.setdefault(depth.prefill_tokens, []).append(depth.plain.step_s)
    if len(seconds) == 1:
        next(iter(seconds.values())).extend(others)
    low, high = max(((min(some), max(some)) for some in seconds.values()), key=lambda ends: ends[1] / ends[0])
    if high <= MOST * low:
        return ""
    return (
        f"The machine's speed moved: a plain step took {1000 * low:.0f} ms in one measurement and {1000 * high:.0f} "
        f"ms ({high / low:.1f} times that) in another. Speed-ups are ratios of steps that were taken in turns, and "
        "stand a steady change; milliseconds and tokens/s do not: ask again when nothing else runs here."
    )
