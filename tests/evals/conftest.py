"""Shared by the tests of evaluations."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_lm_eval: None) -> None:
    """Data sets are prepared in a folder of the test's own."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "prepared")
