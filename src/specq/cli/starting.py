"""The command that writes a first experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specq.cli.options import Json


def init(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="quantize, draft or levers.")],
    target: Annotated[str, typer.Option("--target", metavar="MODEL", help="Hub id, folder, GGUF file or built-in.")],
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="What speed is measured on.")
    ] = None,
    evals: Annotated[Path | None, typer.Option("--evals", metavar="FILE", help="What quality is measured on.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="QUESTION.toml by default.")] = None,
    json: Json = False,
) -> None:
    """Write a commented experiment that runs as it is."""
    from specq import api
    from specq.cli import output

    files = api.start_experiment(question, target, prompts=prompts, evals=evals, out=out)
    if json:
        output.print_json({"files": [str(path) for path in files]})
        return
    for path in files:
        output.line(str(path))
    output.line(f"Next: specq plan {files[0]}, then specq run {files[0]} --smoke, then without --smoke")
