"""A study of drafts: cost curves, one generation of the target, one pass of each draft over it, and the ranking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from specq.core.clock import now
from specq.core.errors import UserError
from specq.core.nouns import counted
from specq.core.types import EXACT_RULES, DraftSpec, Prompt, Rule, TargetSpec
from specq.experiment.memory import gib
from specq.experiment.plan import Plan
from specq.experiment.schema import Experiment
from specq.forecast import cost, making, measuring, places, pooled, predict, remarks, written
from specq.forecast.cost import Curve
from specq.forecast.predict import Ranking, one_a_draft
from specq.forecast.replay import Copied, Traced
from specq.forecast.strata import Strata, strata
from specq.run import engines, inputs
from specq.run.answered import past_stop

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds that a study took, loading apart: of the cost curves, of the target's texts and of reading them."""

    curves_s: float
    texts_s: float
    reading_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What a study found. `texts` holds what each draft says along the target's texts, in the order of the plan.

    `drafts` are as they were asked for: a recipe, not the folder that it made. `strata` has the best cell of each
    draft, the fastest first. `past_end` counts those of the `tokens` of the target's texts that follow its
    own end, which equal lengths ignore. `templates` says of each draft's chat template what remarks.template does.
    """

    experiment: Experiment
    plan: Plan
    drafts: dict[str, DraftSpec]
    rules: tuple[Rule, ...]
    curves: dict[str, Curve]
    texts: dict[str, tuple[Traced | Copied, ...]]
    ranking: Ranking
    spent: Spent
    described: dict[str, dict[str, Any]]
    strata: tuple[Strata, ...] = ()
    tokens: int = 0
    past_end: int = 0
    templates: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class On:
    """What is studied, recipes already made folders: a target, its drafts, and a plan that holds the prompts."""

    plan: Plan
    target: TargetSpec
    drafts: Mapping[str, DraftSpec]


def study(
    experiment: Experiment,
    *,
    ks: Sequence[int],
    say: Say,
    ceilings: Callable[[dict[str, Curve]], None],
    on: On | None = None,
    contexts: Sequence[int] = (),
) -> Study:
    """Measure the curves, let the target write, read its texts with every draft, and rank.

    Args:
        experiment: its levers are the drafts, its workload the prompts and the sampling.
        ks: how many tokens a step may propose.
        say: told what is being done.
        ceilings: gets the curves before anything is generated.
        on: another target than the experiment's own, and drafts of it.
        contexts: after how many tokens the seconds of a step are measured; none: where the prompts are.

    Raises:
        UserError: what can be refused before weights are loaded: models, tokenizers, prompts, contexts, memory.
    """
    on = _asked(experiment, say) if on is None else on
    plan, drafts = on.plan, dict(on.drafts)
    sampling = experiment.sampling()
    engine = engines.make_engine(experiment)
    rules = tuple(rule for rule in EXACT_RULES if rule in engine.capabilities.rules)
    depths = _contexts(contexts, plan, max(ks))
    with engines.Targets(engine, experiment) as targets:
        say("loading the target")
        target = targets.of(on.target)
        described = {"target": target.describe()} | {
            name: found for name, draft in drafts.items() if (found := target.describe_draft(draft)) is not None
        }
        asked_for = {name: experiment.levers[name].draft() or draft for name, draft in drafts.items()}
        for name, why in remarks.of_drafts(asked_for, described):
            say(f"{name} is {why}")
        at = f" after {' and '.join(map(str, depths))} tokens" if depths else ""
        say(f"measuring cost curves{at}: rounds for {measuring.SECONDS:.0f} s a draft, one at least")
        begun = now()
        curves = measuring.measure(
            target,
            drafts,
            plan.prompts if depths else _by_length(plan.prompts),
            sampling,
            grid=cost.grid(max(ks)),
            contexts=depths,
            limit=_shortest(plan)[0],
            middle=int(np.median([len(prompt.ids) for prompt in plan.prompts])) + sampling.max_new_tokens // 2,
            prober=pooled.prober(target, say),
            say=say,
        )
        if _quantized(on):
            curves = {name: replace(curve, quantized=True) for name, curve in curves.items()}
        ceilings(curves)
        curves_s, begun = now() - begun, now()
        say(f"the target writes {counted(len(plan.prompts), 'text')}")
        generations = written.write(target, plan.prompts, sampling, together=engine.capabilities.batches)
        texts_s, begun = now() - begun, now()
        past_end = sum(past_stop(one.ids, target.eos_ids) for one in generations)
        say("the drafts read them")
        laws = written.laws(target, plan.prompts, generations, sampling)
        texts = written.read(target, drafts, plan.prompts, generations, sampling, most=max(ks), along=laws)
        asked = {name: draft.rule for name, draft in drafts.items()}
        ranking = predict.rank(
            texts,
            curves,
            ks=ks,
            rules=rules,
            seed=experiment.workload.seed,
            asked=asked,
            prompt_tokens=[len(prompt.ids) for prompt in plan.prompts],
        )
        entropy = [float(law.entropy.mean()) if len(law.entropy) else 0.0 for law in laws]
        parts = tuple(
            strata(
                best,
                texts[best.cell.draft],
                curves[best.cell.draft],
                plan.prompts,
                entropy,
                seed=experiment.workload.seed,
            )
            for best in one_a_draft(ranking.forecasts)
        )
        reading_s = now() - begun
    return Study(
        experiment=experiment,
        plan=plan,
        drafts=asked_for,
        rules=rules,
        curves=curves,
        texts=texts,
        ranking=ranking,
        spent=Spent(curves_s=curves_s, texts_s=texts_s, reading_s=reading_s),
        described=described,
        strata=parts,
        tokens=sum(len(one.ids) for one in generations),
        past_end=past_end,
        templates=dict(remarks.templates(asked_for, _model(on), plan.models)),
    )


def _asked(experiment: Experiment, say: Say) -> On:
    plan = inputs.make_plan(experiment)
    plan.check()
    drafts = {name: draft for name, lever in experiment.levers.items() if (draft := lever.draft()) is not None}
    if not drafts:
        raise UserError("drafts: the experiment has no lever of kind draft")
    made = making.folders(experiment, say)
    drafts = {name: making.of_folder(draft, made, experiment) for name, draft in drafts.items()}
    return On(plan=plan, target=TargetSpec(), drafts=drafts)


def _quantized(on: On) -> bool:
    """Whether the target's weights are: by a lever, or in the folder that the experiment names."""
    if on.target.recipe is not None or on.target.model is not None:
        return True
    return any(one.role == "target" and one.name == _model(on) and bool(one.weights.schemes) for one in on.plan.models)


def _model(on: On) -> str:
    return on.target.source or on.plan.experiment.target.model


def _contexts(asked: Sequence[int], plan: Plan, k: int) -> tuple[int, ...]:
    """The contexts to measure, which models and memory hold.

    Raises:
        ConfigError: the context of a model is shorter.
        UserError: memory does not hold the caches.
    """
    (limit, name), new_tokens = _shortest(plan), plan.experiment.workload.max_new_tokens
    found = places.contexts(asked, plan.prompts, new_tokens, k=k, limit=limit, model=name)
    planned = max(len(prompt.ids) for prompt in plan.prompts) + new_tokens
    longer = max(found, default=0) + places.room(k) - planned
    caches = max((arm.cache_bytes or 0 for arm in plan.arms), default=0)
    needed = plan.needed_bytes + round(caches * max(0, longer) / planned)
    if asked and plan.available_bytes is not None and needed > plan.available_bytes:
        raise UserError(
            f"contexts = {max(found)}: weights and caches would take {gib(needed)}, and {gib(plan.available_bytes)} "
            "are free; give shorter contexts"
        )
    return found


def _shortest(plan: Plan) -> tuple[int | None, str]:
    """The shortest context of the models, and whose it is."""
    one = min(plan.models, key=lambda one: one.facts.context or sys.maxsize)
    return one.facts.context, one.name


def _by_length(prompts: Sequence[Prompt]) -> list[Prompt]:
    """A few prompts, from the middle of the lengths outwards."""
    ordered = sorted(prompts, key=lambda prompt: len(prompt.ids))
    places = dict.fromkeys(round(share * (len(ordered) - 1)) for share in (0.5, 0.9, 0.1))
    return [ordered[place] for place in places]
