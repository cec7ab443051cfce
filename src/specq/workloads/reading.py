"""From the rows of a file to the prompts of a workload: taken, timed, scrubbed, and what was dropped counted."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError, PromptError
from specq.workloads import formats, openai, own, sharegpt, timestamps, traces
from specq.workloads.personal import Scrubber
from specq.workloads.request import Asked, Counts, Dropped, Message, Request, Unusable
from specq.workloads.source import Kind, kind_of, rows
from specq.workloads.timestamps import Arrivals

TURNS = ("first", "each")


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a file is read.

    `turns` "each" makes a prompt of every question of a ShareGPT conversation, "first" of its first alone. `tag` names
    a key whose value becomes a tag. `regions` are the countries whose phone numbers are found without a country code.
    """

    format: str = formats.AUTO
    turns: str = "first"
    tag: str | None = None
    time_unit: str = timestamps.AUTO
    keep_personal_data: bool = False
    regions: tuple[str, ...] = ("US",)
    limit: int | None = None

    def check(self) -> None:
        """Refuse what there is not. Raises ConfigError."""
        formats.check_name(self.format)
        timestamps.check_unit(self.time_unit)
        if self.turns not in TURNS:
            raise ConfigError(f"turns {self.turns}: allowed are first and each")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit {self.limit}: allowed is 1 or more rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read: prompts in the order of the file, rows that were dropped, times (None without any), counts."""

    file: Path
    format: str
    requests: tuple[Request, ...]
    dropped: tuple[Dropped, ...]
    arrivals: Arrivals | None
    counts: Counts
    at_key: str


def read(path: Path, how: How) -> Read:
    """Read a file of rows.

    Raises:
        PromptError: it cannot be read, its format cannot be told, or no row of it can be taken.
        ConfigError: as How.check, or a phone region that there is not.
    """
    how.check()
    scrubber = None if how.keep_personal_data else Scrubber(how.regions)
    kind = kind_of(path)
    name = _format(path, kind, how.format)
    taken: list[tuple[int, Asked]] = []
    dropped: dict[str, list[int]] = {}
    count = 0
    for row in islice(rows(path, kind), how.limit):
        count += 1
        try:
            if row.value is None:
                raise Unusable(row.fault)
            for one in _take(name, row.value, row.text, how):
                _check_text(one)
                taken.append((row.line, one if scrubber is None else _scrubbed(one, scrubber)))
        except Unusable as error:
            reason = str(error) if scrubber is None else scrubber.scrub(str(error))
            dropped.setdefault(reason, []).append(row.line)
    if not taken:
        raise PromptError(_nothing(path, name, dropped))
    # A row that names its time otherwise than most would mix two clocks.
    key = next(iter(Counter(one.at_key for _, one in taken if one.at_key).most_common(1)), ("", 0))[0]
    times = timestamps.arrivals(
        [one.at if one.at_key == key else None for _, one in taken], [line for line, _ in taken], how.time_unit, key
    )
    requests, renamed = _named(taken, times)
    return Read(
        file=path,
        format=name,
        requests=requests,
        dropped=tuple(Dropped(reason=reason, lines=tuple(lines)) for reason, lines in dropped.items()),
        arrivals=times,
        counts=Counts(
            rows=count,
            later_turns=sum(one.later_turns for _, one in taken),
            answers=sum(one.answered for _, one in taken),
            renamed=renamed,
            kept=scrubber is None,
            scrubbed={} if scrubber is None else dict(scrubber.counts),
            values={} if scrubber is None else scrubber.values(),
        ),
        at_key=key,
    )


def _format(path: Path, kind: Kind, asked: str) -> str:
    if kind == "text":
        raise PromptError(
            f"{path}: plain text, no rows; to make prompts of it, say how long: --tokens 512 (or 128,512,2048)"
        )
    if kind in ("csv", "numbers"):
        if asked not in (formats.AUTO, "trace"):
            raise PromptError(f"{path}: a table of times, which is a trace, and --format says {asked}; leave it out")
        return "trace"
    return formats.detect(path, rows(path, kind)) if asked == formats.AUTO else asked


def _take(name: str, value: dict[str, Any], text: str, how: How) -> list[Asked]:
    if name == "sharegpt":
        if not sharegpt.fits(value):
            raise Unusable("no conversations in it")
        return sharegpt.take(value, each=how.turns == "each")
    if name == "openai":
        return openai.take(value, how.tag)
    return traces.take(value) if name == "trace" else own.take(value, text)


def _check_text(one: Asked) -> None:
    for text in (one.prompt, one.tools, one.user, one.id or "", *one.tags, *(m["content"] for m in one.messages)):
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise Unusable("half of a surrogate pair, which is no text") from error


def _scrubbed(one: Asked, scrubber: Scrubber) -> Asked:
    scrub = scrubber.scrub
    messages: tuple[Message, ...] = tuple({**m, "content": scrub(m["content"])} for m in one.messages)
    return dataclasses.replace(
        one,
        id=None if one.id is None else scrub(one.id),
        messages=messages,
        prompt=scrub(one.prompt),
        tools=scrub(one.tools),
        tags=tuple(map(scrub, one.tags)),
        user=scrubber.user(one.user),
    )


def _named(taken: Sequence[tuple[int, Asked]], times: Arrivals | None) -> tuple[tuple[Request, ...], int]:
    """The prompts with ids of their own, and how many stood in the file twice or more and got a number."""
    used = {one.id for _, one in taken if one.id is not None}
    seen, numbers = set[str](), Counter[str]()
    renamed = 0
    made = []
    for place, (line, one) in enumerate(taken):
        name = one.id or f"line-{line}"
        ident = name
        while ident in seen or (one.id is None and ident in used):
            numbers[name] += 1
            ident = f"{name}-{numbers[name] + 1}"
            # A number that the file itself gives away is another prompt's.
            ident = ident if ident not in used else name
        renamed += one.id is not None and ident != name
        seen.add(ident)
        made.append(
            Request(
                id=ident,
                line=line,
                at_s=None if times is None else times.at_s[place],
                **{name: getattr(one, name) for name in _CARRIED},
            )
        )
    return tuple(made), renamed


_CARRIED = (
    *("messages", "prompt", "tools", "tags", "user", "foreign"),
    *("prompt_tokens", "cached_tokens", "output_tokens"),
)


def _nothing(path: Path, name: str, dropped: dict[str, list[int]]) -> str:
    reasons = sorted(dropped.items(), key=lambda one: -len(one[1]))
    told = "; ".join(f"{reason} ({len(lines)}, first in line {lines[0]})" for reason, lines in reasons[:3])
    return f"{path}: no prompt in it that can be taken as {name}: {told or 'no rows'}"
