"""The plan of an experiment whose engine is a server: what each arm is translated into, and what cannot be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from specq.core.errors import ConfigError, Unsupported, UserError
from specq.core.types import Prompt
from specq.engines.served.key import Key
from specq.engines.served.kinds import KINDS
from specq.engines.served.kinds.base import Served
from specq.engines.served.target import Settings
from specq.experiment import checks
from specq.experiment.arms import Arm
from specq.experiment.checks import Refusal
from specq.experiment.schema import Experiment
from specq.experiment.served_settings import settings_of

PORT = 0
"""Stands in a plan for the free port that is found when a server starts."""
NO_LOGITS = (
    "a server gives no logits, so nothing is scored: at temperature 0 the texts of arms with a draft are compared with "
    "those of the same server without one, and a difference is reported as one; above it, the first tokens of both are "
    'drawn over many seeds and compared. Where the weights can be loaded here, an experiment with kind = "hf" audits '
    "by scores"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedArm:
    """What an arm is on its server.

    `command` is what starts it, {PORT} in the place of its port, () where it runs already; `env` is what that adds to
    the environment. `exactness` says what the server's way to verify leaves of the target's law, by which `rule` and
    `reason`, as `source` has it; "" where nothing is drafted. `differs` says what the server does in its own way.
    """

    arm: str
    command: tuple[str, ...]
    env: dict[str, str]
    exactness: str
    rule: str | None
    reason: str
    source: str
    differs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            **{name: getattr(self, name) for name in ("arm", "exactness", "rule", "reason", "source")},
            **{"command": list(self.command), "env": self.env, "differs": list(self.differs)},
        }


def of_arm(experiment: Experiment, arm: Arm, settings: Settings, fetch: bool) -> tuple[ServedArm, list[UserError]]:
    """An arm as its server is told it, and why it cannot be."""
    kind, sampling = KINDS[settings.kind], experiment.sampling()
    found: list[UserError] = []
    target, draft = arm.target, arm.draft
    served = _as_written(experiment, arm, settings)
    found += [Unsupported(sentence) for sentence in kind.cannot(served, sampling)]
    found += _needs_restart(experiment, arm, settings)
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    if settings.url is None and not found:
        made = target if target.recipe is None else replace(target, recipe=None, model=f"<{target.recipe}>")
        try:
            if target.recipe is None and (draft is None or draft.recipe is None):
                served = settings.served(
                    experiment.target.model, made, draft, revision=experiment.target.revision, fetch=fetch
                )
            started = kind.command(served, PORT, environ=os.environ)
        except UserError as error:
            found.append(error)
        else:
            command, env = started.argv, dict(started.env)
    verified = None if draft is None else kind.verified(draft, sampling, settings.args)
    return (
        ServedArm(
            arm=arm.id,
            command=command,
            env=env,
            exactness="" if verified is None else "lossy" if draft is not None and draft.lossy else verified.exactness,
            rule=None if verified is None else verified.rule,
            reason="" if verified is None else verified.reason,
            source="" if verified is None else verified.source,
            differs=kind.differs(served, sampling),
        ),
        found,
    )


def _as_written(experiment: Experiment, arm: Arm, settings: Settings) -> Served:
    """The arm with models by the names that the experiment gives them."""
    draft = arm.draft
    own = arm.target.model or arm.target.source or experiment.target.model
    return Served(
        weights=experiment.target.model,
        target=arm.target,
        draft=draft,
        draft_weights=None
        if draft is None or draft.method != "model"
        else own
        if draft.model == "self"
        else draft.model,
        context=settings.context,
        slots=max(settings.slots, arm.target.batch),
        dtype=settings.dtype,
        threads=settings.threads,
        seed=settings.seed,
        prefix_cache=arm.target.prefix_cache,
        args=settings.args,
        name=settings.name,
    )


def _needs_restart(experiment: Experiment, arm: Arm, settings: Settings) -> list[UserError]:
    """Refuse what a server that runs already would have to be started with."""
    if settings.url is None:
        return []
    found: list[str] = []
    if arm.draft is not None:
        found += [name for name in arm.levers if experiment.levers[name].kind == "draft"]
    kinds = ("quantize", "kv_cache", "prefix_cache", "batch")
    found += [name for name in arm.levers if experiment.levers[name].kind in kinds]
    # Ollama loads whatever model a request names.
    if arm.target.source is not None and settings.kind != "ollama":
        found += [name for name in arm.levers if experiment.levers[name].kind == "model"]
    return [
        Unsupported(
            f"levers.{name} needs a server that is started with it, and the one at {settings.url} runs already: take "
            "url out of [engine], so that a server is started for each arm, or take the lever out"
        )
        for name in found
    ]


def refusals(experiment: Experiment, prompts: Sequence[Prompt]) -> tuple[Settings | None, list[Refusal]]:
    """The settings, None where they cannot be; and what stops all arms: no address, no key, a prompt it cannot take."""
    found: list[Refusal] = []
    engine = experiment.engine
    settings: Settings | None = None
    try:
        settings = settings_of(experiment)
        Key(engine.key_env)
        if engine.kind == "openai" and settings.url is None:
            raise ConfigError(
                'kind = "openai" attaches to a running server: write url = "http://HOST:PORT" in [engine]'
            )
        for prompt in prompts:
            KINDS[engine.kind].request(prompt, experiment.sampling(), id=prompt.id, model="m", cold="c")
    except UserError as error:
        words = str(error)
        if engine.tokenizer is None and isinstance(error, Unsupported):
            words += "; or write tokenizer = MODEL in [engine], whose template makes text of messages"
        found.append(Refusal(arm=None, reason=words, error=type(error)))
    return settings, found


def blocks(experiment: Experiment, planned: Sequence[Arm]) -> tuple[tuple[str, ...], ...]:
    """The arms that one server serves: each alone where it is started, those of one model where it runs already."""
    if not experiment.engine.attaches:
        return tuple((arm.id,) for arm in planned) if len(planned) > 1 else ()
    by_model: dict[str | None, list[str]] = {}
    for arm in planned:
        by_model.setdefault(arm.target.source, []).append(arm.id)
    return tuple(map(tuple, by_model.values())) if len(by_model) > 1 else ()


def notes(experiment: Experiment, of: Sequence[ServedArm]) -> list[str]:
    """What the reader of a plan and of a report must know."""
    engine, load, found = experiment.engine, experiment.workload, []
    if not engine.attaches:
        odd = load.repeats * load.processes % 2
        found.append(
            f"arms go in blocks, for the server is started anew for each arm, {engine.kind} with that arm's settings: "
            "forwards and then backwards (ABBA). What that costs in trust: what changes on the machine between two "
            "blocks is in their ratios; going back and forth cancels a steady drift and nothing else"
            + (", and an odd number of turns not even that: give an even workload.repeats" if odd else "")
        )
    else:
        found.append(
            "the server runs already: how it is set is asked of it and recorded, and what it does not say is unknown; "
            "nothing about it is changed, its weights are not checked against target.model, and its memory is not "
            "measured"
        )
    if experiment.audit.enabled and any(one.exactness for one in of):
        found.append(NO_LOGITS)
    for text in dict.fromkeys(text for one in of for text in one.differs):
        whose = [one.arm for one in of if text in one.differs]
        found.append(text if len(whose) == len(of) else f"{', '.join(whose)}: {text}")
    for one in of:
        if one.exactness == "unknown":
            found.append(f"{one.arm}: whether its outputs have the target's law is unknown: {one.reason}")
    return found


def text_only(prompts: Sequence[Any]) -> tuple[Prompt, ...]:
    """The prompts of a file for a server that makes tokens of them itself: no ids are known here."""
    return tuple(
        Prompt(id=item.id, ids=(), text=item.prompt or "", messages=item.messages, tags=item.tags) for item in prompts
    )


def check_text(arm: Arm, prompts: Sequence[Prompt]) -> list[Refusal]:
    """As checks.check_text, as a refusal."""
    try:
        checks.check_text(arm, prompts)
    except UserError as error:
        return [Refusal(arm=arm.id, reason=str(error), error=type(error))]
    return []
