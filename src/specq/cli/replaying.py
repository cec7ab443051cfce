"""The command that ranks drafts from files of log-probabilities, or from a run, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from specq.cli.options import Json
from specq.core.errors import ConfigError

# What a run says itself; beside one it would be heard by nobody.
_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "max_new_tokens")


def replay(
    context: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="A run's folder: what specq drafts studied, or lookups.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--target", metavar="FILE", help="The target's log-probabilities (JSONL).")
    ] = None,
    draft: Annotated[
        list[str] | None,
        typer.Option("--draft", metavar="NAME=FILE", help="A draft's file, lookup, or a run's draft; repeatable."),
    ] = None,
    temperature: Annotated[float, typer.Option("--temperature", help="The texts were drawn at; 0: greedy.")] = 0.0,
    top_k: Annotated[int, typer.Option("--top-k", help="0 switches it off.")] = 0,
    top_p: Annotated[float, typer.Option("--top-p", help="1 switches it off.")] = 1.0,
    min_p: Annotated[float, typer.Option("--min-p", help="0 switches it off.")] = 0.0,
    most: Annotated[int, typer.Option("--k", help="The most tokens that a draft proposes.")] = 8,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", help="The limit that the answers were drawn with.")
    ] = None,
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
    """Rank drafts of a model that is served elsewhere, from files of prompt log-probabilities or from a run."""
    from specq import api
    from specq.cli import output, replay_views
    from specq.forecast import of_run
    from specq.forecast.files_check import Seconds

    seconds = None
    if plain_s is not None:
        passes = {_tokens(name): taken for name, taken in _seconds("--verify-s", verify_s).items()}
        if len(passes) < len(verify_s or ()):
            raise ConfigError(f"--verify-s {' '.join(verify_s or ())}: a number of tokens is given twice; give it once")
        seconds = Seconds(plain=plain_s, draft=_seconds("--draft-s", draft_s), verify=passes)
    elif draft_s or verify_s:
        raise ConfigError("--draft-s and --verify-s need --plain-s, the seconds of a plain step: give it too")
    texts = _texts(context, run, target)
    drafts = _drafts(draft, None if run is None else texts)
    if run is not None and not _typed(context, "most"):
        most = of_run.most(texts, drafts, most)
    found = api.replay_files(
        texts,
        drafts,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        most=most,
        max_new_tokens=max_new_tokens,
        seconds=seconds,
    )
    if json:
        output.print_json(replay_views.as_json(found))
    else:
        output.show(replay_views.ranking(found))


def _texts(context: typer.Context, run: str | None, target: Path | None) -> Path:
    if run is None and target is None:
        raise ConfigError(
            "replay: no texts are given; type --target FILE, the target's log-probabilities, or name the folder of a "
            "run: what specq drafts studied for it is replayed, or lookups along its answers"
        )
    if target is not None:
        if run is not None:
            raise ConfigError(f"replay: {run} and --target {target}: the texts are of one of them; leave the other out")
        return target
    for name in _SETTINGS:
        if _typed(context, name):
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{option} {context.params[name]}: the run {run} has its own; leave {option} out")
    from specq.run.catalog import DEFAULT_OUT, find_run

    folder = find_run(str(run), DEFAULT_OUT)
    if not folder.is_dir():
        raise ConfigError(f"replay: {run} is a file, not a run's folder; type --target {run} for log-probabilities")
    return folder


def _typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _drafts(given: Sequence[str] | None, run: Path | None) -> dict[str, str]:
    from specq.forecast import copied, of_run

    if run is not None and not given:
        return of_run.named(run)
    alone = [one for one in given or () if one in copied.WORDS or (run is not None and "=" not in one)]
    return _named("--draft", [f"{one}={one}" if one in alone else one for one in given or ()])


def _named(option: str, given: Sequence[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not (name and equals and value):
            raise ConfigError(f'{option} "{one}": allowed is one name or number, "=" and a value')
        if name in found:
            raise ConfigError(f"{option} {name} is given twice; give it once")
        found[name] = value
    return found


def _seconds(option: str, given: Sequence[str] | None) -> dict[str, float]:
    found = {}
    for name, value in _named(option, given).items():
        try:
            found[name] = float(value)
        except ValueError as error:
            raise ConfigError(f"{option} {name}={value}: allowed are seconds, a number above 0") from error
    return found


def _tokens(name: str) -> int:
    if not (name.isascii() and name.isdecimal()):
        raise ConfigError(f"--verify-s {name}=...: allowed is a number of tokens from 2 on, as --verify-s 5=0.03")
    return int(name)
