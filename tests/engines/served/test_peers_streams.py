"""The script that streams many answers at once from a stub, with few."""

from __future__ import annotations

import pytest

import peers


def test_the_script_of_many_streams_breaks_or_loses_events_unseen(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--streams", "2", "3", "--rate", "100", "--seconds", "0.1"]
    rows = peers.told("streams.py", words, capsys)["rows"]
    assert [(row["streams"], row["events"], row["lost"], row["wrong"]) for row in rows] == [
        (2, 20, 0, 0),
        (3, 30, 0, 0),
    ]
    for row in rows:
        # Both processes read one clock: an event is stamped after it was sent.
        assert 0.0 < row["late_ms"]["p50"] <= row["late_ms"]["p99"] <= row["late_ms"]["most"]
        assert row["errors"] == []
        assert 0 < row["reads"] <= row["events"]
        assert row["cpu_share"] > 0.0
