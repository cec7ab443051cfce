"""What will run, what it needs and what cannot run, before any weight is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError, Unsupported, UserError
from specq.core.nouns import counted
from specq.core.types import Prompt
from specq.engines.base import Capabilities
from specq.experiment import asking, checks, eval_checks, eval_memory, eval_plan, floor_checks, memory, models, overlap
from specq.experiment import prompts as prompt_files
from specq.experiment.arms import arms
from specq.experiment.checks import (
    Refusal,
    check_ids,
    check_model,
    check_rollback,
    free_bytes,
    misfits,
)
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.rendering import render
from specq.experiment.schema import Experiment
from specq.experiment.served_plan import ServedArm
from specq.experiment.sizes import PlannedArm, PlannedModel, planned_arm, refused_arm
from specq.experiment.stand_ins import StandIn, StandIns, incomparable
from specq.experiment.transformed import Transformed, Transforms
from specq.models import tokenizers


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An experiment made concrete. `needed_bytes` holds what is in memory at once, weights and the largest caches.

    It is the most of what measuring holds, of `evals_bytes`, which answering evals holds, and of `proofs_bytes`, which
    proving drafts in float32 holds (0: there are none); each of the three runs in processes of its own.

    `blocks` are the arms of each target where one target is in memory at a time, empty where all are;
    `together_bytes` is what all targets at once would take, `logits_bytes` is what the audit of a run in blocks
    keeps on disk. `available_bytes` is what the device has free now, None where it was not asked. `stand_ins` are the
    models that levers put in the target's place, `transformed` the prompts that levers give fewer tokens. `served` says
    what each arm is on its server, () where none is asked.
    """

    experiment: Experiment
    models: tuple[PlannedModel, ...]
    arms: tuple[PlannedArm, ...]
    prompts: tuple[Prompt, ...]
    evals: tuple[PlannedEval, ...]
    blocks: tuple[tuple[str, ...], ...]
    logits_bytes: int
    needed_bytes: int
    together_bytes: int
    evals_bytes: int
    proofs_bytes: int
    available_bytes: int | None
    bandwidth_bytes_per_s: float | None
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    stand_ins: tuple[StandIn, ...] = ()
    served: tuple[ServedArm, ...] = ()
    transformed: tuple[Transformed, ...] = ()

    def check(self) -> None:
        """Do nothing when all arms can run.

        Raises:
            UserError: some cannot; of the class of the first refusal, in one line that lists all of them.
        """
        if not self.refusals:
            return
        who: dict[str, list[str]] = {}
        for refusal in self.refusals:
            who.setdefault(refusal.reason, []).extend([refusal.arm] if refusal.arm else [])
        lines = [f"{', '.join(names)}: {reason}" if names else reason for reason, names in who.items()]
        several = f"{len(lines)} things stop this run: " if len(lines) > 1 else ""
        raise self.refusals[0].error(several + "; ".join(lines))

    def prompts_of(self, source: str | None) -> tuple[Prompt, ...]:
        """The prompts as the model `source` in the target's place reads them; None: as the target does."""
        return next((one.prompts for one in self.stand_ins if one.source == source), self.prompts)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `--json` and for tables; prompts as id, tags and token count."""
        return {
            "name": self.experiment.name,
            "question": self.experiment.question,
            "config_sha256": self.experiment.config_sha256,
            "models": [model.to_json() for model in self.models],
            "arms": [asdict(arm) for arm in self.arms],
            "prompts": [{"id": p.id, "tags": list(p.tags), "tokens": len(p.ids)} for p in self.prompts],
            "evals": [one.to_json() for one in self.evals],
            "max_new_tokens": self.experiment.workload.max_new_tokens,
            "blocks": [list(block) for block in self.blocks],
            "needed_bytes": self.needed_bytes,
            "evals_bytes": self.evals_bytes,
            "proofs_bytes": self.proofs_bytes,
            "available_bytes": self.available_bytes,
            "bandwidth_bytes_per_s": self.bandwidth_bytes_per_s,
            "refusals": [{"arm": refusal.arm, "reason": refusal.reason} for refusal in self.refusals],
            "transformed": [one.to_json() for one in self.transformed],
            "notes": list(self.notes),
            "served": [one.to_json() for one in self.served],
        }


def make(
    experiment: Experiment,
    *,
    bandwidth_bytes_per_s: float | None = None,
    available_bytes: int | None = None,
    capabilities: Capabilities | None = None,
    fetch: bool = True,
) -> Plan:
    """Resolve models and prompts and check every arm; loads tokenizers but no weights.

    `bandwidth_bytes_per_s` is the read bandwidth measured on the device (None: no ceilings).
    `available_bytes` and `capabilities` are the device's free memory and what the engine can do
    (None: asked of the machine and of the engine). `fetch` allows downloads.

    Raises:
        PromptError: the prompts file is broken.
        ModelError: the target cannot be found or read. What stops single arms is in `refusals`.
    """
    if experiment.engine.is_server:
        from specq.experiment import served_make

        return served_make.make(
            experiment,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
            available_bytes=available_bytes,
            fetch=fetch,
        )
    items = prompt_files.load(Path(experiment.workload.prompts), experiment.workload.limit)
    target = models.planned("target", experiment.target.model, experiment.engine, experiment.target.revision, fetch)
    with models.named(target.resolved):
        tokenizer = tokenizers.load(target.resolved)
    rendered, refusals, notes = render(items, tokenizer)
    notes = [*workload_notes(experiment, items, target), *target.facts.notes, *notes]
    evals, unfit, said = eval_plan.planned(experiment, target, tokenizer)
    refusals = [*refusals, *unfit, *floor_checks.refusals(experiment, len(items), evals)]
    notes = [*notes, *said, *floor_checks.notes(experiment)]
    new_tokens = experiment.workload.max_new_tokens
    if capabilities is None:
        capabilities = checks.capabilities(experiment.engine)
    try:
        free = free_bytes(experiment.engine)
        available_bytes = free if available_bytes is None else available_bytes
    except Unsupported as error:
        refusals.append(Refusal(arm=None, reason=str(error), error=Unsupported))
    try:
        with models.named(target.resolved):
            check_model(target, experiment.engine)
    except UserError as error:
        refusals.append(Refusal(arm=None, reason=str(error), error=type(error)))
    refusals += check_ids(target, rendered)
    refusals += misfits(None, "", target, rendered, new_tokens)
    stand_ins = StandIns(
        experiment=experiment,
        target=target,
        tokenizer=tokenizer,
        items=items,
        prompts=rendered,
        evals=evals,
        fetch=fetch,
    )
    beside = models.Beside(experiment, target, tokenizer, stand_ins)
    transforms = Transforms(items=items)
    planned, loads = [], []
    for arm in arms(experiment):
        own, draft, unfit = target, None, list[Refusal]()
        prompts, asked, source = rendered, evals, arm.target.source
        try:
            if source is not None:
                stand_in = stand_ins.of(source)
                own, prompts, asked = stand_in.model, stand_in.prompts, stand_in.evals
                if why := incomparable(experiment, stand_in):
                    raise ConfigError(why)
            if arm.target.changes_prompts:
                reader = tokenizer if source is None else stand_ins.of(source).tokenizer
                lever = next(name for name in arm.levers if experiment.levers[name].kind == "prompt")
                other = "" if source is None else stand_ins.of(source).other_tokens
                made = transforms.of(
                    arm.target, own, reader, prompts, asked, name=f"levers.{lever}", other_tokens=other
                )
                prompts, asked = made.prompts, made.evals
            own = beside.target(arm.target)
            with models.named(target.resolved, own.resolved):
                checks.check_arm(arm, own, experiment, capabilities)
                checks.check_text(arm, prompts)
                draft = beside.draft(arm.draft, arm.target)
                asking.check(arm, own, draft, experiment, capabilities)
                notes += asking.notes(arm, prompts)
            with models.named(*(model.resolved for model in (target, own, draft) if model is not None)):
                if draft is not None and draft.resolved not in (target.resolved, own.resolved):
                    check_model(draft, experiment.engine)
                    checks.check_draft_cache(arm, draft, experiment.engine)
                check_rollback(arm.draft, own, draft)
        except UserError as error:
            unfit.append(Refusal(arm=arm.id, reason=str(error), error=type(error)))
        # What fits the target fits every context that is as long, of a model that reads as it does.
        for role, model in (("", own), ("draft ", draft)):
            if model is not None and (prompts is not rendered or _is_shorter(model, target)):
                unfit += misfits(arm.id, role, model, prompts, new_tokens)
                unfit += eval_checks.misfits(arm.id, role, model, asked)
        if unfit:
            refusals += unfit
            planned.append(refused_arm(arm))
            continue
        tokens = max((len(prompt.ids) for prompt in prompts), default=0) + new_tokens
        planned.append(planned_arm(arm, own, draft, tokens=tokens, bandwidth=bandwidth_bytes_per_s))
        loads.append(memory.Load(arm=planned[-1], target=own, draft=draft, evals=asked))
    evals, said = eval_checks.settled(experiment, target, loads, evals)
    with suppress(UserError):
        # A recipe or a text that cannot be read is refused with its arm.
        said += overlap.notes(experiment, evals)
    answering = eval_memory.held(experiment, loads, evals)
    of_models = [note for one in stand_ins.all() for note in one.notes]
    of_models += [*(note for made in transforms.all() for note in made.notes), *beside.notes]
    logits_bytes = memory.logits_bytes(target, experiment, len(rendered))
    held = memory.held(memory.blocks(loads, experiment.engine), experiment, available_bytes, logits_bytes)
    return Plan(
        experiment=experiment,
        models=(target, *(model for model in beside.loaded() if any(load.uses(model) for load in loads))),
        arms=tuple(planned),
        prompts=rendered,
        evals=evals,
        blocks=tuple(block.arms for block in held.blocks),
        logits_bytes=logits_bytes if held.blocks else 0,
        needed_bytes=max(held.needed_bytes, answering.needed_bytes),
        together_bytes=held.together_bytes,
        evals_bytes=answering.answers_bytes,
        proofs_bytes=answering.proofs_bytes,
        available_bytes=available_bytes,
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        refusals=(*refusals, *held.refusals, *eval_memory.refusals(answering, available_bytes)),
        notes=tuple(dict.fromkeys([*notes, *said, *of_models, *([held.note] if held.note else [])])),
        stand_ins=tuple(stand_ins.all()),
        transformed=transforms.all(),
    )


def _is_shorter(model: PlannedModel, target: PlannedModel) -> bool:
    context = model.facts.context
    return context is not None and (target.facts.context is None or context < target.facts.context)


def workload_notes(experiment: Experiment, items: Sequence[prompt_files.Item], target: PlannedModel) -> list[str]:
    """What is to be said of the prompts, and of the sampling that the model's folder asks for."""
    notes, load = [], experiment.workload
    if load.limit is not None and len(items) < load.limit and not experiment.smoke:
        held = counted(len(items), "prompt")
        notes.append(f"limit = {load.limit}, but {load.prompts} holds {held}: all of them run")
    if dropped := [item.dropped_turns for item in items if item.dropped_turns]:
        turns, of = counted(sum(dropped), "later turn"), counted(len(dropped), "prompt")
        notes.append(f"{turns} of {of} {'is' if sum(dropped) == 1 else 'are'} not asked: only first turns are")
    asks = {key: value for key, value in target.facts.generation_defaults.items() if key != "do_sample"}
    if asks:
        uses = ", ".join(f"{key} {getattr(load, key)}" for key in asks)
        wants = ", ".join(f"{key} {value}" for key, value in asks.items())
        notes.append(f"the model's generation_config.json asks for {wants}; specq uses the workload's {uses}")
    return notes
