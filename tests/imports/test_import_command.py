from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import import_samples as samples
import pytest

import specq
from doc_pages import chapters, code, page, rows
from specq import cli
from specq.imports import detect
from specq.imports.record import FLAGS, Imported
from specq.imports.totals import Totals


def test_the_page_lacks_a_format_a_field_or_a_flag() -> None:
    told = chapters(page("docs/import.md"))
    assert [row[0].strip("`") for row in rows(told["Formats"])] == list(detect.READERS)
    assert {row[0].strip("`") for row in rows(told["Flags"])} == FLAGS.keys()
    fields = [name for row in rows(told["Records"]) for name in code(row[0])]
    assert set(fields) == {field.name for field in dataclasses.fields(Imported)}
    totals = Totals()
    totals.add(Imported(source="x", line=1, draft_steps=2, accepted_by_position=(1, 1)))
    measures = {re.sub(r"\[\d+\]", "[j]", one.name): one.unit for one in totals.measures()}
    assert {name: row[1] for row in rows(told["Measures"]) for name in code(row[0])} == measures


def test_the_table_hides_a_count_a_dash_or_a_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [samples.llamacpp(), *[samples.llamacpp(draft_n=5) | {"id": "\x1b[31mred"}] * 7]
    file = samples.lines(tmp_path / "a.jsonl", *answers)
    assert cli.main(["import", str(file), "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"new tokens +128\n", shown)
    assert re.search(r"tokens_per_step +2\.50 ", shown)
    assert re.search(r"tokens_per_draft_step +- ", shown)
    assert "accepted_above_proposed (7): more proposals were accepted than made" in shown
    assert "line 2, \\x1b[31mred: 9 accepted of 5 proposed" in shown
    assert "and 2 more" in shown
    assert "\x1b" not in shown
    assert "of 8 records steps were not counted" in shown
    # A long path is broken over lines.
    assert f"Records:{tmp_path / 'imported.jsonl'}" in "".join(shown.split())


def test_json_is_no_single_object_or_has_a_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = samples.lines(tmp_path / "a.jsonl", samples.llamacpp(predicted_ms=float("nan")), samples.llamacpp())
    assert cli.main(["import", str(file), "--json", "--format", "llama.cpp"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "llama.cpp"
    assert [one["kind"] for one in found["records"]] == ["Imported", "Imported"]
    assert [one["name"] for one in found["flags"]] == ["not_a_number"]
    assert found["totals"]["flags"] == {"not_a_number": 1}
    # Time and tokens of a ratio are those of the same request.
    assert found["totals"]["measures"]["tpot_s"] == {
        **{"value": pytest.approx(0.02), "unit": "s", "n": 1, "p50": pytest.approx(0.02)},
        **{"p95": None, "p99": None},
    }


def test_a_refusal_is_more_than_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text("{broken\n")
    assert cli.main(["import", str(tmp_path / "a.jsonl")]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "a.jsonl:1: no whole JSON" in told.err


def test_a_ratio_mixes_records_that_know_one_of_its_sums() -> None:
    totals = Totals()
    totals.add(Imported(source="x", line=1, new_tokens=11, steps=5, accepted=5, proposed=10, draft_steps=5))
    totals.add(Imported(source="x", line=2, new_tokens=101, accepted=50, ttft_s=1.0))
    values = {one.name: one for one in totals.measures()}
    assert (values["tokens_per_step"].value, values["tokens_per_step"].n) == (2, 1)
    assert values["draft_acceptance"].value == 0.5
    assert values["ttft_s"].n == 1
    assert values["e2e_s"].value is None


def test_a_survival_of_drafted_steps_passes_for_one_of_all_steps() -> None:
    totals = Totals()
    totals.add(Imported(source="x", line=1, draft_steps=4, accepted_by_position=(2, 1)))
    assert totals.accepted_by_position() == ((2, 1), 4)
    assert {one.name: one.value for one in totals.measures()}["survival[1]"] is None
    known = Totals()
    known.add(Imported(source="x", line=1, steps=8, draft_steps=4, accepted_by_position=(2, 1)))
    assert {one.name: one.value for one in known.measures()}["survival[1]"] == 0.25
    known.add(Imported(source="x", line=2, draft_steps=4, accepted_by_position=(2, 1)))
    assert {one.name: one.value for one in known.measures()}["survival[1]"] is None


def test_tails_are_missing_or_printed_from_too_few(tmp_path: Path) -> None:
    answers = [samples.llamacpp(prompt_ms=100.0 + place, prompt_per_second=None) for place in range(20)]
    found = specq.import_metrics(samples.lines(tmp_path / "a.jsonl", *answers))
    tails = {one.name: one.tails for one in found.totals.measures()}["ttft_s"]
    assert tails == {"p50": pytest.approx(0.1095), "p95": pytest.approx(0.11805), "p99": None}
