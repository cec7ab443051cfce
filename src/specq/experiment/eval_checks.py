"""What evals ask of a run's models: room in their contexts, batches, and weights that the probe's noise reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specq.core.errors import PromptError, UserError
from specq.core.nouns import counted
from specq.experiment.checks import Refusal
from specq.experiment.schema import Experiment
from specq.experiment.sizes import PlannedModel

if TYPE_CHECKING:
    from specq.experiment.eval_plan import PlannedEval
    from specq.experiment.memory import Load


def check_room(role: str, model: PlannedModel, one: PlannedEval) -> None:
    """Do nothing where every item fits a model's context with its answer, or with the longest text that is scored.

    Raises:
        PromptError: names the longest item, and how many others do not fit.
    """
    context = model.facts.context
    over = [] if context is None else [place for place, tokens in enumerate(one.room) if tokens > context]
    if not over:
        return
    longest = max(over, key=lambda place: one.room[place])
    tokens, room = one.tokens[longest], one.room[longest]
    does = "does" if len(over) == 2 else "do"
    others = f" ({counted(len(over) - 1, 'more item')} {does} not fit either)" if len(over) > 1 else ""
    what = counted(room - tokens, "new one")
    if one.new_tokens is None:
        what = f"{room - tokens} of the longest text that is scored"
    lower = ", or lower max_new_tokens" if one.new_tokens is not None else ""
    if one.asked.task is not None:
        lower = ", ask fewer examples (num_fewshot), or set max_gen_toks lower in a YAML that includes the task's"
    raise PromptError(
        f'item "{one.items[longest].id}" has {counted(tokens, "token")}, and {what} make {room}: the '
        f"{role}context of {model.resolved.name} holds {context}{others}; nothing is truncated: shorten it{lower}"
    )


def misfits(arm: str, role: str, model: PlannedModel, evals: Sequence[PlannedEval]) -> list[Refusal]:
    """Why an arm cannot answer some evals on a target, or with a draft, of its own.

    A draft reads what its target generates, and scores nothing.
    """
    found = []
    for one in evals:
        try:
            if not role or one.new_tokens is not None:
                check_room(role, model, one)
        except PromptError as error:
            found.append(Refusal(arm=arm, reason=f'eval "{one.asked.name}": {error}', error=PromptError))
    return found


def settled(
    experiment: Experiment, target: PlannedModel, loads: Sequence[Load], evals: Sequence[PlannedEval]
) -> tuple[tuple[PlannedEval, ...], list[str]]:
    """The evals as the engine can answer them with these models, and notes on what it cannot."""
    if not evals or not loads:
        return tuple(evals), []
    skeletons: dict[Path, Any] = {}
    why = _one_by_one(experiment, loads, skeletons) if any(one.new_tokens is not None for one in evals) else ""
    probed = any(one.asked.probe for one in evals) and any(load.arm.levers for load in loads)
    # An mlx-lm model is made with its weights alone; it has linear layers in any case.
    made = skeleton(target.resolved.folder, skeletons) if probed and experiment.engine.kind == "hf" else None
    lacks, weaker = ("", "") if made is None else _noiseless(target, made)
    found, notes = [], [f"the sensitivity probe is weaker than it says: {weaker}"] if weaker else []
    for one in evals:
        if why and one.new_tokens is not None:
            if one.batch_size > 1:
                notes.append(f'eval "{one.asked.name}": prompts are answered one at a time in all arms, for {why}')
            one = replace(one, batch_size=1, one_by_one=why)
        if lacks and one.asked.probe:
            notes.append(f'eval "{one.asked.name}": no sensitivity probe is made, for {lacks}')
            one = replace(one, unprobed=lacks)
        found.append(one)
    return tuple(found), notes


def _one_by_one(experiment: Experiment, loads: Sequence[Load], skeletons: dict[Path, Any]) -> str:
    """Why prompts cannot be answered several at a time, in the same way in all arms; "" where they can."""
    engine = experiment.engine
    if engine.kind != "hf":
        return f"the engine {engine.kind} answers one prompt at a time"
    if engine.compile:
        return "compiled passes take one row of text"
    from specq.decoding.ragged import refusal

    for load in loads:
        # A draft that is the target itself has its target's layers.
        for model in (load.target, *([load.draft] if load.draft is not None else [])):
            made = skeleton(model.resolved.folder, skeletons)
            if made is not None and (why := refusal(made)):
                return why
    return ""


def _noiseless(target: PlannedModel, skeleton: Any) -> tuple[str, str]:
    """Why the probe's noise reaches nothing of a model, and why less than a probe should."""
    from specq.quantize.noise import reach

    reached = reach(skeleton)
    if not reached.noisy:
        return f"{target.resolved.name} has no linear layers to put noise on", ""
    return "", reached.lacks


def skeleton(folder: Path, known: dict[Path, Any]) -> Any:
    """The model of a folder without its weights; None where it cannot be made, which other checks refuse."""
    if folder not in known:
        import torch

        from specq.decoding.runnable import load_config, model_class
        from specq.models.quiet import quiet

        try:
            config = load_config(folder)
            if hasattr(config, "quantization_config"):
                del config.quantization_config
            with quiet(), torch.device("meta"):
                known[folder] = model_class(config)(config)
        except (UserError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, ImportError, OSError):
            known[folder] = None
    return known[folder]
