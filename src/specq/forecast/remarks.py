"""What is known of a draft before anything is generated: that it costs a step at least as much as the target does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from specq.core.types import DraftSpec
from specq.experiment.sizes import PlannedModel

Described = Mapping[str, Mapping[str, Any]]


def hopeless(draft: DraftSpec, own: Mapping[str, Any] | None, target: Mapping[str, Any]) -> str:
    """Why a draft that fits cannot win where reading weights takes the time of a step; "" where it can.

    Args:
        draft: as it was asked for.
        own: what an engine describes of its model; None: it has none.
        target: the same of the target.
    """
    if own is None or draft.method != "model":
        return ""
    wins = "only what its lookup copies can win" if draft.lookup_first else "it cannot win"
    if draft.bits is None and draft.recipe is None and own["sha256"] == target["sha256"]:
        return f"the target itself: each token is right and costs a whole step of the target, so {wins}"
    times = own["bytes_per_token"] / target["bytes_per_token"]
    if times <= 1:
        return ""
    return f"larger than the target: a drafted token reads {times:.2f} times what a step of the target reads, so {wins}"


def of_drafts(drafts: Mapping[str, DraftSpec], described: Described) -> Iterator[tuple[str, str]]:
    """The drafts that cannot win, each with why; `described` has the target too."""
    for name, draft in drafts.items():
        if why := hopeless(draft, described.get(name), described["target"]):
            yield name, why


def templates(
    drafts: Mapping[str, DraftSpec], target: str, models: Sequence[PlannedModel]
) -> Iterator[tuple[str, Literal["same", "other", "none"]]]:
    """Whether a draft's model has the target's chat template, another, or none; drafts without a model are left out.

    Prompts are rendered with the target's alone: a draft that was trained on another may agree less.
    """
    own = {one.resolved.name: one.facts.template_sha256 for one in models}
    for name, draft in drafts.items():
        model = target if draft.model == "self" else draft.model
        if draft.method == "model" and model in own and target in own:
            yield name, "none" if own[model] is None else "same" if own[model] == own[target] else "other"
