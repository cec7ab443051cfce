from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import import_samples as samples
import pytest

import specq
from specq.core.errors import ConfigError, RunFolderError, UserError
from specq.imports import source
from specq.imports.detect import READERS


def refused(path: Path, *parts: str, **how: Any) -> None:
    with pytest.raises(UserError) as caught:
        specq.import_metrics(path, **how)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


OTHER_VERSIONS: list[tuple[dict[str, Any], str, str]] = [
    (samples.vllm(num_tree_nodes=4), "num_tree_nodes", "num_spec_steps"),
    (samples.vllm() | {"metrics": {"ttft": 3}}, "ttft", "time_to_first_token_ms"),
    (samples.vllm_bench(spec_decode_system_efficiency=0.4), "spec_decode_system_efficiency", "spec_decode_num_drafts"),
    (samples.sglang(spec_tree_ct=4), "spec_tree_ct", "spec_verify_ct"),
    (samples.llamacpp(draft_nodes=4), "draft_nodes", "draft_n_accepted"),
    (samples.mlx()[0] | {"draft_tokens": 2}, "draft_tokens", "from_draft"),
    (samples.spec_bench(draft_lengths=[1]), "draft_lengths", "accept_lengths"),
    (samples.aiperf(tree_width=2), "tree_width", "num_spec_steps"),
    (samples.aiperf_run(schema_version="2.0"), "schema_version is '2.0'", "known is 1.x"),
]


@pytest.mark.parametrize(("value", "found", "known"), OTHER_VERSIONS)
def test_another_version_is_guessed_at(tmp_path: Path, value: dict[str, Any], found: str, known: str) -> None:
    file = samples.lines(tmp_path / "a.jsonl", value)
    refused(file, f"{file}:1: ", found, known)


def test_counters_of_an_older_vllm_are_skipped(tmp_path: Path) -> None:
    text = samples.prometheus(6, 18, 9, (4, 3, 2)) + "vllm:spec_decode_num_emitted_tokens_total 30.0\n"
    (tmp_path / "a.prom").write_text(text)
    refused(tmp_path / "a.prom", ":11: ", "vllm:spec_decode_num_emitted_tokens_total", "num_accepted_tokens_per_pos")


@pytest.mark.parametrize("place", [1, 3])
def test_a_cut_line_is_skipped(tmp_path: Path, place: int) -> None:
    whole = [json.dumps(samples.llamacpp())] * 3
    whole[place - 1] = whole[place - 1][:60]
    (tmp_path / "a.jsonl").write_text("\n".join(whole))
    refused(tmp_path / "a.jsonl", f"a.jsonl:{place}: no whole JSON", "take it out")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["empty"]),
        ("\n\n", ["empty"]),
        ("hello there\n", [":1: ", "hello there", "--format"]),
        ('{"a": 1}\n', [":1: ", "a", "known are vllm"]),
        ("[1, 2]", [":1: ", "allowed is a JSON object"]),
        ('{"timings": 3, "meta_info": {}}\n7\n', [":2: ", "allowed is a JSON object"]),
        ('{"timings": {"predicted_n": "many"}}\n', [":1: ", "'many'", "allowed is a number"]),
        ('{"timings": {"predicted_n": true}}\n', [":1: ", "allowed is a number"]),
        ('{\n "timings": {\n', [":2: ", "no whole JSON"]),
        ('{\n "timings": {}\n}\n{\n}\n', [":4: ", "second JSON document"]),
        ("vllm:spec_decode_num_drafts_total{a=b} 3\n", [":1: ", "labels"]),
        ("vllm:spec_decode_num_drafts_total many\n", [":1: ", "many"]),
        ("vllm:num_requests_running 3\n", ["vllm:spec_decode_num_drafts_total"]),
    ],
)
def test_what_is_no_known_file_is_half_read(tmp_path: Path, text: str, parts: list[str]) -> None:
    (tmp_path / "a.txt").write_text(text)
    refused(tmp_path / "a.txt", *parts)


def test_deep_nesting_ends_in_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"timings": ' + "[" * 100_000)
    refused(tmp_path / "a.json", ":1: ")


def test_a_wrong_word_is_taken_for_auto(tmp_path: Path) -> None:
    file = samples.lines(tmp_path / "a.jsonl", samples.llamacpp())
    with pytest.raises(ConfigError, match=r"no format llamacpp, did you mean 'llama.cpp'\? allowed: auto, vllm"):
        specq.import_metrics(file, "llamacpp")
    with pytest.raises(ConfigError, match="--before is for two scrapes"):
        specq.import_metrics(file, before=file)
    refused(tmp_path / "none.jsonl", "none.jsonl cannot be read (No such file or directory)")
    refused(tmp_path, "cannot be read (Is a directory)")


@pytest.mark.parametrize("name", READERS)
def test_a_format_that_is_named_wrongly_gives_an_empty_import(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"nothing": 1}\n')
    try:
        found = specq.import_metrics(tmp_path / "a.jsonl", name)
    except UserError:
        return
    assert found.flags


def test_a_document_larger_than_the_limit_is_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_BYTES", 2**20)
    line = json.dumps(samples.llamacpp() | {"content": "x" * 1000}) + "\n"
    (tmp_path / "log.jsonl").write_text(line * 2000)
    assert len(specq.import_metrics(tmp_path / "log.jsonl").records) == 2000
    big = samples.llamacpp() | {"content": "x" * 2**20}
    refused(samples.lines(tmp_path / "line.json", big), ":1: a line of more than 1 MiB")
    (tmp_path / "document.json").write_text(json.dumps([samples.llamacpp()] * 5000, indent=1))
    refused(tmp_path / "document.json", ":1: one JSON document of more than 1 MiB")


@pytest.mark.parametrize("name", ["llama.cpp", "llama.cpp-log"])
def test_a_file_is_read_to_its_end_before_the_first_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(source, "MOST_BYTES", 2**20)
    first = json.dumps(samples.llamacpp()) if name == "llama.cpp" else samples.SERVER_LOG
    (tmp_path / "a.log").write_text(f"{first}\n" + "x" * 2**21)
    found = READERS[name](tmp_path / "a.log")
    assert next(found).line < 3
    with pytest.raises(UserError, match="a line of more than 1 MiB"):
        list(found)


def test_records_are_written_over_or_left_half_written(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    good = samples.lines(tmp_path / "a.jsonl", samples.llamacpp(), samples.llamacpp(draft_n=5))
    written = specq.import_metrics(good, out=out, keep=False)
    assert (written.written, written.records, written.totals.records) == (out / "imported.jsonl", (), 2)
    kinds = [json.loads(line)["kind"] for line in (out / "imported.jsonl").read_text().splitlines()]
    assert kinds == ["Imported", "Imported", "Flag"]
    with pytest.raises(RunFolderError, match="there already"):
        specq.import_metrics(good, out=out)
    bad = samples.lines(tmp_path / "b.jsonl", samples.llamacpp(), samples.llamacpp(draft_nodes=1))
    refused(bad, out=tmp_path / "other")
    assert not (tmp_path / "other").exists()
    # Only what was made for it is taken away again.
    refused(bad, out=out.parent / "x" / "y")
    assert [one.name for one in out.parent.iterdir()] == ["out"]


def test_an_out_that_is_a_file_is_a_failed_run_or_found_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = samples.lines(tmp_path / "a.jsonl", samples.llamacpp())
    monkeypatch.setattr(source, "objects", lambda _: pytest.fail("the file was read"))
    for out in (good, good / "below" / "it"):
        with pytest.raises(ConfigError, match=r"--out .*a\.jsonl.*: .* is no folder; name a folder"):
            specq.import_metrics(good, "llama.cpp", out=out)
    assert specq.cli.main(["import", str(good), "--out", str(good)]) == 2
