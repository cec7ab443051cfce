from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

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
from specq.run import provenance, runner


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
    want(monkeypatch, sleep_s=5.0)
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


def test_ctrl_c_keeps_the_sample_under_way_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_fakes.write_experiment(tmp_path)
    want(monkeypatch, sleep_s=0.6)
    script = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(run_fakes.__file__).parent)!r})
import run_fakes
from specq.core.errors import SpecqError
from specq.experiment import config
from specq.run import runner
run_fakes.patch_parent(setattr)
try:
    runner.run(config.load(Path({str(tmp_path / "tiny.toml")!r})), out=Path({str(tmp_path / "out")!r}))
except SpecqError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    wait_for(lambda: recorded(tmp_path / "out", "Generated", 2))
    before = len(of(only_run(tmp_path / "out"), Generated))
    parent.send_signal(signal.SIGINT)
    _, stderr = parent.communicate(timeout=30)
    run = only_run(tmp_path / "out")
    assert parent.returncode == Interrupted.exit_code == 130
    assert f"specq run --resume {run}" in stderr.decode().splitlines()[-1]
    assert len(of(run, Generated)) == before + 1, "the sample under way was finished and no other begun"
    assert not of(run, WorkerDied)
    assert not (run / "done.json").exists()
    want(monkeypatch)
    runner.run(None, resume=run)
    assert_complete(run)


def test_sigterm_to_the_worker_stops_the_run_as_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want(monkeypatch, sleep_s=0.2)
    killed = []

    def kill_child(progress: runner.Progress) -> None:
        if progress.done == 2 and not killed:
            (child,) = psutil.Process().children()
            killed.append(child.pid)
            os.kill(killed[0], signal.SIGTERM)

    with pytest.raises(Interrupted, match="specq run --resume"):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out", on_progress=kill_child)
    # The signal may come before the third sample began or while it was under way; then that one is finished.
    assert len(of(only_run(tmp_path / "out"), Generated)) in (2, 3)


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
    assert "cut 1 outputs without a record" in notes


def test_a_full_disk_is_said_and_what_was_recorded_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want(monkeypatch, full_after=20)
    with pytest.raises(DiskFull, match=r"kept.*specq run --resume"):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    assert len(of(run, Generated)) > 3
    want(monkeypatch)
    runner.run(None, resume=run)
    assert_complete(run)
