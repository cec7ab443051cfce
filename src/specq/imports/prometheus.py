"""vLLM's Prometheus text: one scrape of /metrics, or several in one file, or one file before and one after.

Source: vllm/v1/spec_decode/metrics.py and https://docs.vllm.ai/en/v0.32.0/usage/metrics/; the text format as
https://prometheus.io/docs/instrumenting/exposition_formats/ gives it. A counter that falls was reset, and counts from
0 since: https://prometheus.io/docs/prometheus/latest/querying/functions/#rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specq.core.errors import UserError
from specq.engines.served import exposition
from specq.imports.checks import check
from specq.imports.entry import Entry, refusal, short
from specq.imports.record import Flag, Imported, Said, derive_steps
from specq.imports.source import text_lines

SOURCE = "prometheus"
_DRAFTS = "vllm:spec_decode_num_drafts"
_PROPOSED = "vllm:spec_decode_num_draft_tokens"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens"
_BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"
_SPEC = (_DRAFTS, _PROPOSED, _ACCEPTED, _BY_POSITION)
_NEW, _PROMPT, _REQUESTS = "vllm:generation_tokens", "vllm:prompt_tokens", "vllm:request_success"
_TTFT, _E2E = "vllm:time_to_first_token_seconds_sum", "vllm:e2e_request_latency_seconds_sum"
_RUNNING = "vllm:num_requests_running"
_COUNTERS = (*_SPEC, _NEW, _PROMPT, _REQUESTS, _TTFT, _E2E)

Series = tuple[str, exposition.Labels]


class Scrape:
    """The series of one scrape that count here, and the line where it begins."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.values: dict[Series, float] = {}

    @property
    def drafts(self) -> bool:
        """Whether the server drafts at all."""
        return any(name == _DRAFTS for name, _ in self.values)


def read(path: Path, before: Path | None = None) -> Iterator[Imported | Flag]:
    """A record for each model between each scrape and the next, summed over its engines, followed by its flags."""
    previous: Scrape | None = None
    if before is not None:
        for scrape in _scrapes(before):
            previous = scrape
        if previous is None:
            raise _nothing(before)
    seen = 0
    for scrape in _scrapes(path):
        seen += 1
        if previous is not None:
            yield from _between(path, previous, scrape)
        previous = scrape
    if previous is None or seen == 0:
        raise _nothing(path)
    if seen == 1 and before is None:
        yield from _between(path, None, previous)


def _nothing(path: Path) -> UserError:
    return refusal(path, 1, f"no series {_DRAFTS}_total", "give a scrape of /metrics of a vLLM that drafts")


def _scrapes(path: Path) -> Iterator[Scrape]:
    """The scrapes of a file: a series that was there already begins the next one."""
    scrape: Scrape | None = None
    for line, text in text_lines(path):
        if text.lstrip().startswith("#"):
            continue
        entry = Entry(path, line)
        if (parts := exposition.split(text)) is None:
            raise entry.refuse(f"{short(text)} is no sample", 'known is: name{label="value"} number')
        name, labels, value = parts
        if (known := _known(entry, name)) is None:
            continue
        series = (known, _labels(entry, labels))
        if scrape is None or series in scrape.values:
            if scrape is not None and scrape.drafts:
                yield scrape
            scrape = Scrape(line)
        try:
            scrape.values[series] = float(value)
        except ValueError:
            raise entry.refuse(f"the value {short(value)}", "allowed is a number") from None
    if scrape is not None and scrape.drafts:
        yield scrape


def _known(entry: Entry, name: str) -> str | None:
    """The counter that a sample belongs to, without its suffix; None for what is of no use here."""
    bare = name.removesuffix("_total")
    if bare in (*_COUNTERS, _RUNNING):
        return bare
    if bare.startswith("vllm:spec_decode") and not bare.endswith("_created"):
        raise entry.refuse(f"the counter {name}", f"another version of vLLM; known are {', '.join(_SPEC)}")
    return None


def _labels(entry: Entry, text: str) -> exposition.Labels:
    if (found := exposition.labels(text)) is None:
        raise entry.refuse(f"the labels {short(text)}", 'known is {name="value",...}')
    return found


def _between(path: Path, first: Scrape | None, last: Scrape) -> Iterator[Imported | Flag]:
    for model in sorted({dict(labels).get("model_name", "") for _, labels in last.values}):
        entry = Entry(path, last.line, model or None)
        yield _record(entry, _Window(entry, model, first, last))
        yield from entry.flags


class _Window:
    """What one model's counters grew by. Of an engine that restarted, all counters count from 0."""

    def __init__(self, entry: Entry, model: str, first: Scrape | None, last: Scrape) -> None:
        self._entry = entry
        self._now = {one: value for one, value in last.values.items() if dict(one[1]).get("model_name", "") == model}
        self._was = {} if first is None else {one: first.values[one] for one in self._now if one in first.values}
        self.since_start = first is None
        fallen = {dict(one[1]).get("engine", ""): one for one in self._was if self._fell(one)}
        for engine, one in sorted(fallen.items()):
            text = f"{one[0]} fell from {self._was[one]:g} to {self._now[one]:g}: only what came after counts"
            entry.flag("counter_reset", f"engine {engine}: {text}" if engine else text)
        self._was = {one: value for one, value in self._was.items() if dict(one[1]).get("engine", "") not in fallen}
        for one in () if first is None else first.values:
            if one[0] in _SPEC and one not in last.values and dict(one[1]).get("model_name", "") == model:
                entry.flag("counter_reset", f"{one[0]} {dict(one[1])} is gone from the later scrape")

    def _fell(self, one: Series) -> bool:
        return one[0] in _COUNTERS and self._now[one] < self._was[one]

    def seconds(self, name: str) -> float | None:
        """The growth of all series of a name; None where there are none."""
        of = [one for one in self._now if one[0] == name]
        return self._entry.number(name, sum(self._now[one] - self._was.get(one, 0.0) for one in of)) if of else None

    def count(self, name: str) -> int | None:
        """As `seconds`, a whole number."""
        return self._entry.count(name, self.seconds(name))

    def positions(self) -> tuple[int, ...] | None:
        """The growth of the counters by position, from the first position on."""
        found: dict[int, float] = {}
        for one in self._now:
            if one[0] == _BY_POSITION:
                given = dict(one[1]).get("position", "")
                if not given.isascii() or not given.isdigit():
                    raise self._entry.refuse(f"{_BY_POSITION} with the position {given!r}", "known are 0, 1, 2, ...")
                found[int(given)] = found.get(int(given), 0.0) + self._now[one] - self._was.get(one, 0.0)
        return self._entry.counts(_BY_POSITION, [found[place] for place in sorted(found)]) if found else None

    def idle(self) -> bool:
        """Whether no request was under way at either end, so that tokens and drafts are of the same requests."""
        running = [one for one in self._now if one[0] == _RUNNING]
        return bool(running) and all(self._now[one] == 0 and self._was.get(one, 0.0) == 0 for one in running)


def _record(entry: Entry, window: _Window) -> Imported:
    if window.since_start:
        text = "all traffic since the server started is in it, warm-up too; give a scrape from before with --before"
        entry.flag("since_start", text)
    new, requests, accepted = window.count(_NEW), window.count(_REQUESTS), window.count(_ACCEPTED)
    passes, positions, idle = window.count(_DRAFTS), window.positions(), window.idle()
    steps, steps_from = derive_steps(new, accepted, passes, requests or 0) if idle and requests else (None, None)
    record = Imported(
        source=SOURCE,
        line=entry.line,
        request=entry.request,
        scope="run",
        requests=requests,
        prompt_tokens=window.count(_PROMPT),
        new_tokens=new,
        steps=steps,
        steps_from=steps_from,
        draft_steps=passes,
        proposed=window.count(_PROPOSED),
        accepted=accepted,
        k=len(positions) if positions else None,
        accepted_by_position=positions,
        ttft_s=window.seconds(_TTFT),
        e2e_s=window.seconds(_E2E),
    )
    check(entry, record, Said(open=not idle))
    return record
