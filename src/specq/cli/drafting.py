"""The command that chooses a draft: for words of the command line, or for an experiment file, grids of it too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specq.cli.options import Json, Out, Revision, Set, Smoke
from specq.cli.spelling import typed
from specq.core.errors import ConfigError, RunFailed
from specq.core.places import check_folder
from specq.forecast import MOST_K, SERVED
from specq.run.catalog import DEFAULT_OUT

if TYPE_CHECKING:
    from specq.experiment.schema import Experiment
    from specq.forecast.cost import Curve
    from specq.report.forecast_gaps import Gap
    from specq.report.forecast_grid import GridReport
    from specq.run.runner import Progress

# Options that an experiment file has keys for; beside a file they would be heard by nobody.
_KEYS = {
    "--prompts": "workload.prompts",
    "--limit": "workload.limit",
    "--max-new-tokens": "workload.max_new_tokens",
    "--temperature": "workload.temperature",
    "--top-p": "workload.top_p",
    "--lengths": "workload.lengths",
    "--engine": "engine.kind",
    "--dtype": "engine.dtype",
    "--seed": "workload.seed",
    "--revision": "target.revision",
}


def drafts(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Hub id, folder, GGUF file or built-in; or an experiment (TOML).")
    ],
    draft: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DRAFT...",
            help="A model, lookup, lookup:suffix, early_exit:N, self:8 or self:4; X+lookup copies from the text first, "
            "X+stop:0.4 ends its step at a token less sure than that.",
        ),
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="What the target is asked (JSONL).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The first so many prompts of the file.")] = 24,
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=2, help="Tokens of an answer.")] = 64,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option("--top-p", help="Nucleus sampling; 1 switches it off.")] = 1.0,
    most: Annotated[int, typer.Option("--k", min=1, max=MOST_K, help="The most tokens that a draft proposes.")] = 8,
    contexts: Annotated[
        str, typer.Option("--contexts", metavar="N,N", help="Time steps after so many tokens, as 256,1024.")
    ] = "",
    lengths: Annotated[
        str,
        typer.Option("--lengths", help="natural ends texts where the target does, equal goes on to --max-new-tokens."),
    ] = "natural",
    engine: Annotated[str, typer.Option("--engine", metavar="KIND", help="hf or mlx.")] = "hf",
    dtype: Annotated[str, typer.Option("--dtype", help="auto, float32, bfloat16 or float16.")] = "auto",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all draws.")] = 0,
    live: Annotated[bool, typer.Option("--live/--no-live", help="Run the best and compare.")] = True,
    measure: Annotated[
        int | None, typer.Option("--measure", metavar="N", min=1, help="Of a grid: the cells that are run at most.")
    ] = None,
    set_: Set = None,
    smoke: Smoke = False,
    out: Out = DEFAULT_OUT,
    revision: Revision = None,
    json: Json = False,
) -> None:
    """Choose a draft, of a model or of an experiment file: forecast every draft, k and rule, then run the best."""
    from specq import api
    from specq.forecast.of_file import changes_target

    depths, natural = _contexts(contexts), "--set workload.lengths=natural"
    keys, words = dict[str, str](), dict[str, str]()
    if live:
        check_folder(out)
    if Path(target).suffix == ".toml":
        _check_file(context, target, draft or [])
        asked = api.load_experiment(target, set_ or (), smoke=smoke)
        if changes_target(asked):
            _check_measure(measure, live, target)
            _grid(asked, most, depths, measure=measure if live else 0, out=out, json=json)
            return
    else:
        if set_ or smoke:
            raise ConfigError("drafts: --set and --smoke change an experiment; name its FILE, or leave them out")
        if prompts is None:
            raise ConfigError(
                f"drafts: --prompts FILE is missing: what {target} is asked; type for example --prompts "
                "evals/chat.jsonl, or name an experiment file, as specq drafts experiments/choose-draft.toml"
            )
        if not 0 < top_p <= 1:
            raise ConfigError(f"--top-p {top_p}: allowed is above 0 to 1")
        if engine not in ("hf", "mlx"):
            raise ConfigError(f"--engine {engine}: allowed is hf or mlx, which read the weights; {SERVED}")
        natural, keys = "--lengths natural", _KEYS
        load = {"limit": limit, "max_new_tokens": max_new_tokens, "temperature": temperature}
        with typed(keys, words):
            asked = api.ask_drafts(
                target,
                draft or [],
                prompts,
                revision=revision,
                engine={"kind": engine, "dtype": dtype},
                workload={**load, "top_p": top_p, "lengths": lengths, "seed": seed},
            )
        words = dict(zip(asked.levers, draft or [], strict=True))
    if measure is not None:
        raise ConfigError(
            f"--measure {measure}: it chooses among targets and drafts, and there is no lever of kind quantize or "
            "model; leave it out (the best two drafts are run)"
        )
    with typed(keys, words):
        _drafts(asked, most, depths, live=live, out=out, json=json, natural=natural)


def _drafts(
    asked: Experiment, most: int, depths: tuple[int, ...], *, live: bool, out: Path, json: bool, natural: str
) -> None:
    from specq import api
    from specq.cli import draft_views, output
    from specq.cli.progress import watch
    from specq.forecast import validate

    def ceilings(curves: Mapping[str, Curve]) -> None:
        if not json:
            output.show(draft_views.ceilings(curves, most))

    found = api.study_drafts(asked, most=most, contexts=depths, say=output.note, ceilings=ceilings)
    if not json:
        output.show(draft_views.study(found, natural=natural))
    gaps: list[Gap] = []
    failed: RunFailed | None = None
    folder = None
    if live and found.ranking.best is not None:
        with watch() as on_progress:
            try:
                folder, gaps = api.validate_drafts(found, out=out, on_progress=on_progress)
            except RunFailed as error:
                # The forecast took minutes, and stands whatever became of the run: it is printed before the failure.
                failed, folder = error, error.finished
                gaps = [] if folder is None else validate.gaps(folder)
    beside = None if folder is None else api.open_run(folder).report
    if json:
        output.print_json(draft_views.as_json(found, gaps, beside, folder))
    else:
        output.show(draft_views.outcome(found, gaps, beside, folder))
    if failed is not None:
        raise failed


def _grid(asked: Experiment, most: int, depths: tuple[int, ...], *, measure: int | None, out: Path, json: bool) -> None:
    from specq import api
    from specq.cli import draft_views, grid_views, output
    from specq.cli.progress import watch

    def ceilings(target: str, curves: Mapping[str, Curve]) -> None:
        if not json:
            output.show(grid_views.of_target(target, draft_views.ceilings(curves, most)))

    def quantizing(progress: Progress) -> None:
        # No bar: the tables of each target are printed in between.
        if progress.text:
            output.note(f"quantizing: {progress.text}")

    found = api.study_grid(
        asked, most=most, contexts=depths, say=output.note, ceilings=ceilings, on_progress=quantizing
    )
    if not json:
        output.show(grid_views.forecast(found))
    beside: GridReport | None = None
    failed: RunFailed | None = None
    folder = None
    if measure != 0:
        many = {} if measure is None else {"cells": measure}
        with watch() as on_progress:
            try:
                folder, beside = api.measure_grid(found, out=out, on_progress=on_progress, **many)
            except RunFailed as error:
                # The forecast stands whatever became of the run; where an arm has nothing, the others have theirs.
                failed, folder = error, error.finished
                forecast = None if folder is None else api.open_run(folder).report.forecast
                beside = None if forecast is None else forecast.grid
    whole = None if folder is None else api.open_run(folder).report
    if json:
        output.print_json(grid_views.as_json(found, beside, whole, folder))
    else:
        output.show(grid_views.outcome(found, beside, whole, folder))
    if failed is not None:
        raise failed


def _check_file(context: typer.Context, file: str, draft: list[str]) -> None:
    """Refuse what an experiment file says itself."""
    if draft:
        raise ConfigError(
            f"drafts: {file} is an experiment, whose levers are the drafts, and {' '.join(draft)} is given beside it; "
            f"type: specq drafts {file}, or name a model in its place"
        )
    for option, key in _KEYS.items():
        name = option.removeprefix("--").replace("-", "_")
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            value = context.params[name]
            raise ConfigError(f"{option} {value}: {file} says it in {key}; type --set {key}={value}")


def _check_measure(measure: int | None, live: bool, file: str) -> None:
    if measure is not None and not live:
        raise ConfigError(f"--measure {measure} beside --no-live: nothing is run; type: specq drafts {file} --no-live")


def _contexts(words: str) -> tuple[int, ...]:
    parts = [word.strip() for word in words.split(",")] if words.strip() else []
    if not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
        raise ConfigError(f"--contexts {words}: allowed are numbers of tokens from 1 on; type --contexts 256,1024")
    return tuple(int(part) for part in parts)
