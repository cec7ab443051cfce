"""What `specq drafts` says beside its forecasts: what they were not made for, and what makes them untrustworthy."""

from __future__ import annotations

from specq.core.nouns import counted
from specq.forecast.study import Study


def remark(found: Study, name: str) -> str:
    """Why a draft that fits cannot win where reading weights takes the time of a step; "" where it can."""
    draft, own, target = found.drafts[name], found.described.get(name), found.described["target"]
    if own is None or draft.method != "model":
        return ""
    wins = "only what its lookup copies can win" if draft.lookup_first else "it cannot win"
    if draft.bits is None and draft.recipe is None and own["sha256"] == target["sha256"]:
        return f"the target itself: each token is right and costs a whole step of the target, so {wins}"
    times = own["bytes_per_token"] / target["bytes_per_token"]
    if times <= 1:
        return ""
    return f"larger than the target: a drafted token reads {times:.2f} times what a step of the target reads, so {wins}"


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
