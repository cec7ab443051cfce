"""The log of llama-server, llama-speculative, llama-speculative-simple, llama-lookup or llama-cli.

Sources: print_timings in tools/server/server-context.cpp of ggml-org/llama.cpp ("draft acceptance rate = " until its
pull request 24536, "draft acceptance = ", with lengths and rates by position, since then), the end of
examples/speculative/speculative.cpp (n_predict, n_drafted, n_accept), and llama_perf_context_print. Before its pull
request 14104 the server counted proposals that --draft-min threw away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from specq.imports.checks import check
from specq.imports.entry import Entry
from specq.imports.record import Flag, Imported, Rate, Said, derive_steps
from specq.imports.source import text_lines

SOURCE = "llama.cpp-log"
_SLOT = re.compile(r"slot\s+(\w+):\s*id\s+(\d+)\s*\|\s*task\s+(-?\d+)\s*\|")
_TIME = re.compile(
    r"(prompt eval|(?<!prompt )eval) time =\s*([\d.]+) ms /\s*(\d+) (tokens|runs)(?:.*?([\d.]+) tokens per second)?"
)
_ACCEPTANCE = re.compile(r"draft acceptance(?: rate)? =\s*([\w.-]+) \(\s*(-?\d+) accepted /\s*(-?\d+) generated\)")
_LENGTH = re.compile(r"mean (?:acceptance length|len) =\s*([\d.]+)")
_POSITIONS = re.compile(r"(?:acceptance rate per position|acc per pos) = \(([\d., ]*)\)")
_COUNT = re.compile(r"(?:^|\s)(n_predict|n_drafted|n_accept)\s*= (-?\d+)\s*$")
_SHARE = re.compile(r"(?:^|\s)accept\s+= (nan|-?[\d.]+)%")
_SPOKEN = re.compile(r"(encoded|decoded)\s+(\d+) tokens in\s+([\d.]+) seconds, speed:\s+([\d.]+) t/s")
_PERF = re.compile(r"(?:llama_perf_context_print|llama_print_timings|common_perf_print):")
MARKS = ("draft acceptance", "eval time =", "n_drafted", "print_timing", "llama_perf_context_print")
# Tasks whose end was not logged yet; more than any server has slots.
_MOST_OPEN = 256


@dataclass(slots=True)
class _Open:
    """What the lines of one request said so far."""

    entry: Entry
    prompt: int | None = None
    new: int | None = None
    ttft_s: float | None = None
    decode_s: float | None = None
    proposed: int | None = None
    accepted: int | None = None
    share: float | None = None
    length: float | None = None
    positions: tuple[float, ...] = ()
    rates: list[Rate] = field(default_factory=list)


def read(path: Path) -> Iterator[Imported | Flag]:
    """A record for each request, each followed by its flags."""
    log = _Log(path)
    for line, text in text_lines(path):
        yield from log.take(line, text)
    yield from log.rest()
    if not log.found:
        raise Entry(path, 1).refuse("no timings of a request in the log", f"known are lines with {', '.join(MARKS)}")


class _Log:
    """The open requests by slot and task; lines without a prefix belong to the last one named."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: dict[str, _Open] = {}
        self._current = ""
        self._speculative = False
        self.found = 0

    def take(self, line: int, text: str) -> Iterator[Imported | Flag]:
        """Read one line; what it completes comes out."""
        if slot := _SLOT.search(text):
            key = f"id {slot[2]} task {slot[3]}"
            if slot[1] == "release":
                yield from self._close(key)
                return
            if "print_timing" in slot[1]:
                self._current = key
        if _PERF.search(text):
            yield from self._perf(line, text)
        elif time := _TIME.search(text):
            yield from self._time(line, time)
        elif found := _ACCEPTANCE.search(text):
            self._acceptance(line, text, found)
        elif found := _POSITIONS.search(text):
            self._at(line, self._current).positions = _numbers(found[1])
        elif found := _SPOKEN.search(text):
            yield from self._spoken(line, found)
        elif found := _COUNT.search(text):
            self._count(line, found[1], int(found[2]))
        elif (found := _SHARE.search(text)) and "speculative" in self._open:
            share = float(found[1])
            self._open["speculative"].share = share / 100 if share == share else None
            yield from self._close("speculative")

    def rest(self) -> Iterator[Imported | Flag]:
        """What the end of the log completes."""
        for key in list(self._open):
            yield from self._close(key)

    def _at(self, line: int, key: str) -> _Open:
        if key not in self._open:
            self._open[key] = _Open(Entry(self._path, line, key or None))
        return self._open[key]

    def _time(self, line: int, time: re.Match[str], key: str | None = None) -> Iterator[Imported | Flag]:
        key = self._current if key is None else key
        what, seconds, tokens = time[1], float(time[2]) / 1e3, int(time[3])
        if what == "prompt eval":
            # Each request begins with its prompt's line, so the one before is complete.
            yield from self._close(key)
            while len(self._open) >= _MOST_OPEN:
                yield from self._close(next(iter(self._open)))
        one = self._at(line, key)
        if what == "prompt eval":
            one.prompt, one.ttft_s = tokens, seconds
        else:
            # The perf lines count passes, and the prompt's pass gave a token too.
            one.new, one.decode_s = tokens + (time[4] == "runs"), seconds
        if time[5] is not None and seconds > 0:
            ups = (tokens,) if what == "prompt eval" else (tokens, tokens - 1)
            one.rates.append(Rate(name=f"{what} tokens per second", value=float(time[5]), ups=ups, down=seconds))

    def _acceptance(self, line: int, text: str, found: re.Match[str]) -> None:
        one = self._at(line, self._current)
        one.share = _float(found[1])
        one.accepted = one.entry.count("accepted", int(found[2]))
        one.proposed = one.entry.count("generated", int(found[3]))
        if length := _LENGTH.search(text):
            one.length = float(length[1])
        if positions := _POSITIONS.search(text):
            one.positions = _numbers(positions[1])

    def _spoken(self, line: int, found: re.Match[str]) -> Iterator[Imported | Flag]:
        if found[1] == "encoded":
            yield from self._close("speculative")
        self._speculative = True
        one = self._at(line, "speculative")
        tokens, seconds = int(found[2]), float(found[3])
        if found[1] == "encoded":
            one.prompt, one.ttft_s = tokens, seconds
        else:
            one.new, one.decode_s = tokens, seconds
            if seconds > 0:
                one.rates.append(Rate(name="decoded t/s", value=float(found[4]), ups=(tokens,), down=seconds))

    def _count(self, line: int, name: str, value: int) -> None:
        one = self._at(line, "speculative")
        self._speculative = True
        counted = one.entry.count(name, value)
        if name == "n_predict":
            one.new = counted
        elif name == "n_drafted":
            one.proposed = counted
        else:
            one.accepted = counted

    def _perf(self, line: int, text: str) -> Iterator[Imported | Flag]:
        """Of a speculative run these lines count the passes of draft and target, which are no requests."""
        if not self._speculative and (time := _TIME.search(text)):
            yield from self._time(line, time, "perf")

    def _close(self, key: str) -> Iterator[Imported | Flag]:
        one = self._open.pop(key, None)
        if one is None:
            return
        self.found += 1
        yield _record(one)
        yield from one.entry.flags


def _record(one: _Open) -> Imported:
    entry = one.entry
    drafted = one.proposed is not None or one.accepted is not None
    accepted, proposed = (one.accepted, one.proposed) if drafted else (0, 0)
    if one.new is None:
        entry.flag("missing_usage", "no line with the tokens of the answer")
    passes = _passes(one) if drafted else 0
    steps, steps_from = derive_steps(one.new, accepted, passes)
    # Rates of three decimals tell whole numbers of fewer than a thousand steps only.
    told = bool(one.positions) and passes is not None and 0 < passes < 1000
    positions = tuple(round(rate * (passes or 0)) for rate in one.positions) if told else None
    record = Imported(
        source=SOURCE,
        line=entry.line,
        request=entry.request,
        prompt_tokens=one.prompt,
        new_tokens=one.new,
        steps=steps,
        steps_from=steps_from,
        draft_steps=passes,
        proposed=proposed,
        accepted=accepted,
        k=len(positions) if positions else None,
        accepted_by_position=positions,
        ttft_s=one.ttft_s,
        e2e_s=None if one.ttft_s is None or one.decode_s is None else one.ttft_s + one.decode_s,
    )
    check(entry, record, Said(length=one.length, draft_acceptance=one.share, rates=tuple(one.rates)))
    return record


def _passes(one: _Open) -> int | None:
    """The one whole number of steps whose 1 + accepted / steps rounds to the stated length; None without one."""
    if one.length is None or not one.accepted:
        return None
    low, high = one.length - 1 - 0.00501, one.length - 1 + 0.00501
    if low <= 0:
        return None
    least, most = one.accepted / high, one.accepted / low
    found = [steps for steps in range(int(least), int(most) + 2) if least <= steps <= most]
    return found[0] if len(found) == 1 else None


def _float(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if found == found else None


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(",") if part.strip())
