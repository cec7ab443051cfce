"""vLLM, a request at a time: responses of its server, or its RequestOutput objects written as JSON.

Where a request asked for several answers (n > 1), a server's response counts their tokens together and neither drafts
nor times, and a RequestOutput counts drafts by the answer; its times are those of one answer, it does not say which.

Sources: https://docs.vllm.ai/en/v0.32.0/features/speculative_decoding/acceptance_metrics/ and
https://docs.vllm.ai/en/v0.32.0/features/per_request_metrics/ for responses; vllm/outputs.py, vllm/sequence.py
(RequestMetrics) and vllm/v1/metrics/stats.py (RequestStateStats) for RequestOutput.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from specq.imports.checks import check
from specq.imports.entry import Entry, Object, finish
from specq.imports.record import Flag, Imported, Rate, Said, by_position, derive_steps
from specq.imports.source import objects

SOURCE = "vllm"
SPEC_KEYS = frozenset(
    (
        *("mean_acceptance_length", "draft_acceptance_rate", "acceptance_histogram"),
        *("acceptance_histogram_by_draft_length", "num_spec_steps", "num_accepted_draft_tokens"),
        *("num_draft_tokens", "num_spec_tokens", "per_step_accepted", "per_step_drafted"),
    )
)
_TIMES = ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second")
# RequestMetrics of engine V0 has seconds of one clock, RequestStateStats of V1 those of two.
_V0 = (
    *("arrival_time", "last_token_time", "first_scheduled_time", "first_token_time", "time_in_queue"),
    *("finished_time", "scheduler_time", "model_forward_time", "model_execute_time", "spec_token_acceptance_counts"),
)
_V1 = (
    *("num_generation_tokens", "arrival_time", "queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts"),
    *("first_token_latency", "is_corrupted"),
)
METRICS_KEYS = frozenset(("speculative_decoding", "output_token_metrics", *_TIMES, *_V0, *_V1))
_Seconds = tuple[float | None, float | None]


def read(path: Path) -> Iterator[Imported | Flag]:
    """A record for each response or RequestOutput, each followed by its flags."""
    for place, (line, value) in enumerate(objects(path), start=1):
        entry = Entry(path, line, str(value.get("id") or value.get("request_id") or f"#{place}"))
        if value.get("error") is not None and not value.get("choices"):
            entry.flag("failed", "the response is an error")
        else:
            yield from _records(entry, value)
        yield from entry.flags


def _records(entry: Entry, value: Object) -> Iterator[Imported]:
    """A record for the response, or for each answer of a RequestOutput; the first has the prompt."""
    outputs = value.get("choices") or value.get("outputs") or [{}]
    if not isinstance(outputs, list) or not all(isinstance(one, dict) for one in outputs):
        raise entry.refuse("choices or outputs is no list of objects", "give vLLM's responses or RequestOutput objects")
    apart = not value.get("usage") and "outputs" in value
    for place, output in enumerate(outputs if apart else outputs[:1]):
        yield _record(entry, value, output, requests=1 if apart else len(outputs), several=len(outputs) > 1)
        if place == 0:
            value = {**value, "prompt_token_ids": None, "num_cached_tokens": None}


def _record(entry: Entry, value: Object, output: Object, *, requests: int, several: bool) -> Imported:
    metrics = entry.object("metrics", value.get("metrics")) or {}
    entry.known("metrics", metrics, METRICS_KEYS)
    usage = entry.object("usage", value.get("usage")) or {}
    new = entry.count("usage.completion_tokens", usage.get("completion_tokens"))
    prompt = entry.count("usage.prompt_tokens", usage.get("prompt_tokens"))
    if not usage and "outputs" in value:
        new = len(output.get("token_ids") or ()) or None
        prompt = len(value.get("prompt_token_ids") or ()) or None
    if new is None:
        entry.flag("missing_usage", "no usage.completion_tokens and no token_ids")
    where, spec = "metrics.speculative_decoding", metrics.get("speculative_decoding")
    if spec is None:
        where, spec = "spec_decode_metrics", output.get("spec_decode_metrics")
    details = entry.object("usage.prompt_tokens_details", usage.get("prompt_tokens_details")) or {}
    cached = details.get("cached_tokens", value.get("num_cached_tokens"))
    counts = entry.object(where, spec) or {}
    record, said = spec_counts(entry, where, counts, new, source=SOURCE, requests=requests)
    (ttft_s, e2e_s), rates = ((None, None), ()) if several else _seconds(entry, metrics, new)
    record = replace(
        record,
        prompt_tokens=prompt,
        cached_tokens=entry.count("cached_tokens", cached),
        finish=finish(output.get("finish_reason")),
        ttft_s=ttft_s,
        e2e_s=e2e_s,
    )
    check(entry, record, replace(said, rates=rates))
    return record


def spec_counts(
    entry: Entry, where: str, spec: Object, new: int | None, *, source: str, requests: int = 1
) -> tuple[Imported, Said]:
    """The draft counters of so many answers, and what is stated beside them; all None where there are none.

    A histogram may be a list from 0 on, or an object from whole numbers to counts.
    """
    entry.known(where, spec, SPEC_KEYS)

    def count(key: str) -> int | None:
        return entry.count(f"{where}.{key}", spec.get(key))

    key = "acceptance_histogram"
    given = spec.get(key)
    histogram = (entry.sparse if isinstance(given, dict) else entry.counts)(f"{where}.{key}", given)
    accepted, proposed, passes = count("num_accepted_draft_tokens"), count("num_draft_tokens"), count("num_spec_steps")
    steps, steps_from = derive_steps(new, accepted, passes, requests)
    _by_draft_length(entry, where, spec, proposed)
    record = Imported(
        source=source,
        line=entry.line,
        request=entry.request,
        requests=requests,
        new_tokens=new,
        steps=steps,
        steps_from=steps_from,
        draft_steps=passes,
        proposed=proposed,
        accepted=accepted,
        k=count("num_spec_tokens"),
        accepted_by_position=by_position(histogram),
    )
    length = entry.number(f"{where}.mean_acceptance_length", spec.get("mean_acceptance_length"))
    said = Said(
        length=length if passes else None,
        draft_acceptance=entry.number(f"{where}.draft_acceptance_rate", spec.get("draft_acceptance_rate")),
        histogram=histogram,
        blocks=_one_by_one(entry, where, spec),
    )
    return record, said


def _by_draft_length(entry: Entry, where: str, spec: Object, proposed: int | None) -> None:
    key = f"{where}.acceptance_histogram_by_draft_length"
    given = entry.object(key, spec.get("acceptance_histogram_by_draft_length"))
    if given is None or proposed is None:
        return
    total = 0
    for length, row in given.items():
        if not (length.isascii() and length.isdigit()):
            raise entry.refuse(f"{key} has the key {length!r}", "allowed are whole numbers")
        total += int(length) * sum(entry.counts(f"{key}.{length}", row) or ())
    if total != proposed:
        entry.flag("counts_differ", f"proposed: the histograms by draft length give {total}, the total is {proposed}")


def _one_by_one(entry: Entry, where: str, spec: Object) -> tuple[tuple[int, int], ...] | None:
    """(proposed, accepted) of each step that had proposals."""
    drafted = entry.counts(f"{where}.per_step_drafted", spec.get("per_step_drafted"))
    taken = entry.counts(f"{where}.per_step_accepted", spec.get("per_step_accepted"))
    if drafted is None or taken is None:
        return None
    if len(drafted) != len(taken):
        entry.flag("counts_differ", f"per_step_drafted has {len(drafted)} steps, per_step_accepted {len(taken)}")
        return None
    return tuple(zip(drafted, taken, strict=True))


def _seconds(entry: Entry, metrics: Object, new: int | None) -> tuple[_Seconds, tuple[Rate, ...]]:
    """Seconds from the request to the first and to the last token, and the rates that the server states."""

    def number(key: str, scale: float = 1.0) -> float | None:
        return entry.number(f"metrics.{key}", metrics.get(key), scale)

    if "first_token_time" in metrics:
        start, first, last = map(number, ("arrival_time", "first_token_time", "last_token_time"))
        return (_gap(start, first), _gap(start, last)), ()
    if "first_token_ts" in metrics:
        ttft, first, last = map(number, ("first_token_latency", "first_token_ts", "last_token_ts"))
        decode = _gap(first, last)
        return (ttft, None if ttft is None or decode is None else ttft + decode), ()
    ttft, decode, queue, gap = (number(key, 1e-3) for key in _TIMES[:4])
    speed = number("tokens_per_second")
    rates = []
    if new is not None and None not in (speed, ttft, decode):
        down = (ttft or 0.0) + (decode or 0.0)
        rates.append(Rate(name="metrics.tokens_per_second", value=speed or 0.0, ups=(new,), down=down))
    if new is not None and gap is not None and decode is not None:
        rates.append(Rate(name="metrics.mean_itl_ms", value=1e3 * gap, ups=(1e3 * decode,), down=new - 1))
    if ttft is None:
        return (None, None), tuple(rates)
    start_s = ttft + (queue or 0.0)
    return (start_s, None if decode is None else start_s + decode), tuple(rates)


def _gap(start: float | None, end: float | None) -> float | None:
    return end - start if start is not None and end is not None and end >= start else None
