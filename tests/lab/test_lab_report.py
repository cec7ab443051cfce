"""The lab whole: records to report and page, on known laws, on a tiny model and on the stub server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_fakes import READ, WRITE, Fake, bench, linear
from test_lab_requesters import play, stub

import specq
from specq import cli
from specq.core import jsonl
from specq.core.errors import ConfigError, RunFolderError
from specq.lab import asked, batching, context, halves, lab_layout, lab_report, measured, opening, peak, prompt_cache
from specq.lab import rows as records
from specq.lab.bench import Settings
from specq.lab.requester import OwnPrompt
from specq.lab.requester_served import ServedRequester
from specq.report import markdown
from specq.run import bandwidth

OWN = {"prompt": 200, "output_tokens": 50, "origin": "as given", "unit": "tokens", "cached_share": None}
INFO: dict[str, Any] = {
    "experiment": "lab",
    "question": "What is a request to <b>fake</b> made of?",
    "target": "fake",
    "kind": "fake",
    "unit": "words",
    "settings": {"repeats": 2, "seed": 3},
    "own": OWN,
    "size": {"weight_bytes": 2**30, "bits": 16.0, "cache_bytes": 2**20, "tokens": 250, "cache_type": "fp16"},
    "machine": {"origin": "a data sheet", "flops": 989e12, "bandwidth": 3.35e12, "bytes_per_weight": 2.0},
}


def run_of(folder: Path, fake: Fake, info: dict[str, Any] = INFO) -> Path:
    """A run's folder with all parts, as the lab writes it."""
    folder.mkdir()
    jsonl.write_whole(folder / "run.json", info)
    appender = jsonl.Appender(folder / "records.jsonl")
    made = bench(fake, write=appender.append)
    halves.measure(made)
    context.measure(made)
    own = [("w1 w2 w3 <i>x</i>", "<tag>"), ("w1 w2 w3 y", "other")]
    prompt_cache.measure(made, [OwnPrompt(text=text, tokens=4, tags=(tag,)) for text, tag in own])
    batching.measure(made, (1, 2, 4))
    made.note("batch", "something <u>to tell</u>")
    appender.close()
    return folder


def test_what_it_comes_to_is_not_what_the_laws_say(tmp_path: Path) -> None:
    found = lab_report.write(run_of(tmp_path / "run", Fake()))
    whole = found.deliverable
    assert whole is not None
    assert whole.ttft_s == pytest.approx(linear(200))
    assert whole.decode_s == pytest.approx(49 * WRITE)
    assert whole.ttft_share == pytest.approx(linear(200) / (linear(200) + 49 * WRITE))
    # Both rates and their ratio are of one request, of the length that is nearest.
    assert whole.row.length in (160, 240)
    assert whole.row.ratio == pytest.approx(whole.row.prompt_tokens / linear(whole.row.length) * WRITE)
    assert whole.lever.name == "quantized weights"
    assert not whole.beyond
    assert found.flags == ()
    told = json.loads((tmp_path / "run" / "report.json").read_text())
    assert told["halves"]["model"]["prompt_token_s"] == pytest.approx(READ)
    assert told["deliverable"]["ratio"] == pytest.approx(whole.row.ratio)
    assert set(told["cache"]["hit_rate_by_tag"]) == {"<tag>", "other"}


def test_a_page_lacks_a_picture_or_lets_foreign_text_through(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", Fake())
    lab_report.write(run)
    html = (run / "report.html").read_text()
    assert html.count("<svg") == 4
    assert "mathdefault" not in html
    for title in ("The two halves of a request", "The first token over", "What a prefix cache saves", "What a batch"):
        assert title in html
    for planted in ("<b>fake", "<i>x", "<tag>", "<u>to"):
        assert planted not in html
        assert planted not in (run / "report.md").read_text()
    assert "&lt;tag&gt;" in html
    again = html
    lab_report.write(run)
    assert (run / "report.html").read_text() == again
    said = (run / "report.md").read_text()
    for section in lab_layout.sections(measured.open_lab(run)):
        assert f"## {section.title}" in said


def test_a_hit_is_read_as_quality(tmp_path: Path) -> None:
    found = measured.open_lab(run_of(tmp_path / "run", Fake()))
    shown = {section.title: section for section in lab_layout.sections(found)}
    cache = shown[lab_layout.CACHE]
    assert not any("quality" in column or "answer" in column for column in cache.columns)
    assert any("nothing of how good its answer is" in line for line in cache.lines)


@pytest.mark.parametrize(
    ("how", "flag"),
    [
        ({"drifts": 0.01}, "canary's time moved by"),
        ({"lies": 40}, "that were to be read cold had cached tokens"),
        ({"lies": 40}, "more cached tokens than they share"),
        ({"late": 0.1}, "do not agree"),
        ({"fails": (9,)}, "requests failed and count nowhere"),
    ],
)
def test_a_planted_fault_is_not_flagged(tmp_path: Path, how: dict[str, Any], flag: str) -> None:
    found = measured.open_lab(run_of(tmp_path / "run", Fake(**how)))
    assert any(flag in one for one in found.flags), found.flags
    first, *_ = lab_layout.sections(found)
    assert first.title == lab_layout.FLAGS


def test_records_come_back_changed_or_damage_passes(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", Fake())
    file = run / "records.jsonl"
    found, torn = records.read(file)
    assert torn == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [json.loads(json.dumps(records.line(one))) for one in found] == lines
    with file.open("a") as more:
        more.write('{"type":"row","pa')
    assert "torn line" in measured.open_lab(run).notes[-1]
    broken = [{**lines[0], "ttft_s": "soon"}, *lines[1:]]
    file.write_text("".join(json.dumps(line) + "\n" for line in broken))
    with pytest.raises(RunFolderError, match=r"records.jsonl:1: ttft_s not as"):
        measured.open_lab(run)
    file.write_text(json.dumps({"type": "rove"}) + "\n")
    with pytest.raises(RunFolderError, match="its type is none of row, prediction, note"):
        measured.open_lab(run)
    jsonl.write_whole(run / "run.json", {**INFO, "experiment": "quickstart"})
    with pytest.raises(RunFolderError, match="another kind; type: specq report"):
        measured.open_lab(run)


def test_parts_that_are_missing_break_the_report(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", Fake())
    lines = (run / "records.jsonl").read_text().splitlines()
    for part in measured.PARTS:
        (run / "records.jsonl").write_text("".join(f"{one}\n" for one in lines if json.loads(one).get("part") == part))
        found = lab_report.write(run)
        assert (found.deliverable is None) is (part in ("cache", "batch"))
    (run / "records.jsonl").write_text("")
    assert lab_report.NO_ANSWER in lab_report.html(measured.open_lab(run))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, folder_of: Callable[..., Path]) -> None:
    monkeypatch.setenv("HOME", str(folder_of("llama").parent))
    monkeypatch.setattr(bandwidth, "measure", lambda *a, **k: bandwidth.Bandwidth(minimum=1e9, median=2e9, maximum=3e9))
    monkeypatch.setattr(peak, "measure", lambda *a, **k: 2e10)


def test_a_tiny_model_is_measured_whole(folder_of: Callable[..., Path], tmp_path: Path, quick: None) -> None:
    prompts = tmp_path / "own.jsonl"
    prompts.write_text("".join(json.dumps({"id": f"{i}", "prompt": f"to be or not {i}"}) + "\n" for i in range(2)))
    found, run = specq.measure_requests(
        str(folder_of("llama")),
        lengths=(10, 14, 18, 22, 26, 30),
        new_tokens=4,
        repeats=2,
        batch=(1, 2),
        text="builtin:text",
        prompts=prompts,
        out=tmp_path / "results",
    )
    assert sorted(path.name for path in run.iterdir()) == [
        *("done.json", "records.jsonl", "report.html", "report.json", "report.md", "run.json", "target.json")
    ]
    assert str(folder_of("llama").parent) not in (run / "target.json").read_text()
    assert found.halves is not None
    assert [cell.prompt_tokens for cell in found.halves.cells] == pytest.approx([10, 14, 18, 22, 26, 30], abs=1)
    assert found.cache is not None
    rates = {case.name: case.rate.share for case in found.cache.cases}
    assert rates["cold"] is not None
    assert rates["cold"] < 0.1
    assert all(case.rate.share == pytest.approx(case.possible) for case in found.cache.cases if case.name != "cold")
    assert found.cache.users is not None
    assert found.cache.users.thrown_out
    assert found.batch is not None
    assert found.batch.machine is not None
    assert found.batch.machine.flop_per_byte == 10
    assert found.notes == ()
    whole = found.deliverable
    assert whole is not None
    assert (whole.own.prompt_tokens, whole.own.output_tokens) == (14, 4)
    assert whole.own.cached_share is not None
    assert specq.list_runs(tmp_path / "results")[0].state == "done"
    assert specq.rebuild_lab(run.name, out=tmp_path / "results")[0].requests == found.requests


def test_a_model_without_a_cache_to_reuse_stops_the_rest(
    folder_of: Callable[..., Path], tmp_path: Path, quick: None
) -> None:
    found, _ = specq.measure_requests(
        str(folder_of("hybrid")),
        parts=("cache", "batch"),
        lengths=(10,),
        new_tokens=3,
        repeats=2,
        batch=(1, 2),
        text="builtin:text",
        out=tmp_path / "results",
    )
    assert len(found.notes) == 2
    assert all("not measured" in note for note in found.notes)


def test_halves_of_the_stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specq.engines.served import launch

    class Played(ServedRequester):
        def __init__(self, *args: Any, **how: Any) -> None:
            super().__init__(*args, **how, edit=play(tokens=6, rate=2000.0))

    monkeypatch.setattr(opening, "ServedRequester", Played)
    monkeypatch.setattr(launch, "attach", lambda url, health, **how: launch.Server(url))
    with stub() as one:
        found, run = specq.measure_requests(
            one.url,
            parts=("halves", "context"),
            lengths=(4, 6, 8, 10, 12, 14),
            new_tokens=6,
            repeats=2,
            served_as="stub",
            text="builtin:text",
            out=tmp_path / "results",
        )
    assert found.halves is not None
    assert [cell.length for cell in found.halves.cells] == [4, 6, 8, 10, 12, 14]
    assert found.halves.cells[0].prompt_tokens == 5
    assert found.context is not None
    assert all(depth.whole_s is not None for depth in found.context.depths)
    assert json.loads((run / "run.json").read_text())["unit"] == "words"


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"parts": ["halfs"]}, "did you mean 'halves'"),
        ({"lengths": [1, 2]}, "--lengths 64,128"),
        ({"batch": [2, 4]}, "--batch 1,2,4,8"),
        ({"repeats": 1}, "2 or more"),
        ({"kind": "vlm"}, "did you mean 'vllm'"),
        ({"kind": "hf"}, "is a server"),
        ({"cached_share": 60}, "0.6 is 60 %"),
        ({"prompt_tokens": 0}, "--prompt-tokens 0"),
        ({"machine": "h10"}, "no machine"),
    ],
)
def test_what_cannot_be_measured_is_found_out_late(tmp_path: Path, how: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        specq.measure_requests("http://127.0.0.1:9", out=tmp_path / "results", **how)
    assert not (tmp_path / "results").exists()


def test_weights_that_are_loaded_as_other_floats_are_sized_as_stored(folder_of: Callable[..., Path]) -> None:
    own = asked.OwnPrompts(prompts=(), given={"prompt": 20, "output_tokens": 5})
    settings = Settings(lengths=(10,), output_tokens=4)
    stored, half = (asked.size(str(folder_of("llama")), own, settings, dtype) for dtype in (None, "bfloat16"))
    assert stored is not None
    assert half is not None
    assert (stored.bits, half.bits) == (32, 16)
    assert (half.tokens, half.cache_bytes) == (25, stored.cache_bytes)


def test_arithmetic_is_measured() -> None:
    assert peak.measure("cpu", "float32", side=16, tries=1) > 0


def test_tables_and_markdown_of_no_sections_are_empty() -> None:
    assert markdown.document(("question",), []) == "# question\n"


def test_a_lab_run_cannot_be_listed_or_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lab").mkdir()
    run = run_of(tmp_path / "lab" / "one", Fake())
    assert cli.main(["ls", "--out", str(tmp_path), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert (one["experiment"], one["state"]) == ("lab", "unfinished")
    assert cli.main(["show", "one", "--out", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["deliverable"]["ratio"] > 0
    assert sorted(path.name for path in run.iterdir()) == ["records.jsonl", "run.json"]
    assert cli.main(["report", str(run)]) == 0
    assert "What is a request to <b>fake</b> made of?" in capsys.readouterr().out
    assert (run / "report.html").is_file()
