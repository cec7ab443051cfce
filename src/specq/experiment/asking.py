"""Levers of how requests are answered, a prefix cache and batches: what is refused, and what a plan says of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from specq.core.errors import Unsupported
from specq.core.nouns import counted
from specq.core.types import Prompt
from specq.engines.base import Capabilities
from specq.experiment.arms import Arm
from specq.experiment.levers import Kind
from specq.experiment.schema import Experiment
from specq.experiment.sizes import PlannedModel


def check(
    arm: Arm, target: PlannedModel, draft: PlannedModel | None, experiment: Experiment, capabilities: Capabilities
) -> None:
    """Refuse what the engine cannot do for this arm's prefix cache or batch.

    Raises:
        Unsupported: says what is allowed, and what to type.
    """
    engine, spec = experiment.engine, arm.target
    if spec.prefix_cache and not capabilities.prefix_cache:
        raise Unsupported(
            f'kind = "prefix_cache": engine kind "{engine.kind}" keeps no cache between prompts; take '
            f"{_lever(experiment, arm, 'prefix_cache')} out"
        )
    if spec.batch > 1 and not capabilities.batches:
        raise Unsupported(
            f'kind = "batch": engine kind "{engine.kind}" answers one prompt at a time; take '
            f"{_lever(experiment, arm, 'batch')} out"
        )
    if spec.batch > 1 and spec.prefix_cache and not engine.is_server:
        raise Unsupported(
            f'a batch beside a prefix cache: engine kind "{engine.kind}" keeps the cache of one prompt, and a batch '
            "reads its prompts together; name them in two arms, or run them on a server"
        )
    if engine.kind != "hf":
        return
    if spec.prefix_cache:
        from specq.engines.hf_decoder import check_prefix_cache

        check_prefix_cache(target.resolved, compiled=engine.compile)
    if spec.batch > 1:
        _check_batch(target, draft, compiled=engine.compile)


def _check_batch(target: PlannedModel, draft: PlannedModel | None, *, compiled: bool) -> None:
    from specq.decoding.ragged import refusal
    from specq.experiment.eval_checks import skeleton

    if compiled:
        raise Unsupported("compile = true beside a batch: compiled passes take one row of text; leave one of them out")
    for model in (target, *([draft] if draft is not None else [])):
        made = skeleton(model.resolved.folder, {})
        if made is not None and (why := refusal(made)):
            raise Unsupported(f"a batch of {model.resolved.name}: {why}; take the lever out")


def notes(arm: Arm, prompts: Sequence[Prompt]) -> Iterator[str]:
    """What is to be known of an arm's waves, and of what its prefix cache can hold at most."""
    if arm.target.batch > 1:
        size = min(arm.target.batch, len(prompts))
        whole, rest = divmod(len(prompts), size)
        last = f", the last of {rest}" if rest else ""
        yield (
            f"{arm.id}: {counted(len(prompts), 'prompt')} in their order make "
            f"{counted(whole + bool(rest), 'wave')} of {size}{last}; a wave is over with its longest answer"
        )
    if arm.target.prefix_cache and (known := [prompt.ids for prompt in prompts if prompt.ids]):
        yield f"{arm.id}: {_shared(known)}"


def _shared(prompts: Sequence[tuple[int, ...]]) -> str:
    """How much of each prompt the one before it begins with."""
    from specq.decoding.prefix import shared

    found = sum(min(shared(a, b), len(b) - 1) for a, b in itertools.pairwise(prompts))
    whole = sum(map(len, prompts[1:]))
    if not found:
        return "no prompt begins with a token of the one before it, so a prefix cache has nothing to give"
    return (
        f"prompts begin with {100 * found / whole:.0f} % of their tokens like the one before them, in the order of "
        "their file, and so much a prefix cache can save at most"
    )


def _lever(experiment: Experiment, arm: Arm, kind: Kind) -> str:
    return next(f"levers.{name}" for name in arm.levers if experiment.levers[name].kind == kind)
