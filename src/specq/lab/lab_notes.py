"""What is told with a lab's numbers: notes on record, where it was gone on with, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from specq.core.nouns import counted
from specq.lab.rows import Ended, Note, Record, Resumed, Row
from specq.run.store import is_done

HOW_TO_GO_ON = "specq lab measure --resume"


def notes(every: Sequence[Record], found: Sequence[Record], torn: int) -> Iterator[str]:
    """What is to be told with the numbers, of `every` record and of those `found` to count, a sentence each."""
    for one in found:
        if isinstance(one, Note):
            yield f"{one.part}: {one.text}"
        if isinstance(one, Resumed):
            changed = f", on other software or another machine: {'; '.join(one.changed)}" if one.changed else ""
            yield f"resumed at {one.utc} in a new process{changed}"
            if one.torn_bytes:
                yield f"{one.torn_bytes} bytes of a torn line were cut there from records.jsonl"
    cut = dict.fromkeys(part for one in every if isinstance(one, Resumed) for part in one.cut)
    for part in cut:
        asked, kept = (sum(isinstance(one, Row) and one.part == part for one in some) for some in (every, found))
        yield f"{part}: broken off and measured anew; {counted(asked - kept, 'request')} of before count nowhere"
    if torn:
        yield f"records.jsonl ends in {torn} bytes of a torn line, which count nowhere"


def unfinished(run_dir: Path, info: Mapping[str, Any], found: Sequence[Record]) -> tuple[str, ...]:
    """What a run lacks and how to go on, where it is one that can be gone on with."""
    ended = {one.part for one in found if isinstance(one, Ended)}
    left = [part for part in info.get("parts", ()) if part not in ended]
    if not left or "asked" not in info or is_done(run_dir):
        return ()
    return (f"UNFINISHED: {', '.join(left)} did not come to an end. To go on type: {HOW_TO_GO_ON} {run_dir}",)
