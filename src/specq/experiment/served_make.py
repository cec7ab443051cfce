"""Makes the plan of an experiment whose engine is a server: the same checks, on what the server would be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError, Unsupported, UserError
from specq.core.types import Prompt
from specq.experiment import asking, checks, eval_checks, eval_plan, floor_checks, models, overlap, served_plan
from specq.experiment import prompts as prompt_files
from specq.experiment.arms import Arm, arms
from specq.experiment.checks import Refusal
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.plan import Plan, workload_notes
from specq.experiment.rendering import render
from specq.experiment.schema import Experiment
from specq.experiment.served_models import Drafts
from specq.experiment.served_plan import ServedArm
from specq.experiment.served_settings import reads_tokens_of
from specq.experiment.sizes import PlannedArm, PlannedModel, planned_arm, refused_arm
from specq.experiment.stand_ins import StandIns, incomparable
from specq.models import tokenizers

UNPROBED = "the weights of a server cannot be perturbed"
ONE_BY_ONE = "slots = 1 in [engine]: the server answers one prompt at a time"


def make(
    experiment: Experiment, *, bandwidth_bytes_per_s: float | None, available_bytes: int | None, fetch: bool
) -> Plan:
    """As plan.make, for a server.

    Raises:
        UserError: the prompts file is broken, or the model whose tokens are needed cannot be found.
    """
    items = prompt_files.load(Path(experiment.workload.prompts), experiment.workload.limit)
    source = reads_tokens_of(experiment)
    target: PlannedModel | None = None
    tokenizer: Any = None
    notes: list[str] = []
    refusals: list[Refusal] = []
    evals: tuple[PlannedEval, ...] = ()
    if source is None:
        prompts = served_plan.text_only(items)
        notes.append("the server makes tokens of the prompts itself: their counts are its own")
        refusals += [_no_tokens(one.name) for one in experiment.evals]
    else:
        revision = experiment.target.revision if source == experiment.target.model else None
        target = models.planned("target", source, experiment.engine, revision, fetch)
        with models.named(target.resolved):
            tokenizer = tokenizers.load(target.resolved)
        prompts, unfit, said = render(items, tokenizer)
        notes += [*workload_notes(experiment, items, target), *target.facts.notes, *said]
        refusals += [*unfit, *checks.check_ids(target, prompts)]
        refusals += _misfits(experiment, None, "", target, prompts)
        evals, unfit, said = eval_plan.planned(experiment, target, tokenizer)
        refusals += unfit
        notes += said
    refusals += floor_checks.refusals(experiment, len(items), evals)
    refusals += [_no_scores(one, experiment) for one in evals if one.new_tokens is None]
    notes += floor_checks.notes(experiment)
    settings, unfit = served_plan.refusals(experiment, prompts)
    refusals += unfit
    if available_bytes is None:
        available_bytes = checks.free_bytes(experiment.engine)
    loads = _Loads(experiment, items, target, tokenizer, prompts, evals, fetch)
    planned: list[PlannedArm] = []
    told: list[ServedArm] = []
    # A server that is not installed is missing for every arm, and told of once.
    missing: dict[str, UserError] = {}
    for arm in arms(experiment):
        unfit = served_plan.check_text(arm, prompts)
        own, draft = loads.of(arm, unfit)
        if settings is not None:
            one, errors = served_plan.of_arm(experiment, arm, settings, fetch)
            told.append(one)
            for error in errors:
                if isinstance(error, Unsupported) and str(error).startswith(f'kind = "{settings.kind}"'):
                    missing.setdefault(str(error), error)
                else:
                    unfit.append(Refusal(arm=arm.id, reason=str(error), error=type(error)))
        refusals += unfit
        notes += asking.notes(arm, prompts)
        planned.append(
            refused_arm(arm) if unfit else _sized(experiment, arm, own, draft, prompts, bandwidth_bytes_per_s)
        )
    refusals += [Refusal(arm=None, reason=reason, error=type(error)) for reason, error in missing.items()]
    if target is not None:
        notes += overlap.notes(experiment, evals) if not refusals else []
    slots = experiment.engine.slots
    evals = tuple(
        replace(
            one,
            batch_size=min(one.batch_size, slots),
            one_by_one=ONE_BY_ONE if slots == 1 else "",
            unprobed=UNPROBED,
        )
        for one in evals
    )
    if any(one.asked.probe for one in evals):
        notes.append(f"no eval has a sensitivity probe, for {UNPROBED}")
    needed = max(((one.model_bytes or 0) + (one.cache_bytes or 0) for one in planned), default=0)
    return Plan(
        experiment=experiment,
        models=tuple(loads.all()),
        arms=tuple(planned),
        prompts=prompts,
        evals=evals,
        blocks=served_plan.blocks(experiment, planned),
        logits_bytes=0,
        needed_bytes=0 if experiment.engine.attaches else needed,
        together_bytes=0,
        evals_bytes=0,
        proofs_bytes=0,
        available_bytes=available_bytes,
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        refusals=tuple(refusals),
        notes=tuple(dict.fromkeys([*notes, *loads.notes, *served_plan.notes(experiment, told)])),
        stand_ins=tuple(loads.stand_ins.all()) if loads.stand_ins is not None else (),
        served=tuple(told),
    )


class _Loads:
    """The models of the arms, found where files of theirs are known here."""

    def __init__(
        self,
        experiment: Experiment,
        items: Sequence[prompt_files.Item],
        target: PlannedModel | None,
        tokenizer: Any,
        prompts: tuple[Prompt, ...],
        evals: tuple[PlannedEval, ...],
        fetch: bool,
    ) -> None:
        self._experiment, self._target, self._prompts = experiment, target, prompts
        self.stand_ins: StandIns | None = None
        self._drafts: Drafts | None = None
        if target is not None:
            self.stand_ins = StandIns(
                experiment=experiment,
                target=target,
                tokenizer=tokenizer,
                items=items,
                prompts=prompts,
                evals=evals,
                fetch=fetch,
            )
            self._drafts = Drafts(experiment.engine, target, tokenizer, self.stand_ins)

    def of(self, arm: Arm, unfit: list[Refusal]) -> tuple[PlannedModel | None, PlannedModel | None]:
        """An arm's target and draft model, None where nothing is known of them; what is wrong goes to `unfit`."""
        own, draft = self._target, None
        if own is None or self.stand_ins is None or self._drafts is None:
            return None, None
        try:
            if arm.target.source is not None:
                stand_in = self.stand_ins.of(arm.target.source)
                own = stand_in.model
                if why := incomparable(self._experiment, stand_in):
                    raise ConfigError(why)
                unfit += _misfits(self._experiment, arm.id, "", own, stand_in.prompts)
                unfit += eval_checks.misfits(arm.id, "", own, stand_in.evals)
            if arm.target.model is not None:
                own = models.planned("target", arm.target.model, self._experiment.engine, None, self.stand_ins.fetch)
            draft = self._drafts.of(arm.draft, arm.target, own)
            if draft is not None and draft is not own:
                unfit += _misfits(self._experiment, arm.id, "draft ", draft, self._prompts)
        except UserError as error:
            unfit.append(Refusal(arm=arm.id, reason=str(error), error=type(error)))
        return (None, None) if arm.target.recipe is not None else (own, draft)

    def all(self) -> list[PlannedModel]:
        """The target, what stands in its place, and the drafts."""
        if self._target is None or self.stand_ins is None or self._drafts is None:
            return []
        return [self._target, *(one.model for one in self.stand_ins.all()), *self._drafts.all()]

    @property
    def notes(self) -> list[str]:
        """What is to be said of models in the target's place."""
        return [] if self.stand_ins is None else [note for one in self.stand_ins.all() for note in one.notes]


def _sized(
    experiment: Experiment,
    arm: Arm,
    own: PlannedModel | None,
    draft: PlannedModel | None,
    prompts: Sequence[Prompt],
    bandwidth: float | None,
) -> PlannedArm:
    """The arm with the sizes of its files; without any where the server alone has them."""
    if own is None or experiment.engine.attaches:
        return replace(refused_arm(arm), refused=False)
    longest = max((len(prompt.ids) for prompt in prompts), default=0)
    tokens = experiment.engine.context or longest + experiment.workload.max_new_tokens
    return planned_arm(arm, own, draft, tokens=tokens, bandwidth=bandwidth)


def _misfits(
    experiment: Experiment, arm: str | None, role: str, model: PlannedModel, prompts: Sequence[Prompt]
) -> list[Refusal]:
    """As checks.misfits, in the window that the server is given where that is the shorter one."""
    context, window = model.facts.context, experiment.engine.context
    if window is not None and (context is None or window < context):
        model = replace(model, facts=replace(model.facts, context=window))
    return checks.misfits(arm, role, model, prompts, experiment.workload.max_new_tokens)


def _no_tokens(name: str) -> Refusal:
    reason = (
        f'eval "{name}": its prompts are made by a chat template, and the server\'s is not known here; write tokenizer '
        "= MODEL in [engine], the model that the server serves"
    )
    return Refusal(arm=None, reason=reason, error=ConfigError)


def _no_scores(one: PlannedEval, experiment: Experiment) -> Refusal:
    reason = (
        f'eval "{one.asked.name}": {one.metric.name} needs log-probabilities of given texts, and kind = '
        f'"{experiment.engine.kind}" gives none; take an eval that generates answers, or kind = "hf"'
    )
    return Refusal(arm=None, reason=reason, error=Unsupported)
