from __future__ import annotations

from pathlib import Path

import plan_models
import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def make_model(tmp_path: Path) -> plan_models.MakeModel:
    """Writes a tiny Llama folder and returns it."""
    return plan_models.maker(tmp_path)
