from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import workload_files as files

from specq.core.errors import ConfigError, PromptError
from specq.workloads import timestamps
from specq.workloads.timestamps import Arrivals


def times(values: list[Any], unit: str = "auto", key: str = "") -> Arrivals:
    found = timestamps.arrivals(values, list(range(1, len(values) + 1)), unit, key)
    assert found is not None
    return found


BASE = 1_700_000_000


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([BASE, BASE + 1.5, BASE + 3], "s"),
        ([BASE * 1000, BASE * 1000 + 1500, BASE * 1000 + 3000], "ms"),
        ([(BASE + step) * 10**6 for step in (0, 1.5, 3)], "us"),
        ([(BASE * 10**9 + step) for step in (0, 1_500_000_000, 3_000_000_000)], "ns"),
        (["2026-05-01T10:00:00Z", "2026-05-01T12:00:01.500+02:00", "2026-05-01 10:00:03.0000000+00:00"], "iso"),
        ([f"{BASE}", f"{BASE}.5", f"{BASE + 3}"], "s"),
        ([0.0, 1.5, 3.0], "s"),
    ],
)
def test_a_unit_is_taken_for_another(values: list[Any], unit: str) -> None:
    found = times(values)
    assert found.unit == unit
    assert not found.guessed
    assert found.at_s[0] == 0
    assert found.at_s[2] == pytest.approx(3.0, abs=1e-3)


def test_small_whole_numbers_are_seconds_without_a_word() -> None:
    found = times([0, 3000, 6000])
    assert (found.unit, found.guessed) == ("s", True)
    assert "--time-unit ms" in found.notes()[0]
    told = times([0, 3000, 6000], unit="ms")
    assert (told.at_s, told.guessed, told.notes()) == ((0.0, 3.0, 6.0), False, ())
    assert times([0, 3000, 6000], key="arrival_ms").unit == "ms"


def test_a_long_count_of_small_units_passes_for_dates() -> None:
    # An hour of nanoseconds from 0 reaches 3.6e12, as milliseconds since 1970 do.
    found = times([step * 10**9 for step in range(3600)])
    assert found.unit == "s"
    assert found.guessed


def test_a_clock_that_jumps_back_is_sorted_without_a_word() -> None:
    found = times([10.5, 11.5, 8.5, 9.5, 9.25])
    assert (found.back, found.back_s, found.back_line) == (2, 3.0, 3)
    assert found.at_s == (2.0, 3.0, 0.0, 1.0, 0.75)
    assert found.sorted_s == (0.0, 0.75, 1.0, 2.0, 3.0)
    (note,) = found.notes()
    assert "goes back 2 times, by 3.000 s at most, first at line 3" in note
    assert times([1.5, 1.5, 2.5]).notes() == ()


def test_times_that_are_missing_or_none_shift_the_others() -> None:
    found = times([1.5, None, "soon", 2.5, ""])
    assert found.at_s == (0.0, None, None, 1.0, None)
    assert (found.missing, found.unread) == (3, (3,))
    assert timestamps.arrivals([None, ""], [1, 2]) is None
    assert timestamps.arrivals(["soon"], [1]) is None


def test_a_time_without_a_zone_moves_by_the_machines() -> None:
    found = times(["2026-05-01T10:00:00", "2026-05-01T10:00:01Z"])
    assert found.at_s == (0.0, 1.0)
    assert found.notes() == ("1 time without a zone beside others with one: taken as UTC",)


def test_rates_forget_a_gap_or_print_a_tail_of_too_few() -> None:
    rate = times([float(step) + 0.5 for step in range(21)]).rate()
    assert rate is not None
    assert (rate["requests"], rate["span_s"], rate["per_s"]) == (21, 20.0, 1.0)
    assert rate["gap_s"] == {"p50": 1.0, "p95": 1.0, "p99": None}
    assert rate["gap_spread"] == 0
    assert rate["busiest_minute"] == 21
    assert times([0.5, 60.5, 60.75, 61.0]).rate()["busiest_minute"] == 3  # type: ignore[index]
    assert times([1.5]).rate() is None
    assert times([1.5, 1.5]).rate() is None


def test_a_unit_that_there_is_not_is_taken() -> None:
    with pytest.raises(ConfigError, match=r"time unit sec.*allowed: auto, s, ms, us, ns, iso"):
        times([1.5], unit="sec")


TRACES = {
    "azure.csv": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n"
        "2023-11-16 18:15:50.9951690,396,109\n"
    ),
    "burst.csv": "Timestamp,Model,Request tokens,Response tokens\n5.0,GPT-4,374,44\n9.314579,GPT-4,396,109\n",
    "numbers.txt": "5.0\n9.314579\n",
    "mooncake.jsonl": (
        '{"timestamp_ms": 27000, "input_length": 374, "output_length": 44}\n'
        '{"timestamp_ms": 31314.579, "input_length": 396, "output_length": 109}\n'
    ),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_loses_its_times_or_lengths(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(TRACES[name])
    found = files.read(tmp_path / name)
    assert found.format == "trace"
    assert [one.at_s for one in found.requests] == [0.0, pytest.approx(4.314579)]
    if name != "numbers.txt":
        assert [(one.prompt_tokens, one.output_tokens) for one in found.requests] == [(374, 44), (396, 109)]


def test_a_torn_line_of_a_table_shifts_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("timestamp,prompt_tokens\n1.5,10\n2.5\n\n3.5,12\n")
    found = files.read(tmp_path / "a.csv")
    assert [one.prompt_tokens for one in found.requests] == [10, 12]
    assert [(one.reason, one.lines) for one in found.dropped] == [("1 cells under 2 headings", (3,))]
    # A cut within quotation marks does not swallow the rows behind it.
    (tmp_path / "q.csv").write_text('timestamp,prompt_tokens\r\n1.5,10\r\n2.5,"11\r\n3.5,"12"\r\n')
    cut = files.read(tmp_path / "q.csv")
    assert [one.prompt_tokens for one in cut.requests] == [10, 12]
    assert [(one.reason, one.lines) for one in cut.dropped] == [
        ("no cells that can be read (unexpected end of data)", (3,))
    ]
    with pytest.raises(PromptError, match="a table of times, which is a trace"):
        files.read(tmp_path / "a.csv", format="openai")


def test_a_log_mixes_the_clocks_of_two_keys(tmp_path: Path) -> None:
    rows = [{"timestamp": f"2026-05-01T10:00:0{n}Z", **files.body(str(n))} for n in range(3)]
    late = {"response": {"created": BASE}, **files.body("x")}
    found = files.read(files.lines(tmp_path / "a.jsonl", *rows, late))
    assert found.at_key == "timestamp"
    assert [one.at_s for one in found.requests] == [0.0, 1.0, 2.0, None]
    only = files.read(files.lines(tmp_path / "b.jsonl", late, {"response": {"created": BASE + 2}, **files.body("y")}))
    assert [one.at_s for one in only.requests] == [0.0, 2.0]
