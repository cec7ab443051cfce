"""Work that a report must not do again and again: counted, never timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_runs import ARMS, FINISHED, MACHINE, PROMPTS, info, noise_and_audits, turns, whole_run, write_run

from specq import report
from specq.core.records import Generated, Machine, Note, Record
from specq.report import speed
from specq.report.runfile import load


class Counted(tuple[Record, ...]):
    """Records that count how often they are gone through."""

    passes = 0

    def __iter__(self) -> Iterator[Record]:
        Counted.passes += 1
        return super().__iter__()


def test_asking_for_a_kind_of_record_does_not_go_through_all_records_again(tmp_path: Path) -> None:
    run = load(whole_run(tmp_path))
    counted = replace(run, records=Counted(run.records))
    Counted.passes = 0
    for kind in (Generated, Machine, Note, Generated):
        assert counted.of(kind) == [record for record in run.records if type(record) is kind]
    assert Counted.passes == 1


def test_what_is_asked_for_can_be_changed_without_changing_the_run(tmp_path: Path) -> None:
    run = load(whole_run(tmp_path))
    run.of(Generated).clear()
    assert len(run.of(Generated)) == len(turns())


def test_no_interval_is_made_for_a_process_whose_interval_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    original = speed.log_ratio

    def counting(*rows: Any) -> Any:
        made.append(len(rows[0]))
        return original(*rows)

    monkeypatch.setattr(speed, "log_ratio", counting)
    for processes in (1, 3):
        lines = [*MACHINE, *turns(processes=processes), *noise_and_audits(), *FINISHED]
        about = info(ARMS, PROMPTS, workload={"processes": processes})
        found = report.build(write_run(tmp_path / str(processes), about, lines))
        assert f"speedup[process {processes - 1}]" in found.arm("lookup#1").measures
    # Of tpot_s and e2e_s on all prompts, of tpot_s on both tags; for the twin and for lookup.
    assert made == [6, 6, 3, 3] * 4
