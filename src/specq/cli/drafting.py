"""The command that chooses a draft."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specq.cli.options import Json, Out, Revision
from specq.core.errors import ConfigError
from specq.forecast import MOST_K
from specq.run.catalog import DEFAULT_OUT

if TYPE_CHECKING:
    from specq.forecast.cost import Curve
    from specq.forecast.validate import Gap


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
    output.show(draft_views.outcome(found, gaps, folder))
