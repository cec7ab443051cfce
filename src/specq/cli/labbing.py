"""The lab: what a request is made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specq.cli.options import Json, refuse_beside_resume
from specq.cli.workload_options import DEFAULT_REGIONS, Format, Keep, Limit, Regions, Tag, Tokenizer, Turns
from specq.core.errors import ConfigError

if TYPE_CHECKING:
    from specq.lab.measured import Lab

_WITH_RESUME = ("target", "resume", "out", "json")

app = typer.Typer(help="What a request is made of.", rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def lab() -> None:
    """What a request is made of."""


@app.command()
def measure(
    given: typer.Context,
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGET]", help="A model, or the URL of a server that runs.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="hf, or a kind of server; openai for a URL.")
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option("--part", metavar="PART", help="halves, context, cache or batch; repeatable, else all."),
    ] = None,
    lengths: Annotated[
        str | None, typer.Option("--lengths", metavar="N,N", help="Prompt lengths: tokens, or words without a model.")
    ] = None,
    new_tokens: Annotated[int, typer.Option("--new-tokens", metavar="N", help="Of the answers that are timed.")] = 32,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", help="Of each case.")] = 3,
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="N,N", help="Batch sizes, 1 among them; 1,2,4,8 by default.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Places of the text, and the order.")] = 0,
    text: Annotated[
        str, typer.Option("--text", metavar="FILE", help="What prompts are cut from: a file or a built-in text.")
    ] = "builtin:manual",
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="The model behind a URL: tokenizer and sizes.")
    ] = None,
    served_as: Annotated[
        str | None, typer.Option("--served-as", metavar="NAME", help="The model's name in requests.")
    ] = None,
    key_env: Annotated[
        str | None, typer.Option("--key-env", metavar="NAME", help="Environment variable with the server's key.")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="Your own prompts: their length, and their hits.")
    ] = None,
    prompt_tokens: Annotated[
        int | None, typer.Option("--prompt-tokens", metavar="N", help="Of your own request.")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option("--output-tokens", metavar="N", help="Of your own request.")
    ] = None,
    cached_share: Annotated[
        float | None, typer.Option("--cached-share", metavar="SHARE", help="Of your prompts, as lab prefix tells it.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", metavar="NAME|FILE", help="Of configs/machines, for the ridge.")
    ] = None,
    device: Annotated[str, typer.Option("--device", metavar="NAME", help="Of the reference engine.")] = "auto",
    dtype: Annotated[str | None, typer.Option("--dtype", metavar="NAME", help="Else the model's own.")] = None,
    threads: Annotated[int | None, typer.Option("--threads", metavar="N", help="Of engine or started server.")] = None,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="WORD", help="For a started server, as it is; repeatable.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with a run that stopped.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for results.")] = Path("results"),
    json: Json = False,
) -> None:
    """Measure a request's two halves, context, prompt cache and batches; name the lever to pull first."""
    from specq import api
    from specq.cli import output

    if resume is not None:
        refuse_beside_resume(given, "lab measure", _WITH_RESUME)
        shown(*api.resume_requests(resume, url=target, out=out, on_progress=output.note), json)
        return
    if target is None:
        raise ConfigError("lab measure: no TARGET and no --resume RUN; type: specq lab measure builtin:smollm2-135m")
    found, run = api.measure_requests(
        target,
        kind=kind,
        parts=part or (),
        lengths=_counts("--lengths", lengths),
        new_tokens=new_tokens,
        repeats=repeats,
        batch=_counts("--batch", batch),
        seed=seed,
        text=text,
        model=model,
        served_as=served_as,
        key_env=key_env,
        prompts=prompts,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        cached_share=cached_share,
        machine=machine,
        device=device,
        dtype=dtype,
        threads=threads,
        args=arg or (),
        out=out,
        on_progress=output.note,
    )
    shown(found, run, json)


@app.command()
def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A folder that lab measure made, or its name.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to look for RUN by name.")] = Path("results"),
    json: Json = False,
) -> None:
    """Derive the lab's report anew from its records."""
    from specq import api

    shown(*api.rebuild_lab(run, out=out), json)


def shown(found: Lab, run: Path, json: bool, *, written: bool = True) -> None:
    """Print what the lab found; `written` says that its report was written too."""
    from specq.cli import output

    if json:
        from specq.lab import measured

        output.print_json({"run": str(run), **measured.to_json(found)})
        return
    from specq.lab import lab_layout
    from specq.report.tables import document

    output.show([document(lab_layout.heading(found), lab_layout.sections(found))])
    if written:
        output.note(f"written: {run}")


def _counts(option: str, given: str | None) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    if given is None:
        return ()
    try:
        return tuple(int(one) for one in given.split(","))
    except ValueError as error:
        raise ConfigError(f"{option} {given}: allowed are whole numbers with commas, such as 64,128,256") from error


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
