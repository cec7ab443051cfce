"""The result of `vllm bench serve --save-result` or `--append-result`, with the arrays of `--save-detailed` or without.

Source: vllm/benchmarks/serve.py (the keys of `result`) and https://docs.vllm.ai/en/v0.32.0/cli/bench/serve/. The
draft counters are differences of the server's own between start and end of the run: traffic of others is in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specq.imports.checks import check
from specq.imports.entry import Entry, Object
from specq.imports.record import Flag, Imported, Rate, Said, derive_steps
from specq.imports.source import objects

SOURCE = "vllm-bench"
_SPEC = "spec_decode_"
SPEC_KEYS = tuple(
    f"{_SPEC}{name}"
    for name in (
        *("acceptance_rate", "acceptance_length", "num_drafts", "draft_tokens", "accepted_tokens"),
        "per_position_acceptance_rates",
    )
)


def read(path: Path) -> Iterator[Imported | Flag]:
    """A record for the run, and with the arrays one for each request; each followed by its flags."""
    for line, value in objects(path):
        entry = Entry(path, line, None)
        entry.known("the result", {key: 0 for key in value if key.startswith(_SPEC)}, SPEC_KEYS)
        yield _run(entry, value)
        if not isinstance(value.get("output_lens"), list):
            if failed := entry.count("failed", value.get("failed")):
                entry.flag("failed", f"{failed} requests failed; which, the file does not say")
            yield from entry.flags
            continue
        _chunks(entry, value)
        yield from entry.flags
        yield from _requests(path, line, value)


def _run(entry: Entry, value: Object) -> Imported:
    def count(key: str) -> int | None:
        return entry.count(key, value.get(key))

    new, requests, wall = (
        count("total_output_tokens"),
        count("completed"),
        entry.number("duration", value.get("duration")),
    )
    if new is None:
        entry.flag("missing_usage", "no total_output_tokens")
    accepted, passes = count(SPEC_KEYS[4]), count(SPEC_KEYS[2])
    steps, steps_from = derive_steps(new, accepted, passes, requests or 0)
    rates = [entry.number(SPEC_KEYS[5], one) for one in _list(entry, value, SPEC_KEYS[5])]
    positions = tuple(round(one * passes) for one in rates if one is not None) if passes and rates else None
    ttft, e2e = (entry.number(key, value.get(key), 1e-3) for key in ("mean_ttft_ms", "mean_e2el_ms"))
    record = Imported(
        source=SOURCE,
        line=entry.line,
        scope="run",
        requests=requests,
        prompt_tokens=count("total_input_tokens"),
        new_tokens=new,
        steps=steps,
        steps_from=steps_from,
        draft_steps=passes,
        proposed=count(SPEC_KEYS[3]),
        accepted=accepted,
        k=len(positions) if positions else None,
        accepted_by_position=positions,
        ttft_s=None if ttft is None or requests is None else ttft * requests,
        e2e_s=None if e2e is None or requests is None else e2e * requests,
        wall_s=wall,
    )
    speed = entry.number("output_throughput", value.get("output_throughput"))
    said = Said(
        length=entry.number(SPEC_KEYS[1], value.get(SPEC_KEYS[1])),
        draft_acceptance=entry.number(SPEC_KEYS[0], value.get(SPEC_KEYS[0]), 0.01),
        rates=()
        if speed is None or new is None or wall is None
        else (Rate(name="output_throughput", value=speed, ups=(new,), down=wall),),
    )
    check(entry, record, said)
    return record


def _chunks(entry: Entry, value: Object) -> None:
    """Itls are gaps between chunks of a stream; a block of accepted tokens comes in one chunk."""
    gaps = sum(len(one) for one in _list(entry, value, "itls") if isinstance(one, list))
    tokens = sum(one for one in _list(entry, value, "output_lens") if isinstance(one, int))
    answers = sum(1 for one in _list(entry, value, "output_lens") if isinstance(one, int) and one > 0)
    if gaps and gaps < tokens - answers:
        text = f"itls has {gaps} gaps for {tokens - answers} tokens after the first"
        entry.flag("chunks_not_tokens", f"{text}: mean_itl_ms is a step's, not a token's")


def _requests(path: Path, line: int, value: Object) -> Iterator[Imported | Flag]:
    run = Entry(path, line, None)
    keys = ("input_lens", "output_lens", "ttfts", "itls", "latencies", "errors")
    columns = {key: _list(run, value, key) for key in keys}
    for place in range(len(columns["output_lens"])):
        one = {key: column[place] if place < len(column) else None for key, column in columns.items()}
        entry = Entry(path, line, f"#{place + 1}")
        if one["errors"] or not one["output_lens"]:
            entry.flag("failed", "the request failed or gave no token")
        else:
            yield _request(entry, one)
        yield from entry.flags


def _request(entry: Entry, one: Object) -> Imported:
    ttft = entry.number("ttfts", one["ttfts"])
    e2e = entry.number("latencies", one["latencies"])
    gaps = one["itls"]
    if e2e is None and ttft is not None and isinstance(gaps, list):
        e2e = ttft + sum(entry.number("itls", gap) or 0.0 for gap in gaps)
    return Imported(
        source=SOURCE,
        line=entry.line,
        request=entry.request,
        prompt_tokens=entry.count("input_lens", one["input_lens"]),
        new_tokens=entry.count("output_lens", one["output_lens"]),
        ttft_s=ttft,
        e2e_s=e2e,
    )


def _list(entry: Entry, value: Object, key: str) -> list[Any]:
    found = value.get(key)
    if found is not None and not isinstance(found, list):
        raise entry.refuse(f"{key} is no list", "give the file as vllm bench serve wrote it")
    return found or []
