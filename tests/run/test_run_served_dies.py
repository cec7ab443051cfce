"""Servers that a run started and that die, never get ready or have no room for a log; and stops while they start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import served_stubs
from served_stubs import LOOKUP, NEW, VLLM

from specq.core.errors import DiskFull, RunFailed, ServerGone
from specq.core.records import Failed, Generated, Note
from specq.engines.served import launch
from specq.report import assemble
from specq.run import folder, runner

FolderOf = Callable[..., Path]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    served_stubs.quick(monkeypatch)


def answers(made: Path) -> list[Generated]:
    """The answers of a run, none of them recorded twice, and each with its text."""
    contents = folder.read(made)
    found = [r for r in contents.records if isinstance(r, Generated)]
    assert set(Counter((r.arm, r.prompt, r.repeat) for r in found).values()) <= {1}
    assert len(contents.outputs) == len(found) == len(contents.answers)
    return found


def of(made: Path, kind: type[Any]) -> list[Any]:
    return [r for r in folder.read(made).records if isinstance(r, kind)]


@pytest.mark.usefixtures("quick")
def test_an_answer_in_which_a_started_server_died_is_lost_or_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: FolderOf
) -> None:
    # Warm-up asks twice and the canary once: it dies in the first sample.
    dies = {"fault": "kill", "after": 3, "spared": 3, "once": str(tmp_path / "once")}
    served_stubs.install(tmp_path, monkeypatch, plain=dies)
    experiment = served_stubs.experiment(tmp_path, VLLM, model=str(folder_of("llama")), more=LOOKUP)
    made = runner.run(experiment, out=tmp_path / "out")
    assert len(answers(made)) == 3 * 2 * 2
    assert {r.new_tokens for r in answers(made)} == {NEW}
    assert [(r.served or {})["repeats"] for r in answers(made)] == [1] + [0] * 11
    assert not of(made, Failed)
    (told,) = (r.text for r in of(made, Note) if "was lost on prompt" in r.text)
    assert told.endswith("and started again; the prompt is asked anew")
    assert (made / "done.json").is_file()


@pytest.mark.usefixtures("quick")
def test_an_arm_whose_server_always_dies_ends_the_run_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: FolderOf
) -> None:
    served_stubs.install(tmp_path, monkeypatch, draft={"fault": "kill", "after": 3})
    experiment = served_stubs.experiment(tmp_path, VLLM, model=str(folder_of("llama")), more=LOOKUP)
    with pytest.raises(
        RunFailed, match=r"lookup#1 failed on every sample, .* was started again in between and was lost"
    ):
        runner.run(experiment, out=tmp_path / "out")
    (made,) = (tmp_path / "out" / "served").iterdir()
    assert Counter(r.arm for r in answers(made)) == {"baseline#1": 4, "baseline#2": 4}
    assert {(r.arm, r.error) for r in of(made, Failed)} == {("lookup#1", "RequestFailed")}
    assert (made / "done.json").is_file()
    assert assemble.build(made).arm("baseline#2").audit.status == "passed"


@pytest.mark.usefixtures("quick")
def test_a_server_that_does_not_start_takes_with_it_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: FolderOf
) -> None:
    served_stubs.install(tmp_path, monkeypatch)
    experiment = served_stubs.experiment(tmp_path, VLLM, model=str(folder_of("llama")), more=LOOKUP)
    plays = os.environ["STUB_PLAYS"]
    monkeypatch.setenv("STUB_PLAYS", json.dumps({"plain": json.loads(plays)["plain"]}))
    with pytest.raises(
        ServerGone, match=r"ended with exit code 1 before it was ready; .*KeyError.*specq run --resume "
    ):
        runner.run(experiment, out=tmp_path / "out")
    (made,) = (tmp_path / "out" / "served").iterdir()
    before = answers(made)
    assert Counter(r.arm for r in before) == {"baseline#1": 2, "baseline#2": 2}
    monkeypatch.setenv("STUB_PLAYS", plays)
    assert runner.run(None, out=tmp_path / "out", resume=made) == made
    assert answers(made)[:4] == before
    assert len(answers(made)) == 12


@pytest.mark.usefixtures("quick")
def test_a_disk_without_room_for_a_servers_log_is_a_traceback_or_a_failed_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: FolderOf
) -> None:
    # The first server has room for its log, and dies in a sample; the one in its place has none.
    dies = {"fault": "kill", "after": 3, "spared": 3, "once": str(tmp_path / "once")}
    served_stubs.install(tmp_path, monkeypatch, plain=dies)
    experiment = served_stubs.experiment(tmp_path, VLLM, model=str(folder_of("llama")), more=LOOKUP)
    with pytest.MonkeyPatch.context() as full:
        real = Path.open

        def opened(path: Path, mode: str = "r", *how: Any, **more: Any) -> Any:
            # Reading /dev/full has no end.
            lost = path.parent.name == "servers" and path.exists() and mode == "ab"
            return real(Path("/dev/full") if lost else path, mode, *how, **more)

        full.setattr(Path, "open", opened)
        with pytest.raises(DiskFull, match=r"no space left on the disk of .*vllm-1\.log.*specq run --resume "):
            runner.run(experiment, out=tmp_path / "out")
    (made,) = (tmp_path / "out" / "served").iterdir()
    assert not of(made, Failed)
    assert not answers(made)
    assert runner.run(None, out=tmp_path / "out", resume=made) == made
    assert len(answers(made)) == 12
    assert not of(made, Failed)


def test_a_full_disk_under_the_log_leaves_the_server_running(tmp_path: Path) -> None:
    # It does not end when it is asked to, and what its keeper would say of that finds no room.
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    told = (
        "from specq.engines.served import keeper; keeper.GRACE_S = 0.5; import sys; sys.exit(keeper.main(sys.argv[1:]))"
    )
    with (
        Path("/dev/full").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-c", told, sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as keeper,
    ):
        server = _child_of(keeper.pid)
        time.sleep(1.0)
        assert keeper.stdin is not None
        keeper.stdin.close()
        assert keeper.wait(30) == -signal.SIGKILL
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE


def _child_of(pid: int) -> psutil.Process:
    for _ in range(600):
        if found := psutil.Process(pid).children():
            return found[0]
        time.sleep(0.05)
    raise AssertionError("nothing was started")


def test_a_stop_waits_for_a_server_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: FolderOf
) -> None:
    # It never gets ready, and the run is one that a shell put into the background under nohup.
    program = tmp_path / "vllm-python"
    program.write_text(f"#!{sys.executable}\nimport time\nprint('loading', flush=True)\ntime.sleep(600)\n")
    program.chmod(0o755)
    monkeypatch.setenv("SPECQ_VLLM_PYTHON", str(program))
    served_stubs.experiment(tmp_path, VLLM, model=str(folder_of("llama")), more=LOOKUP)

    def ignore() -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    command = [sys.executable, "-m", "specq", "run", str(tmp_path / "served.toml"), "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=ignore) as run:
        for _ in range(2400):
            logs = list(tmp_path.glob("out/served/*/servers/*.log"))
            if run.poll() is not None or any("loading" in log.read_text() for log in logs):
                break
            time.sleep(0.05)
        assert run.poll() is None, run.stdout.read() if run.stdout else ""
        group = [one for one in psutil.process_iter() if str(program) in _words(one)]
        assert group
        run.send_signal(signal.SIGTERM)
        said, _ = run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGTERM
    assert "specq run --resume" in said.decode()
    assert not [one for one in group if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def _words(one: psutil.Process) -> list[str]:
    try:
        return one.cmdline()
    except psutil.Error:
        return []


def test_a_log_is_opened_anew_and_loses_what_it_held(tmp_path: Path) -> None:
    log = tmp_path / "servers" / "log"
    launch._open(log).close()
    assert log.read_bytes() == b""
    log.write_bytes(b"an old tale\n")
    with launch._open(log) as file:
        assert file.tell() == len(b"an old tale\n")
        file.write(b"more\n")
    assert log.read_bytes() == b"an old tale\nmore\n"
    with pytest.raises(DiskFull, match="no space left on the disk of /dev/full"):
        launch._open(Path("/dev/full"))
