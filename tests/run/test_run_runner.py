from __future__ import annotations

import json
from pathlib import Path

import pytest
import run_fakes
from run_checks import ARMS, all_samples, assert_complete, of, only_run, samples, want

from specq.core.errors import NonFiniteLogits, RunFailed, RunFolderError
from specq.core.records import (
    Audited,
    Canary,
    Done,
    Failed,
    FirstTokens,
    GapNoise,
    Generated,
    LoadedModel,
    Machine,
    Memory,
    Note,
    Sampled,
)
from specq.run import runner


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    run_fakes.patch_parent(monkeypatch.setattr)
    monkeypatch.delenv("FAKE", raising=False)


def test_a_whole_run_leaves_every_record_once_and_done_last(tmp_path: Path) -> None:
    seen: list[runner.Progress] = []
    reported = []
    run = runner.run(
        run_fakes.write_experiment(tmp_path, processes=2, memory=True),
        out=tmp_path / "out",
        on_progress=seen.append,
        write_report=lambda folder: reported.append((folder / "done.json").exists()),
    )
    assert_complete(run, processes=2)
    assert reported == [False]
    assert [r.process for r in of(run, Machine)] == [r.process for r in of(run, LoadedModel)] == [0, 1]
    assert {r.arm for r in of(run, Memory)} == set(ARMS)
    assert {r.prompt for r in of(run, GapNoise)} == {"p0", "p1", "p2"}
    assert {r.rows for r in of(run, GapNoise)} == {5}
    assert {(r.arm, r.prompt) for r in of(run, Audited)} == {(a, f"p{n}") for a in ARMS[1:] for n in range(3)}
    assert all(r.first_difference is None for r in of(run, Audited))
    assert len(of(run, Canary)) >= 4
    assert {r.task for r in of(run, Done)} == {"measure", "audit", *(f"memory:{arm}" for arm in ARMS)}
    assert not of(run, Failed)
    assert (seen[-1].done, seen[-1].total) == (seen[-1].total, 48 + 4 + 12)
    info = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert info["model_notes"] == ["weights were quantized before: Q4_1"]
    assert [arm["id"] for arm in info["arms"]] == list(ARMS)


def test_above_temperature_0_every_answer_is_audited_with_its_own_seed(tmp_path: Path) -> None:
    run = runner.run(run_fakes.write_experiment(tmp_path, temperature=0.7), out=tmp_path / "out")
    assert {(0, r.arm, r.prompt, r.repeat) for r in of(run, Sampled)} == all_samples()
    assert {r.arm for r in of(run, FirstTokens)} == set(ARMS)
    assert not of(run, Failed), "the fake audit draws the answer again from the seed it is given"


def test_seeds_do_not_depend_on_what_ran_before(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = runner.run(run_fakes.write_experiment(tmp_path / "a", temperature=1.0), out=tmp_path / "a")
    two = runner.run(
        run_fakes.write_experiment(tmp_path / "b", temperature=1.0, prompts=2, levers=("exit",)), out=tmp_path / "b"
    )
    first = {(r.arm, r.prompt, r.repeat): r.output_sha256 for r in of(one, Generated)}
    second = {(r.arm, r.prompt, r.repeat): r.output_sha256 for r in of(two, Generated)}
    assert second.items() <= first.items()
    assert first["exit#1", "p0", 0] != first["exit#1", "p0", 1], "a repeat that draws the same text is no repeat"


def test_an_arm_that_fails_has_records_of_its_own_and_is_stopped_after_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want(monkeypatch, fail={"lookup": "logits of lookup are NaN"})
    with pytest.raises(RunFailed, match="lookup#1 failed on every sample, first on prompt p"):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    failed = of(run, Failed)
    assert [(r.arm, r.error) for r in failed] == [("lookup#1", "NonFiniteLogits")] * 3
    assert any("lookup#1 was stopped after 3 failures in a row" in note.text for note in of(run, Note))
    assert set(samples(run)) == {key for key in all_samples() if key[1] != "lookup#1"}
    assert (run / "done.json").is_file()


def test_an_audit_that_breaks_is_on_record_and_passes_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want(monkeypatch, fail={"audit": "yes"})
    run = runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    assert not of(run, Audited)
    assert {r.error for r in of(run, Failed)} == {"audit Audited: RuntimeError"}


def test_a_done_run_and_a_changed_config_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = run_fakes.write_experiment(tmp_path)
    want(monkeypatch, kill_after=4)
    with pytest.raises(RunFailed):
        runner.run(experiment, out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    want(monkeypatch)
    other = run_fakes.write_experiment(tmp_path, seed=1)
    before = (run / "records.jsonl").read_bytes()
    with pytest.raises(RunFolderError, match=r"another config.*workload\.seed: 0 -> 1"):
        runner.run(other, resume=run)
    assert (run / "records.jsonl").read_bytes() == before
    runner.run(experiment, resume=run)
    with pytest.raises(RunFolderError, match="nothing left to do"):
        runner.run(experiment, resume=run)


def test_changed_prompts_are_refused_on_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want(monkeypatch, kill_after=4)
    with pytest.raises(RunFailed):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    text = (tmp_path / "prompts.jsonl").read_text(encoding="utf-8")
    (tmp_path / "prompts.jsonl").write_text(text.replace("prompt 1", "prompt one"), encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"prompts\.jsonl \(workload\.prompts\): 1 prompt differs, first p1; put"):
        runner.run(None, resume=run)


def test_a_model_that_cannot_run_at_all_leaves_half_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want(monkeypatch, broken="logits are not finite")
    with pytest.raises(NonFiniteLogits, match="not finite"):
        runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*/*"))
