"""From an experiment, or a model and a kind, to the servers of a load run: one for each arm, started when it is due."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specq.core.errors import ConfigError, nearest
from specq.engines.served.kinds import KINDS
from specq.experiment import arms as arming
from specq.experiment import served_plan
from specq.experiment.arms import BASELINE, Arm
from specq.experiment.explain import explain
from specq.experiment.schema import Experiment
from specq.experiment.served_settings import address
from specq.lab import window
from specq.load.asked import Asked, Server
from specq.load.measuring import Plan, Progress
from specq.load.start import Start


def experiment_of(model: str, kind: str | None, prompts: Path | None, engine: Mapping[str, Any]) -> Experiment:
    """The experiment without levers that starts a server of a kind on a model.

    Raises:
        ConfigError: no such kind, one that starts nothing, no prompts, or a value that is out of range.
    """
    started = [name for name in KINDS if name != "openai"]
    if kind is None or kind not in started:
        given = "no --kind" if kind is None else f'--kind "{kind}"'
        raise ConfigError(
            f"{given}: to start a server on {model} its kind is needed{nearest(kind or '', started) or ';'} allowed: "
            f"{', '.join(started)}; a server that runs is named by its URL, http://HOST:PORT"
        )
    if prompts is None:
        raise ConfigError(f"load: prompts are needed; type: specq load {model} --kind {kind} --prompts FILE")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(model).name).strip("-_") or "model"
    values = {"name": name, "target": {"model": model}, "engine": {"kind": kind, **engine}}
    try:
        return Experiment.model_validate({**values, "workload": {"prompts": str(prompts)}})
    except ValidationError as error:
        raise ConfigError(explain(error, Experiment)) from error


def check_kind(experiment: Experiment) -> None:
    """Do nothing where the experiment is on servers.

    Raises:
        ConfigError: it is not.
    """
    if not experiment.engine.is_server:
        raise ConfigError(
            f'kind = "{experiment.engine.kind}" in [engine] is no server, and load is put on one; type '
            "--set engine.kind=llamacpp"
        )


def with_engine(experiment: Experiment, engine: Mapping[str, Any]) -> Experiment:
    """The same with some keys of [engine] replaced.

    Raises:
        ConfigError: a value is out of range, or its kind does not read it.
    """
    values = experiment.resolved()
    values["engine"] |= engine
    try:
        made = Experiment.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error, Experiment)) from error
    return made if experiment.origin is None else made.read_from(experiment.origin)


def of_experiment(experiment: Experiment, names: Sequence[str], chunks: Sequence[int]) -> tuple[Server, ...]:
    """The baseline and the arms of an experiment, or those of `names` beside it; with `chunks` one arm, once for each.

    Raises:
        UserError: no such arm, one that a load cannot run, or one that its server cannot do.
    """
    if len(names) > 1 and chunks:
        raise ConfigError("--prefill-chunk holds one arm against itself: name one with --arm, else it is the baseline")
    chosen = _chosen(experiment, names or ([BASELINE] if chunks else ()))
    if not chunks:
        return tuple(_server(experiment, arm) for arm in chosen)
    one = _server(experiment, chosen[-1])
    if one.start is None:
        raise ConfigError("--prefill-chunk is set as a server starts, and this one runs already: take its url out")
    return tuple(
        replace(one, name=f"chunk {size}" if size else "whole prompts", start=replace(one.start, chunk=size))
        for size in chunks
    )


def _label(arm: Arm) -> str:
    return " + ".join(arm.levers) or BASELINE


def _chosen(experiment: Experiment, names: Sequence[str]) -> list[Arm]:
    """The arms in their order, the baseline first; an arm is named by its levers, in whichever order."""
    planned = {_label(arm): arm for arm in arming.arms(experiment) if arm.id != f"{BASELINE}#2"}
    if not names:
        return list(planned.values())
    wanted = []
    for name in names:
        levers = " + ".join(sorted(part.strip() for part in name.removesuffix("#1").split("+")))
        known = {" + ".join(sorted(arm.levers)) or BASELINE: label for label, arm in planned.items()}
        if levers not in known:
            raise ConfigError(f'--arm "{name}"{nearest(name, planned) or ";"} the arms are {", ".join(planned)}')
        wanted.append(known[levers])
    return [arm for label, arm in planned.items() if label in wanted or label == BASELINE]


def _server(experiment: Experiment, arm: Arm) -> Server:
    engine, label = experiment.engine, _label(arm)
    if arm.target.changes_prompts:
        raise ConfigError(
            f'arm "{label}" changes prompts, and all servers of a load get the same ones: leave it out with --arm, or '
            "measure it with specq run"
        )
    settings, refused = served_plan.refusals(experiment, ())
    if settings is None or refused:
        raise ConfigError(refused[0].reason)
    _, errors = served_plan.of_arm(experiment, arm, settings, fetch=True)
    if errors:
        raise type(errors[0])(f'arm "{label}": {errors[0]}')
    where = address(engine)
    if where is not None:
        name = engine.served_name or (experiment.target.model if engine.kind in ("openai", "ollama") else "")
        return Server(name=label, url=where, kind=engine.kind, model=name, key_env=engine.key_env)
    start = Start(
        weights=experiment.target.model,
        revision=experiment.target.revision,
        spec=arm.target,
        draft=arm.draft,
        context=engine.context,
        slots=engine.slots,
        threads=engine.threads,
        dtype=settings.dtype,
        seed=settings.seed,
        args=tuple(engine.args),
        start_s=engine.start_s,
    )
    return Server(name=label, url="", kind=engine.kind, model="", start=start)


def with_context(asked: Asked, plan: Plan) -> Asked:
    """The same, started servers with room for the longest prompt and its answer, where the tokens are known.

    A context that was given stays.
    """
    prompts = (*plan.prompts.prompts, *plan.injected)
    if any(not prompt.ids for prompt in prompts):
        return asked
    tokens = max(len(prompt.ids) for prompt in prompts) + asked.max_tokens

    def fitted(one: Server) -> Server:
        if one.start is None or one.start.context is not None:
            return one
        room = window.started(tokens, window.of_model(one.start.loads))
        return replace(one, start=replace(one.start, context=room))

    return replace(asked, servers=tuple(map(fitted, asked.servers)))


def with_quantized(asked: Asked, say: Progress) -> Asked:
    """The same, with folders in the place of recipes: each made once, or found in the cache.

    Raises:
        UserError, Interrupted, RunFailed: as quantizing.
    """
    return replace(asked, servers=tuple(_quantized(one, say) for one in asked.servers))


def _quantized(server: Server, say: Progress) -> Server:
    start = server.start
    if start is None:
        return server
    spec, draft = start.spec, start.draft
    if spec.recipe is not None:
        folder = _made(spec.source or start.weights, None if spec.source else start.revision, spec.recipe, say)
        spec = replace(spec, recipe=None, model=folder)
    if draft is not None and draft.recipe is not None:
        own = draft.model in (None, "self")
        model = start.weights if own else str(draft.model)
        folder = _made(model, start.revision if own else None, draft.recipe, say)
        draft = replace(draft, recipe=None, model=folder)
    return replace(server, start=replace(start, spec=spec, draft=draft))


def _made(model: str, revision: str | None, recipe: str, say: Progress) -> str:
    from specq.quantize import recipes
    from specq.run import quantizing

    say(f"quantizing {model} by {recipe}")
    made = quantizing.quantize(model, recipes.load(Path(recipe)), None, revision=revision, on_progress=None)
    return str(made.folder)
