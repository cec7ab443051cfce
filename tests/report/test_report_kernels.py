"""Workers of one run on other kernels: flagged; on the same ones: said once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from quantized_runs import NOTES, built, loaded

from specq.core.records import Crossover, Note, Record
from specq.quantize.audited import NO_KERNEL

LATER = "int4pack 576 x 576: dense from 5 rows on (measured)"
CROSSOVER = Crossover(
    process=0,
    kernel="int4pack",
    out_features=576,
    in_features=576,
    group_size=64,
    layers=120,
    way="dense",
    dtype="bfloat16",
    threads=2,
    device="a chip",
    rows=8,
)


def second_worker(notes: tuple[str, ...], *more: Record) -> Any:
    """A change of a run's records: a second process, whose quantized target has these notes."""

    def change(lines: list[Record]) -> list[Record]:
        new = [replace(line, process=1) for line in loaded(notes)]  # type: ignore[type-var]
        return [*lines, *new, *more]

    return change


@pytest.mark.parametrize("notes", [(NOTES[0], LATER), (f"210 layers: {NO_KERNEL}none", NOTES[1])])
def test_other_kernels_in_a_later_worker_are_not_flagged(tmp_path: Path, notes: tuple[str, ...]) -> None:
    found = built(tmp_path / "run", second_worker(notes))
    (flag,) = [flag for flag in found.flags if "other kernels" in flag]
    own, other = (next(iter(set(a) - set(b))) for a, b in ((NOTES, notes), (notes, NOTES)))
    assert flag.startswith(f"w4, lookup + w4 ran on other kernels from one worker to another ({own} in the first, ")
    assert f"{other} in a later one" in flag


def test_a_draft_on_other_kernels_is_not_flagged(tmp_path: Path) -> None:
    def drafted(*notes: str) -> list[Record]:
        return [Note(process=0, text=f"lookup#1: draft: {note}") for note in notes]

    def change(lines: list[Record]) -> list[Record]:
        return second_worker(NOTES, *drafted(NOTES[0], LATER))([*lines, *drafted(*NOTES)])

    (flag,) = [flag for flag in built(tmp_path / "run", change).flags if "other kernels" in flag]
    assert flag.startswith("the draft of lookup ran on other kernels")


def test_the_same_kernels_or_a_worker_that_was_stopped_are_flagged(tmp_path: Path) -> None:
    for name, notes in (("same", NOTES), ("stopped", NOTES[:1])):
        found = built(tmp_path / name, second_worker(notes))
        assert not any("other kernels" in flag for flag in found.flags)


def test_row_counts_that_hold_for_the_run_are_said_twice_or_not_at_all(tmp_path: Path) -> None:
    found = built(tmp_path / "run", second_worker(NOTES, CROSSOVER))
    assert sum("were measured once" in note for note in found.notes) == 1
    assert sum(NOTES[1] in note for note in found.notes) == 1
    assert not any("were measured once" in note for note in built(tmp_path / "none").notes)
