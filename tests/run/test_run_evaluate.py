"""The eval task in this process: what it reads once, what it does with an arm that answers nothing, and the end."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import test_run_evals
from run_checks import of, only_run

from specq.core.errors import NonFiniteLogits, RunFailed
from specq.core.evaluated import EvalAnswer
from specq.core.records import EvalProof
from specq.models import tokenizers
from specq.run import eval_left, eval_sets, runner
from specq.run.evaluate import evaluate, prove
from specq.run.job import Job, Progress, Task
from specq.run.store import Store

experiment = test_run_evals.experiment


@contextmanager
def job(asked: Any, out: Path) -> Iterator[Job]:
    with runner._create(asked, out) as store:
        yield Job(store=store, process=0, progress=Progress(stream=io.StringIO(), parent=os.getppid()))


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[int]:
    real, calls = getattr(owner, name), [0]

    def call(*args: Any, **given: Any) -> Any:
        calls[0] += 1
        return real(*args, **given)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_each_stretch_reads_the_records_and_each_prompt_the_tokenizer_anew(
    experiment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with job(experiment({"batch_size": 1}), tmp_path / "out") as one:
        reads, loads = counted(monkeypatch, Store, "contents"), counted(monkeypatch, tokenizers, "load")
        task = Task(kind="eval", arm="baseline#1")
        stretches = eval_left.left(one, one.store.contents(), task)
        assert len(stretches) >= 7
        evaluate(one, task)
        # This test, the task, the quantized models and the crossovers.
        assert reads[0] <= 4
        reads[0] = loads[0] = 0
        prove(one, Task(kind="prove", arm="baseline#1"))
        # The target, its prompts and each draft that has weights.
        assert loads[0] <= 3
        assert {(r.arm, r.items) for r in of(one.store.run_dir, EvalProof)} == {("lookup#1", 14), ("self8#1", 14)}


def test_an_arm_without_finite_logits_stops_the_evals_of_all(
    experiment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = eval_sets.OwnSet.answer

    def answer(self: Any, places: Any, target: Any, decoder: Any, batch_size: int) -> Any:
        if batch_size == 1:
            raise NonFiniteLogits("nan")
        return real(self, places, target, decoder, batch_size)

    monkeypatch.setattr(eval_sets.OwnSet, "answer", answer)
    with job(experiment({"metric": "contains", "batch_size": 3}), tmp_path / "out") as one:
        evaluate(one, Task(kind="eval", arm="baseline#1"))
        assert eval_left.failed(one.store.contents().records) == [
            "baseline#2 has no score on any of 14 items of texts, first on i11: NonFiniteLogits: nan"
        ]


def test_an_arm_that_answers_nothing_ends_a_run_with_0(
    experiment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(store: Store, *_: Any, **__: Any) -> None:
        for name, score in (("a", None), ("b", None), ("c", 1.0)):
            for arm in ("baseline#1", "lookup#1"):
                store.append(answer(arm, name, 1.0 if arm == "baseline#1" else score))
                store.append(answer(arm, f"{name}2", 1.0))

    def answer(arm: str, item: str, score: float | None) -> EvalAnswer:
        asked = "choices" if item.endswith("2") else "texts" if item != "c" else "others"
        plain: dict[str, Any] = {"batch_size": 1, "answer": "", "logprobs": (), "logprob_tokens": ()}
        plain |= {"prompt_tokens": 1, "prompt_sha256": "", "new_tokens": 0, "output_sha256": "", "repeated_share": 0.0}
        why = "" if score is not None else "RuntimeError: out of luck"
        return EvalAnswer(arm=arm, eval=asked, item=item, score=score, why=why, finish="failed", **plain)

    monkeypatch.setattr(runner, "_work", answers)
    with pytest.raises(RunFailed) as caught:
        runner.run(experiment(), out=tmp_path / "out")
    run = only_run(tmp_path / "out")
    assert str(caught.value) == (
        "lookup#1 has no score on any of 2 items of texts, first on a: RuntimeError: out of luck; the rest of the run "
        f"is done, to see it type: specq show {run}"
    )
    assert caught.value.exit_code == 1
    assert (run / "done.json").is_file()
    assert len(of(run, EvalAnswer)) == 12
