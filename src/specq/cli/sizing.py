"""The command that says what a model takes on a machine, from its config alone."""

from __future__ import annotations

from typing import Annotated

import typer

from specq.cli.options import Json


def size(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Folder with a config.json, GGUF file, built-in or local hub id."),
    ],
    context: Annotated[
        str | None, typer.Option("--context", metavar="N", help="Tokens of a sequence; 32k is 32,768.")
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", help="Sequences at once.")] = 1,
    kv: Annotated[str, typer.Option("--kv", metavar="TYPE", help="Cache: fp16, fp8, q8 or q4.")] = "fp16",
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="TYPE", help="Nominal bits: bf16, w8, w4, ...; else as stored.")
    ] = None,
    weights_bytes: Annotated[
        str | None, typer.Option("--weights-bytes", metavar="SIZE", help="Real bytes of the weights, as 2.0GB.")
    ] = None,
    parameters: Annotated[
        str | None, typer.Option("--parameters", metavar="N", help="How many weights, as 3.2e9; else counted.")
    ] = None,
    draft: Annotated[str | None, typer.Option("--draft", metavar="MODEL", help="A draft model held beside.")] = None,
    card: Annotated[
        str | None, typer.Option("--card", metavar="SIZE", help="Memory: 24GB is decimal, 24GiB binary.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", metavar="NAME|FILE", help="Of configs/machines: card, bandwidth, FLOP/s.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option("--bandwidth", metavar="RATE", help="Of the memory, as 380GB/s.")
    ] = None,
    flops: Annotated[
        str | None, typer.Option("--flops", metavar="RATE", help="Peak of 16-bit floats, as 989T; with a bandwidth.")
    ] = None,
    margin: Annotated[
        str, typer.Option("--margin", metavar="SHARE|SIZE", help="Kept free, of what is held, or bytes.")
    ] = "10%",
    json: Json = False,
) -> None:
    """Size a model's cache, memory and speed limits on a machine; a config.json is enough, no weights load."""
    from specq import api
    from specq.cli import output

    found = api.size_models(
        models,
        context=context,
        concurrency=concurrency,
        kv=kv,
        weights=weights,
        weights_bytes=weights_bytes,
        parameters=parameters,
        draft=draft,
        card=card,
        machine=machine,
        bandwidth=bandwidth,
        flops=flops,
        margin=margin,
    )
    if json:
        output.print_json(found.to_json())
    else:
        from specq.cli import sizing_views

        output.show(sizing_views.shown(found))
