"""A lossy rule in whole runs on tiny models: it answers evals itself, is proved nothing, and is never lossless."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import forked
import pytest
import test_run_evals
from run_checks import of
from test_run_evals import answers

from specq.core.records import Audited, EvalAnswer, EvalProof
from specq.core.types import DraftSpec, TargetSpec
from specq.report import build
from specq.report.runfile import load
from specq.report.targets import changes
from specq.run import eval_left, runner

experiment = test_run_evals.experiment
LOSSY = {"kind": "draft", "method": "early_exit", "layers": 1, "k": 3, "rule": "lossy_threshold", "threshold": 0.02}


def test_a_lossy_arm_inherits_scores_or_is_proved_lossless(
    experiment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked.inside(monkeypatch.setattr)
    asked = experiment({"probe": 0.0}, levers={"fast": LOSSY}, audit={"enabled": True})
    run = runner.run(asked, out=tmp_path / "out")
    found = answers(run)
    assert {(arm, name) for arm, name, _ in found if arm == "fast#1"} == {("fast#1", "texts")}
    assert set(found.values()) == {1}
    assert not of(run, EvalProof)
    texts = {
        arm: {r.item: r.output_sha256 for r in of(run, EvalAnswer) if (r.arm, r.eval) == (arm, "texts")}
        for arm in ("baseline#1", "fast#1")
    }
    assert len(texts["fast#1"]) == 14
    assert texts["fast#1"] != texts["baseline#1"], "its answers are those of its own loop"

    report = build(run)
    arm = report.arm("fast#1")
    assert (arm.label, arm.audit.status, arm.faults) == ("fast (lossy)", "lossy", ())
    assert arm.verdict is not None
    assert arm.verdict.kind != "keep"
    gaps = [gap for r in of(run, Audited) if r.arm == "fast#1" for _, gap in r.gaps]
    assert gaps
    assert max(gaps) <= (arm.audit.rule_limit or 0) + (arm.audit.gap_limit or 0)
    assert "lossy rule, threshold 0.02" in changes(load(run), "fast#1", arm.measures, arm.audit)
    by_name = {one.name: one.arm("fast#1") for one in report.evals}
    assert [by_name[name].source for name in ("texts", "choices")] == ["fast#1", ""]  # type: ignore[union-attr]
    assert "does not see the lossy rule, threshold 0.02" in by_name["choices"].unseen  # type: ignore[union-attr]
    assert by_name["texts"].unseen == ""  # type: ignore[union-attr]


@pytest.mark.parametrize("through_loop", [False, True])
def test_a_lossy_draft_waits_for_a_proof_or_takes_over(through_loop: bool) -> None:
    lossy = DraftSpec(method="lookup", k=4, rule="lossy_threshold", threshold=0.3)
    table = [{"name": name, "through_loop": through_loop} for name in ("texts", "choices")]
    asked = SimpleNamespace(
        evals={"texts": {"output": "text"}, "choices": {"output": "choice"}},
        drafts={"fast#1": lossy, "fast+w4#1": lossy, "lookup#1": DraftSpec(method="lookup", k=4)},
        plain={"fast#1": "baseline#1", "fast+w4#1": "w4#1", "lookup#1": "baseline#1"},
        targets={"fast#1": TargetSpec(), "fast+w4#1": TargetSpec(recipe="w4.toml"), "lookup#1": TargetSpec()},
        store=SimpleNamespace(info={"config": {"evals": table}}),
        experiment=SimpleNamespace(engine=SimpleNamespace(is_server=False)),
    )
    nothing = SimpleNamespace(records=())

    def how(arm: str, name: str) -> str:
        return eval_left.how(cast(Any, asked), cast(Any, nothing), arm, name)

    assert [how("fast#1", name) for name in asked.evals] == ["own", "none"]
    # What the quantized target itself costs there can be seen, on answers of its own.
    assert [how("fast+w4#1", name) for name in asked.evals] == ["own", "own"]
    assert how("lookup#1", "choices") == "inherited"
    assert [eval_left.needs_proof(cast(Any, asked), arm) for arm in asked.drafts] == [False, False, not through_loop]
