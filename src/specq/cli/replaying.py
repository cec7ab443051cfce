"""The command that ranks drafts from files of log-probabilities, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from specq.cli.options import Json
from specq.core.errors import ConfigError


def replay(
    target: Annotated[Path, typer.Option("--target", metavar="FILE", help="The target's log-probabilities (JSONL).")],
    draft: Annotated[
        list[str],
        typer.Option("--draft", metavar="NAME=FILE", help="A draft's file, or lookup; repeatable."),
    ],
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
    """Rank drafts of a model that is served elsewhere, from files of prompt log-probabilities."""
    from specq import api
    from specq.cli import output, replay_views
    from specq.forecast.files_check import Seconds

    seconds = None
    if plain_s is not None:
        passes = {_tokens(name): taken for name, taken in _seconds("--verify-s", verify_s).items()}
        if len(passes) < len(verify_s or ()):
            raise ConfigError(f"--verify-s {' '.join(verify_s or ())}: a number of tokens is given twice; give it once")
        seconds = Seconds(plain=plain_s, draft=_seconds("--draft-s", draft_s), verify=passes)
    elif draft_s or verify_s:
        raise ConfigError("--draft-s and --verify-s need --plain-s, the seconds of a plain step: give it too")
    found = api.replay_files(
        target,
        _named("--draft", draft),
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
