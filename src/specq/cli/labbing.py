"""The lab: what a request is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specq.cli.options import Json
from specq.cli.workload_options import DEFAULT_REGIONS, Format, Keep, Limit, Regions, Tag, Tokenizer, Turns

app = typer.Typer(help="What a request is made of.", rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def lab() -> None:
    """What a request is made of."""


@app.command()
def prefix(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="Prompts or a log of requests, in their order.")],
    format: Format = "auto",
    turns: Turns = "first",
    tag: Tag = None,
    limit: Limit = None,
    tokenizer: Tokenizer = None,
    unit: Annotated[
        str, typer.Option("--unit", metavar="UNIT", help="Without --tokenizer: words or characters.")
    ] = "words",
    block: Annotated[int, typer.Option("--block", metavar="N", help="Tokens of a block of the cache.")] = 16,
    slots: Annotated[
        int | None, typer.Option("--slots", metavar="N", help="A server that keeps the last prompt of each slot.")
    ] = None,
    keep_personal_data: Keep = False,
    phone_region: Regions = None,
    json: Json = False,
) -> None:
    """Find what breaks a prefix cache first, how much it could hold, and the gain of another order."""
    from specq import api
    from specq.cli import output

    found = api.find_prefixes(
        log,
        format,
        turns=turns,
        tag=tag,
        limit=limit,
        tokenizer=tokenizer,
        unit=unit,
        block=block,
        slots=slots,
        keep_personal_data=keep_personal_data,
        phone_regions=DEFAULT_REGIONS if phone_region is None else tuple(phone_region),
        on_progress=output.note,
    )
    if json:
        output.print_json(found.to_json())
        return
    from specq.cli import prefix_views

    output.show(prefix_views.shown(found))
