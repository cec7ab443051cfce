"""The command that puts servers under load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specq.cli.options import Json, Out, refuse_beside_resume
from specq.cli.workload_options import DEFAULT_REGIONS, Format, Keep, Limit, Regions, Tag, Tokenizer, Turns
from specq.core.errors import ConfigError, RunFailed
from specq.run.catalog import DEFAULT_OUT

if TYPE_CHECKING:
    from specq.load.found import Found

_WITH_RESUME = ("target", "against", "resume", "out", "json")


def load(
    given: typer.Context,
    target: Annotated[
        str | None, typer.Argument(metavar="[TARGET]", help="A URL, an experiment, or a model to start a --kind on.")
    ] = None,
    prompts: Annotated[Path | None, typer.Option("--prompts", metavar="FILE", help="Prompts, or a log.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="openai, vllm, llamacpp, sglang, ollama or mlx_lm.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="As the server calls it; without a URL, what to start."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What the report calls the server.")
    ] = None,
    key_env: Annotated[
        str | None, typer.Option("--key-env", metavar="VAR", help="The environment's variable with the key.")
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option("--arm", metavar="NAME", help="Of an experiment, beside its baseline; repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Put over the experiment; repeatable.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", metavar="N", help="Of a started server; as many as the highest level.")
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", metavar="N", help="Tokens of a request on a started server, at most.")
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", metavar="N", help="Of a started server.")] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", metavar="NAME", help="Of a started server.")] = None,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="WORD", help="For a started server, as it is; repeatable.")
    ] = None,
    prefill_chunk: Annotated[
        str | None,
        typer.Option("--prefill-chunk", metavar="N,N", help="A server for each: prompt tokens read at a time, or off."),
    ] = None,
    concurrency: Annotated[
        str | None, typer.Option("--concurrency", metavar="N,N", help="Closed loop: so many requests under way.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="R,R", help="Open loop: so many requests due a second.")
    ] = None,
    steady: Annotated[bool, typer.Option("--steady", help="With --rate: evenly spaced, not Poisson.")] = False,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Open loop at a file's times; --rate stretches them.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option("--requests", metavar="N", help="Requests that count at each level; 100.")
    ] = None,
    duration: Annotated[
        float | None, typer.Option("--duration", metavar="S", help="Seconds of each level that count, instead.")
    ] = None,
    warm_up: Annotated[
        int | None, typer.Option("--warm-up", metavar="N", help="Requests before; one a stream, or a tenth.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", metavar="N", help="How often each level is measured; 1.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="URL", help="A second server, which takes turns with the first.")
    ] = None,
    against_name: Annotated[
        str | None, typer.Option("--against-name", metavar="NAME", help="What the report calls it.")
    ] = None,
    against_kind: Annotated[
        str | None, typer.Option("--against-kind", metavar="KIND", help="Its kind; else the first's.")
    ] = None,
    against_model: Annotated[
        str | None, typer.Option("--against-model", metavar="NAME", help="Its model's name; else the first's.")
    ] = None,
    ttft_p95: Annotated[
        float | None, typer.Option("--ttft-p95", metavar="S", help="Floor: p95 of seconds to the first token.")
    ] = None,
    tpot_p95: Annotated[
        float | None, typer.Option("--tpot-p95", metavar="S", help="Floor: p95 of seconds a token after it.")
    ] = None,
    e2e_p95: Annotated[
        float | None, typer.Option("--e2e-p95", metavar="S", help="Floor: p95 of seconds a whole request.")
    ] = None,
    inject: Annotated[
        Path | None, typer.Option("--inject", metavar="FILE", help="Long prompts sent into the steady state.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", help="Tokens of an answer at most; 128.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", metavar="T", help="0 is greedy, and the default.")
    ] = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Answers of equal lengths.")] = False,
    warm_prefix: Annotated[
        bool, typer.Option("--warm-prefix", help="Let a prefix cache answer what it holds; else prompts go out cold.")
    ] = False,
    body: Annotated[
        str | None, typer.Option("--body", metavar="JSON", help="Fields added to each request as they are.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", metavar="FILE", help="A JSON Schema that answers are held against.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="Of evals: judges answers to the items of a set.")
    ] = None,
    format: Format = "auto",
    turns: Turns = "first",
    tag: Tag = None,
    time_unit: Annotated[
        str, typer.Option("--time-unit", metavar="UNIT", help="Of times: auto, s, ms, us, ns or iso.")
    ] = "auto",
    limit: Limit = None,
    tokenizer: Tokenizer = None,
    keep_personal_data: Keep = False,
    phone_region: Regions = None,
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="MODEL", help="For ceilings: a folder, GGUF file or built-in.")
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option("--machine", metavar="NAME|FILE", help="Of configs/machines: bandwidth and FLOP/s; or here."),
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option("--bandwidth", metavar="RATE", help="Of the memory, as 380GB/s.")
    ] = None,
    flops: Annotated[str | None, typer.Option("--flops", metavar="RATE", help="Peak of 16-bit floats.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Of arrivals and the order of prompts; 0.")
    ] = None,
    silence: Annotated[
        float | None, typer.Option("--silence", metavar="S", help="Seconds of silence after which a server hangs; 300.")
    ] = None,
    tries: Annotated[int, typer.Option("--tries", metavar="N", help="How often a refused request goes out.")] = 1,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with a run that stopped.")
    ] = None,
    out: Out = DEFAULT_OUT,
    json: Json = False,
) -> None:
    """Measure servers under load: the throughput-latency curve, its knee and tails, and where a draft's win ends."""
    from specq import api
    from specq.cli import output

    if resume is not None:
        refuse_beside_resume(given, "load", _WITH_RESUME)
        gone_on = api.resume_load(resume, url=target, against=against, out=out, on_progress=output.note)
        shown(gone_on, json)
        _need_answers(gone_on)
        return
    found = api.measure_load(
        target,
        prompts,
        kind=kind,
        model=model,
        name=name,
        key_env=key_env,
        against=against,
        against_kind=against_kind,
        against_model=against_model,
        against_name=against_name,
        arms=arm or (),
        overrides=set_ or (),
        slots=slots,
        context=context,
        threads=threads,
        dtype=dtype,
        args=arg or (),
        prefill_chunks=[] if prefill_chunk is None else prefill_chunk.split(","),
        concurrency=[int(one) for one in _numbers("concurrency", concurrency, whole=True)],
        rate=_numbers("rate", rate, whole=False),
        steady=steady,
        trace=trace,
        requests=requests,
        duration_s=duration,
        warm_up=warm_up,
        repeats=repeats,
        max_tokens=max_tokens,
        temperature=temperature,
        ignore_eos=ignore_eos,
        warm_prefix=warm_prefix,
        body=_object(body),
        schema=schema,
        metric=metric,
        inject=inject,
        ttft_p95_s=ttft_p95,
        tpot_p95_s=tpot_p95,
        e2e_p95_s=e2e_p95,
        format=format,
        turns=turns,
        tag=tag,
        time_unit=time_unit,
        limit=limit,
        keep_personal_data=keep_personal_data,
        phone_regions=DEFAULT_REGIONS if phone_region is None else tuple(phone_region),
        tokenizer=tokenizer,
        weights=weights,
        machine=machine,
        bandwidth=bandwidth,
        flops=flops,
        seed=seed,
        limit_s=silence,
        tries=tries,
        out=out,
        on_progress=output.note,
    )
    shown(found, json)
    _need_answers(found)


def _need_answers(found: Found) -> None:
    """Let the command fail where a server answered nothing: its numbers are of no answer."""
    if found.unanswered:
        failed = RunFailed(f"load: {' and '.join(found.unanswered)} answered no request; the report says with what")
        failed.finished = found.run
        raise failed


def shown(found: Found, json: bool) -> None:
    """Print what a load run found."""
    from specq.cli import output

    if json:
        output.print_json(found.to_json())
        return
    from specq.load import page, sections
    from specq.report.tables import document

    output.show([document(page.heading(found), sections.sections(found))])
    if (found.run / "report.html").is_file():
        output.line(f"Report: {found.run / 'report.html'}, and report.md beside it")


def _numbers(name: str, text: str | None, *, whole: bool) -> list[float]:
    """Numbers with commas between them."""
    try:
        return [float(int(part) if whole else float(part)) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        what = "whole numbers" if whole else "numbers"
        raise ConfigError(f'{name} "{text}": allowed are {what} with commas between them: --{name} 1,2,4,8') from None


def _object(text: str | None) -> dict[str, Any]:
    import json

    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"body: no JSON ({error}); type --body '{{\"top_k\": 20}}'") from None
    if not isinstance(found, dict):
        raise ConfigError("body: no JSON object; type --body '{\"top_k\": 20}'")
    return found
