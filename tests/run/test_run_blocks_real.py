"""Tiny models in blocks and together: the same tokens, the same KL to the last bit, never two targets at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specq import report
from specq.core.errors import RunFailed
from specq.core.records import Audited, Crossover, Divergence, Generated, LoadedModel, Note
from specq.engines.hf import HFEngine
from specq.engines.hf_target import HFTarget
from specq.experiment import config, plan
from specq.experiment.schema import Experiment
from specq.quantize import kernels
from specq.run import runner

sys.path.insert(0, str(Path(__file__).parents[1] / "quantize"))
import forked
import packed_folders
from run_checks import of

SIZES: dict[str, Any] = packed_folders.SMALL


class Counted:
    """How many targets are open, and the most that ever were."""

    now = most = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    """Workers in this process, without measuring bandwidth; targets are counted as they open and close."""
    Counted.now = Counted.most = 0
    opened, closed = HFEngine.open, HFTarget.close

    def count(engine: Any, *given: Any, **more: Any) -> Any:
        Counted.now += 1
        Counted.most = max(Counted.most, Counted.now)
        return opened(engine, *given, **more)

    def uncount(target: Any) -> None:
        Counted.now -= 1
        closed(target)

    monkeypatch.setattr(HFEngine, "open", count)
    monkeypatch.setattr(HFTarget, "close", uncount)
    forked.inside(monkeypatch.setattr)
    return Counted


@pytest.fixture
def experiment(folder_of: Callable[..., Path], tmp_path: Path) -> Experiment:
    target = folder_of("llama", **SIZES)
    packed = packed_folders.write(tmp_path / "packed", bits=4, group=32)
    prompts = tmp_path / "prompts.jsonl"
    lines = [{"id": f"p{n}", "prompt": text} for n, text in enumerate(("a stone rolls", "two, three"))]
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    me = {"kind": "draft", "method": "model", "model": "self", "k": 2}
    return config.from_resolved(
        {
            "name": "tiny",
            "target": {"model": str(target)},
            "engine": {"device": "cpu", "dtype": "float32", "threads": 1},
            "workload": {"prompts": str(prompts), "max_new_tokens": 8, "memory": False},
            "levers": {"w4": {"kind": "quantize", "model": str(packed)}, "me": me},
            "arms": {"run": ["w4", "w4 + me"]},
        }
    )


def test_a_run_in_blocks_finds_other_tokens_or_another_kl(
    experiment: Experiment, counted: type[Counted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = plan.make(experiment).needed_bytes
    whole = runner.run(experiment, out=tmp_path / "whole")
    assert counted.most == 2
    assert not json.loads((whole / "run.json").read_text())["blocks"]
    counted.most = 0
    # A machine with one byte too little.
    monkeypatch.setattr(plan, "free_bytes", lambda engine: together - 1)
    run = runner.run(experiment, out=tmp_path / "blocks")
    assert (counted.now, counted.most) == (0, 1)
    assert json.loads((run / "run.json").read_text())["blocks"] == [["baseline#1", "baseline#2"], ["w4#1", "me+w4#1"]]

    def texts(folder: Path) -> dict[tuple[str, str, int], str]:
        return {(r.arm, r.prompt, r.repeat): r.output_sha256 for r in of(folder, Generated)}

    assert len(texts(run)) == 4 * 2 * 2
    assert texts(run) == texts(whole)
    found = [{(r.arm, r.prompt): r for r in of(folder, Divergence)} for folder in (run, whole)]
    assert len(found[0]) == 2
    assert found[0] == found[1]
    assert min(r.kl_sum for r in found[0].values()) > 0
    assert {(r.arm, r.first_difference) for r in of(run, Audited)} == {("baseline#2", None), ("me+w4#1", None)}
    assert {r.arms for r in of(run, LoadedModel)} == {("baseline#1", "baseline#2"), ("w4#1", "me+w4#1")}
    assert not [note.text for note in of(run, Note) if "failed" in note.text]
    assert not (run / "logits").exists()

    made = {folder: report.build(folder) for folder in (run, whole)}
    assert made[run].complete
    assert made[run].turns
    assert not made[whole].turns
    kl = [made[folder].arm("w4#1").measures["kl_mean"] for folder in (run, whole)]
    assert kl[0] == kl[1]
    assert any("speedup" in arm.measures and arm.id == "me+w4#1" for arm in made[run].arms)


class Timed:
    """A clock of kernels that says another thing each time it is asked for a layer anew."""

    def __init__(self) -> None:
        self.asked = 0

    def other_is_faster(self, turns: Any, rows: int) -> bool:
        self.asked += rows == 2
        return rows >= (8, 4, 2)[self.asked % 3]


def test_a_later_process_of_a_run_hands_over_at_other_rows(
    experiment: Experiment, counted: type[Counted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks, two processes, a run that broke off and its resume, and the audit: each opens the model anew."""
    clock = Timed()
    monkeypatch.setattr(kernels, "_other_is_faster", clock.other_is_faster)
    half = {"kind": "draft", "method": "model", "model": "self", "bits": 4, "group_size": 32, "k": 2}
    settings = experiment.resolved()
    settings["engine"]["dtype"] = "bfloat16"
    settings["workload"] |= {"order": "blocks", "processes": 2, "repeats": 1, "memory": True}
    settings["levers"]["half"] = half
    settings["arms"] = {"run": ["w4", "half"]}
    asked = config.from_resolved(settings)
    here, started = runner.run_worker, list[str]()

    def breaks_off(store: Any, task: Any, on_event: Any) -> None:
        started.append(task.name)
        if len(started) == 3:
            raise RunFailed("broke off")
        here(store, task, on_event)

    monkeypatch.setattr(runner, "run_worker", breaks_off)
    with pytest.raises(RunFailed, match="broke off"):
        runner.run(asked, out=tmp_path / "out")
    (run,) = (tmp_path / "out" / "tiny").iterdir()
    measured = of(run, Crossover)
    assert measured
    runner.run(None, resume=run)
    assert of(run, Crossover) == measured
    assert clock.asked == len(measured) == len({replace(one, process=0, rows=None) for one in measured})
    assert len({one.rows for one in measured}) > 1
    notes = [record.notes for record in of(run, LoadedModel) if "w4#1" in record.arms]
    assert len(notes) == 2
    assert len(set(notes)) == 1
    assert any("rows on (measured)" in note for note in notes[0])
    found = report.build(run)
    assert not [flag for flag in found.flags if "other kernels" in flag]
    assert sum("were measured once" in note for note in found.notes) == 1
