"""Forecasts: how fast a draft would be, from one generation of the target and one pass of the draft over it.

Heavy packages load when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specq.run.catalog import DEFAULT_OUT

MOST_K = 32
"""The most tokens that a draft may propose in a step."""

SERVED = "for a model that is served type: specq replay, which ranks drafts from its log-probabilities"
"""What to do about a target that only a server has."""

if TYPE_CHECKING:
    from specq.experiment.schema import Experiment
    from specq.forecast.cost import Curve
    from specq.forecast.files import FromFiles
    from specq.forecast.files_check import Seconds
    from specq.forecast.joint import Grid
    from specq.forecast.study import Study
    from specq.report.forecast_gaps import Gap
    from specq.report.forecast_grid import GridReport
    from specq.run.runner import OnProgress

    Curves = Mapping[str, Curve]


def ask_drafts(
    target: str,
    drafts: Sequence[str],
    prompts: Path | str,
    *,
    revision: str | None = None,
    engine: Mapping[str, Any] | None = None,
    workload: Mapping[str, Any] | None = None,
) -> Experiment:
    """An experiment that asks which of some drafts is the best for a target.

    A draft is a model, "lookup", "lookup:suffix", "early_exit:N", "self:8" or "self:4"; "+lookup" or "+lookup:suffix"
    after any but a lookup copies from the text first. `engine` and `workload` hold keys of those tables of an
    experiment; texts end where the target ends them unless `workload` has `lengths` "equal".

    Raises:
        ConfigError: no such draft, one twice, or a key or value that is not allowed.
    """
    from specq.forecast import asked

    return asked.experiment(
        target, drafts, Path(prompts), revision=revision, engine=dict(engine or {}), workload=dict(workload or {})
    )


def study_drafts(
    experiment: Experiment | Path | str,
    *,
    most: int = 8,
    contexts: Sequence[int] = (),
    say: Callable[[str], None] | None = None,
    ceilings: Callable[[Curves], None] | None = None,
) -> Study:
    """Forecast every draft lever of an experiment, with every k up to `most` and every exact rule, without running it.

    The target writes one text a prompt, each draft reads it once, and short runs measure the seconds of steps, after
    `contexts` tokens each (none given: where the prompts are, at both ends where those are far apart).
    `ceilings` gets those before anything else is generated; `say` is told what is being done, and of levers that are
    left out.

    Raises:
        ConfigError: `most` is out of range, or there is no lever of kind draft.
        UserError: what can be refused before weights are loaded: models, tokenizers, prompts, contexts, memory.
    """
    from specq.forecast import of_file, study

    say = say or _nothing
    asked = of_file.ask(_loaded(experiment), targets=False)
    for note in asked.notes:
        say(note)
    return study.study(asked.experiment, ks=_ks(most), contexts=contexts, say=say, ceilings=ceilings or _nothing)


def validate_drafts(
    study: Study, *, out: Path | str = DEFAULT_OUT, repeats: int = 2, on_progress: OnProgress | None = None
) -> tuple[Path, list[Gap]]:
    """Run the best two drafts of a study live beside plain decoding; the run's folder, and forecast beside measurement.

    Raises:
        Interrupted, RunFailed, UserError: as run_experiment does.
    """
    from specq.forecast import validate

    cells = validate.chosen(study)
    return validate.validate(study, cells, out=Path(out), repeats=repeats, on_progress=on_progress)


def study_grid(
    experiment: Experiment | Path | str,
    *,
    most: int = 8,
    contexts: Sequence[int] = (),
    say: Callable[[str], None] | None = None,
    ceilings: Callable[[str, Curves], None] | None = None,
    on_progress: OnProgress | None = None,
) -> Grid:
    """Forecast every target of an experiment with every draft lever, on one scale.

    Targets are its own, and each quantize or model lever's.

    As study_drafts, for one target after the other; `ceilings` gets a target's name with its curves. What recipes ask
    for is quantized first, once, and `on_progress` is told of it.

    Raises:
        ConfigError: as study_drafts.
        UserError: as study_drafts; memory holds not even the plain target with its drafts.
        RunFailed, DiskFull: a model could not be quantized. Interrupted: while one was.
    """
    from specq.forecast import joint

    return joint.study(
        _loaded(experiment),
        ks=_ks(most),
        contexts=contexts,
        say=say or _nothing,
        ceilings=ceilings or _nothing,
        on_progress=on_progress,
    )


def measure_grid(
    grid: Grid, *, cells: int = 6, out: Path | str = DEFAULT_OUT, on_progress: OnProgress | None = None
) -> tuple[Path, GridReport]:
    """Run the cells of a grid that are worth it, at most so many beside the baseline: the run's folder, and all cells.

    Raises:
        ConfigError: so few cells that none would run. Interrupted, RunFailed, UserError: as run_experiment does.
    """
    from specq.forecast import joint_live

    return joint_live.measure(grid, most=cells, out=Path(out), on_progress=on_progress)


def replay_files(
    target: Path | str,
    drafts: Mapping[str, Path | str],
    *,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    most: int = 8,
    max_new_tokens: int | None = None,
    seconds: Seconds | None = None,
) -> FromFiles:
    """Rank drafts from files of prompt log-probabilities: every k up to `most`, every exact rule, the best first.

    "lookup" or "lookup:suffix" in the place of a draft's file copies from the texts themselves. `target` may be the
    folder of a run too, at its own settings: lookups copy along its baseline's answers, and of a run of `specq drafts`
    each draft that was studied is given by its name there, along the texts of the study.

    Where the files do not fix the law, the tokens per step lie between bounds. `seconds` (specq.forecast.files_check)
    turns them into speed-ups. A text that ended before `max_new_tokens`, the limit that it was drawn with, had a last
    step that proposed beyond its end; None: the limit is not known, and speed-ups lie between bounds.

    Raises:
        PromptError: a file is none, is of other texts than the target's, or has texts that the target did not write or
            that are longer than their limit.
        ConfigError: a value out of range, a file twice, or seconds that do not fit the drafts or each other; of a run,
            a draft that it does not keep, or a setting beside it.
        RunFolderError: a folder that is no run.
    """
    from specq.forecast import files

    named = {name: Path(file) for name, file in drafts.items()}
    if Path(target).is_dir():
        from specq.core.errors import ConfigError
        from specq.forecast import of_run

        if (temperature, top_k, top_p, min_p, max_new_tokens) != (0.0, 0, 1.0, 0.0, None):
            raise ConfigError(
                f"replay: {target} is a run, which has its own temperature, truncation and limit: leave them out"
            )
        return of_run.rank(Path(target), named, most=most, seconds=seconds)
    return files.rank(
        Path(target),
        named,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        most=most,
        max_new_tokens=max_new_tokens,
        seconds=seconds,
    )


def _loaded(experiment: Experiment | Path | str) -> Experiment:
    from specq.experiment import config

    return config.load(Path(experiment)) if isinstance(experiment, str | Path) else experiment


def _ks(most: int) -> range:
    from specq.core.errors import ConfigError

    if not 1 <= most <= MOST_K:
        raise ConfigError(f"most = {most}: a draft proposes at least 1 token and at most {MOST_K}; give one of these")
    return range(1, most + 1)


def _nothing(*_: object) -> None:
    return
