"""Evals on servers: every arm answers itself, none takes over another's scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import served_stubs

from specq.core.records import EvalAnswer, EvalProof, Note, Serving
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


@pytest.mark.usefixtures("quick_lm_eval")
def test_items_that_are_asked_at_once_are_lost_doubled_or_mixed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Callable[..., Path]
) -> None:
    served_stubs.quick(monkeypatch)
    # Five requests warm up and measure: what goes wrong falls on items. The baseline's server dies once, and the arm's
    # answers one item wrongly, for which no other may pay.
    dies = {"fault": "kill", "after": 2, "spared": 5, "once": str(tmp_path / "once")}
    wrong = {"fault": "malformed", "after": 2, "spared": 5, "times": 1}
    served_stubs.install(tmp_path, monkeypatch, plain=dies, draft=wrong)
    items = [{"id": f"i{n}", "prompt": "the dog" + " ran" * n, "reference": "a b\u00f6"} for n in range(10)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(one) + "\n" for one in items), encoding="utf-8")
    engine = {"kind": "vllm", "context": 64, "slots": 4}
    experiment = served_stubs.experiment(
        tmp_path, engine, model=str(folder_of("llama")), more=MORE, repeats=1, prompts=1
    )
    made = runner.run(experiment, out=tmp_path / "out")
    records = folder.read(made).records
    answers = [r for r in records if isinstance(r, EvalAnswer)]
    longest_first = [f"i{n}" for n in reversed(range(10))]
    for arm in ("baseline#1", "baseline#2", "lookup#1"):
        assert [r.item for r in answers if r.arm == arm] == longest_first
    assert {(r.batch_size, r.score, r.finish) for r in answers} == {(4, 1.0, "length")}
    assert len({r.prompt_sha256 for r in answers}) == 10
    told = [r.text for r in records if isinstance(r, Note) and ("was lost on" in r.text or "broke off" in r.text)]
    assert sum("was lost on" in text for text in told) == 1
    assert json.loads((made / "run.json").read_text())["evals"]["said"]["batch_size"] == 4
