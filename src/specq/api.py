"""Everything that the command line does, as functions. Heavy packages load when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specq.distill import distill_model  # noqa: F401
from specq.forecast import ask_drafts, measure_grid, replay_files, study_drafts, study_grid, validate_drafts  # noqa: F401
from specq.imports import import_metrics  # noqa: F401
from specq.lab.cost_asked import price_requests  # noqa: F401
from specq.lab.measure import measure_requests, rebuild_lab, resume_requests  # noqa: F401
from specq.lab.prefix import find_prefixes  # noqa: F401
from specq.lab.size import size_models  # noqa: F401
from specq.prompts.files import shorten_prompts  # noqa: F401
from specq.run.catalog import DEFAULT_OUT
from specq.workloads import make_workload, read_workload  # noqa: F401

if TYPE_CHECKING:
    from specq.evals.describe import Description
    from specq.experiment.plan import Plan
    from specq.experiment.schema import Experiment
    from specq.load.running import measure_load, resume_load  # noqa: F401
    from specq.quantize.artifact import Artifact
    from specq.quantize.audited import QuantAudit
    from specq.quantize.recipes import Recipe
    from specq.report import Report, Run
    from specq.run.catalog import RunSummary
    from specq.run.runner import OnProgress


def __getattr__(name: str) -> Any:
    # What puts a server under load computes with numpy, which the other commands answer without.
    if name in ("measure_load", "resume_load"):
        from specq.load import running

        return getattr(running, name)
    raise AttributeError(f"module 'specq.api' has no attribute {name!r}")


def load_experiment(file: Path | str, overrides: Sequence[str] = (), *, smoke: bool = False) -> Experiment:
    """Read an experiment file. Overrides are "table.key=value"; `smoke` cuts the run to a minute.

    Raises:
        ConfigError: the file or an override is wrong.
    """
    from specq.experiment import config

    return config.load(Path(file), overrides, smoke=smoke)


def start_experiment(
    question: str,
    target: str,
    *,
    prompts: Path | str | None = None,
    evals: Path | str | None = None,
    out: Path | str | None = None,
) -> tuple[Path, ...]:
    """Write a commented experiment that runs as it is, and its recipes beside it; the experiment's path comes first.

    `question` is quantize, draft or levers; `out` is QUESTION.toml by default. Nothing is written over.

    Raises:
        ConfigError: no such question, neither prompts nor evals, or a file that is there already.
        UserError: the model, the prompts or the evals will not do, or a run of what was written would be refused.
    """
    from specq.experiment import starting

    given = (None if file is None else Path(file) for file in (prompts, evals))
    return starting.write(question, target, *given, out=Path(out or f"{question}.toml"))


def plan_experiment(experiment: Experiment | Path | str, *, measure_bandwidth: bool = True) -> Plan:
    """What would run and what it needs, with refusals, before any weight is loaded.

    With `measure_bandwidth` the plan names each arm's ceiling; it takes a second or two.

    Raises:
        UserError: the experiment, its prompts or its target are wrong. Plan.check() raises for refused arms.
    """
    from specq.run.inputs import make_plan

    return make_plan(_experiment(experiment), measure_bandwidth=measure_bandwidth)


def run_experiment(
    experiment: Experiment | Path | str | None = None,
    *,
    out: Path | str = DEFAULT_OUT,
    resume: Path | str | None = None,
    on_progress: OnProgress | None = None,
) -> Path:
    """Run an experiment in worker processes, write its report and return the run's folder.

    `resume` (a run's folder, or its name under `out`) continues an unfinished run; the experiment
    may then be left out.

    Raises:
        UserError: a mistake that was found before weights loaded, or a folder that is busy, done or damaged.
        Interrupted: Ctrl-C, SIGTERM or SIGHUP; `exit_code` tells which.
        RunFailed: a worker broke, or an arm failed on every sample or item. All keep what was recorded.
    """
    from specq import report
    from specq.run import runner
    from specq.run.catalog import find_run

    return runner.run(
        None if experiment is None else _experiment(experiment),
        out=Path(out),
        resume=None if resume is None else find_run(resume, Path(out)),
        on_progress=on_progress,
        write_report=report.write,
    )


def load_recipe(file: Path | str | None = None, **keys: Any) -> Recipe:
    """A recipe from a file, from keys, or from a file with some of its keys replaced; what is left out takes defaults.

    Raises:
        ConfigError: a key or a value is wrong, or values are impossible together.
    """
    from specq.quantize import recipes

    return recipes.make(keys) if file is None else recipes.load(Path(file), **keys)


def quantize_model(
    model: str,
    recipe: Recipe | Path | str,
    out: Path | str | None = None,
    *,
    revision: str | None = None,
    on_progress: OnProgress | None = None,
) -> Artifact:
    """Quantize a model as a recipe (or a recipe file) says into the new folder `out`, and audit the result.

    Without `out` it goes into the cache, once: the same source, recipe, texts and versions are found there again.
    What can be refused is refused before weights are loaded.

    Raises:
        UserError: the recipe, the texts, the model or the folder will not do.
        Interrupted: Ctrl-C, SIGTERM or SIGHUP; nothing half-made is left.
        RunFailed: the tool broke, or wrote tensors that are not finite. DiskFull: too little space.
    """
    from specq.run import quantizing

    chosen = load_recipe(recipe) if isinstance(recipe, str | Path) else recipe
    where = None if out is None else Path(out)
    return quantizing.quantize(model, chosen, where, revision=revision, on_progress=on_progress)


def audit_quantized(folder: Path | str, source: str | None = None) -> QuantAudit:
    """What a quantized folder really holds and how far it is from its source; of a folder that others made too.

    `source` is the model that it was made from. Where it is left out and specq made the folder, its own notes
    tell the source; it is used if it is here and has not changed.

    Raises:
        ModelError: no model folder, a format that cannot be read here, or no such source.
    """
    from specq.quantize.reaudit import audit_again

    return audit_again(Path(folder).expanduser(), source)


def check_evals(
    file: Path | str,
    metric: str | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    margin: float | None = None,
    model: str | None = None,
) -> Description:
    """Check an evaluation set, and that a metric with its options fits it, and say what it holds and can prove.

    `metric` is a name or "file.py:function". `margin` is the floor that the set shall decide, as a share. With
    `model` prompts are counted in its tokens too; no weights are loaded.

    Raises:
        PromptError: the file or a line is wrong, or the metric does not fit; the message names file and line.
        ConfigError: no such metric or option, or a margin out of range. ModelError: no such model.
    """
    from specq.evals import checking

    return checking.check(Path(file), metric, options or {}, margin=margin, model=model)


def rebuild_report(run: Path | str, *, out: Path | str = DEFAULT_OUT) -> Report:
    """Derive a run's report anew and write report.json, report.md and report.html into its folder.

    Raises:
        RunFolderError: no such run, a damaged one, or a folder that cannot be written. DiskFull: no space.
    """
    from specq import report
    from specq.run.catalog import find_run

    return report.write(find_run(run, Path(out)))


def check_gate(report: Report, arm: str | None = None) -> None:
    """Do nothing when the run is complete, every arm is valid and audited, the twin too, and the floor is held.

    With `arm`, its id or its label, that one alone is asked: its verdict must be keep.

    Raises:
        GateFailed: in one line, what is not met.
        ConfigError: the run has no such arm beside the baseline.
    """
    from specq.report import gate

    gate.check(report, arm)


def open_run(run: Path | str, *, out: Path | str = DEFAULT_OUT) -> Run:
    """A run's records and measures as objects and as pandas frames; writes nothing.

    Raises:
        RunFolderError: no such run, or a damaged one.
    """
    from specq import report
    from specq.run.catalog import find_run

    return report.open_run(find_run(run, Path(out)))


def list_runs(out: Path | str = DEFAULT_OUT) -> tuple[RunSummary, ...]:
    """The runs under a results folder, oldest first, each done, running or unfinished."""
    from specq.run import catalog

    return catalog.list_runs(Path(out))


def doctor() -> dict[str, Any]:
    """What this machine can run and why not where it cannot, as JSON values; takes some seconds."""
    from specq.quantize import tools
    from specq.run.doctor import examine

    return {**examine(), "quantization": tools.examine()}


def fetch_model(
    name: str = "smollm2-135m", *, gguf: bool = False, progress: Callable[[str], None] | None = None
) -> Path:
    """Bring a model into the cache if it is not there, check it, and return its folder.

    `name` is a built-in with or without its prefix, a hub id, or a GGUF file; `gguf` returns a built-in's GGUF file.

    Raises:
        ModelError: no such model, one that cannot be used, or no network. DiskFull: no space.
    """
    from specq.models import fetch, refs

    if gguf or name.removeprefix(fetch.PREFIX) in fetch.BUILTINS:
        return fetch.gguf_file(name) if gguf else fetch.fetch(name, progress=progress)
    return refs.resolve(name).folder


def list_models() -> list[dict[str, Any]]:
    """The built-in models: name, title, licence, context in tokens, and whether each is fetched."""
    from specq.models import fetch

    return [
        {
            "name": f"{fetch.PREFIX}{model.name}",
            "title": model.title,
            "licence": model.licence,
            "context": model.context,
            "fetched": fetch.is_fetched(model.name),
        }
        for model in fetch.BUILTINS.values()
    ]


def model_facts(name: str, *, revision: str | None = None) -> dict[str, Any]:
    """A model in numbers, read from its config and headers, as JSON values.

    Raises:
        ModelError: no such model, or one that cannot be used.
    """
    from dataclasses import asdict

    from specq.models import facts, refs
    from specq.run.provenance import tidy

    found = facts.facts(refs.resolve(name, revision=revision))
    shown = {key: value for key, value in asdict(found).items() if not key.endswith("_elements")}
    return {
        **shown,
        "folder": tidy(found.folder),
        "bytes_per_token": found.bytes_per_token(),
        "cache_bytes_per_token": found.cache_bytes_per_token(),
        "weights_sha256": found.weights_sha256,
    }


def _experiment(given: Experiment | Path | str) -> Experiment:
    return load_experiment(given) if isinstance(given, str | Path) else given
