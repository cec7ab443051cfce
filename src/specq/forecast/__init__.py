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

if TYPE_CHECKING:
    from specq.experiment.schema import Experiment
    from specq.forecast.cost import Curve
    from specq.forecast.study import Study
    from specq.forecast.validate import Gap
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

    A draft is a model, "lookup", "lookup:suffix", "early_exit:N", "self:8" or "self:4"; `engine` and `workload` hold
    keys of those tables of an experiment.

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
    say: Callable[[str], None] | None = None,
    ceilings: Callable[[Curves], None] | None = None,
) -> Study:
    """Forecast every draft lever of an experiment, with every k up to `most` and every exact rule, without running it.

    The target writes one text a prompt, each draft reads it once, and short runs measure the seconds of steps.
    `ceilings` gets those before anything else is generated; `say` is told what is being done.

    Raises:
        UserError: what can be refused before weights are loaded: models, tokenizers, prompts, memory.
    """
    from specq.experiment import config
    from specq.forecast import study

    def nothing(_: object) -> None:
        return

    given = config.load(Path(experiment)) if isinstance(experiment, str | Path) else experiment
    return study.study(given, ks=range(1, most + 1), say=say or nothing, ceilings=ceilings or nothing)


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
