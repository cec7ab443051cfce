"""What the lab found, derived from run.json and records.jsonl alone, and what it comes to at the user's own length."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from specq.core.errors import RunFolderError
from specq.lab import batching, context, halves, lab_notes, lever, prompt_cache, sized
from specq.lab import rows as records
from specq.lab.batching import Batch, Machine
from specq.lab.bench import Drift, drift
from specq.lab.context import Context
from specq.lab.halves import Halves
from specq.lab.lever import Known, Lever
from specq.lab.prompt_cache import Cache
from specq.lab.rows import Prediction, Record, Row
from specq.lab.sized import Size
from specq.run.folder import RECORDS, RUN, read_info

PARTS = ("halves", "context", "cache", "batch")
EXPERIMENT = "lab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The user's own request in tokens, where that is from, and the share of its prompt that a cache can hold."""

    prompt_tokens: float
    output_tokens: float
    origin: str
    cached_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliverable:
    """What it comes to. `row` is one request, which both rates and their ratio are of.

    `ttft_s` and `decode_s` are at the user's own length; `beyond` where that is longer than what was measured, so that
    they are lower bounds. `cold_ttft_s` and `warm_ttft_s` are a prompt read anew and one that was cached,
    of `cache_tokens` tokens.
    """

    own: Own
    row: Row
    ttft_s: float
    decode_s: float
    beyond: bool
    cold_ttft_s: float | None
    warm_ttft_s: float | None
    cache_tokens: float | None
    size: Size | None
    known: Known
    lever: Lever
    paragraph: str

    @property
    def ttft_share(self) -> float:
        """The share of the first token's time in the whole request."""
        return self.known.ttft_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """Everything: what was asked (`info`, as run.json has it), the parts that were measured, and what they come to."""

    info: Mapping[str, Any]
    halves: Halves | None
    context: Context | None
    cache: Cache | None
    batch: Batch | None
    drift: Drift
    deliverable: Deliverable | None
    flags: tuple[str, ...]
    notes: tuple[str, ...]
    requests: int


def build(info: Mapping[str, Any], found: Sequence[Record], torn: int = 0) -> Lab:
    """The lab from its records."""
    every, found = found, records.counting(found)
    rows = [one for one in found if isinstance(one, Row)]
    predictions = [one for one in found if isinstance(one, Prediction)]
    given = info.get("machine")
    machine = None if given is None else Machine(**given)
    two, deep = halves.found(rows, predictions), context.found(rows)
    cache, batch = prompt_cache.found(rows), batching.found(rows, machine)
    moved = drift(rows)
    return Lab(
        info=info,
        halves=two,
        context=deep,
        cache=cache,
        batch=batch,
        drift=moved,
        deliverable=_deliverable(info, rows, two, deep, cache, batch),
        flags=tuple(_flags(rows, two, deep, cache, moved)),
        notes=tuple(lab_notes.notes(every, found, torn)),
        requests=len(rows),
    )


def open_lab(run_dir: Path) -> Lab:
    """The lab of a run's folder; writes nothing.

    Raises:
        RunFolderError: no such folder, one of another kind of run, or a damaged one.
    """
    info = read_info(run_dir)
    if info.get("experiment") != EXPERIMENT:
        raise RunFolderError(f"{run_dir} is a run of another kind; type: specq report {run_dir}")
    if lacks := [name for name in ("question", "target", "kind", "unit", "settings", "own") if name not in info]:
        raise RunFolderError(f"{run_dir / RUN}: lacks {', '.join(lacks)} as specq lab writes them; put them back")
    found, torn = records.read(run_dir / RECORDS)
    try:
        lab = build(info, found, torn)
        return replace(lab, notes=(*lab_notes.unfinished(run_dir, info, found), *lab.notes))
    except (TypeError, KeyError, ValueError) as error:
        raise RunFolderError(f"{run_dir / RUN}: not as specq lab writes it ({error}); put it back") from error


def _flags(
    rows: Sequence[Row], two: Halves | None, deep: Context | None, cache: Cache | None, moved: Drift
) -> list[str]:
    """What makes numbers here doubtful, in sentences."""
    flags = list(records.failed(rows))
    if moved.flagged and moved.moved is not None:
        flags.append(
            f"the canary's time moved by {100 * moved.moved:+.0f} % from the first half of the run to the last: the "
            "machine was not quiet, run again"
        )
    if two is not None and two.warm_rows:
        flags.append(
            f"{two.warm_rows} prompts that were to be read cold had cached tokens: prefill rates leave these out, "
            "latencies do not"
        )
    if two is not None and two.checked is not None and not two.checked.before:
        flags.append("the prediction was not written down before what it predicts: it predicts nothing")
    if deep is not None and deep.agree is False:
        flags.append(
            "totals of answers streamed and in one piece do not agree: the stamps, or how the server streams, are in "
            "doubt, and with them every rate here"
        )
    if cache is not None and cache.beyond:
        flags.append(
            f"{cache.beyond} requests were told more cached tokens than they share with any prompt before: the "
            "server's counts, or its cache, are wrong"
        )
    return flags


def _deliverable(
    info: Mapping[str, Any],
    rows: Sequence[Row],
    two: Halves | None,
    deep: Context | None,
    cache: Cache | None,
    batch: Batch | None,
) -> Deliverable | None:
    part = halves.PART if two is not None else context.PART
    timed = [row for row in records.of(rows, part, "length", context.STREAMED) if row.ratio is not None]
    if not timed:
        return None
    own = _own(info["own"], rows, cache)
    row = _middle(timed, own.prompt_tokens)
    lengths = [(cell.prompt_tokens, cell.ttft_s.median) for cell in (two.cells if two is not None else ())]
    lengths = lengths or [(depth.prompt_tokens, depth.ttft_s.median) for depth in (deep.depths if deep else ())]
    ttft = at(own.prompt_tokens, lengths)
    tpot = at(own.prompt_tokens, _tpots(timed))
    decode = max(0.0, own.output_tokens - 1) * tpot
    cold, warm = (None, None) if cache is None else (cache.case(prompt_cache.COLD), cache.case(prompt_cache.WARM))
    size = sized.as_written(info)
    known = Known(
        ttft_s=ttft,
        decode_s=decode,
        cacheable=own.cached_share,
        warm_saved=None if warm is None else warm.saved,
        bits=None if size is None or not size.held else size.bits,
        cache_read=None if size is None else size.cache_read,
        free_until=None if batch is None else batch.free_until,
        measured=None if batch is None else max(point.batch for point in batch.points if point.step is not None),
    )
    first = lever.first(known)
    return Deliverable(
        own=own,
        row=row,
        ttft_s=ttft,
        decode_s=decode,
        beyond=own.prompt_tokens > max(length for length, _ in lengths),
        cold_ttft_s=None if cold is None else cold.ttft_s.median,
        warm_ttft_s=None if warm is None else warm.ttft_s.median,
        cache_tokens=None if cold is None else cold.prompt_tokens,
        size=size,
        known=known,
        lever=first,
        paragraph=lever.paragraph(known, first),
    )


def _own(given: Mapping[str, Any], rows: Sequence[Row], cache: Cache | None) -> Own:
    """The user's own length in tokens: words, where it is told in words, at as many tokens as prompts here had."""
    scale = 1.0
    if given["unit"] != "tokens":
        scale = statistics.median(row.prompt_tokens / row.length for row in rows if not row.error)
    told = given["cached_share"]
    measured = None if cache is None or cache.own is None else cache.own.share
    prompt = given["prompt"]
    if prompt is None:
        prompt, scale = statistics.median(row.prompt_tokens for row in rows if row.part in PARTS), 1.0
    # What the server counted of them holds its template, which words do not.
    seen = [row.prompt_tokens for row in records.of(rows, prompt_cache.PART, prompt_cache.OWN)]
    if seen and given["unit"] != "tokens":
        prompt, scale = statistics.median(seen), 1.0
    return Own(
        prompt_tokens=prompt * scale,
        output_tokens=given["output_tokens"],
        origin=given["origin"],
        cached_share=measured if told is None else told,
    )


def _middle(rows: Sequence[Row], prompt_tokens: float) -> Row:
    """The row with the middle ratio among those whose length is nearest to the user's own."""
    groups = records.by_length(rows)
    nearest = min(groups.values(), key=lambda own: abs(statistics.median(r.prompt_tokens for r in own) - prompt_tokens))
    return sorted(nearest, key=lambda row: row.ratio or 0.0)[len(nearest) // 2]


def _tpots(rows: Sequence[Row]) -> list[tuple[float, float]]:
    found = []
    for own in records.by_length(rows).values():
        times = [row.tpot_s for row in own if row.tpot_s is not None]
        if times:
            found.append((statistics.median(row.prompt_tokens for row in own), statistics.median(times)))
    return found


def at(tokens: float, measured: Sequence[tuple[float, float]]) -> float:
    """Seconds at some length: between the measured ones by a line, beyond them by the line through the nearest two.

    Beyond the longest that is a lower bound, since attention bends upwards. Never below 0.
    """
    lengths, seconds = zip(*sorted(measured), strict=True)
    if len(lengths) == 1 or lengths[0] <= tokens <= lengths[-1]:
        return float(np.interp(tokens, lengths, seconds))
    one, two = (-2, -1) if tokens > lengths[-1] else (0, 1)
    slope = (seconds[two] - seconds[one]) / (lengths[two] - lengths[one])
    return max(0.0, float(seconds[one] + slope * (tokens - lengths[one])))


def to_json(lab: Lab) -> dict[str, Any]:
    """All of it, as JSON values."""
    from specq.report.plain import plain

    derived = plain(lab)
    if lab.deliverable is not None:
        derived["deliverable"] |= {
            "prefill_tokens_per_s": lab.deliverable.row.prefill_tokens_per_s,
            "decode_tokens_per_s": lab.deliverable.row.decode_tokens_per_s,
            "ratio": lab.deliverable.row.ratio,
            "ttft_share": lab.deliverable.ttft_share,
        }
    if lab.cache is not None:
        derived["cache"]["hit_rate"] = lab.cache.all.share
        derived["cache"]["hit_rate_by_tag"] = {tag: rate.share for tag, rate in lab.cache.tags.items()}
    value = json.loads(json.dumps(derived, default=str))
    assert isinstance(value, dict)
    return value
