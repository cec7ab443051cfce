from __future__ import annotations

import json
from pathlib import Path

import pytest
import run_fakes
from run_checks import ARMS, of, only_run, want

from specq import report
from specq.core.errors import RunFailed
from specq.core.records import Failed, FirstTokens, Generated, Memory
from specq.run import runner


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    run_fakes.patch_parent(monkeypatch.setattr)
    monkeypatch.delenv("FAKE", raising=False)


@pytest.mark.parametrize("error", ["NonFiniteLogits", "RuntimeError"])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_an_arm_that_fails_on_every_sample_ends_a_whole_run_with_1_and_its_first_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, temperature: float
) -> None:
    want(monkeypatch, fail={"lookup": "no luck today"}, error=error)
    experiment = run_fakes.write_experiment(tmp_path, memory=True, temperature=temperature)
    with pytest.raises(RunFailed) as caught:
        runner.run(experiment, out=tmp_path / "out", write_report=report.write)
    run = only_run(tmp_path / "out")
    first = next(r for r in of(run, Failed) if not r.of_audit)
    assert str(caught.value) == (
        f"lookup#1 failed on every sample, first on prompt {first.prompt}: {error}: no luck today; "
        f"the rest of the run is done, to see it type: specq show {run}"
    )
    assert caught.value.exit_code == 1
    assert caught.value.finished == run
    assert {r.arm for r in of(run, Memory)} == set(ARMS) - {"lookup#1"}
    assert "lookup#1" not in {r.arm for r in of(run, FirstTokens)}
    assert (run / "done.json").is_file()
    assert json.loads((run / "report.json").read_text(encoding="utf-8"))["complete"] is True
    assert "Serve with lookup" not in report.build(run).recommendation
    assert list(report.open_run(run).file.failed_arms) == ["lookup#1"]


@pytest.mark.parametrize("prompts", [1, 5])
def test_a_baseline_that_fails_on_every_sample_recommends_nothing_and_stops_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompts: int
) -> None:
    want(monkeypatch, fail={"plain": "the weights are cursed"}, error="ValueError")
    experiment = run_fakes.write_experiment(tmp_path, prompts=prompts, repeats=2)
    with pytest.raises(RunFailed, match=r"baseline#1 failed on every sample.*ValueError: the weights are cursed"):
        runner.run(experiment, out=tmp_path / "out", write_report=report.write)
    run = only_run(tmp_path / "out")
    failed = [r.arm for r in of(run, Failed) if not r.of_audit]
    answered = {(r.prompt, r.repeat) for r in of(run, Generated)}
    if prompts == 5:
        assert failed.count("baseline#1") == 3
        assert len(answered) <= 3, "no turn began after the third failure"
        assert not (run / "done.json").exists()
        with pytest.raises(RunFailed, match="without a baseline there is nothing to compare with"):
            runner.run(None, resume=run)
    else:
        assert sorted(failed) == ["baseline#1"] * 2 + ["baseline#2"] * 2
    assert "Serve with" not in report.build(run).recommendation


def test_an_arm_that_fails_on_some_samples_is_counted_and_does_not_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want(monkeypatch, fail={"lookup": "now and then"}, fail_on="prompt 1")
    run = runner.run(run_fakes.write_experiment(tmp_path), out=tmp_path / "out")
    assert [(r.arm, r.prompt) for r in of(run, Failed)] == [("lookup#1", "p1")] * 2
    arm = report.build(run).arm("lookup#1")
    assert (arm.failed, arm.generations) == (2, 4)
    assert report.open_run(run).file.failed_arms == {}
