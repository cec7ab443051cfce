"""The script that streams many answers at once from a stub, with few."""

from __future__ import annotations

import pytest

import peers


def test_the_script_of_many_streams_breaks_or_loses_events_unseen(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--streams", "2", "3", "--rate", "100", "--seconds", "0.1"]
    rows = peers.told("streams.py", words, capsys)["rows"]
    assert [(row["by"], row["streams"], row["lost"], row["wrong"]) for row in rows] == [
        (by, streams, 0, 0) for by in ("client", "load") for streams in (2, 3)
    ]
    assert [row["events"] for row in rows if row["by"] == "client"] == [20, 30]
    # A warm-up, the steady state and a tail, of a request a stream each at least.
    assert all(row["events"] == 10 * row["requests"] >= 20 * row["streams"] for row in rows if row["by"] == "load")
    for row in rows:
        # Both processes read one clock: an event is stamped after it was sent.
        assert 0.0 < row["late_ms"]["p50"] <= row["late_ms"]["p99"] <= row["late_ms"]["most"]
        assert row["errors"] == []
        assert 0 < row["reads"] <= row["events"]
        assert row["cpu_share"] > 0.0
