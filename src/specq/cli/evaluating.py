"""The commands on evaluation sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specq.cli.options import Json

app = typer.Typer(help="Evaluation sets.", rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def evals() -> None:
    """Evaluation sets."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Evaluation set (JSONL).")],
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="Check that it fits; or file.py:function.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option("--margin", metavar="SHARE", help="A floor that the set shall decide, as 0.02.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="Whose tokens count; loads no weights.")
    ] = None,
    json: Json = False,
) -> None:
    """Check an evaluation set and say what it holds and what it can prove."""
    from specq import api
    from specq.cli import eval_views, output

    found = api.check_evals(file, metric, margin=margin, model=model)
    if json:
        output.print_json(found.to_json())
    else:
        output.show(eval_views.description(found))
