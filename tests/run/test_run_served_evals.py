"""Evals on servers: every arm answers itself, none takes over another's scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import served_stubs

from specq.core.records import EvalAnswer, EvalProof, Serving
from specq.report import assemble
from specq.run import folder, runner

MORE = """
[levers.lookup]
kind = "draft"
method = "lookup"
k = 2
max_ngram = 2
min_ngram = 2
[[evals]]
name = "said"
items = "items.jsonl"
metric = "contains"
max_new_tokens = 4
"""


@pytest.mark.usefixtures("quick_lm_eval")
def test_a_speculative_arm_inherits_scores_on_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Callable[..., Path]
) -> None:
    served_stubs.quick(monkeypatch)
    # The arm with a draft says something else, and only its own answers show that it is wrong. They end before the
    # tokens come round.
    served_stubs.install(tmp_path, monkeypatch, draft={"first": 1})
    items = [{"id": f"i{n}", "prompt": f"the dog number {n}", "reference": "a b\u00f6"} for n in range(3)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(one) + "\n" for one in items), encoding="utf-8")
    experiment = served_stubs.experiment(
        tmp_path, {"kind": "vllm", "context": 64}, model=str(folder_of("llama")), more=MORE, repeats=1, prompts=1
    )
    made = runner.run(experiment, out=tmp_path / "out")
    records = folder.read(made).records
    scores = {(r.arm, r.item): r.score for r in records if isinstance(r, EvalAnswer)}
    assert len(scores) == 3 * 3
    assert {score for (arm, _), score in scores.items() if arm != "lookup#1"} == {1.0}
    assert {score for (arm, _), score in scores.items() if arm == "lookup#1"} == {0.0}
    assert not [r for r in records if isinstance(r, EvalProof)]
    asked = [r for r in records if isinstance(r, Serving) and r.task.startswith("eval")]
    assert [r.arms for r in asked] == [("baseline#1",), ("baseline#2",), ("lookup#1",)]
    assert ["--speculative-config" in r.command for r in asked] == [False, False, True]
    report = assemble.build(made)
    (said,) = report.evals
    found = said.arm("lookup#1")
    assert found is not None
    assert found.source in ("", "lookup#1")
    verdict = report.arm("lookup#1").verdict
    assert verdict is not None
    assert verdict.kind != "keep"
