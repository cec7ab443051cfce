from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch, request):
    """Every test gets a cache of its own; the built-in model is read from the user's."""
    if request.node.get_closest_marker("real_model"):
        return None
    folder = tmp_path / "specq-cache"
    monkeypatch.setenv("SPECQ_CACHE", str(folder))
    return folder
