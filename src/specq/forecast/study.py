"""A study of drafts: cost curves, one generation of the target, one pass of each draft over it, and the ranking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specq.core.clock import now
from specq.core.errors import UserError
from specq.core.types import EXACT_RULES, DraftSpec, Generation, Prompt, Rule, Sampling, TargetSpec
from specq.decoding.law import Law
from specq.engines.base import Copies, LoadedTarget
from specq.experiment.plan import Plan
from specq.experiment.schema import Experiment
from specq.forecast import MOST_K, cost, predict
from specq.forecast.cost import Curve
from specq.forecast.predict import Ranking
from specq.forecast.replay import Copied, Traced
from specq.report.audit import Z_LIMIT
from specq.run import engines, inputs

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds that a study took, loading apart: of the cost curves, of the target's texts and of reading them."""

    curves_s: float
    texts_s: float
    reading_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What a study found. `texts` holds what each draft says along the target's texts, in the order of the plan."""

    experiment: Experiment
    plan: Plan
    drafts: dict[str, DraftSpec]
    rules: tuple[Rule, ...]
    curves: dict[str, Curve]
    texts: dict[str, tuple[Traced | Copied, ...]]
    ranking: Ranking
    spent: Spent
    described: dict[str, dict[str, Any]]


def study(
    experiment: Experiment, *, ks: Sequence[int], say: Say, ceilings: Callable[[dict[str, Curve]], None]
) -> Study:
    """Measure the curves, let the target write, read its texts with every draft, and rank.

    Args:
        experiment: its levers are the drafts, its workload the prompts and the sampling.
        ks: how many tokens a step may propose.
        say: told what is being done.
        ceilings: gets the curves before anything is generated.

    Raises:
        UserError: what can be refused before weights are loaded: models, tokenizers, prompts, memory.
    """
    plan = inputs.make_plan(experiment)
    plan.check()
    drafts = {name: draft for name, lever in experiment.levers.items() if (draft := lever.draft()) is not None}
    if not drafts:
        raise UserError("drafts: the experiment has no lever of kind draft")
    sampling = experiment.sampling()
    engine = engines.make_engine(experiment)
    rules = tuple(rule for rule in EXACT_RULES if rule in engine.capabilities.rules)
    with engines.Targets(engine, experiment) as targets:
        say("loading the target")
        target = targets.of(TargetSpec())
        say(f"measuring cost curves: at most {cost.SECONDS:.0f} s a draft")
        begun = now()
        curves = cost.measure(target, drafts, _by_length(plan.prompts), sampling, grid=cost.grid(max(ks)))
        ceilings(curves)
        curves_s, begun = now() - begun, now()
        say(f"the target writes {len(plan.prompts)} texts")
        generations = target.decoder(None).generate(plan.prompts, sampling)
        texts_s, begun = now() - begun, now()
        say("the drafts read them")
        texts = read(target, drafts, plan.prompts, generations, sampling, most=max(ks))
        asked = {name: draft.rule for name, draft in drafts.items()}
        ranking = predict.rank(
            texts,
            curves,
            ks=ks,
            rules=rules,
            seed=experiment.workload.seed,
            asked=asked,
        )
        reading_s = now() - begun
        described = {"target": target.describe()} | {
            name: found for name, draft in drafts.items() if (found := target.describe_draft(draft)) is not None
        }
    return Study(
        experiment=experiment,
        plan=plan,
        drafts=drafts,
        rules=rules,
        curves=curves,
        texts=texts,
        ranking=ranking,
        spent=Spent(curves_s=curves_s, texts_s=texts_s, reading_s=reading_s),
        described=described,
    )


def read(
    target: LoadedTarget,
    drafts: dict[str, DraftSpec],
    prompts: Sequence[Prompt],
    generations: Sequence[Generation],
    sampling: Sampling,
    *,
    most: int = MOST_K,
) -> dict[str, tuple[Traced | Copied, ...]]:
    """What each draft says along texts of the target.

    Raises:
        UserError: the target did not write a text: it is not in its law.
    """
    found: dict[str, list[Traced | Copied]] = {name: [] for name in drafts}
    for prompt, generation in zip(prompts, generations, strict=True):
        law = target.law(prompt, generation.ids, sampling)
        check_written(prompt, law, sampling)
        for name, draft in drafts.items():
            own = target.draft_law(draft, prompt, generation.ids, sampling, most)
            if isinstance(own, Copies):
                found[name].append(Copied(matched=own.matched, proposed=own.proposed))
            else:
                found[name].append(traced(law, own, sampling))
    return {name: tuple(some) for name, some in found.items()}


def traced(target: Law, draft: Law, sampling: Sampling) -> Traced:
    """A text for replay; at temperature 0 each token is the target's own, and the draft has it or not."""
    hit = (draft.gap <= 0).astype(float)
    if sampling.temperature == 0:
        return Traced(p=np.ones(len(hit)), q=hit, hit=hit)
    # Rounding may leave a token at the edge of a truncated law without probability; the text has it, so it had some.
    return Traced(p=np.clip(target.p, 1e-9, 1.0), q=np.clip(draft.p, 0.0, 1.0), hit=hit)


def check_written(prompt: Prompt, law: Law, sampling: Sampling) -> None:
    """Refuse a text that the target would not have written at these settings: acceptance along it would lie.

    At temperature 0 most of its tokens must be the target's best ones (rounding moves near ties); above it, the sum
    of -log p - entropy must lie within four standard deviations, and few tokens may be outside a truncated law.

    Raises:
        UserError: it would not.
    """
    count = len(law.p)
    if count < 2:
        return
    if sampling.temperature == 0:
        missed = int((law.gap > 0).sum())
        if missed > max(2, count // 20):
            raise UserError(
                f"prompt {prompt.id}: {missed} of {count} tokens are not what the target says at temperature 0: the "
                "text is another model's, or was written at other settings; let the target write it anew"
            )
        return
    surprise, variance = law.surprise
    z, outside = surprise / max(1e-9, float(np.sqrt(variance))), law.outside
    if abs(z) > Z_LIMIT or outside > max(2, count // 20):
        raise UserError(
            f"prompt {prompt.id}: the target does not write such a text at these settings (z = {z:+.1f}, allowed is "
            f"{Z_LIMIT:.0f}; {outside} of {count} tokens have no probability): let it write the text anew"
        )


def _by_length(prompts: Sequence[Prompt]) -> list[Prompt]:
    """A few prompts, from the middle of the lengths outwards."""
    ordered = sorted(prompts, key=lambda prompt: len(prompt.ids))
    places = dict.fromkeys(round(share * (len(ordered) - 1)) for share in (0.5, 0.9, 0.1))
    return [ordered[place] for place in places]
