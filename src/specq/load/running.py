"""A load run from its first request to its report, and one that goes on where it was broken off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.clock import utc_stamp
from specq.core.errors import ConfigError, Interrupted, RunFailed, RunFolderError
from specq.core.places import check_folder
from specq.load import arrivals, folder, given, measuring
from specq.load import asked as asking
from specq.load import found as finding
from specq.load import rows as reading
from specq.load.asked import Arrivals, Asked, Server
from specq.load.folder import Folder
from specq.load.found import Found
from specq.load.given import Given
from specq.load.measuring import Plan, Progress
from specq.load.target import Target
from specq.run import provenance, signals
from specq.run.catalog import DEFAULT_OUT, find_run
from specq.run.folder import RECORDS
from specq.workloads.reading import How

NAME, AGAINST = "server", "other"


def measure_load(
    url: str,
    prompts: Path | str,
    *,
    kind: str = "openai",
    model: str | None = None,
    name: str = NAME,
    key_env: str | None = None,
    against: str | None = None,
    against_kind: str | None = None,
    against_model: str | None = None,
    against_name: str = AGAINST,
    concurrency: Sequence[int] = (),
    rate: Sequence[float] = (),
    steady: bool = False,
    trace: Path | str | None = None,
    requests: int | None = None,
    duration_s: float | None = None,
    warm_up: int | None = None,
    repeats: int = 1,
    max_tokens: int = 128,
    temperature: float = 0.0,
    ignore_eos: bool = False,
    warm_prefix: bool = False,
    body: Mapping[str, Any] | None = None,
    schema: Path | str | None = None,
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
    seed: int = 0,
    limit_s: float = 300.0,
    tries: int = 1,
    out: Path | str = DEFAULT_OUT,
    on_progress: Progress | None = None,
) -> Found:
    """Put a running server under load, write the run's folder with its page, and say what was found.

    Either `concurrency` (closed loop: so many requests under way), or `rate` (open loop: so many due a second, Poisson
    or `steady`), or `trace`, a file whose times say when requests are due, with `rate` stretched to these means. A
    level lasts `requests` (100 by default) or `duration_s` of its steady state. `against` is a second server that takes
    turns with the first, such as one with a draft; kind and model are the first's unless others are given. `key_env`
    names the environment variable with the key. Prompts are sent cold unless `warm_prefix`. `body` is added to each
    request. `inject` is a file of long prompts that are sent into the steady state. `weights` with `machine` or
    `bandwidth` tells shares of the ceilings. The rest is as for read_workload.

    Raises:
        UserError: a value, a file or an address will not do.
        Interrupted: Ctrl-C or a signal to stop. RunFailed: the server is gone. Both keep what was recorded.
    """
    check_folder(out)
    if concurrency and (rate or trace):
        raise ConfigError("--concurrency is a closed loop, --rate and --trace are open ones: give one of them")
    way: Arrivals = "closed" if not (rate or trace) else "trace" if trace else "steady" if steady else "poisson"
    floors = {"ttft_s_p95": ttft_p95_s, "tpot_s_p95": tpot_p95_s, "e2e_s_p95": e2e_p95_s}
    first = Server(name=name, url=url, kind=kind, model=model or "", key_env=key_env)
    servers = [first]
    if against is not None:
        second = {"kind": against_kind or kind, "model": against_model or model or ""}
        servers.append(Server(name=against_name, url=against, key_env=key_env, **second))
    asked = Asked(
        servers=tuple(servers),
        arrivals=way,
        levels=tuple(map(float, rate if way != "closed" else concurrency or (1,))),
        requests=requests,
        duration_s=duration_s,
        warm_up=warm_up,
        repeats=repeats,
        max_tokens=max_tokens,
        temperature=temperature,
        ignore_eos=ignore_eos,
        warm_prefix=warm_prefix,
        seed=seed,
        limit_s=limit_s,
        tries=tries,
        body=body or {},
        floors={name: value for name, value in floors.items() if value is not None},
    )
    files = {"trace": trace, "inject": inject, "schema": schema}
    files_given = Given(
        prompts=str(prompts),
        how=How(
            format=format,
            turns=turns,
            tag=tag,
            time_unit=time_unit,
            keep_personal_data=keep_personal_data,
            regions=tuple(phone_regions),
            limit=limit,
        ),
        tokenizer=tokenizer,
        weights=weights,
        machine=machine,
        bandwidth=bandwidth,
        flops=flops,
        **{name: None if file is None else str(file) for name, file in files.items()},
    )
    return _begin(asked, files_given, Path(out), on_progress or _silent)


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
    try:
        asked, files = asking.from_json(info["asked"]), given.from_json(info["given"])
    except (TypeError, KeyError, ValueError) as error:
        raise RunFolderError(f"{path}/run.json: not as specq load writes it ({error}); put it back") from error
    moved = zip(asked.servers, (url, against), strict=False)
    servers = [server if now is None else replace(server, url=now) for server, now in moved]
    asked = replace(asked, servers=tuple(servers))
    asked.check()
    plan = files.plan(asked)
    given.check_same(path, info.get("sha256") or {}, plan)
    with Folder(path, info) as writing:
        _measure(plan, files, writing, on_progress or _silent)
    return _write(path, info, files)


def _begin(asked: Asked, files: Given, out: Path, say: Progress) -> Found:
    asked.check()
    machine = files.on()
    plan = files.plan(asked)
    targets = {server.name: Target(server, asked) for server in asked.servers}
    for target in targets.values():
        target.check()
        target.learn()
        _refuse_random(plan, target)
    # A server that serves one model and was not told its name is asked for that one.
    named = tuple(replace(one, model=one.model or targets[one.name].settings.model) for one in asked.servers)
    asked = replace(asked, servers=named)
    plan = replace(plan, asked=asked)
    info = {
        "experiment": folder.NAME,
        "question": _question(asked),
        "created": utc_stamp(),
        "asked": asked.to_json(),
        "given": files.to_json(),
        "sha256": given.fingerprint(plan),
        "config_sha256": hashes.of_json([asked.to_json(), files.to_json()]),
        "servers": [target.to_json() for target in targets.values()],
        "prompts": [one.id for one in plan.prompts.prompts],
        "notes": list(plan.prompts.notes),
        "provenance": provenance.collect(),
        "ceilings": None if machine is None else {"bandwidth": machine.bandwidth, "flops": machine.flops},
    }
    with folder.create(out, provenance.hide_home(info)) as writing:
        say(f"run: {writing.path}")
        _measure(plan, files, writing, say)
    return _write(writing.path, writing.info, files)


def _measure(plan: Plan, files: Given, writing: Folder, say: Progress) -> None:
    """Measure the points that are not complete."""
    asked = plan.asked
    levels = asked.levels or (arrivals.rate_of(plan.at_s or ()),)
    tried, complete = finding.attempts_of(reading.read(writing.path / RECORDS)[0])
    left = [(point, tried.get(point.id, 0) + 1) for point in asked.points(levels) if point.id not in complete]
    targets = {server.name: Target(server, asked) for server in asked.servers}
    how = f"what was recorded is kept; to go on type: specq load --resume {writing.path}"
    try:
        with signals.raised():
            measuring.measure(plan, left, targets, writing, say)
    except KeyboardInterrupt as error:
        number = signals.number_of(error)
        raise Interrupted(f"stopped by {signals.name_of(error)}; {how}", number) from error
    except RunFailed as error:
        raise type(error)(f"{error}; {how}") from error
    writing.done()


def _write(path: Path, info: Mapping[str, Any], files: Given) -> Found:
    from specq.load import page

    found = finding.find(path, info, files.on())
    page.write(found)
    return found


def _refuse_random(plan: Plan, target: Target) -> None:
    if target.speculates or len(plan.asked.servers) > 1:
        measuring.refuse_random(plan.prompts, target.server.name)


def _question(asked: Asked) -> str:
    levels = ", ".join(f"{level:g}" for level in asked.levels) or "the trace's own pace"
    servers = " against ".join(f"{server.name} ({server.kind}, {server.url})" for server in reversed(asked.servers))
    return f"What does {servers} give at {asked.unit} {levels}?"


def _silent(text: str) -> None:
    """No progress is shown."""
