from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path

import forked
import psutil
import pytest
import run_fakes
from run_checks import assert_complete, of, only_run, recorded, start_parent, wait_for, want

from specq.core.errors import DiskFull, Interrupted, RunFailed, RunFolderError
from specq.core.records import (
    Generated,
    Note,
    WorkerDied,
)
from specq.run import provenance, runner, signals


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    run_fakes.patch_parent(monkeypatch.setattr)
    monkeypatch.delenv("FAKE", raising=False)


def test_a_killed_worker_is_on_record_and_resume_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = run_fakes.write_experiment(tmp_path)
    want(monkeypatch, kill_after=8)
    with pytest.raises(RunFailed, match=r"incomplete.*specq run --resume ") as caught:
        runner.run(experiment, out=tmp_path / "out")
    assert caught.value.exit_code == 1
    run = only_run(tmp_path / "out")
    (died,) = of(run, WorkerDied)
    assert (died.exit_code, died.task) == (-9, "measure")
    # The code is a field of its own, and every line that shows the message shows it beside.
    assert "exit code" not in died.message
    assert f"died (exit code -9: {died.message});" in str(caught.value)
    before = of(run, Generated)
    assert len(before) == 7
    want(monkeypatch)
    assert runner.run(None, resume=run) == run
    assert of(run, Generated)[:7] == before
    assert_complete(run)
    assert any("resumed" in note.text for note in of(run, Note))
    assert not any("other software" in note.text for note in of(run, Note))


def test_a_resume_on_other_software_says_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want(monkeypatch, kill_after=4)
    with pytest.raises(RunFailed):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    want(monkeypatch)
    monkeypatch.setattr(provenance, "package_versions", lambda: {"torch": "9.9"})
    monkeypatch.setattr(provenance, "usable_cores", lambda: 99)
    runner.run(None, resume=run)
    (text,) = [note.text for note in of(run, Note) if "other software" in note.text]
    assert re.search(r"cores_usable: \d+ -> 99; torch: \S+ -> 9\.9", text)


def test_a_worker_whose_parent_was_killed_keeps_a_second_writer_out_and_then_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = run_fakes.write_experiment(tmp_path)
    want(monkeypatch, sleep_s=2.5)
    parent = start_parent(tmp_path)
    wait_for(lambda: recorded(tmp_path / "out", "Generated", 1))
    run = only_run(tmp_path / "out")
    parent.kill()
    parent.communicate()
    with pytest.raises(RunFolderError, match="being written by another"):
        runner.run(experiment, resume=run)
    want(monkeypatch)

    def resumed() -> bool:
        try:
            runner.run(experiment, resume=run)
        except RunFolderError as error:
            return "being written" not in str(error)
        return True

    wait_for(resumed)
    assert_complete(run)


def workers(parent: int) -> list[psutil.Process]:
    """The worker processes of a parent; it has others too, such as git, which may end at any time."""
    found = []
    for child in psutil.Process(parent).children():
        with contextlib.suppress(psutil.Error):
            found += [child] if "worker" in child.cmdline() else []
    return found


SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)


@SIGNALS
def test_a_signal_keeps_the_sample_under_way_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    run_fakes.write_experiment(tmp_path)
    want(monkeypatch, sleep_s=0.6)
    parent = start_parent(tmp_path)
    wait_for(lambda: recorded(tmp_path / "out", "Generated", 2))
    (worker,) = workers(parent.pid)
    before = len(of(only_run(tmp_path / "out"), Generated))
    parent.send_signal(number)
    _, stderr = parent.communicate(timeout=30)
    run = only_run(tmp_path / "out")
    assert parent.returncode == code
    assert stderr.decode().splitlines() == [
        f"stopped; what was recorded is kept; to go on type: specq run --resume {run}"
    ]
    assert not worker.is_running()
    assert len(of(run, Generated)) == before + 1, "the sample under way was finished and no other begun"
    assert not of(run, WorkerDied)
    assert not (run / "done.json").exists()
    if number == signal.SIGINT:
        want(monkeypatch)
        runner.run(None, resume=run)
        assert_complete(run)


@SIGNALS
def test_a_signal_before_anything_was_recorded_is_one_line_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    run_fakes.write_experiment(tmp_path)
    want(monkeypatch, slow_plan=True)
    parent = start_parent(tmp_path)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"planning\n"
    parent.send_signal(number)
    _, stderr = parent.communicate(timeout=30)
    assert (parent.returncode, stderr) == (code, b"stopped; nothing was recorded\n")
    assert not (tmp_path / "out").exists()


def test_a_signal_while_the_worker_starts_tells_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_fakes.write_experiment(tmp_path)
    want(monkeypatch)
    parent = start_parent(tmp_path)
    wait_for(lambda: workers(parent.pid))
    (worker,) = workers(parent.pid)
    # As a terminal does it: Ctrl-C goes to the worker too, which has no handler yet.
    worker.send_signal(signal.SIGINT)
    parent.send_signal(signal.SIGINT)
    _, stderr = parent.communicate(timeout=30)
    assert parent.returncode == 130
    assert stderr.decode().count("to go on type: specq run --resume") == 1
    assert not worker.is_running()


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.raised():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    with pytest.raises(signals.Stopped) as caught, signals.raised():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signals.number_of(caught.value) == signal.SIGHUP
    assert signals.number_of(KeyboardInterrupt()) == signal.SIGINT
    assert signal.getsignal(signal.SIGHUP) == before


def test_sigterm_to_the_worker_stops_the_run_as_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want(monkeypatch, sleep_s=0.2)
    killed = []

    def kill_child(progress: runner.Progress) -> None:
        if progress.done == 2 and not killed:
            last = forked.Worker.last
            killed.append(last.pid if last else workers(os.getpid())[0].pid)
            os.kill(killed[0], signal.SIGTERM)

    with pytest.raises(Interrupted, match="specq run --resume"):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out", on_progress=kill_child)
    # The signal may come before the third sample began or while it was under way; then that one is finished.
    assert len(of(only_run(tmp_path / "out"), Generated)) in (2, 3)


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_a_stop_is_told_as_another_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    want(monkeypatch, sleep_s=0.2)
    said: list[str] = []

    def stop(progress: runner.Progress) -> None:
        said.append(progress.text)
        if progress.done == 2 and not any("stopping" in text for text in said):
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out", on_progress=stop)
    assert f"{name}: stopping after the sample under way; a second {name} stops at once" in said


def test_a_torn_last_line_is_cut_aloud_and_its_sample_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want(monkeypatch, kill_after=6)
    with pytest.raises(RunFailed):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    lines = (run / "records.jsonl").read_bytes().splitlines(keepends=True)
    # The WorkerDied line goes, and the last sample's record is torn in the middle.
    (run / "records.jsonl").write_bytes(b"".join(lines[:-2]) + lines[-2][:40])
    want(monkeypatch)
    runner.run(None, resume=run)
    assert_complete(run)
    notes = " ".join(note.text for note in of(run, Note))
    assert "cut 40 bytes of a torn last line from records.jsonl" in notes
    assert "cut 1 output without a record" in notes


def test_a_full_disk_is_said_and_what_was_recorded_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want(monkeypatch, full_after=20)
    with pytest.raises(DiskFull, match=r"kept.*specq run --resume"):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    assert len(of(run, Generated)) > 3
    want(monkeypatch)
    runner.run(None, resume=run)
    assert_complete(run)
