"""SGLang's responses: `meta_info` of /generate, or of a choice of its OpenAI-compatible server.

Source: python/sglang/srt/managers/tokenizer_manager.py of SGLang 0.4 to 0.5.23. Its `spec_verify_ct` counts every
pass after the prompt's. Its `spec_accept_length` is completion_tokens / spec_verify_ct, so the token that the prompt's
pass gave is in it; its proposals are spec_verify_ct times the tokens of a full block, also where a block was cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specq.engines.served.meta_info import ACCEPTED, HISTOGRAM, PROPOSED, STEPS
from specq.imports.checks import check
from specq.imports.entry import Entry, Object, finish
from specq.imports.record import Flag, Imported, Said, by_position
from specq.imports.source import objects

SOURCE = "sglang"
_LENGTH, _RATE = "spec_accept_length", "spec_accept_rate"
SPEC_KEYS = frozenset((*ACCEPTED, *PROPOSED, *HISTOGRAM, STEPS, _LENGTH, _RATE))


def read(path: Path) -> Iterator[Imported | Flag]:
    """A record for each answer, each followed by its flags."""
    for place, (line, value) in enumerate(objects(path), start=1):
        for entry, meta, usage in _answers(path, line, place, value):
            if meta is None:
                entry.flag("failed", "no meta_info: the response is an error, or was asked for without it")
            else:
                yield _record(entry, meta, usage)
            yield from entry.flags


def _answers(path: Path, line: int, place: int, value: Object) -> Iterator[tuple[Entry, Object | None, Object]]:
    entry = Entry(path, line, str(value.get("id") or f"#{place}"))
    if "meta_info" in value:
        alone = entry.object("meta_info", value["meta_info"]) or {}
        entry.request = str(alone.get("id") or entry.request)
        yield entry, alone, {}
        return
    choices = value.get("choices")
    usage = entry.object("usage", value.get("usage")) or {}
    for one in choices if isinstance(choices, list) and choices else [{}]:
        meta = entry.object("meta_info", one.get("meta_info")) if isinstance(one, dict) else None
        # Usage sums over the choices; of several it says nothing about one.
        told = usage if isinstance(choices, list) and len(choices) == 1 else {}
        ended = {} if meta is None or "finish_reason" in meta else {"finish_reason": one.get("finish_reason")}
        yield Entry(path, line, entry.request), None if meta is None else {**meta, **ended}, told


def _record(entry: Entry, meta: Object, usage: Object) -> Imported:
    entry.known("meta_info", {key: 0 for key in meta if key.startswith("spec_")}, SPEC_KEYS)

    def count(key: str) -> int | None:
        value = meta.get(key)
        return entry.count(f"meta_info.{key}", usage.get(key) if value is None else value)

    new = count("completion_tokens")
    if new is None:
        entry.flag("missing_usage", "no completion_tokens in meta_info or usage")
    accepted, proposed, steps = _first(entry, meta, ACCEPTED), _first(entry, meta, PROPOSED), count(STEPS)
    given = [name for name in HISTOGRAM if meta.get(name) is not None]
    histogram = entry.counts(f"meta_info.{given[0]}", meta[given[0]]) if given else None
    record = Imported(
        source=SOURCE,
        line=entry.line,
        request=entry.request,
        prompt_tokens=count("prompt_tokens"),
        cached_tokens=count("cached_tokens"),
        new_tokens=new,
        steps=steps,
        steps_from=None if steps is None else "counted",
        draft_steps=steps,
        proposed=proposed,
        accepted=accepted,
        k=proposed // steps if proposed and steps and proposed % steps == 0 else None,
        accepted_by_position=by_position(histogram),
        finish=finish(meta.get("finish_reason")),
        ttft_s=entry.number("meta_info.first_token_latency", meta.get("first_token_latency")),
        e2e_s=entry.number("meta_info.e2e_latency", meta.get("e2e_latency")),
    )
    said = Said(
        length=entry.number(f"meta_info.{_LENGTH}", meta.get(_LENGTH)),
        draft_acceptance=entry.number(f"meta_info.{_RATE}", meta.get(_RATE)),
        histogram=histogram,
    )
    check(entry, record, said)
    return record


def _first(entry: Entry, meta: Object, names: tuple[str, ...]) -> int | None:
    """A quantity under whichever name it has; two names must agree."""
    found: dict[str, Any] = {}
    for name in names:
        if (value := entry.count(f"meta_info.{name}", meta.get(name))) is not None:
            found[name] = value
    if len(set(found.values())) > 1:
        entry.flag("counts_differ", ", ".join(f"{name} is {value}" for name, value in found.items()))
    return next(iter(found.values()), None)
