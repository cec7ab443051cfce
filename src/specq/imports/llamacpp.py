"""The `timings` of llama-server's responses, and of servers that write the same object.

Sources: tools/server/README.md of ggml-org/llama.cpp, its pull request 12603 for `draft_n` and `draft_n_accepted`,
and pull requests 1788 and 2324 of Blaizzy/mlx-vlm for `draft_rounds` and `draft_kind`. The draft fields are absent
where nothing was proposed. `prompt_n` counts the tokens that were read, those of the cache (`cache_n`) not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specq.imports.checks import check
from specq.imports.entry import Entry, Object, finish
from specq.imports.record import Flag, Imported, Rate, Said, derive_steps
from specq.imports.source import objects

SOURCE = "llama.cpp"
TIMINGS_KEYS = frozenset(
    (
        *("cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second"),
        *("predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second"),
        *("draft_n", "draft_n_accepted", "draft_rounds", "draft_kind"),
    )
)


def read(path: Path) -> Iterator[Imported | Flag]:
    """A record for each response, each followed by its flags."""
    for place, (line, value) in enumerate(objects(path), start=1):
        entry = Entry(path, line, str(value.get("id") or f"#{place}"))
        timings = entry.object("timings", value.get("timings"))
        if timings is None:
            entry.flag("failed", "no timings: the response is an error, or a part of a stream")
        else:
            yield _record(entry, value, timings)
        yield from entry.flags


def _record(entry: Entry, value: Object, timings: Object) -> Imported:
    entry.known("timings", timings, TIMINGS_KEYS)

    def count(key: str) -> int | None:
        return entry.count(f"timings.{key}", timings.get(key))

    def number(key: str, scale: float = 1.0) -> float | None:
        return entry.number(f"timings.{key}", timings.get(key), scale)

    new, prompt, cached = count("predicted_n"), count("prompt_n"), count("cache_n")
    _usage(entry, value, new)
    # Without a draft the server leaves both out; one of them alone is damage.
    drafted = "draft_n" in timings or "draft_n_accepted" in timings
    proposed = count("draft_n") if drafted else 0
    accepted = count("draft_n_accepted") if drafted else 0
    rounds = count("draft_rounds")
    steps, steps_from = derive_steps(new, accepted, rounds)
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    ttft, decode = number("prompt_ms", 1e-3), number("predicted_ms", 1e-3)
    record = Imported(
        source=SOURCE,
        line=entry.line,
        request=entry.request,
        prompt_tokens=None if prompt is None else prompt + (cached or 0),
        cached_tokens=cached,
        new_tokens=new,
        steps=steps,
        steps_from=steps_from,
        draft_steps=rounds if drafted else 0,
        proposed=proposed,
        accepted=accepted,
        finish=finish(value.get("stop_type") or choice.get("finish_reason")),
        ttft_s=ttft,
        e2e_s=None if ttft is None or decode is None else ttft + decode,
    )
    rates = [
        _rate("prompt_per_second", number("prompt_per_second"), prompt, ttft, one_less=False),
        _rate("predicted_per_second", number("predicted_per_second"), new, decode, one_less=True),
    ]
    check(entry, record, Said(rates=tuple(rate for rate in rates if rate is not None)))
    return record


def _usage(entry: Entry, value: Object, new: int | None) -> None:
    usage = entry.object("usage", value.get("usage")) or {}
    told = entry.count("usage.completion_tokens", usage.get("completion_tokens"))
    if new is None:
        entry.flag("missing_usage", "no timings.predicted_n")
    elif told is not None and told != new:
        entry.flag("counts_differ", f"usage.completion_tokens is {told}, timings.predicted_n {new}")


def _rate(name: str, value: float | None, tokens: int | None, seconds: float | None, *, one_less: bool) -> Rate | None:
    """Newer servers divide the tokens after the first by the time after the first, older ones all tokens."""
    if value is None or tokens is None or seconds is None:
        return None
    ups = (tokens, tokens - 1) if one_less else (tokens,)
    return Rate(name=f"timings.{name}", value=value, ups=ups, down=seconds)
