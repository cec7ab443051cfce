"""aiperf's profile_export.jsonl (a line a request) and profile_export_aiperf.json (one document a run).

Sources: docs/tutorials/working-with-profile-exports.md, docs/reference/json-export-schema.md and
docs/reference/spec-decode-acceptance.md of ai-dynamo/aiperf. Its lengths are counted by its own tokenizer unless the
server's usage is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from specq.imports.checks import check
from specq.imports.entry import Entry, Object, short
from specq.imports.record import Flag, Imported, Rate, Said, by_position, derive_steps
from specq.imports.source import objects
from specq.imports.vllm import spec_counts

SOURCE = "aiperf"
_SPEC = "spec_decode_acceptance"
_OWN = ("engine", "completion_tokens")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_MAJOR = "1"


def read(path: Path) -> Iterator[Imported | Flag]:
    """A record for each request, or for a run's document one; each followed by its flags."""
    for place, (line, value) in enumerate(objects(path), start=1):
        if "metadata" in value:
            yield from _request(path, line, place, value)
        else:
            entry = Entry(path, line)
            yield _run(entry, value)
            yield from entry.flags


def _request(path: Path, line: int, place: int, value: Object) -> Iterator[Imported | Flag]:
    entry = Entry(path, line, f"#{place}")
    metadata = entry.object("metadata", value["metadata"]) or {}
    entry.request = str(metadata.get("x_request_id") or entry.request)
    metrics = entry.object("metrics", value.get("metrics")) or {}
    if value.get("error") is not None or metadata.get("was_cancelled"):
        entry.flag("failed", "the request ended in an error or was cancelled")
    elif metadata.get("benchmark_phase", "profiling") != "profiling":
        entry.flag("left_out", f"its phase is {metadata['benchmark_phase']}")
    else:
        yield _profiled(entry, value, metrics)
    yield from entry.flags


def _profiled(entry: Entry, value: Object, metrics: Object) -> Imported:
    def tokens(key: str) -> int | None:
        return entry.count(f"metrics.{key}", _value(entry, metrics, key))

    given = entry.object(_SPEC, value.get(_SPEC)) or {}
    own, told = tokens("output_sequence_length"), tokens("usage_completion_tokens")
    counted = entry.count(f"{_SPEC}.completion_tokens", given.get("completion_tokens"))
    new = next((one for one in (counted, told, own) if one is not None), None)
    if new is None:
        entry.flag("missing_usage", "no output_sequence_length, and no usage of the server")
    elif own is not None and own != new:
        entry.flag("counts_differ", f"output_sequence_length is {own} by aiperf's tokenizer, the server counted {new}")
    spec = {key: one for key, one in given.items() if key not in _OWN}
    record, said = spec_counts(entry, _SPEC, spec, new, source=SOURCE)
    ttft, e2e = (_time(entry, metrics, key, "value") for key in ("time_to_first_token", "request_latency"))
    gap = _time(entry, metrics, "inter_token_latency", "value")
    record = replace(record, prompt_tokens=tokens("input_sequence_length"), ttft_s=ttft, e2e_s=e2e)
    rates: tuple[Rate, ...] = ()
    if None not in (gap, ttft, e2e, own) and (own or 0) > 1:
        down = (own or 0) - 1
        rates = (
            Rate(name="inter_token_latency in ms", value=1e3 * (gap or 0.0), ups=(1e3 * _gap(ttft, e2e),), down=down),
        )
    check(entry, record, replace(said, rates=rates))
    return record


def _gap(start: float | None, end: float | None) -> float:
    return (end or 0.0) - (start or 0.0)


def _run(entry: Entry, value: Object) -> Imported:
    version = value.get("schema_version")
    if not isinstance(version, str) or version.split(".")[0] != _MAJOR:
        raise entry.refuse(f"schema_version is {short(version)}", f"known is {_MAJOR}.x of profile_export_aiperf.json")
    if not isinstance(value.get("request_count"), dict):
        raise entry.refuse("no request_count", "known is profile_export_aiperf.json, not the aggregate of several runs")

    def total(key: str, field: str = "avg") -> int | None:
        return entry.count(f"{key}.{field}", _value(entry, value, key, field))

    requests = total("request_count")
    new, prompt = (total(f"{key}_sequence_length", "sum") for key in ("output", "input"))
    if new is None:
        new = total("total_output_tokens") or total("total_osl")
    if new is None:
        entry.flag("missing_usage", "no output_sequence_length.sum and no total_osl")
    if failed := total("error_request_count"):
        entry.flag("failed", f"{failed} requests failed; which, the file does not say")
    histogram = entry.sparse("the pooled histogram", value.get("pooled_spec_decode_acceptance_histogram"))
    passes, accepted = total("total_spec_decode_steps"), total("total_accepted_draft_tokens")
    steps, steps_from = derive_steps(new, accepted, passes, requests or 0)
    wall = _time(entry, value, "benchmark_duration", "avg")
    record = Imported(
        source=SOURCE,
        line=entry.line,
        scope="run",
        requests=requests,
        prompt_tokens=prompt,
        new_tokens=new,
        steps=steps,
        steps_from=steps_from,
        draft_steps=passes,
        proposed=total("total_draft_tokens"),
        accepted=accepted,
        accepted_by_position=by_position(histogram),
        ttft_s=_time(entry, value, "time_to_first_token", "sum"),
        e2e_s=_time(entry, value, "request_latency", "sum"),
        wall_s=wall,
    )
    share = _value(entry, value, "spec_decode_overall_draft_acceptance_rate", "avg")
    length = _value(entry, value, "spec_decode_token_weighted_acceptance_length", "avg")
    speed = entry.number("output_token_throughput.avg", _value(entry, value, "output_token_throughput", "avg"))
    rates: tuple[Rate, ...] = ()
    if speed is not None and new is not None and wall is not None:
        rates = (Rate(name="output_token_throughput", value=speed, ups=(new,), down=wall),)
    said = Said(
        length=entry.number("spec_decode_token_weighted_acceptance_length", length),
        draft_acceptance=entry.number("spec_decode_overall_draft_acceptance_rate", share, _share(value)),
        histogram=histogram,
        rates=rates,
    )
    check(entry, record, said)
    return record


def _share(value: Object) -> float:
    """What makes a share of the acceptance: its unit says whether it is in per cent."""
    block = value.get("spec_decode_overall_draft_acceptance_rate")
    return 0.01 if isinstance(block, dict) and block.get("unit") in ("%", "percent") else 1.0


def _value(entry: Entry, metrics: Object, key: str, field: str = "value") -> object:
    block = entry.object(f"metrics.{key}", metrics.get(key))
    return None if block is None else block.get(field)


def _time(entry: Entry, metrics: Object, key: str, field: str) -> float | None:
    block = entry.object(f"metrics.{key}", metrics.get(key)) or {}
    unit = block.get("unit")
    if field in block and unit not in _SECONDS:
        raise entry.refuse(f"{key} has the unit {short(unit)}", f"known are {', '.join(_SECONDS)}")
    return entry.number(f"{key}.{field}", block.get(field), _SECONDS.get(str(unit), 1.0))
