"""What is refused before weights load: drafts, contexts and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specq.core.errors import ModelError, PromptError, Unsupported, UserError
from specq.core.nouns import counted
from specq.core.types import CacheType, DraftSpec, Prompt
from specq.engines.base import Capabilities
from specq.experiment.arms import Arm
from specq.experiment.prompts import RANDOM_TOKENS
from specq.experiment.schema import Engine, Experiment
from specq.experiment.sizes import PlannedModel
from specq.models import tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an arm (None: any arm) cannot run, and the error that says so."""

    arm: str | None
    reason: str
    error: type[UserError]


def check_draft(arm: Arm, target: PlannedModel, experiment: Experiment, capabilities: Capabilities) -> None:
    """Refuse what the engine or the target cannot do for this arm's draft."""
    spec, kind = arm.draft, experiment.engine.kind
    if spec is None:
        return
    lever = next(f"levers.{name}" for name in arm.levers if experiment.levers[name].kind == "draft")
    if spec.method not in capabilities.methods:
        allowed = ", ".join(capabilities.methods) or "none"
        # Another method has other keys, so it is not one word to type.
        raise Unsupported(
            f'method = "{spec.method}": engine kind "{kind}" allows {allowed}; change {lever} in the experiment'
        )
    if spec.lookup_first and not capabilities.lookup_first:
        raise Unsupported(
            f'lookup_first = true: engine kind "{kind}" looks nothing up before a draft; take {lever}.lookup_first out'
        )
    if spec.stop_below is not None and not capabilities.stop_below:
        raise Unsupported(
            f'stop_below = {spec.stop_below}: engine kind "{kind}" has no such stop; take {lever}.stop_below out'
        )
    if spec.rule not in capabilities.rules:
        allowed = ", ".join(capabilities.rules) or "none"
        typed = f"; type --set {lever}.rule={capabilities.rules[0]}" if capabilities.rules else ""
        if typed and spec.lossy:
            typed += " and take its threshold out"
        raise Unsupported(f'rule = "{spec.rule}": engine kind "{kind}" allows {allowed}{typed}')
    last = target.facts.layers - 1
    if spec.layers is not None and not 1 <= spec.layers <= last:
        raise Unsupported(
            f"layers = {spec.layers}: allowed is 1 to {last}, for {target.resolved.name} has {last + 1} layers; "
            f"type --set {lever}.layers={max(1, last)}"
        )
    if kind == "mlx" and spec.bits is not None and spec.head == "quantize":
        raise Unsupported(
            f'head = "quantize": engine kind "mlx" keeps the head of a draft; type --set {lever}.head=keep'
        )


def check_arm(arm: Arm, target: PlannedModel, experiment: Experiment, capabilities: Capabilities) -> None:
    """Refuse what the engine cannot do for this arm: its draft, its cache, or either of them compiled.

    Raises:
        Unsupported: says what is allowed, and what to type.
    """
    check_draft(arm, target, experiment, capabilities)
    kind, spec, engine = arm.target.kv_cache, arm.draft, experiment.engine
    if engine.kind == "mlx":
        check_mlx_cache(target, kind)
        return
    if kind is not None:
        from specq.decoding.quantized_cache import check_folder

        check_folder(target.resolved.folder, kind)
    if engine.compile:
        from specq.decoding.compiled import check_compilable
        from specq.decoding.runnable import load_config
        from specq.engines.hf_decoder import check_compiled

        check_compiled(spec, kind)
        check_compilable(load_config(target.resolved.folder))


def check_text(arm: Arm, prompts: Sequence[Prompt]) -> None:
    """Refuse a draft on prompts that are no text: what is accepted after them says nothing of what people ask.

    Raises:
        PromptError: names the first of them.
    """
    made = next((prompt.id for prompt in prompts if RANDOM_TOKENS in prompt.tags), None)
    if arm.draft is not None and made is not None:
        raise PromptError(
            f'prompt "{made}" is made of random tokens (its tag is {RANDOM_TOKENS}), after which acceptance means '
            "nothing; give real text, such as specq workload builtin:manual --tokens 512 --out prompts.jsonl"
        )


def check_draft_cache(arm: Arm, draft: PlannedModel, engine: Engine) -> None:
    """Refuse a draft whose cache cannot be kept as its target's: of the mlx engine, which quantizes both.

    Raises:
        Unsupported: as check_mlx_cache.
    """
    if engine.kind == "mlx":
        check_mlx_cache(draft, arm.target.kv_cache)


def check_mlx_cache(model: PlannedModel, kind: CacheType | None) -> None:
    """Refuse a model whose cache mlx-lm cannot quantize; weights are not read, for mlx reads them when it computes.

    Raises:
        Unsupported: its heads do not fit mlx's groups, it keeps more than keys and values, or it cannot be loaded.
    """
    if kind is None:
        return
    from specq.engines.mlx_session import KVCache
    from specq.engines.mlx_target import KV_BITS
    from specq.quantize import mlx

    name = model.resolved.name
    KVCache(mlx.load(name, model.resolved.folder), KV_BITS[kind], model.facts.head_dim, name)


def capabilities(engine: Engine) -> Capabilities:
    """What the engine can do; imports its libraries."""
    if engine.is_server:
        from specq.engines.served import target

        return target.CAPABILITIES
    if engine.kind == "mlx":
        from specq.engines import mlx

        return mlx.CAPABILITIES
    from specq.engines import hf

    return hf.CAPABILITIES


def misfits(
    arm: str | None, role: str, model: PlannedModel, prompts: Sequence[Prompt], new_tokens: int
) -> list[Refusal]:
    """One refusal for all prompts that do not fit a model's context, named by the longest."""
    context = model.facts.context
    if context is None:
        return []
    over = [prompt for prompt in prompts if len(prompt.ids) + new_tokens > context]
    if not over:
        return []
    longest = max(over, key=lambda prompt: len(prompt.ids))
    does = "does" if len(over) == 2 else "do"
    others = f" ({counted(len(over) - 1, 'more prompt')} {does} not fit either)" if len(over) > 1 else ""
    reason = (
        f'prompt "{longest.id}" has {counted(len(longest.ids), "token")}, and {counted(new_tokens, "new one")} make '
        f"{len(longest.ids) + new_tokens}: the {role}context of {model.resolved.name} holds {context}{others}; "
        "shorten it or lower workload.max_new_tokens"
    )
    return [Refusal(arm=arm, reason=reason, error=PromptError)]


def check_rollback(spec: DraftSpec | None, target: PlannedModel, draft: PlannedModel | None) -> None:
    """Refuse a model in a draft's arm whose cache cannot take tokens back, or whose first layers cannot run alone.

    Raises:
        Unsupported: a small random copy of it failed the probe, or could not be made.
    """
    if spec is None:
        return
    from specq.decoding import probe

    probe.check_drafting(spec, target.resolved.folder, None if draft is None else draft.resolved.folder)


def check_model(model: PlannedModel, engine: Engine) -> None:
    """Refuse a model that the reference engine cannot load or decode with; reads headers, no weights.

    Raises:
        Unsupported: it keeps no state between passes, is an encoder, or lacks the attention implementation.
        ModelError: config.json, the names or the shapes of the weights do not fit what transformers would load.
    """
    if engine.is_server:
        # What a server can load it says itself.
        return
    from specq.decoding import runnable

    folder = model.resolved.folder
    runnable.check_class(folder, engine.attention)
    config = runnable.load_config(folder)
    tensors.check_tensors(folder, runnable.model_class(config), config)


def check_ids(target: PlannedModel, prompts: Sequence[Prompt]) -> list[Refusal]:
    """One refusal when a prompt has a token that the target has no row for."""
    rows = target.facts.vocab
    over = next((prompt for prompt in prompts if max(prompt.ids, default=0) >= rows), None)
    if over is None:
        return []
    reason = (
        f'prompt "{over.id}" has the token id {max(over.ids)}, but {target.resolved.name} has only {rows} rows: '
        "give the tokenizer that belongs to the weights"
    )
    return [Refusal(arm=None, reason=reason, error=ModelError)]


def free_bytes(engine: Engine) -> int | None:
    """Free memory of the device that the engine will use; None when device_map spreads models over several.

    Raises:
        Unsupported: the device is not on this machine.
    """
    import psutil

    if engine.is_server:
        return None if engine.attaches else int(psutil.virtual_memory().available)
    import torch

    from specq.engines.devices import pick_device

    device = pick_device(engine.device)
    if engine.device_map is not None:
        return None
    return int(torch.cuda.mem_get_info()[0] if device == "cuda" else psutil.virtual_memory().available)
