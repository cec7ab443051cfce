"""Runs of the lab that tests of a resume begin with."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_fakes import Fake
from lab_resumes import Stops, answers, measure, only

from specq.core.errors import RunFailed
from specq.lab import opening


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run without a kill."""
    monkeypatch.setattr(opening, "opened", answers(Fake()))
    return measure(tmp_path / "whole")


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that failed within its second part; the next server answers."""
    monkeypatch.setattr(opening, "opened", answers(Stops(30), Fake()))
    with pytest.raises(RunFailed):
        measure(tmp_path / "broken")
    return only(tmp_path / "broken")
