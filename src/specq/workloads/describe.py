"""A workload in numbers: lengths, turns, tags, arrivals, duplicates, what was dropped and what was replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from specq.core import hashes
from specq.core.nouns import counted
from specq.workloads.reading import Read
from specq.workloads.request import Request

CHARACTERS = "characters"
WORDS = "words"
Count = Callable[[Request], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A length over prompts. p95 needs 20 of them and p99 100; None below that."""

    minimum: int
    p50: float
    p95: float | None
    p99: float | None
    maximum: int
    total: int
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a file holds.

    `lengths` is by unit: characters and words always, the tokens of a model where one was named, and the prompt and
    output tokens that the file itself states. `duplicates` are groups of ids whose prompts are the same, `repeats` the
    prompts beyond the first of each. `written` is the file that the prompts were written to, None without one, and
    `left_out` why some of them could not be.
    """

    read: Read
    lengths: dict[str, Lengths]
    messages: Lengths | None
    duplicates: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    written: str | None = None
    left_out: dict[str, int] | None = None

    @property
    def requests(self) -> tuple[Request, ...]:
        """The prompts in the order of the file."""
        return self.read.requests

    @property
    def repeats(self) -> int:
        """Prompts that stood in the file before."""
        return sum(len(group) - 1 for group in self.duplicates)

    def tags(self) -> dict[str, int]:
        """How many prompts have each tag, the most first."""
        return dict(Counter(tag for one in self.requests for tag in one.tags).most_common())

    def to_json(self) -> dict[str, Any]:
        """Everything but the prompts themselves, as JSON values."""
        read = self.read
        return {
            "file": str(read.file),
            "format": read.format,
            "rows": read.counts.rows,
            "prompts": len(read.requests),
            "lengths": {unit: asdict(lengths) for unit, lengths in self.lengths.items()},
            "messages": None if self.messages is None else asdict(self.messages),
            "later_turns": read.counts.later_turns,
            "answers": read.counts.answers,
            "tags": self.tags(),
            "users": len({one.user for one in read.requests if one.user}),
            "arrivals": None if read.arrivals is None else {"key": read.at_key, **read.arrivals.to_json()},
            "duplicates": [list(group) for group in self.duplicates],
            "repeats": self.repeats,
            "dropped": [asdict(one) for one in read.dropped],
            "personal_data": "kept" if read.counts.kept else "replaced",
            "scrubbed": dict(read.counts.scrubbed),
            "scrubbed_values": dict(read.counts.values),
            "renamed": read.counts.renamed,
            "notes": list(self.notes),
            "written": self.written,
            "left_out": self.left_out,
        }


def describe(read: Read, *, tokens: Count | None = None, unit: str = "") -> Workload:
    """A workload in numbers; `tokens` counts a prompt's tokens, in the words `unit`."""
    asked = [one for one in read.requests if one.messages or one.prompt]
    lengths = {}
    if asked:
        lengths[CHARACTERS] = lengths_of([sum(map(len, one.texts())) for one in asked])
        lengths[WORDS] = lengths_of([sum(len(text.split()) for text in one.texts()) for one in asked])
    if tokens is not None and asked:
        lengths[unit] = lengths_of([tokens(one) for one in asked])
    for name in ("prompt_tokens", "cached_tokens", "output_tokens"):
        if stated := [count for one in read.requests if (count := getattr(one, name)) is not None]:
            lengths[f"stated {name.replace('_', ' ')}"] = lengths_of(stated)
    turns = [len(one.messages) for one in asked if one.messages]
    return Workload(
        read=read,
        lengths=lengths,
        messages=lengths_of(turns) if turns else None,
        duplicates=_duplicates(asked),
        notes=tuple(_notes(read)),
    )


def lengths_of(values: Sequence[int]) -> Lengths:
    """Percentiles of lengths (linear interpolation), at least one."""
    p50, p95, p99 = (float(q) for q in np.quantile(values, (0.5, 0.95, 0.99)))
    return Lengths(
        minimum=min(values),
        p50=p50,
        p95=p95 if len(values) >= 20 else None,
        p99=p99 if len(values) >= 100 else None,
        maximum=max(values),
        total=sum(values),
        values=len(values),
    )


def _duplicates(requests: Sequence[Request]) -> tuple[tuple[str, ...], ...]:
    groups: dict[str, list[str]] = {}
    for one in requests:
        asked = [one.tools, one.prompt, [[m["role"], m["content"]] for m in one.messages]]
        groups.setdefault(hashes.of_json(asked), []).append(one.id)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _notes(read: Read) -> list[str]:
    counts, notes = read.counts, list[str]()
    if counts.later_turns:
        notes.append(
            f"{counted(counts.later_turns, 'later turn')} not asked: a prompt is the first question alone"
            + ("; --turns each takes all" if read.format == "sharegpt" else "")
        )
    if counts.answers:
        notes.append(f"{counted(counts.answers, 'row')} ended with the answer, which is no part of the prompt")
    if counts.renamed:
        notes.append(f"{counted(counts.renamed, 'id')} stood in the file before and got a number")
    if read.arrivals is not None:
        notes += read.arrivals.notes()
        if untimed := sum(at is None for at in read.arrivals.at_s):
            notes.append(f"{counted(untimed, 'row')} without a time under {read.at_key or 'its line'}")
    return notes
