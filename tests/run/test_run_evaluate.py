"""The eval task in this process: what it reads once, what it does with an arm that answers nothing, and the end."""

from __future__ import annotations

import io
import json
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
from specq.core.records import EvalProof, Failed
from specq.models import tokenizers
from specq.run import eval_left, eval_sets, runner
from specq.run.evaluate import evaluate, prove
from specq.run.job import Job, Progress, Task, every_sample_failed
from specq.run.store import Store

experiment = test_run_evals.experiment


@contextmanager
def job(asked: Any, out: Path) -> Iterator[Job]:
    with runner._create(asked, out, None) as store:
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
        events = [json.loads(line) for line in one.progress.stream.getvalue().splitlines()]  # type: ignore[attr-defined]
        unscored = [event for event in events if event["event"] == "unscored"]
        assert sum(len(event["items"]) for event in unscored) == 14
        said = shown(one, unscored)
    # Told once, and after that only that it is so again.
    assert said[0] == "baseline#2 has no score on 4 items of texts (first i11): NonFiniteLogits: nan"
    assert {text.rpartition("): ")[2] for text in said[1:]} == {"as told before"}


def shown(one: Job, events: list[dict[str, Any]]) -> list[str]:
    """The lines of progress that come of a worker's events."""
    lines: list[str] = []
    watch = runner._Watch(one, lambda progress: lines.append(progress.text))
    for event in events:
        watch.event(event)
    return lines


def test_a_count_of_one_has_a_noun_of_many(experiment: Any, tmp_path: Path) -> None:
    plain = {"arm": "baseline#1", "eval": "texts"}
    with job(experiment(), tmp_path / "out") as one:
        assert shown(
            one,
            [
                {"event": "evaluated", **plain, "items": 1},
                {"event": "unscored", **plain, "items": ["i3"], "why": "KeyError"},
                {"event": "unscored", **plain, "arm": "probe#1", "items": ["i3", "i4"], "why": "KeyError"},
            ],
        ) == [
            "baseline#1: texts, 1 item",
            "baseline#1 has no score on 1 item of texts (i3): KeyError",
            "probe#1 has no score on 2 items of texts (first i3): as told before",
        ]


def answer(arm: str, item: str, score: float | None, why: str = "RuntimeError: out of luck") -> EvalAnswer:
    asked = "choices" if item.endswith("2") else "texts" if item != "c" else "others"
    plain: dict[str, Any] = {"batch_size": 1, "answer": "", "logprobs": (), "logprob_tokens": ()}
    plain |= {"prompt_tokens": 1, "prompt_sha256": "", "new_tokens": 0, "output_sha256": "", "repeated_share": 0.0}
    said = "" if score is not None else why
    return EvalAnswer(arm=arm, eval=asked, item=item, score=score, why=said, finish="failed", **plain)


def test_a_reason_that_arms_share_is_told_for_each() -> None:
    arms = ("baseline#1", "baseline#2", "probe#1")
    records = [answer(arm, item, None) for arm in arms for item in ("a", "b")]
    records += [answer("w#1", "a", None, "out of memory"), answer("v#1", "a", 1.0), answer("v#1", "b", None)]
    assert eval_left.failed(records) == [
        "baseline#1, baseline#2 and probe#1 have no score on any of 2 items of texts, first on a: "
        "RuntimeError: out of luck",
        "w#1 has no score on the only item of texts, a: out of memory",
    ]


def test_a_failure_that_arms_share_is_told_for_each() -> None:
    def failed(arm: str, message: str) -> Failed:
        return Failed(process=0, arm=arm, prompt=f"of {arm}", repeat=0, error="RuntimeError", message=message)

    assert every_sample_failed([failed("a#1", "odd"), failed("b#1", "no"), failed("c#1", "odd")]) == [
        "a#1 and c#1 failed on every sample, first on prompt of a#1: RuntimeError: odd",
        "b#1 failed on every sample, first on prompt of b#1: RuntimeError: no",
    ]


def test_an_arm_that_answers_nothing_ends_a_run_with_0(
    experiment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(store: Store, *_: Any, **__: Any) -> None:
        for name, score in (("a", None), ("b", None), ("c", 1.0)):
            for arm in ("baseline#1", "lookup#1"):
                store.append(answer(arm, name, 1.0 if arm == "baseline#1" else score))
                store.append(answer(arm, f"{name}2", 1.0))

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
