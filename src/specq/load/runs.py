"""From what is asked to a run's folder with its report: servers checked, prompts read, points measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.clock import utc_stamp
from specq.core.errors import Interrupted, RunFailed
from specq.experiment import config
from specq.experiment.schema import Experiment
from specq.load import arrivals, folder, given, here, measuring, servers
from specq.load import found as finding
from specq.load import rows as reading
from specq.load.asked import Asked
from specq.load.folder import Folder
from specq.load.found import Found
from specq.load.given import Given
from specq.load.measuring import Plan, Progress
from specq.load.target import Target
from specq.run import inputs, provenance, signals, stale
from specq.run.folder import RECORDS


def begin(asked: Asked, files: Given, experiment: Experiment | None, out: Path, say: Progress) -> Found:
    """Read and check everything, make the run's folder and measure.

    Raises:
        UserError: something will not do. Interrupted, RunFailed: what was recorded is kept.
    """
    files.on(asked)
    plan = files.plan(asked)
    asked = servers.with_context(asked, plan)
    targets = {server.name: Target(server, asked) for server in asked.servers}
    for target in targets.values():
        target.check()
        target.learn()
        _refuse_random(plan, target)
    asked = servers.with_quantized(asked, say)
    files = here.measured(files, asked, say)
    # A server that serves one model and was not told its name is asked for that one.
    named = tuple(
        one if one.start is not None else replace(one, model=one.model or targets[one.name].settings.model)
        for one in asked.servers
    )
    asked = replace(asked, servers=named)
    plan = replace(plan, asked=asked)
    info = {
        "experiment": folder.NAME,
        "question": _question(asked),
        "created": utc_stamp(),
        "asked": asked.to_json(),
        "given": files.to_json(),
        "sha256": given.fingerprint(plan),
        "config_sha256": hashes.of_json([asked.to_json(), files.to_json()]),
        **_origin(experiment),
        "data": {"prompts": files.prompts, "sha256": hashes.of_file(Path(files.prompts))},
        "models": stale.weights(here.models(asked)),
        "servers": [target.to_json() for target in targets.values()],
        "prompts": [one.id for one in plan.prompts.prompts],
        "notes": list(plan.prompts.notes),
        "provenance": provenance.collect(),
    }
    with folder.create(out, provenance.hide_home(info)) as writing:
        say(f"run: {writing.path}")
        measure(plan, writing, say)
    return write(writing.path, writing.info)


def measure(plan: Plan, writing: Folder, say: Progress) -> None:
    """Measure the points that are not complete.

    Raises:
        Interrupted, RunFailed: with how to go on.
    """
    asked = plan.asked
    levels = asked.levels or (arrivals.rate_of(plan.at_s or ()),)
    tried, complete = finding.attempts_of(reading.read(writing.path / RECORDS)[0])
    left = [(point, tried.get(point.id, 0) + 1) for point in asked.points(levels) if point.id not in complete]
    targets = {server.name: Target(server, asked) for server in asked.servers}
    how = f"what was recorded is kept; to go on type: specq load --resume {writing.path}"
    try:
        with signals.raised():
            measuring.measure(plan, left, targets, writing, say)
    except KeyboardInterrupt as error:
        number = signals.number_of(error)
        raise Interrupted(f"stopped by {signals.name_of(error)}; {how}", number) from error
    except RunFailed as error:
        raise type(error)(f"{error}; {how}") from error
    writing.done()


def write(path: Path, info: Mapping[str, Any]) -> Found:
    """Derive the report and write its files.

    Raises:
        DiskFull, RunFolderError: they cannot be written, or a row is damaged.
    """
    from specq.load import page

    found = opened(path, info)
    page.write(found)
    return found


def opened(path: Path, info: Mapping[str, Any] | None = None) -> Found:
    """What a run found, derived from its folder; writes nothing.

    Raises:
        RunFolderError: no load run, or a damaged one.
    """
    info = folder.info_of(path) if info is None else info
    asked, files = given.read(path, info)
    return finding.find(path, info, files.on(asked))


def _origin(experiment: Experiment | None) -> dict[str, Any]:
    """The file of an experiment and what it says, which `specq ls` holds against the file as it is then."""
    if experiment is None or experiment.origin is None:
        return {}
    file, overrides, smoke = experiment.origin
    # As the file has it: the run's own options stand in what was asked.
    return {
        "origin": inputs.origin(experiment),
        "config": config.load(Path(file), overrides, smoke=smoke).resolved(),
    }


def _refuse_random(plan: Plan, target: Target) -> None:
    name = target.server.name
    if target.speculates:
        measuring.refuse_random(plan.prompts, f"{name} drafts")
    if target.speculates is None and len(plan.asked.servers) > 1:
        measuring.refuse_random(
            plan.prompts,
            f"{name}, which is held against another server, does not say whether it drafts",
        )


def _question(asked: Asked) -> str:
    levels = ", ".join(f"{level:g}" for level in asked.levels) or "the trace's own pace"
    named = " against ".join(f"{server.name} ({server.kind}, {server.where})" for server in reversed(asked.servers))
    return f"What does {named} give at {asked.unit} {levels}?"
