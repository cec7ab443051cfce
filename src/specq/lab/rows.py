"""What the lab records, a line each: requests, predictions, notes, where parts ended, where a run was gone on with.

Counts and times; every rate is derived from them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from specq.core import jsonl
from specq.core.errors import RunFolderError
from specq.core.typed import checks_of, tuples


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request. `at_s` is when it was sent, in seconds after the first one's call, and `place` its number.

    In a run that was gone on with, both go on from the last request before, as if no time had passed in between.

    `part` and `what` say what it was asked for, `group` which rows belong together: those of one batch, or of one
    prompt's variants. `length` is what was aimed at, `shared_tokens` how many of the prompt's first tokens an earlier
    prompt of the group began with, None where no tokenizer is known. The rest is as in Answer; a request that failed
    has an `error` and no times.
    """

    part: str
    what: str
    place: int
    repeat: int
    group: int
    length: int
    batch: int = 1
    cached: bool = False
    streamed: bool = True
    tags: tuple[str, ...] = ()
    shared_tokens: int | None = None
    at_s: float
    ttft_s: float | None = None
    e2e_s: float | None = None
    stamps_s: tuple[float, ...] = ()
    stamp_tokens: tuple[int, ...] = ()
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    output_tokens: int = 0
    told: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def tpot_s(self) -> float | None:
        """Seconds a token after the first: (e2e - ttft) / (tokens - 1); None below two, or unstreamed."""
        if self.ttft_s is None or self.e2e_s is None or self.output_tokens < 2:
            return None
        return (self.e2e_s - self.ttft_s) / (self.output_tokens - 1)

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """Prompt tokens that were read, over the time to the first token."""
        read = self.prompt_tokens - (self.cached_tokens or 0)
        return None if not self.ttft_s else read / self.ttft_s

    @property
    def decode_tokens_per_s(self) -> float | None:
        """Tokens after the first over the time after the first."""
        return 1 / self.tpot_s if self.tpot_s else None

    @property
    def ratio(self) -> float | None:
        """The two rates of this one request, prefill over decode."""
        prefill, decode = self.prefill_tokens_per_s, self.decode_tokens_per_s
        return None if prefill is None or decode is None else prefill / decode

    @property
    def ttft_share(self) -> float | None:
        """The share of the whole request that its first token took."""
        return None if self.ttft_s is None or not self.e2e_s else self.ttft_s / self.e2e_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The latency of a length that had not been asked, written down before it was: after row `place` - 1, at `utc`."""

    place: int
    utc: str
    length: int
    prompt_tokens: float
    output_tokens: int
    e2e_s: float
    base_s: float
    prompt_token_s: float
    output_token_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something to be told with the numbers: what could not be measured, and why."""

    part: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A part came to its end, or is one that the engine cannot do: a run that goes on does not ask it again."""

    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Another process went on at `utc`, on software or a machine of which `changed` is not as it was.

    The parts in `cut` were broken off and are measured anew: what stands of them before this line counts nowhere. They
    stay on record, so that nothing is lost and nothing doubled. `torn_bytes` of a torn last line were cut.
    """

    utc: str
    cut: tuple[str, ...]
    torn_bytes: int
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median of some values with the least and the greatest."""

    median: float
    low: float
    high: float
    n: int

    @property
    def width(self) -> float:
        """(greatest - least) / median."""
        return (self.high - self.low) / self.median if self.median else 0.0


def spread(values: Iterable[float | None]) -> Spread | None:
    """The spread of the values that are there; None where none is."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    return Spread(median=statistics.median(there), low=min(there), high=max(there), n=len(there))


def of(rows: Iterable[Row], part: str, *whats: str) -> list[Row]:
    """The rows of a part that did not fail, of some `what` or of all."""
    return [row for row in rows if row.part == part and not row.error and (not whats or row.what in whats)]


def by_length(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Rows by the length that was aimed at, the shortest first."""
    found: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda one: one.length):
        found.setdefault(row.length, []).append(row)
    return found


Record = Row | Prediction | Note | Ended | Resumed
PREDICTED = "halves"
"""The part that predictions are of."""


def part_of(record: Record) -> str:
    """The part that a record is of; "" where it is of none."""
    if isinstance(record, Resumed):
        return ""
    return PREDICTED if isinstance(record, Prediction) else record.part


def counting(found: Sequence[Record]) -> list[Record]:
    """The records that count: those of a part that was cut are left out as far as they stand before the cut."""
    cut_at = {part: place for place, one in enumerate(found) if isinstance(one, Resumed) for part in one.cut}
    return [one for place, one in enumerate(found) if place >= cut_at.get(part_of(one), 0)]


def line(record: Record) -> dict[str, Any]:
    """A record as a line of JSON."""
    return {"type": type(record).__name__.lower(), **asdict(record)}


_TYPES: Mapping[str, type[Record]] = {
    "row": Row,
    "prediction": Prediction,
    "note": Note,
    "ended": Ended,
    "resumed": Resumed,
}


def read(path: Path) -> tuple[list[Record], int]:
    """The records of a file, and the bytes of a torn last line.

    Raises:
        RunFolderError: a line is damaged; as file:line.
    """
    lines, torn = jsonl.read(path)
    return [_record(path, number, value) for number, value in lines], torn


def _record(path: Path, number: int, value: dict[str, Any]) -> Record:
    kind = _TYPES.get(str(value.pop("type", None)))
    if kind is None:
        raise RunFolderError(f"{path}:{number}: its type is none of {', '.join(_TYPES)}; put the line back")
    given = {name: tuples(one) for name, one in value.items()}
    checks = checks_of(kind)
    if wrong := [name for name in checks if name not in given or not checks[name](given[name])]:
        raise RunFolderError(f"{path}:{number}: {', '.join(wrong)} not as specq lab writes it; put the line back")
    if extra := sorted(given.keys() - checks.keys()):
        raise RunFolderError(f"{path}:{number}: unknown {', '.join(extra)}; put the line back")
    return kind(**given)


def failed(rows: Sequence[Row]) -> tuple[str, ...]:
    """How many requests failed and why, a sentence each."""
    reasons: dict[str, int] = {}
    for row in rows:
        if row.error:
            reasons[row.error] = reasons.get(row.error, 0) + 1
    return tuple(f"{count} of {len(rows)} requests failed and count nowhere: {why}" for why, count in reasons.items())
