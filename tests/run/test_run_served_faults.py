"""Faults of servers through whole runs: what is asked again, what fails, what ends the run, and how it goes on."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import run_fakes
import served_stubs
from served_stubs import NEW

from specq import report
from specq.core import clock
from specq.core.errors import DiskFull, RunFailed, ServerGone
from specq.core.records import Failed, Generated, Note
from specq.engines.served import client, stub
from specq.engines.served.faults import Retry
from specq.report import assemble
from specq.run import folder, runner

URL, KEY = "SPECQ_TEST_URL", "SPECQ_TEST_KEY"
SECRET = "sk-very/secret+key"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    served_stubs.quick(monkeypatch)
    monkeypatch.setattr(client, "Retry", lambda: Retry(tries=2, first_s=0.0))


def asks(tmp_path: Path, *, limit_s: float = 60.0, **load: Any) -> Any:
    engine = {"kind": "openai", "url_env": URL, "key_env": KEY, "limit_s": limit_s}
    return served_stubs.experiment(tmp_path, engine, model="served", **load)


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plays: dict[str, Any], **how: Any) -> Path:
    """A run on a stub of its own that plays as told, to its end."""
    monkeypatch.setenv(KEY, SECRET)
    with stub.started(plays={"tokens": NEW} | plays, model="served") as (url, _):
        monkeypatch.setenv(URL, url)
        return runner.run(asks(tmp_path, **how), out=tmp_path / "out")


def answered(made: Path) -> list[Generated]:
    """The answers of a run, none of them recorded twice, and each with its text."""
    contents = folder.read(made)
    found = [r for r in contents.records if isinstance(r, Generated)]
    assert set(Counter((r.arm, r.prompt, r.repeat) for r in found).values()) == {1}
    assert len(contents.outputs) == len(found) == len(contents.answers)
    return found


def notes(made: Path) -> str:
    return " | ".join(r.text for r in folder.read(made).records if isinstance(r, Note))


@pytest.mark.parametrize(
    "plays",
    [
        {"fault": "status", "status": 429, "retry_after": "0"},
        {"fault": "status", "status": 500},
        {"fault": "status", "status": 503},
        {"fault": "reset"},
    ],
    ids=str,
)
def test_a_refusal_that_passes_costs_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plays: dict[str, Any]
) -> None:
    made = run(tmp_path, monkeypatch, plays | {"times": 1})
    assert len(answered(made)) == 8
    assert not [r for r in folder.read(made).records if isinstance(r, Failed)]


@pytest.mark.parametrize("fault", ["cut", "torn", "hang"])
def test_an_answer_that_breaks_off_is_recorded_or_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    made = run(tmp_path, monkeypatch, {"fault": fault, "after": 3, "once": str(tmp_path / "once")}, limit_s=5.0)
    assert len(answered(made)) == 8
    assert {r.new_tokens for r in answered(made)} == {NEW}
    assert "broke off" in notes(made)


@pytest.mark.parametrize("fault", ["malformed", "error"])
def test_an_answer_that_is_none_passes_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    # Warm-up and canary of each arm meet it too, and what they meet is a note.
    made = run(tmp_path, monkeypatch, {"fault": fault, "after": 2, "once": str(tmp_path / "once")})
    assert {r.new_tokens for r in answered(made)} == {NEW}
    assert fault in notes(made) or "the server broke off" in notes(made)


def test_an_answer_that_always_breaks_is_called_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunFailed, match="malformed"):
        run(tmp_path, monkeypatch, {"fault": "malformed", "after": 2})


def test_answers_without_counts_pass_for_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(tmp_path, monkeypatch, {"usage": False})
    assert {(r.new_tokens, (r.served or {})["counted"]) for r in answered(made)} == {(NEW, "events")}
    assert any("neither ids nor counts" in flag for flag in assemble.build(made).flags)


def test_a_server_that_is_gone_ends_a_run_that_cannot_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)
    experiment = asks(tmp_path)
    # It is killed in the middle of the sixth of its answers, and comes back on another port.
    marks = {"tokens": NEW, "fault": "kill", "after": 3, "once": str(tmp_path / "once")}
    with stub.started(plays={"tokens": NEW}, model="served") as (url, process):
        monkeypatch.setenv(URL, url)
        seen: list[str] = []

        def kill(progress: runner.Progress) -> None:
            seen.append(progress.text)
            if progress.done == 3:
                process.kill()
                process.wait()

        with pytest.raises(ServerGone, match="does not answer any more"):
            runner.run(experiment, out=tmp_path / "out", on_progress=kill)
    (made,) = (tmp_path / "out" / "served").iterdir()
    before = [json.dumps(r.served) for r in answered(made)]
    assert 3 <= len(before) < 8
    with stub.started(plays=marks | {"fault": ""}, model="served") as (url, _):
        monkeypatch.setenv(URL, url)
        assert runner.run(None, out=tmp_path / "out", resume=made) == made
    after = answered(made)
    assert len(after) == 8
    assert [json.dumps(r.served) for r in after][: len(before)] == before


def test_a_busy_server_costs_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerGone, match="busy"):
        run(tmp_path, monkeypatch, {"fault": "status", "status": 503})
    (made,) = (tmp_path / "out" / "served").iterdir()
    assert not [r for r in folder.read(made).records if isinstance(r, Failed | Generated)]


def test_a_clock_that_jumps_moves_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    real, calls = time.time, [0]

    def jumping() -> float:
        calls[0] += 1
        return real() + (-1) ** calls[0] * 86_400.0

    monkeypatch.setattr(time, "time", jumping)
    made = run(tmp_path, monkeypatch, {})
    assert all(0 < g.ttft_s <= g.e2e_s < 60 for g in answered(made))
    assert clock.now() < clock.now() + 1


def test_a_full_disk_loses_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)
    with stub.started(plays={"tokens": NEW}, model="served") as (url, _):
        monkeypatch.setenv(URL, url)
        with pytest.MonkeyPatch.context() as full:
            full.setattr("specq.core.jsonl.Appender.append", run_fakes.jsonl.Appender.append)
            run_fakes._limit_lines(14)
            with pytest.raises(DiskFull, match="--resume"):
                runner.run(asks(tmp_path), out=tmp_path / "out")
        (made,) = (tmp_path / "out" / "served").iterdir()
        assert len(answered_so_far(made)) < 8
        assert runner.run(None, out=tmp_path / "out", resume=made) == made
    assert len(answered(made)) == 8


def answered_so_far(made: Path) -> list[Any]:
    return list(folder.read(made).answers)


def has_no_key(tmp_path: Path, *said: str) -> bool:
    """Whether the key is in none of the files, but its name in one, nor in what was said."""
    files = [path.read_text(encoding="utf-8", errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    texts = [*said, *files]
    forms = (SECRET, json.dumps(SECRET)[1:-1], SECRET.replace("/", "%2F").replace("+", "%2B"))
    return any(f"[{KEY}]" in text for text in texts) and not any(form in text for form in forms for text in texts)


def test_a_key_is_written_somewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RunFailed) as told:
        run(tmp_path, monkeypatch, {"echo": True, "fault": "error", "after": 2, "status": 500})
    assert has_no_key(tmp_path, str(told.value), *capfd.readouterr())
    assert os.environ[KEY] == SECRET


def test_a_key_is_written_into_records_or_reports_of_a_run_that_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plays = {"echo": True, "fault": "error", "after": 2, "status": 500, "spared": 4, "times": 1}
    made = run(tmp_path, monkeypatch, plays)
    report.write(made)
    assert len([r for r in folder.read(made).records if isinstance(r, Failed)]) == 1
    assert {"report.json", "report.md", "report.html"} <= {path.name for path in made.iterdir()}
    assert has_no_key(tmp_path, *capfd.readouterr())


def test_a_key_that_a_started_server_says_as_it_ends_is_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Callable[..., Path]
) -> None:
    program = tmp_path / "vllm-python"
    program.write_text(f"#!{sys.executable}\nimport os, sys\nsys.exit('the key is ' + os.environ['{KEY}'])\n")
    program.chmod(0o755)
    monkeypatch.setenv("SPECQ_VLLM_PYTHON", str(program))
    monkeypatch.setenv(KEY, SECRET)
    experiment = served_stubs.experiment(tmp_path, {"kind": "vllm", "key_env": KEY}, model=str(folder_of("llama")))
    with pytest.raises(ServerGone, match=rf"the key is \[{KEY}\]") as told:
        runner.run(experiment, out=tmp_path / "out")
    assert SECRET not in str(told.value)
