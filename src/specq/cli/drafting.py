"""The commands that choose a draft: with the models here, and from files of log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specq.cli.options import Json, Out, Revision
from specq.core.errors import ConfigError
from specq.run.catalog import DEFAULT_OUT

if TYPE_CHECKING:
    from specq.forecast.cost import Curve
    from specq.forecast.validate import Gap

MOST_K = 32


def drafts(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Hub id, folder, GGUF file or built-in.")],
    draft: Annotated[
        list[str],
        typer.Argument(metavar="DRAFT...", help="A model, lookup, lookup:suffix, early_exit:N, self:8 or self:4."),
    ],
    prompts: Annotated[Path, typer.Option("--prompts", metavar="FILE", help="What the target is asked (JSONL).")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="The first so many prompts of the file.")] = 24,
    tokens: Annotated[int, typer.Option("--max-new-tokens", min=2, help="Tokens of an answer.")] = 64,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option("--top-p", help="Nucleus sampling; 1 switches it off.")] = 1.0,
    most: Annotated[int, typer.Option("--k", min=1, max=MOST_K, help="The most tokens that a draft proposes.")] = 8,
    engine: Annotated[str, typer.Option("--engine", metavar="KIND", help="hf or mlx.")] = "hf",
    dtype: Annotated[str, typer.Option("--dtype", help="auto, float32, bfloat16 or float16.")] = "auto",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all draws.")] = 0,
    live: Annotated[bool, typer.Option("--live/--no-live", help="Run the best two and compare.")] = True,
    out: Out = DEFAULT_OUT,
    revision: Revision = None,
    json: Json = False,
) -> None:
    """Choose a draft: forecast every draft, k and rule from one generation, then run the best two."""
    from specq import api
    from specq.cli import draft_views, output
    from specq.cli.progress import watch

    if not 0 < top_p <= 1:
        raise ConfigError(f"--top-p {top_p}: allowed is above 0 to 1")
    asked = api.ask_drafts(
        target,
        draft,
        prompts,
        revision=revision,
        engine={"kind": engine, "dtype": dtype},
        workload={
            "limit": limit,
            "max_new_tokens": tokens,
            "temperature": temperature,
            "top_p": top_p,
            "seed": seed,
        },
    )

    def ceilings(curves: Mapping[str, Curve]) -> None:
        if not json:
            output.show(draft_views.ceilings(curves, most))

    found = api.study_drafts(asked, most=most, say=output.note, ceilings=ceilings)
    if not json:
        output.show(draft_views.study(found))
    gaps: list[Gap] = []
    folder = None
    if live and found.ranking.best is not None:
        with watch() as on_progress:
            folder, gaps = api.validate_drafts(found, out=out, on_progress=on_progress)
    if json:
        output.print_json(draft_views.as_json(found, gaps, folder))
        return
    output.show(draft_views.outcome(found, gaps, folder, live=live))


def replay(
    target: Annotated[Path, typer.Option("--target", metavar="FILE", help="The target's log-probabilities (JSONL).")],
    draft: Annotated[
        list[str], typer.Option("--draft", metavar="NAME=FILE", help="A draft's, of the same texts; repeatable.")
    ],
    temperature: Annotated[
        float, typer.Option("--temperature", min=0, help="The texts were drawn at; 0: greedy.")
    ] = 0.0,
    top_k: Annotated[int, typer.Option("--top-k", min=0, help="0 switches it off.")] = 0,
    top_p: Annotated[float, typer.Option("--top-p", help="1 switches it off.")] = 1.0,
    most: Annotated[int, typer.Option("--k", min=1, max=MOST_K, help="The most tokens that a draft proposes.")] = 8,
    plain_s: Annotated[
        float | None, typer.Option("--plain-s", help="Seconds of a plain step where it is served.")
    ] = None,
    draft_s: Annotated[
        list[str] | None, typer.Option("--draft-s", metavar="NAME=SECONDS", help="Of a drafted token; repeatable.")
    ] = None,
    verify_s: Annotated[
        list[str] | None,
        typer.Option("--verify-s", metavar="TOKENS=SECONDS", help="Of a pass over so many tokens; repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Rank drafts of a model that is served elsewhere, from files of prompt log-probabilities."""
    from specq import api
    from specq.cli import draft_views, output
    from specq.forecast.files import Seconds

    if not 0 < top_p <= 1:
        raise ConfigError(f"--top-p {top_p}: allowed is above 0 to 1")
    if plain_s is None and (draft_s or verify_s):
        raise ConfigError("--draft-s and --verify-s need --plain-s, the seconds of a plain step")
    seconds = None
    if plain_s is not None:
        passes = {
            name: _seconds("--verify-s", name, value) for name, value in _named("--verify-s", verify_s or ()).items()
        }
        if wrong := [name for name in passes if not name.isdecimal() or int(name) < 2]:
            raise ConfigError(f"--verify-s {wrong[0]}=...: allowed are 2 tokens or more")
        seconds = Seconds(
            plain=_seconds("--plain-s", "", str(plain_s)),
            draft=_each("--draft-s", draft_s),
            verify={int(name): value for name, value in passes.items()},
        )
    files = {name: Path(path) for name, path in _named("--draft", draft).items()}
    found = api.replay_files(
        target, files, temperature=temperature, top_k=top_k, top_p=top_p, most=most, seconds=seconds
    )
    if json:
        output.print_json(draft_views.replayed_json(found))
    else:
        output.show(draft_views.replayed(found))


def _each(option: str, given: Sequence[str] | None) -> dict[str, float]:
    return {name: _seconds(option, name, value) for name, value in _named(option, given or ()).items()}


def _named(option: str, given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not (name and equals and value):
            raise ConfigError(f'{option} "{one}": allowed is NAME=VALUE')
        if name in found:
            raise ConfigError(f"{option} {name} is given twice; give it once")
        found[name] = value
    return found


def _seconds(option: str, name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = float("nan")
    if not 0 < seconds < float("inf"):
        said = f"{name}={value}" if name else value
        raise ConfigError(f"{option} {said}: allowed are seconds above 0")
    return seconds
