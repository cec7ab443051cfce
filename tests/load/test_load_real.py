"""A load run that starts a real llama.cpp itself: what the server says of it, and what it was told."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest

from specq.core import jsonl
from specq.engines.served.kinds import llamacpp
from specq.load import rows
from specq.load.rows import Started
from specq.load.running import measure_load

HERE = importlib.util.find_spec("xllamacpp") is not None or llamacpp.SERVER in os.environ
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not HERE, reason=f"no xllamacpp in this Python, and {llamacpp.SERVER} is not set")
@pytest.mark.real_model
def test_a_real_llamacpp_is_started_otherwise_or_its_drafting_goes_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("specq.load.charts.pictures", lambda found: ())
    monkeypatch.setattr("specq.load.here.measured", lambda files, asked, say: files)
    found = measure_load(
        "experiments/served.toml", concurrency=[2], requests=4, max_tokens=12, repeats=1, out=tmp_path / "out"
    )
    told = {row.server: row for row in rows.read(found.run / "records.jsonl")[0] if isinstance(row, Started)}
    assert (told["baseline"].exactness, told["lookup"].exactness) == ("", "exact_by_match")
    assert {row.settings["slots"] for row in told.values()} == {2}
    assert {row.settings["cache_type"] for row in told.values()} == {"f16"}
    assert told["lookup"].settings["speculation"] != "none"
    plain, drafted = found.levels
    assert plain.failed == drafted.failed == {}
    # At temperature 0 a draft that is matched changes no text.
    (ratio,) = found.ratios
    assert ratio.compared
    assert ratio.speedup is not None
    # The server's own clock agrees on the time a token; a busy machine moves both.
    assert plain.agreement.tpot == pytest.approx(1.0, abs=0.1)
    assert plain.device["source"] in ("the server's processes", "NVML")
    assert plain.cached_share == 0.0
    if drafted.drafting is not None:
        assert drafted.drafting.draft_call_s is not None
        assert drafted.drafting.verify_s is not None
        assert drafted.drafting.step_s is not None
        assert 0 < drafted.drafting.verify_s <= drafted.drafting.step_s
    counts = [line["new_tokens"] for line in _counters(found.run) if "new_tokens" in line]
    assert counts
    json.dumps(found.to_json())


def _counters(run: Path) -> list[dict[str, float]]:
    """What the server's counters grew by, of each point."""
    return [line["numbers"] for _, line in jsonl.read(run / "records.jsonl")[0] if line["kind"] == "Measured"]
