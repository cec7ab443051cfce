"""The command that makes a draft of a target's own layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specq.cli.options import Json, Revision
from specq.core.nouns import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from specq.distill.artifact import Distilled


def distill(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Hub id, folder, GGUF file or built-in.")],
    layers: Annotated[str, typer.Option("--layers", metavar="N|LIST", help="How many, or which: 0,1,15,29.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder.")],
    texts: Annotated[
        str, typer.Option("--texts", metavar="FILE|self", help="Prompts that the target answers, or texts.")
    ] = "self",
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="Held-out prompts to measure overlap on.")
    ] = None,
    minutes: Annotated[float, typer.Option("--minutes", help="For all of it.")] = 45.0,
    loss: Annotated[str, typer.Option("--loss", help="kl or overlap.")] = "kl",
    temperature: Annotated[float, typer.Option("--temperature", help="Of the texts and of the laws.")] = 1.0,
    tokens: Annotated[int | None, typer.Option("--tokens", help="Sample so many, whatever the time.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Train so many, whatever the time.")] = None,
    vocabulary: Annotated[
        int | None, typer.Option("--vocabulary", metavar="N", help="Draft with the N most frequent ids alone.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of texts and of their order.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is unfinished.")] = False,
    revision: Revision = None,
    json: Json = False,
) -> None:
    """Make a small draft of a target's own layers, trained on its own texts."""
    from specq import api
    from specq.cli import output
    from specq.cli.progress import watch

    with watch() as on_progress:
        made = api.distill_model(
            target,
            layers,
            out,
            texts=texts,
            prompts=prompts,
            minutes=minutes,
            loss=loss,  # type: ignore[arg-type]  # checked with the other values
            temperature=temperature,
            seed=seed,
            tokens=tokens,
            steps=steps,
            vocabulary=vocabulary,
            resume=resume,
            revision=revision,
            on_progress=on_progress,
        )
    if json:
        output.print_json({"folder": made.folder, **made.to_json()})
    else:
        output.show(view(made))


def view(made: Distilled) -> Iterator[RenderableType]:
    """What was made, what it cost to make, and what it is worth as a draft."""
    from specq.cli import views

    yield views.text(f"layers {', '.join(map(str, made.layers))} of {made.source}")
    yield from views.table(("distilled", "finding"), rows(made), prose=("finding",))
    yield from (views.text(f"note: {note}") for note in (*made.source_notes, *made.notes))
    yield views.text(f"Folder: {made.folder}")


def rows(made: Distilled) -> Iterator[tuple[str, str]]:
    """One row a finding."""
    texts, training, held = made.texts, made.training, made.held_out
    yield "overlap before training", _interval(made.overlap["before"])
    yield "overlap", _interval(made.overlap["after"])
    yield "gained", _interval(made.overlap["gain"])
    agreed = made.overlap["argmax_agreement"]
    yield "argmax agreement", f"{agreed['before']:.3f} before, {agreed['after']:.3f} after"
    yield (
        "measured on",
        f"{counted(held['positions'], 'token')} that the target wrote to {counted(held['prompts'], 'held-out prompt')} "
        f"({held['source']}) at temperature {held['temperature']}",
    )
    dropped = f", {texts['dropped']} dropped" if texts["dropped"] else ""
    yield (
        "the target's texts",
        f"{texts['texts']}{dropped}; {texts['tokens']} tokens in {texts['seconds']:.0f} s, "
        f"{texts['tokens_per_s']:.0f} tokens/s",
    )
    yield (
        "training",
        f"{counted(training['steps'], 'step')}, {training['tokens']} tokens in {training['seconds']:.0f} s, "
        f"{training['tokens_per_s']:.0f} tokens/s "
        f"(its products in {training['products']} alone: {training['products_tokens_per_s']:.0f})",
    )
    curve = training["curve"]
    if curve:
        yield f"loss ({made.recipe['loss']})", f"{curve[0][2]:.3f} at step {curve[0][0]}, {curve[-1][2]:.3f} at the end"
    if (kept := made.vocabulary) is not None:
        yield (
            "ids it proposes from",
            f"{kept['ids']} of {kept['rows']}: {kept['always']} special or ending a text, the others the most frequent "
            f"of the texts, which have {kept['seen']}",
        )
        yield "the target's mass on others", f"{_interval(kept['mass_lost'])}: the overlap is at most 1 less that"
        yield "overlap with these ids", f"{_interval(kept['overlap'])}; by them {_interval(kept['overlap_gain'])}"
    yield "multiply-adds a token", _ratio(made.cost["multiply_adds"])
    yield "bytes read a token", _ratio(made.cost["bytes"])


def _interval(found: Mapping[str, Any]) -> str:
    ends = "" if found["low"] is None else f" ({found['low']:.3f} to {found['high']:.3f})"
    return f"{found['value']:.3f}{ends}"


def _ratio(both: Mapping[str, Any]) -> str:
    whole = f" ({both['whole_head'] / 1e6:.1f} M with its whole head)" if "whole_head" in both else ""
    return f"{both['draft'] / 1e6:.1f} M{whole}, {both['ratio']:.3f} of the target's {both['target'] / 1e6:.1f} M"
