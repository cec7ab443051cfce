"""Floors by their own quantile, gaps of one quantile in one picture, and the device over all repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from load_runs import attempt, found, request

from specq.load import along, charts, sections
from specq.load.device import together
from specq.load.words import answer


def test_a_floor_of_a_p99_is_told_as_a_p95(tmp_path: Path) -> None:
    rows = [request(n, events_at_s=(0.5 + n / 1000, 1.0, 1.5)) for n in range(300)]
    made = found(tmp_path, [attempt(*rows)], floors={"ttft_s_p99": 2.0})
    (curve,) = [one for one in sections.sections(made) if one.title == "Throughput and latency"]
    assert "ttft ms p99" in curve.columns
    assert any("floor: ttft_s_p99 of 2 s" in line for line in curve.lines)
    (picture,) = [one for one in charts.pictures(made) if one.name == "load-ttft"]
    assert "floor of p99" in picture.svg
    assert "floor of p95" not in picture.svg
    assert any("p99 of at most 2 s" in line for line in picture.lines)
    assert "ttft_s_p99 of 2 s" in answer(made)


def test_one_picture_of_gaps_has_two_quantiles(tmp_path: Path) -> None:
    long: dict[str, Any] = {"phase": "inject", "sent_at_s": 4.0, "events_at_s": (4.5,), "prompt_tokens": 9}
    rows = [request(n, events_at_s=(1.0, 1.1, 1.2, 3.1)) for n in range(50)]
    few = request(50, events_at_s=(4.1, 4.2, 4.4))
    made = found(tmp_path, [attempt(*rows, few, request(51, **long))])
    (picture,) = [one for one in charts.pictures(made) if one.name == "load-gaps"]
    # 150 gaps before and two during: all are told by their median.
    assert picture.rows[0][1:] == ("100", "150", "-")
    assert any(line.startswith("p50 of the gaps") for line in picture.lines)


def test_a_device_is_that_of_the_last_repeat(tmp_path: Path) -> None:
    def seen(mean: float, most: float, readings: int, source: str = "NVML") -> dict[str, Any]:
        return {"source": source, "readings": readings, "device_share": {"mean": mean, "most": most}}

    repeats = [
        attempt(request(), point=f"server@1#{n}", repeat=n, device=device)
        for n, device in ((1, seen(0.9, 1.0, 3)), (2, seen(0.5, 0.6, 1)))
    ]
    (level,) = found(tmp_path, repeats).levels
    assert level.device == {"source": "NVML", "readings": 4, "device_share": {"mean": pytest.approx(0.8), "most": 1.0}}
    assert together([seen(0.9, 1.0, 1), {"source": "unknown"}]) == seen(0.9, 1.0, 1)
    assert together([{}, {"source": "unknown"}]) == {"source": "unknown"}
    assert together([seen(0.9, 1.0, 1), seen(0.1, 0.1, 1, "processor")]) == {"source": "NVML or processor, by repeat"}


def test_a_number_that_is_not_known_has_no_reason(tmp_path: Path) -> None:
    def line(**given: Any) -> str:
        rows = [request(n, **given) for n in range(5)]
        made = found(tmp_path, [attempt(*rows, device={"source": "NVML", "device_share": {"mean": 0.5, "most": 0.9}})])
        (table,) = [one for one in along.sections(made) if one.title == along.ALONG]
        return " ".join(one for one in table.lines if one.startswith("Not known"))

    drafted: dict[str, Any] = {"proposed": 4, "accepted": 1}
    assert "verify time, for the server tells that of whole steps" in line(**drafted, decode_s=1.0)
    assert "the time of a step, for the server does not tell" in line(**drafted)
    assert "steps, for the server tells no count" in line(**(drafted | {"accepted": 2}))
    assert "no machine is named: --machine NAME, with --weights MODEL" in line()
    assert "device" not in line()
    bare = found(tmp_path, [attempt(request())])
    (table,) = [one for one in along.sections(bare) if one.title == along.ALONG]
    assert any("the device's use, for the server is on another machine" in one for one in table.lines)
