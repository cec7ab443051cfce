"""The command that says what a file of prompts, a log or a trace holds, and makes specq's own prompts of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specq.cli.options import Json
from specq.cli.workload_options import DEFAULT_REGIONS, Format, Keep, Limit, Regions, Tag, Tokenizer, Turns
from specq.core.errors import ConfigError

if TYPE_CHECKING:
    from specq.workloads.describe import Workload


def workload(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Prompts, a log, a trace; with --tokens a text or builtin:text.")
    ],
    format: Format = "auto",
    turns: Turns = "first",
    tag: Tag = None,
    time_unit: Annotated[
        str, typer.Option("--time-unit", metavar="UNIT", help="Of times: auto, s, ms, us, ns or iso.")
    ] = "auto",
    limit: Limit = None,
    tokenizer: Tokenizer = None,
    tokens: Annotated[
        str | None, typer.Option("--tokens", metavar="N,N", help="Make prompts of these lengths from the text FILE.")
    ] = None,
    count: Annotated[int, typer.Option("--count", metavar="N", help="With --tokens: prompts of each length.")] = 1,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="With --tokens: tokens in random order, which is no text.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="With --tokens: which places of the text.")] = 0,
    keep_personal_data: Keep = False,
    phone_region: Regions = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the prompts there, as specq's own.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what a file of prompts holds: lengths, tags, arrivals, duplicates, what was dropped and replaced."""
    from specq import api

    regions = DEFAULT_REGIONS if phone_region is None else tuple(phone_region)
    if tokens is None:
        for name, given in (("--count", count != 1), ("--shuffled", shuffled), ("--seed", seed != 0)):
            if given:
                raise ConfigError(f"workload: {name} belongs to --tokens, which makes prompts of a text; type both")
        found = api.read_workload(
            file,
            format,
            turns=turns,
            tag=tag,
            time_unit=time_unit,
            limit=limit,
            keep_personal_data=keep_personal_data,
            phone_regions=regions,
            tokenizer=tokenizer,
            out=out,
        )
    else:
        of_rows = {"format": format != "auto", "turns": turns != "first", "time-unit": time_unit != "auto"}
        of_rows |= {"tag": tag is not None, "limit": limit is not None}
        if wrong := next((name for name, given in of_rows.items() if given), None):
            raise ConfigError(f"workload: --{wrong} is for rows, and --tokens makes prompts of a text; leave one out")
        found = api.make_workload(
            file,
            _lengths(tokens),
            count,
            shuffled=shuffled,
            seed=seed,
            keep_personal_data=keep_personal_data,
            phone_regions=regions,
            tokenizer=tokenizer,
            out=out,
        )
    _show(found, json)


def _show(found: Workload, json: bool) -> None:
    from specq.cli import output, workload_views

    if json:
        output.print_json(found.to_json())
    else:
        output.show(workload_views.shown(found))


def _lengths(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigError(f'tokens = "{text}": allowed are whole numbers with commas between them: --tokens 128,512')
    return [int(part) for part in parts]
