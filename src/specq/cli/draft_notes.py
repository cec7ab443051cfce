"""What `specq drafts` says beside its forecasts: what they were not made for, and what makes them untrustworthy."""

from __future__ import annotations

from specq.core.nouns import counted
from specq.forecast.study import Study


def past_end(found: Study, key: str) -> str:
    """Text past the target's own end, which nobody is served; "" where there is none. `key` sets other lengths."""
    if not found.past_end:
        return ""
    many = counted(found.tokens, "token")
    return (
        f"{found.past_end:,} of {many} ({100 * found.past_end / found.tokens:.0f} %) lie past the target's own end, "
        "for lengths are equal: nobody is served them, and drafts may be better or worse there than before it; to "
        f"forecast answers that end by themselves type {key}"
    )


def outside(found: Study) -> str:
    """Steps of the texts that lie where no step was timed: they cost what they do at the nearest context."""
    curve = next(iter(found.curves.values()))
    first, *others = curve.depths or (curve,)
    lengths = [len(prompt.ids) for prompt in found.plan.prompts]
    low, high = min(lengths) + 1, max(lengths) + found.experiment.workload.max_new_tokens
    if not others:
        apart = "" if low <= first.context <= high else f"{first.context}"
    else:
        last = others[-1].context
        apart = "" if first.prefill_tokens <= low and high <= last else f"{first.context} to {last}"
    said = (
        f"Steps lie after {low} to {high} tokens, and were timed after {apart}: elsewhere they are taken to cost what"
    )
    return f"{said} they do at the nearest." if apart else ""
