"""A load run: asked for, or gone on with where it was broken off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError
from specq.core.places import check_folder
from specq.load import folder, given, runs
from specq.load.folder import Folder
from specq.load.found import Found
from specq.load.measuring import Progress
from specq.load.options import Options
from specq.run.catalog import DEFAULT_OUT, find_run
from specq.workloads.reading import How


def measure_load(
    target: Path | str | None = None,
    prompts: Path | str | None = None,
    *,
    kind: str | None = None,
    model: str | None = None,
    name: str | None = None,
    key_env: str | None = None,
    against: str | None = None,
    against_kind: str | None = None,
    against_model: str | None = None,
    against_name: str | None = None,
    arms: Sequence[str] = (),
    overrides: Sequence[str] = (),
    slots: int | None = None,
    context: int | None = None,
    threads: int | None = None,
    dtype: str | None = None,
    args: Sequence[str] = (),
    prefill_chunks: Sequence[str] = (),
    concurrency: Sequence[int] = (),
    rate: Sequence[float] = (),
    steady: bool = False,
    trace: Path | str | None = None,
    requests: int | None = None,
    duration_s: float | None = None,
    warm_up: int | None = None,
    repeats: int | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    ignore_eos: bool = False,
    warm_prefix: bool = False,
    body: Mapping[str, Any] | None = None,
    schema: Path | str | None = None,
    metric: str | None = None,
    inject: Path | str | None = None,
    ttft_p95_s: float | None = None,
    tpot_p95_s: float | None = None,
    e2e_p95_s: float | None = None,
    format: str = "auto",
    turns: str = "first",
    tag: str | None = None,
    time_unit: str = "auto",
    limit: int | None = None,
    keep_personal_data: bool = False,
    phone_regions: Sequence[str] = ("US",),
    tokenizer: str | None = None,
    weights: str | None = None,
    machine: str | None = None,
    bandwidth: str | None = None,
    flops: str | None = None,
    seed: int | None = None,
    limit_s: float | None = None,
    tries: int = 1,
    out: Path | str = DEFAULT_OUT,
    on_progress: Progress | None = None,
) -> Found:
    """Put servers under load, write the run's folder with its page, and say what was found.

    `target` is the URL of a server that runs, an experiment file whose arms are started one after another (or those of
    `arms`, beside the baseline), or a model that a server of `kind` is started on. An experiment's own workload,
    sampling and floor stand where nothing else is given. `slots` are the requests that a started server runs at once
    (as many as the highest level), `args` more words for it, and `prefill_chunks` starts one server for each: tokens
    of a prompt that are read at a time, or "off".

    Either `concurrency` (closed loop: so many requests under way), or `rate` (open loop: so many due a second, Poisson
    or `steady`), or `trace`, a file whose times say when requests are due, with `rate` stretched to these means. A
    level lasts `requests` (100 by default) or `duration_s` of its steady state. `against` is a second server that runs
    and takes turns with the first; kind and model are the first's unless others are given. `key_env` names the
    environment variable with the key. Prompts are sent cold unless `warm_prefix`. `body` is added to each request.
    `inject` is a file of long prompts that are sent into the steady state. Where `prompts` is an evaluation set,
    answers are held against its items' schemas and judged by `metric`. `weights` with `machine` or `bandwidth` tells
    shares of the ceilings. The rest is as for read_workload.

    Raises:
        UserError: a value, a file or an address will not do, or a server cannot be started here.
        Interrupted: Ctrl-C or a signal to stop. RunFailed: a server is gone. Both keep what was recorded.
    """
    check_folder(out)
    floors = {"ttft_s_p95": ttft_p95_s, "tpot_s_p95": tpot_p95_s, "e2e_s_p95": e2e_p95_s}
    texts = {"trace": trace, "inject": inject, "schema": schema, "weights": weights, "machine": machine}
    options = Options(
        target=None if target is None else str(target),
        prompts=None if prompts is None else Path(prompts),
        kind=kind,
        model=model,
        name=name,
        key_env=key_env,
        against=against,
        against_kind=against_kind,
        against_model=against_model,
        against_name=against_name,
        arms=arms,
        overrides=overrides,
        engine={"slots": slots, "context": context, "threads": threads, "dtype": dtype, "args": list(args)},
        chunks=prefill_chunks,
        concurrency=concurrency,
        rate=rate,
        steady=steady,
        trace=None if trace is None else Path(trace),
        repeats=repeats,
        max_tokens=max_tokens,
        temperature=temperature,
        ignore_eos=ignore_eos,
        seed=seed,
        limit=limit,
        limit_s=limit_s,
        tokenizer=tokenizer,
        floors={name: value for name, value in floors.items() if value is not None},
        how=How(
            format=format,
            turns=turns,
            tag=tag,
            time_unit=time_unit,
            keep_personal_data=keep_personal_data,
            regions=tuple(phone_regions),
            limit=limit,
        ),
        files={
            **{name: None if file is None else str(file) for name, file in texts.items()},
            "metric": metric,
            "bandwidth": bandwidth,
            "flops": flops,
        },
        more={
            "requests": requests,
            "duration_s": duration_s,
            "warm_up": warm_up,
            "warm_prefix": warm_prefix,
            "tries": tries,
            "body": body or {},
        },
    )
    return runs.begin(*options.read(), Path(out), on_progress or _silent)


def resume_load(
    run: Path | str,
    *,
    url: str | None = None,
    against: str | None = None,
    out: Path | str = DEFAULT_OUT,
    on_progress: Progress | None = None,
) -> Found:
    """Go on with a load run that was broken off, or derive the report of one that is done.

    `url` and `against` are where the servers are now, if they moved. Points that are complete are not measured again;
    one that was broken off is, from its beginning.

    Raises:
        RunFolderError: no load run, one that is busy, or files that changed. Else as measure_load.
    """
    path = find_run(run, Path(out))
    info = folder.info_of(path)
    asked, files = given.read(path, info)
    if (url or against) and any(one.start is not None for one in asked.servers):
        raise ConfigError("--resume: the servers of this run are started here, each on a free port; leave the URL out")
    if against is not None and len(asked.servers) < 2:
        raise ConfigError("--resume: the run has one server, so that --against is of none; leave it out")
    moved = zip(asked.servers, (url, against), strict=False)
    servers = [server if now is None else replace(server, url=now) for server, now in moved]
    asked = replace(asked, servers=tuple(servers))
    asked.check()
    plan = files.plan(asked)
    given.check_same(path, info.get("sha256") or {}, plan)
    with Folder(path, info) as writing:
        runs.measure(plan, writing, on_progress or _silent)
    return runs.write(path, info)


def _silent(text: str) -> None:
    """No progress is shown."""
