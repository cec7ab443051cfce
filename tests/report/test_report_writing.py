from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import eval_runs
import pytest
from report_runs import ARMS, FINISHED, MACHINE, PROMPTS, info, noise_and_audits, turns, whole_run, write_run

from specq import report
from specq.core.errors import RunFolderError
from specq.core.records import Generated, Machine
from specq.report import invariants
from specq.report.markdown import render


def test_written_files_hold_the_report(tmp_path: Path) -> None:
    folder = whole_run(tmp_path / "run")
    found = report.write(folder)
    stored = json.loads((folder / "report.json").read_text())
    assert stored == json.loads(json.dumps(found.to_json()))
    assert stored["arms"][2]["measures"]["speedup"]["value"] == found.arm("lookup#1").measures["speedup"].value
    assert (folder / "report.md").read_text().startswith("# Which draft?\n")
    assert report.write(folder) == found, "a report can be rebuilt at any time"


@pytest.mark.parametrize("fault", [errno.EROFS, errno.EACCES])
def test_a_report_in_a_folder_that_cannot_be_written_is_a_bug_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    folder = whole_run(tmp_path / "run")

    def refuse(*_: object, **__: object) -> None:
        # On a read-only disk nothing can be taken away either.
        raise OSError(fault, os.strerror(fault))

    for method in ("write_text", "unlink"):
        monkeypatch.setattr(Path, method, refuse)
    with pytest.raises(RunFolderError, match=f"to print the report alone type: specq show {folder}") as error:
        report.write(folder)
    assert os.strerror(fault) in str(error.value)
    assert "\n" not in str(error.value)


def test_the_ceiling_hides_the_spread_of_the_tries(tmp_path: Path) -> None:
    machine, target = MACHINE
    assert isinstance(machine, Machine)
    tried = replace(machine, bandwidth_min_bytes_per_s=15e9, bandwidth_max_bytes_per_s=22e9)
    lines = [tried, target, *turns(), *noise_and_audits(), *FINISHED]
    with_tries = render(report.build(write_run(tmp_path / "a", info(ARMS, PROMPTS), lines)))
    assert "at 20.0 GB/s (tries: 15.0 to 22.0) measured here" in with_tries
    assert "at 20.0 GB/s measured here" in render(report.build(whole_run(tmp_path / "b")))


def test_a_report_in_json_lacks_what_copies_of_it_would_have(tmp_path: Path) -> None:
    found = eval_runs.report(tmp_path, n=20, worse=2, better=1, critical=(0,))
    copied = asdict(found)
    for one in copied["evals"]:
        for arm in (*one["arms"], one["noise"], one["probe"], one["own"]):
            for part in arm["slices"] if arm else ():
                assert part["change"].pop("pairs"), "every item's score, which records.jsonl has"
    assert found.to_json() == copied


def test_every_arms_steps_are_gone_through_more_than_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = invariants.violations

    def counted(generations: Iterable[Generated], most: int | None = None) -> tuple[str, ...]:
        listed = list(generations)
        asked.append(listed[0].arm)
        return real(listed, most)

    monkeypatch.setattr(invariants, "violations", counted)
    report.build(whole_run(tmp_path))
    assert sorted(asked) == sorted(ARMS)
