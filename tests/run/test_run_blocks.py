"""Runs whose memory holds one target at a time: blocks, their order, and what is left of them after a kill."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_fakes
from run_checks import of, only_run, samples, want

from specq.core.errors import DiskFull, RunFailed, RunFolderError
from specq.core.records import Audited, Canary, Divergence, Done, Failed, GapNoise, Generated, LoadedModel, Note
from specq.run import audit, engines, logits, runner
from specq.run.job import Job, Progress, Task
from specq.run.store import Store

BASE, W, V = ["baseline#1", "baseline#2", "lookup#1", "q8#1"], ["w#1", "lookup+w#1"], ["v#1"]
LEVERS = ("lookup", "q8", "w", "v")
ASKED = ("lookup", "q8", "w", "lookup + w", "v")


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    run_fakes.patch_parent(monkeypatch.setattr)
    monkeypatch.delenv("FAKE", raising=False)


def small(folder: Path, **more: Any) -> Any:
    """Two targets, two prompts: four samples a turn on the baseline's target and two on the other."""
    return run_fakes.write_experiment(folder, prompts=2, levers=("w",), **more)


SMALL = [["baseline#1", "baseline#2"], ["w#1"]]


def most_at_once(log: Path) -> int:
    """The most targets that one process held, whatever ended it."""
    held: dict[str, set[str]] = {}
    most = 0
    for line in log.read_text().splitlines():
        process, what, model = line.split()
        own = held.setdefault(process, set())
        (own.add if what == "open" else own.discard)(model)
        most = max(most, len(own))
    return most


def divergences(run: Path) -> dict[tuple[str, str], Divergence]:
    found = of(run, Divergence)
    keyed = {(r.arm, r.prompt): r for r in found}
    assert len(keyed) == len(found), "compared twice"
    return keyed


def test_two_targets_are_in_memory_at_once_or_blocks_go_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = run_fakes.write_experiment(tmp_path, prompts=2, levers=LEVERS, run=ASKED)
    logs = {name: tmp_path / name for name in ("blocks", "interleaved")}
    want(monkeypatch, blocks=[BASE, W, V], log=str(logs["blocks"]))
    run = runner.run(experiment, out=tmp_path / "blocks.out")
    want(monkeypatch, log=str(logs["interleaved"]))
    other = runner.run(experiment, out=tmp_path / "out")
    assert {name: most_at_once(log) for name, log in logs.items()} == {"blocks": 1, "interleaved": 3}

    # The order of the answers: whole blocks, back and forth.
    turns = [(r.repeat, next(block[0] for block in (BASE, W, V) if r.arm in block)) for r in of(run, Generated)]
    assert list(dict.fromkeys(turns)) == [(0, BASE[0]), (0, W[0]), (0, V[0]), (1, V[0]), (1, W[0]), (1, BASE[0])]
    first, last = turns.index((1, V[0])), len(turns) - 1
    assert turns == [turn for turn in dict.fromkeys(turns) for _ in range(turns.count(turn))]
    assert (turns[first - 1], turns[last]) == ((0, V[0]), (1, BASE[0]))

    # What is measured is the same.
    assert samples(run) == samples(other)
    assert set(samples(run).values()) == {1}
    texts = [{(r.arm, r.prompt, r.repeat): r.output_sha256 for r in of(each, Generated)} for each in (run, other)]
    assert texts[0] == texts[1]
    assert divergences(run) == divergences(other)
    assert set(divergences(run)) == {(arm, f"p{n}") for arm in ("q8#1", "w#1", "v#1") for n in range(2)}
    assert {r.kl_sum for r in of(run, Divergence) if r.arm == "w#1"} == {3.0}
    for kind in (Audited, GapNoise):
        assert Counter(of(run, kind)) == Counter(of(other, kind))
    assert not of(run, Failed)
    assert not (run / "logits").exists()
    assert {r.arm for r in of(run, Canary)} == {BASE[0], W[0], V[0]}
    assert {r.arm for r in of(other, Canary)} == {BASE[0]}
    assert [r.arms for r in of(run, LoadedModel)] == [tuple(b) for b in (BASE, W, V, V, W, BASE)]


def test_a_kill_in_the_middle_of_blocks_loses_or_repeats_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = runner.run(small(tmp_path), out=tmp_path / "whole")
    log = tmp_path / "log"
    want(monkeypatch, blocks=SMALL, kill_after=4, log=str(log))
    with pytest.raises(RunFailed):
        runner.run(small(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    assert len(of(run, Generated)) == 3
    # The plan sees more memory now; the run goes on as it began.
    want(monkeypatch, kill_after=4, log=str(log))
    # The last block is the baseline's again, and is killed once more.
    with pytest.raises(RunFailed):
        runner.run(None, resume=run)
    assert len(of(run, Generated)) == 4 + 2 + 2 + 3
    runner.run(None, resume=run)
    assert samples(run) == samples(whole)
    assert most_at_once(log) == 1
    assert divergences(run) == divergences(whole)
    resumed = [note.text for note in of(run, Note) if "resumed" in note.text]
    assert resumed == [f"process 0, block baseline#1, turn {turn}, was resumed in a new process" for turn in (1, 2)]
    assert (run / "done.json").exists()


@pytest.mark.parametrize("lose", ["", "folder", "half", "altered"])
def test_a_kill_in_the_audit_of_a_block_loses_the_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lose: str
) -> None:
    log = tmp_path / "log"
    want(monkeypatch, blocks=SMALL, kill_at="p1")
    with pytest.raises(RunFailed):
        runner.run(small(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    assert [r.prompt for r in of(run, Divergence)] == ["p0"]
    assert len(list((run / "logits").iterdir())) == 2
    if lose == "folder":
        shutil.rmtree(run / "logits")
    elif lose == "half":
        for file in (run / "logits").iterdir():
            os.truncate(file, file.stat().st_size // 2)
    elif lose:
        for file in (run / "logits").iterdir():
            alter(file)
    want(monkeypatch, blocks=SMALL, log=str(log))
    runner.run(None, resume=run)
    assert [r.kl_sum for r in of(run, Divergence)] == [3.0, 3.0]
    assert Counter(r.task for r in of(run, Done) if r.task.startswith("audit")) == Counter(
        {"audit:baseline#1": 1 + bool(lose), "audit:w#1": 1}
    )
    opened = [line.split()[2] for line in log.read_text().splitlines() if " open " in line]
    assert opened == ["fake"] * bool(lose) + ["w-folder"]
    assert len(of(run, GapNoise)) == 2
    assert not (run / "logits").exists()
    # Only the prompt whose comparison is left needs them again.
    text = "the baseline's logits on prompt p1 were altered or cut since they were kept: they are made anew"
    assert [n.text for n in of(run, Note) if "logits" in n.text] == [text] * (lose in ("half", "altered"))


def alter(file: Path) -> None:
    """Change one bit of the last logit and no byte of the size."""
    content = bytearray(file.read_bytes())
    content[-logits.DIGEST_BYTES - 1] ^= 1
    file.write_bytes(content)


def test_altered_logits_are_compared_with(tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    file = tmp_path / "logits" / "a.npy"
    logits.write(file, rows, 2)
    assert np.array_equal(logits.read(file), rows)
    alter(file)
    assert not logits.is_there(file)
    with pytest.raises(RunFailed, match=r"a\.npy is not as it was written"):
        logits.read(file)


def test_logits_that_cannot_be_made_pass_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want(monkeypatch, blocks=SMALL, fail={"logits": "NaN everywhere"})
    run = runner.run(small(tmp_path), out=tmp_path / "out")
    assert not of(run, Divergence)
    assert [(r.arm, r.prompt, r.error) for r in of(run, Failed)] == [
        ("w#1", prompt, "audit Divergence: RunFailed") for prompt in ("p0", "p1")
    ]
    assert [n.text for n in of(run, Note)] == [
        f"the baseline's logits on prompt p{n} were not kept: NaN everywhere" for n in range(2)
    ]
    assert not (run / "logits").exists()


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def forbidden(*_: Any) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize(
    ("broken", "error", "said"), [(full, DiskFull, "no space left"), (forbidden, RunFolderError, "Read-only")]
)
def test_logits_that_cannot_be_written_are_lost_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Any, error: type[Exception], said: str
) -> None:
    want(monkeypatch, blocks=SMALL, kill_at="p0")
    with pytest.raises(RunFailed):
        runner.run(small(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    shutil.rmtree(run / "logits")
    want(monkeypatch, blocks=SMALL)
    monkeypatch.setattr(engines, "of_job", lambda job: run_fakes.FakeEngine())
    with Store.open_for_resume(run) as store:
        job = Job(store=store, process=0, progress=Progress(stream=io.StringIO(), parent=os.getppid()))
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", broken)
            with pytest.raises(error, match=f"{said}.*specq run --resume"):
                audit.audit(job, Task(kind="audit", arm="baseline#1"))
    assert not list((run / "logits").iterdir())
    assert not of(run, Note)
    runner.run(None, resume=run)
    assert len(of(run, Divergence)) == 2


def test_an_arm_that_was_stopped_is_loaded_again_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    want(monkeypatch, blocks=SMALL, fail={"w-folder": "NaN"}, log=str(log))
    with pytest.raises(RunFailed, match="w#1 failed on every sample"):
        runner.run(run_fakes.write_experiment(tmp_path, levers=("w",)), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    assert (run / "done.json").exists()
    assert len([r for r in of(run, Failed) if not r.of_audit]) == 3
    opened = Counter(line.split()[2] for line in log.read_text().splitlines() if " open " in line)
    # Once in its first block and once for the divergence along the baseline's answers.
    assert opened == {"fake": 3, "w-folder": 2}


def test_a_run_that_began_with_all_targets_is_resumed_where_they_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want(monkeypatch, kill_after=4)
    with pytest.raises(RunFailed):
        runner.run(small(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    want(monkeypatch, blocks=SMALL)
    said = r"began with all targets in memory together, which need 3\.00 GiB, and 2\.00 GiB are free now"
    with pytest.raises(RunFolderError, match=said):
        runner.run(None, resume=run)


def test_blocks_that_were_edited_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want(monkeypatch, blocks=SMALL, kill_after=3)
    with pytest.raises(RunFailed):
        runner.run(small(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, "blocks": [SMALL[0]]}))
    with pytest.raises(RunFolderError, match="blocks are not lists of its arms"):
        runner.run(None, resume=run)


def test_a_disk_without_room_for_logits_is_found_in_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want(monkeypatch, blocks=SMALL, logits_bytes=1 << 60)
    with pytest.raises(DiskFull, match=r"keeps up to \d+ MB of logits there, and \d+ MB are free"):
        runner.run(small(tmp_path), out=tmp_path / "out")
    assert not os.path.lexists(tmp_path / "out")
