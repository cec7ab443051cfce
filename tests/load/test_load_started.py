"""Servers that a load run starts itself: which arms, with which settings, one at a time, and none left behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import load_servers
import psutil
import pytest
from load_runs import prompts
from load_servers import experiment, loaded, served_stubs

from specq.core.errors import ConfigError, RunFailed, UserError
from specq.load import measuring, rows
from specq.load.found import Found
from specq.load.rows import Began, Measured, Requested, Started
from specq.load.running import measure_load, resume_load


@pytest.fixture(autouse=True)
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Any) -> Path:
    """The stub as if it were vLLM, on a tiny model whose tokens are known."""
    monkeypatch.setattr("specq.load.charts.pictures", lambda found: ())
    monkeypatch.setattr("specq.load.page.render", lambda found: "")
    monkeypatch.setattr("specq.load.here.measured", lambda files, asked, say: files)
    served_stubs.install(tmp_path, monkeypatch, plain={"tokens": 4}, draft={"tokens": 4, "accepted": 2})
    folder: Path = folder_of("llama")
    return folder


def started(found: Found) -> list[Started]:
    return [row for row in rows.read(found.run / "records.jsonl")[0] if isinstance(row, Started)]


def flag(row: Started, name: str) -> str | None:
    return row.command[row.command.index(name) + 1] if name in row.command else None


def running(tmp_path: Path) -> list[int]:
    """Processes of a stub that was installed there."""
    found = []
    for one in psutil.process_iter():
        try:
            if str(tmp_path / "vllm-python") in one.cmdline():
                found.append(one.pid)
        except psutil.Error:
            continue
    return found


def test_an_arm_is_measured_on_another_arms_server(tmp_path: Path, vllm: Path) -> None:
    file = experiment(tmp_path, model=vllm)
    found = loaded(file, tmp_path)
    told = started(found)
    # At each level they take turns, back and forth: lookup stays for the second.
    assert [row.server for row in told] == ["baseline", "lookup", "baseline"]
    # The stub says neither; the commands do.
    assert [row.settings["speculation"] for row in told] == ["none", "lookup, k = 4", "none"]
    assert {row.settings["prefix_cache"] for row in told} == {False}
    assert [("--speculative-config" in row.command, row.exactness) for row in told] == [
        (False, ""),
        (True, "exact"),
        (False, ""),
    ]
    assert {(flag(row, "--max-num-seqs"), flag(row, "--max-model-len")) for row in told} == {("2", "192")}
    assert all("--no-enable-prefix-caching" in row.command for row in told)
    assert all((found.run / row.log).is_file() for row in told)
    assert [(one.server, one.level, one.requests) for one in found.levels] == [
        (name, level, 6) for name in ("baseline", "lookup") for level in (1.0, 2.0)
    ]
    drafts = {one.server: one.drafting for one in found.levels}
    assert drafts["baseline"] is None
    assert drafts["lookup"] is not None
    assert drafts["lookup"].draft_acceptance == 0.5
    assert set(found.ends) == {"lookup"}
    # What the experiment says stands where nothing else was given.
    assert (found.asked.max_tokens, found.asked.repeats, found.asked.ignore_eos) == (4, 1, False)
    assert not running(tmp_path)
    text = (found.run / "report.md").read_text()
    assert "lookup: what it drafts is exact" in text
    assert "Servers are started here, one at a time" in text


def test_arms_that_were_not_asked_for_are_started(tmp_path: Path, vllm: Path) -> None:
    file = experiment(tmp_path, model=vllm, more=load_servers.LOOKUP + '[levers.kv]\nkind = "kv_cache"\ntype = "q8"\n')
    found = loaded(file, tmp_path, arms=["kv"], concurrency=[1], overrides=["engine.slots=3", "engine.context=512"])
    assert [row.server for row in started(found)] == ["baseline", "kv"]
    assert flag(started(found)[1], "--kv-cache-dtype") == "fp8"
    assert {(flag(row, "--max-num-seqs"), flag(row, "--max-model-len")) for row in started(found)} == {("3", "512")}


def test_a_model_by_its_kind_starts_another_server_or_takes_other_words(tmp_path: Path, vllm: Path) -> None:
    found = measure_load(
        None,
        prompts(tmp_path),
        kind="vllm",
        model=str(vllm),
        args=["--enforce-eager"],
        rate=[50.0],
        requests=4,
        max_tokens=4,
        warm_prefix=True,
        out=tmp_path / "out",
    )
    (told,) = started(found)
    assert "--enforce-eager" in told.command
    assert "--enable-prefix-caching" in told.command
    assert flag(told, "--max-num-seqs") == "8"
    assert flag(told, "--max-model-len") == "192"
    assert [one.server for one in found.levels] == ["baseline"]


def test_chunked_prefill_is_not_what_two_servers_differ_in(
    tmp_path: Path, vllm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Slow enough that each long prompt has its turn before the level is over.
    served_stubs.install(tmp_path, monkeypatch, plain={"tokens": 8, "rate": 100})
    long = tmp_path / "long.jsonl"
    long.write_text("".join(json.dumps({"id": f"l{n}", "prompt": "word " * 20}) + "\n" for n in range(3)))
    found = loaded(
        experiment(tmp_path, model=vllm),
        tmp_path,
        prefill_chunks=["off", "64"],
        inject=long,
        concurrency=[2],
        requests=30,
    )
    whole, chunk = started(found)
    assert (whole.server, chunk.server) == ("whole prompts", "chunk 64")
    assert "--no-enable-chunked-prefill" in whole.command
    assert "--enable-chunked-prefill" in chunk.command
    assert flag(chunk, "--max-num-batched-tokens") == "64"
    assert all("--speculative-config" not in row.command for row in (whole, chunk))
    # A long prompt comes on top of the two that are under way, and needs room itself.
    assert {(flag(row, "--max-num-seqs"), flag(row, "--max-model-len")) for row in (whole, chunk)} == {("3", "192")}
    (told,) = found.stalls
    assert (told.server, told.level, told.prompts) == ("chunk 64", 2.0, 3)
    assert "## Long prompts, held against whole prompts" in (found.run / "report.md").read_text()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"arms": ["lokup"]}, "--arm \"lokup\", did you mean 'lookup'"),
        ({"kind": "vllm"}, "--kind beside .*the experiment says it"),
        ({"against": "http://127.0.0.1:1"}, "--against is a server that runs"),
        ({"overrides": ["engine.kind=hf"]}, 'kind = "hf" .* is no server'),
        ({"prefill_chunks": ["64", "x"]}, r'--prefill-chunk "x": allowed are numbers of tokens, and off'),
        ({"prefill_chunks": ["64", "64"]}, "the same twice"),
        (
            {"overrides": ["engine.url=http://127.0.0.1:9"]},
            'arm "lookup": levers.lookup needs a server that is started',
        ),
        ({"overrides": ['levers.lookup={kind="draft", method="early_exit", layers=2}']}, 'arm "lookup": '),
    ],
)
def test_what_cannot_be_is_found_after_a_server_started(
    tmp_path: Path, vllm: Path, how: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        loaded(experiment(tmp_path, model=vllm), tmp_path, **how)
    assert not (tmp_path / "out").exists()


def test_options_of_started_servers_are_taken_for_one_that_runs(tmp_path: Path) -> None:
    for given in ({"slots": 2}, {"arms": ["a"]}, {"prefill_chunks": ["off"]}, {"args": ["-x"]}):
        with pytest.raises(ConfigError, match="is for servers that are started here"):
            measure_load("http://127.0.0.1:9", prompts(tmp_path), out=tmp_path / "out", **given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="to start a server on m its kind is needed"):
        measure_load("m", prompts(tmp_path), out=tmp_path / "out")


def test_an_arm_with_other_prompts_gets_the_baselines(tmp_path: Path, vllm: Path) -> None:
    file = experiment(tmp_path, model=vllm, more='[levers.short]\nkind = "prompt"\nclean = true\n')
    with pytest.raises(ConfigError, match='arm "short" changes prompts'):
        loaded(file, tmp_path)


def test_a_started_server_that_dies_is_asked_on_or_its_log_goes_unsaid(
    tmp_path: Path, vllm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served_stubs.install(tmp_path, monkeypatch, plain={"tokens": 4, "fault": "kill", "after": 2})
    monkeypatch.setattr(measuring, "GIVE_UP", 1000)
    monkeypatch.setattr("specq.load.drive.PAUSE_S", 0.0)
    file = experiment(tmp_path, model=vllm, more="")
    with pytest.raises(RunFailed, match=r"baseline: the server ended with exit code .*specq load --resume"):
        loaded(file, tmp_path, concurrency=[2])
    (run,) = (tmp_path / "out" / "load").iterdir()
    before = rows.read(run / "records.jsonl")[0]
    assert not any(isinstance(row, Measured) for row in before)
    with pytest.raises(ConfigError, match="the servers of this run are started here"):
        resume_load(run, url="http://127.0.0.1:9")
    served_stubs.install(tmp_path, monkeypatch, plain={"tokens": 4})
    found = resume_load(run)
    told = rows.read(run / "records.jsonl")[0]
    assert told[: len(before)] == before
    assert [row.attempt for row in told if isinstance(row, Began)] == [1, 2]
    # It came up on another port, with a log of its own.
    urls = [(row.url, row.log) for row in told if isinstance(row, Started)]
    assert len(set(urls)) == 2
    assert [one.requests for one in found.levels] == [6]
    assert found.interrupted == sum(isinstance(row, Requested) for row in before)
    assert not running(tmp_path)


def test_a_server_that_does_not_come_up_leaves_a_process_or_no_way_to_go_on(
    tmp_path: Path, vllm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm-python").write_text("#!/bin/sh\necho no GPU found\nexit 3\n")
    with pytest.raises(RunFailed, match=r"ended with exit code 3 before it was ready; .*no GPU found.*--resume"):
        loaded(experiment(tmp_path, model=vllm, more=""), tmp_path)
    served_stubs.install(tmp_path, monkeypatch, plain={"tokens": 4})
    (run,) = (tmp_path / "out" / "load").iterdir()
    assert resume_load(run).done


def test_a_stop_leaves_the_server_running(tmp_path: Path, vllm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = measuring._Run._prompt

    def stop(self: Any, number: int) -> Any:
        if number == 3:
            assert running(tmp_path)
            os.kill(os.getpid(), signal.SIGTERM)
        return asked(self, number)

    monkeypatch.setattr(measuring._Run, "_prompt", stop)
    with pytest.raises(Exception, match="stopped by SIGTERM"):
        loaded(experiment(tmp_path, model=vllm, more=""), tmp_path, requests=1000)
    assert not running(tmp_path)
