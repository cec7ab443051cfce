"""The commands that quantize a model and that look into a quantized folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specq.cli.options import Json, Revision
from specq.core.errors import ConfigError
from specq.quantize.recipes import METHODS, MIXES


def quantize(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Hub id, folder, GGUF file or built-in.")],
    recipe: Annotated[Path | None, typer.Option("--recipe", metavar="FILE", help="Recipe file (TOML).")] = None,
    method: Annotated[str | None, typer.Option("--method", help=f"How: {', '.join(METHODS)}.")] = None,
    bits: Annotated[int | None, typer.Option("--bits", help="Bits of a weight.")] = None,
    group_size: Annotated[int | None, typer.Option("--group-size", help="Columns a scale; 0: one a row.")] = None,
    asymmetric: Annotated[
        bool | None, typer.Option("--asymmetric/--symmetric", help="With zero points, or without.")
    ] = None,
    head: Annotated[str | None, typer.Option("--head", help="The output head: keep or quantize.")] = None,
    embeddings: Annotated[str | None, typer.Option("--embeddings", help="keep or quantize (mlx-* only).")] = None,
    mix: Annotated[str | None, typer.Option("--mix", help=f"For mlx-mixed: {', '.join(MIXES)}.")] = None,
    calibration: Annotated[
        str | None, typer.Option("--calibration", metavar="FILE|self", help="Texts, or self: the model writes them.")
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", help="How many texts.")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", help="The most tokens of a text.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Orders the texts, seeds the method.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="A new folder; else the cache.")] = None,
    revision: Revision = None,
    json: Json = False,
) -> None:
    """Quantize a model and audit what came of it."""
    from specq import api
    from specq.cli import output, views
    from specq.cli.progress import watch

    given = {
        "method": method,
        "bits": bits,
        "group_size": group_size,
        "symmetric": None if asymmetric is None else not asymmetric,
        "embeddings": embeddings,
        "head": head,
        "mix": mix,
        "calibration": calibration,
        "samples": samples,
        "tokens": tokens,
        "seed": seed,
    }
    if recipe is None and method is None:
        raise ConfigError("quantize: no --method and no --recipe FILE; type: specq quantize MODEL --method rtn")
    chosen = api.load_recipe(recipe, **{key: value for key, value in given.items() if value is not None})
    with watch() as on_progress:
        made = api.quantize_model(model, chosen, out, revision=revision, on_progress=on_progress)
    if json:
        output.print_json({"folder": made.folder, **made.to_json()})
    else:
        output.show(views.quantized(made))


def audit(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A quantized folder, whoever made it.")],
    source: Annotated[
        str | None, typer.Option("--source", metavar="MODEL", help="What it was made from; else what specq noted.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what a quantized folder really holds."""
    from specq import api
    from specq.cli import output, views

    found = api.audit_quantized(folder, source)
    if json:
        output.print_json(found.to_json())
    else:
        output.show(views.audit(found))
