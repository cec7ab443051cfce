"""A run that was killed: what it had written down is told, a part of a line or of a wave counts nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lab_fakes import Fake
from test_lab_report import run_of

from specq.lab import lab_report
from specq.run.folder import RECORDS


def test_a_run_that_was_killed_is_lost(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", Fake())
    whole = lab_report.write(run)
    lines = (run / RECORDS).read_bytes().splitlines(keepends=True)
    for kept in range(2, len(lines), 7):
        (run / RECORDS).write_bytes(b"".join(lines[:kept]) + lines[kept][:25])
        found = lab_report.write(run)
        assert found.requests <= kept
        assert any("a torn line" in note for note in found.notes)
        if found.batch is not None:
            assert found.halves == whole.halves
            assert found.cache == whole.cache


def test_a_part_of_a_wave_passes_for_a_whole_one(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", Fake())
    true = lab_report.write(run).batch
    assert true is not None
    lines = (run / RECORDS).read_bytes().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    last = max(place for place, row in enumerate(rows) if row.get("batch", 1) == 4)
    (run / RECORDS).write_bytes(b"".join(lines[:last]))
    found = lab_report.write(run).batch
    assert found is not None
    for point, before in zip(found.points, true.points, strict=False):
        assert point.tokens_per_s.low == pytest.approx(before.tokens_per_s.low)
