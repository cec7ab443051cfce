"""The command that gives prompts fewer tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specq.cli.options import Json


def prompts(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSONL with an id and messages or a prompt; an evaluation set too.")
    ],
    clean: Annotated[
        bool, typer.Option("--clean", help="Drop repeats, boilerplate, needless serialization, stale tool output.")
    ] = False,
    select: Annotated[
        str | None,
        typer.Option(
            "--select", metavar="SHARE|N", help="Then keep what the question needs: 0.5 is a share, 800 tokens."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", metavar="MODEL", help="Whose tokens count; else words. No weights load."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the prompts there; nothing is written over.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="What was deleted and why; beside --out by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Give prompts fewer tokens and lose no amount, date, rate, threshold, obligation, exception or source."""
    from specq import api
    from specq.cli import output
    from specq.prompts.files import read_select

    budget = None if select is None else read_select(select)
    found = api.shorten_prompts(file, clean=clean, select=budget, tokenizer=tokenizer, out=out, log=log)
    if json:
        output.print_json(found.to_json())
    else:
        from specq.cli import prompt_views

        output.show(prompt_views.shown(found))
