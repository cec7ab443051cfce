"""Prefix caches and batches in a run: what is asked together and recorded, held against the plain arm, resumed."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_checks import of

from specq.core.evaluated import EvalAnswer
from specq.core.records import Audited, EvalProof, Failed, Generated, Machine, Memory
from specq.core.types import Prompt, TargetSpec
from specq.decoding.prefix import Slot
from specq.experiment import config
from specq.report import Report, build, layout
from specq.run import left, measure, runner, waves
from specq.run.audit import audit
from specq.run.evaluate import evaluate, prove
from specq.run.job import Job, Progress, Task
from specq.run.memory import measure_memory
from specq.run.store import Store

NAMES = ("a", "b", "c", "d", "e")
TEXTS = ("be kind, be brief: one two", "be kind, be brief: three", "be kind: one", "else", "be kind: one more")
ARMS = ["warm", "b2", "warm + lookup", "b2 + lookup", "short + warm", "short + b2", "q8 + warm"]


def experiment(target: Path, where: Path, **changes: Any) -> Any:
    long = "so it goes, so it goes. " * 2
    rows = {
        "prompts": [{"id": name, "prompt": f"{text} {long}"} for name, text in zip(NAMES, TEXTS, strict=True)],
        "items": [{"id": f"i{n}", "prompt": f"be kind: {n} {long}", "reference": "a"} for n in range(4)],
    }
    for name, lines in rows.items():
        (where / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    values = {
        "name": "tiny",
        "target": {"model": str(target)},
        "engine": {"dtype": "float32", "threads": 1, "device": "cpu"},
        "workload": {"prompts": str(where / "prompts.jsonl"), "max_new_tokens": 5, "repeats": 2, "memory": False},
        "levers": {
            "warm": {"kind": "prefix_cache"},
            "b2": {"kind": "batch", "size": 2},
            "lookup": {"kind": "draft", "method": "lookup"},
            "short": {"kind": "prompt"},
            "q8": {"kind": "kv_cache", "type": "q8"},
        },
        "arms": {"run": ARMS},
        "evals": [{"name": "set", "items": str(where / "items.jsonl"), "metric": "contains", "max_new_tokens": 4}],
        "objective": {"minimise": "device_s_per_answer"},
        "price": {"per_hour": 2.0, "input_price": 3.0, "cached_price": 0.5, "output_price": 7.0},
    }
    return config.from_resolved(values | changes)


@contextmanager
def job(asked: Any, out: Path) -> Iterator[Job]:
    with runner._create(asked, out, None) as store:
        yield Job(store=store, process=0, progress=Progress(stream=io.StringIO(), parent=os.getppid()))


@pytest.fixture
def target(folder_of: Callable[..., Path]) -> Path:
    return folder_of("llama", hidden_size=128, num_attention_heads=4, num_key_value_heads=2)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        measure,
        "machine",
        lambda process, device, imports_bytes: Machine(
            process=process, bandwidth_bytes_per_s=1e9, threads=1, device=device, imports_bytes=imports_bytes
        ),
    )


def ran(one: Job) -> Path:
    measure.measure(one, Task(kind="measure"))
    audit(one, Task(kind="audit"))
    for plain in dict.fromkeys(one.plain.values()):
        prove(one, Task(kind="prove", arm=plain))
    evaluate(one, Task(kind="eval", arm="baseline#1"))
    return one.store.run_dir


def test_arms_that_are_asked_otherwise_say_something_else(target: Path, tmp_path: Path) -> None:
    with job(experiment(target, tmp_path), tmp_path / "out") as one:
        run = ran(one)
    assert not of(run, Failed)
    answers = {(r.arm, r.prompt, r.repeat): r for r in of(run, Generated)}
    arms = {arm for arm, _, _ in answers}
    assert len(answers) == len(arms) * len(NAMES) * 2
    for (arm, prompt, repeat), record in answers.items():
        assert record.output_sha256 == answers[one.plain[arm], prompt, repeat].output_sha256, arm
    # Three waves, the last of one; all of a wave have one time, and share it.
    alone = {prompt: answers["b2#1", prompt, 0].batch for prompt in NAMES}
    assert alone == {"a": 2, "b": 2, "c": 2, "d": 2, "e": None}
    first, second = (answers["b2#1", prompt, 0] for prompt in "ab")
    assert first.batch_s == second.batch_s
    assert first.device_s == second.device_s == (first.batch_s or 0) / 2 < first.e2e_s
    assert answers["baseline#1", "a", 0].device_s == answers["baseline#1", "a", 0].e2e_s
    short = answers["b2+short#1", "a", 0]
    assert short.device_s == pytest.approx((short.batch_s or 0) / 2 + (short.transform_s or 0))
    # What a sample finds was left by the one before it, and by no warm-up.
    kept = [answers["warm#1", prompt, 0].cached_tokens for prompt in NAMES]
    assert kept[0] == kept[3] == 0
    assert min(kept[1], kept[2]) >= len("be kind")
    assert {r.cached_tokens for (arm, _, _), r in answers.items() if "warm" not in arm} == {None}
    held = {arm for arm in arms if one.plain[arm] != arm}
    assert {r.arm for r in of(run, Audited)} == held
    assert {r.arm for r in of(run, EvalProof) if r.holds} == held - {"baseline#2"}
    assert {r.arm for r in of(run, EvalAnswer)} == {"baseline#1", "baseline#2", "short#1", "q8#1"}
    report = build(run)
    assert [arm.faults for arm in report.arms] == [()] * len(report.arms)
    assert report.arm("b2#1").audit.status == "passed"
    assert report.arm("short+warm#1").audit.against == "short"
    quality = {arm.arm: (arm.source, arm.how) for arm in report.evals[0].arms}
    assert quality["warm#1"] == ("baseline#1", "as baseline#1: the same ids on 4 of 4 items in float32")
    measures = report.arm("warm#1").measures
    assert measures["cached_share"].value == pytest.approx(
        sum(map(int, kept)) / sum(answers["warm#1", prompt, 0].prompt_tokens for prompt in NAMES), abs=0.2
    )
    # Three waves and no more are what the batch's interval rests on.
    assert report.arm("b2#1").measures["throughput_speedup"].n == 3
    assert report.arm("warm#1").measures["throughput_speedup"].n == 5
    check_prices(report, [answers["warm#1", prompt, repeat] for prompt in NAMES for repeat in (0, 1)])
    check_table(report)
    said = report.arm("b2#1").verdict
    assert said is not None
    assert "times as many answers in the same time" in said.sentence


def check_prices(report: Report, warm: list[Generated]) -> None:
    for arm in report.arms:
        measures = arm.measures
        assert measures["price_per_answer"].value == pytest.approx(measures["device_s_per_answer"].value / 1800)
    cached = sum(r.cached_tokens or 0 for r in warm)
    bill = 3 * (sum(r.prompt_tokens for r in warm) - cached) + cached / 2 + 7 * sum(r.new_tokens for r in warm)
    assert report.arm("warm#1").measures["token_price_per_answer"].value == pytest.approx(bill / len(warm) / 1e6)
    plain, drafted = (report.arm(arm).measures["token_price_per_answer"].value for arm in ("b2#1", "b2+lookup#1"))
    assert plain == drafted


def check_table(report: Report) -> None:
    assert {one.arm: one.kinds for one in report.levers}["b2+short#1"] == ("prompt", "batch")
    (found,) = [one for one in layout.sections(report) if one.title == "Levers"]
    rows = {row[0]: dict(zip(found.columns, row, strict=True)) for row in found.rows}
    assert len(rows) == 1 + len(report.levers)
    assert rows["baseline"]["TTFT"].endswith(" ms")
    assert rows["warm"]["TTFT"].partition("x")[0] == f"{report.arm('warm#1').measures['prefill_speedup'].value:.2f}"
    assert rows["warm"]["quality: set"] == "the baseline's own"
    assert "points" in rows["short"]["quality: set"]
    assert {row["verdict"] for row in rows.values()} <= {"-", "keep", "reject", "undecided", "invalid"}


def test_half_a_wave_is_lost_or_recorded_twice(target: Path, tmp_path: Path) -> None:
    asked = experiment(target, tmp_path, arms={"run": ["b2"]}, evals=[])
    with job(asked, tmp_path / "out") as one:
        measure.measure(one, Task(kind="measure"))
        run, whole = one.store.run_dir, of(one.store.run_dir, Generated)
    # Killed after the first of a wave was recorded.
    place = next(n for n, r in enumerate(whole) if (r.arm, r.prompt, r.repeat) == ("b2#1", "d", 0))
    lines = (run / "records.jsonl").read_text().splitlines()
    at = [n for n, line in enumerate(lines) if json.loads(line)["kind"] == "Generated"][place]
    (run / "records.jsonl").write_text("\n".join(lines[:at]) + "\n")
    outputs = (run / "outputs.jsonl").read_text().splitlines()
    (run / "outputs.jsonl").write_text("\n".join(outputs[:place]) + "\n")
    with Store.open_for_resume(run) as store:
        again = Job(store=store, process=0, progress=Progress(stream=io.StringIO(), parent=os.getppid()))
        assert left.turns_left(again, store.contents(), Task(kind="measure"))
        measure.measure(again, Task(kind="measure"))
    found = of(run, Generated)
    keys = [(r.arm, r.prompt, r.repeat) for r in found]
    assert len(keys) == len(set(keys)) == len(whole)
    told = {key: (r.output_sha256, r.batch) for key, r in zip(keys, found, strict=True)}
    assert told == {(r.arm, r.prompt, r.repeat): (r.output_sha256, r.batch) for r in whole}


def test_a_wave_that_fails_fails_for_one_prompt_alone(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specq.engines import hf_decoder

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("planted")

    with job(experiment(target, tmp_path, arms={"run": ["b2"]}, evals=[]), tmp_path / "out") as one:
        monkeypatch.setattr(hf_decoder, "decode_batch", broken)
        measure.measure(one, Task(kind="measure"))
        failed = of(one.store.run_dir, Failed)
    assert [(r.arm, r.prompt, r.repeat) for r in failed] == [("b2#1", prompt, 0) for prompt in "abcd"]


def test_a_stale_cache_passes_the_audit_and_the_proof(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = Slot.ready

    def stale(self: Slot, ids: Any) -> int:
        rollback = self.session.rollback
        monkeypatch.setattr(self.session, "rollback", lambda tokens: None)
        reused = ready(self, ids)
        monkeypatch.setattr(self.session, "rollback", rollback)
        return reused

    monkeypatch.setattr(Slot, "ready", stale)
    with job(experiment(target, tmp_path, arms={"run": ["warm"]}), tmp_path / "out") as one:
        run = ran(one)
    report = build(run)
    assert report.arm("warm#1").audit.status == "failed"
    assert [r.holds for r in of(run, EvalProof)] == [False]
    # What is not proved answers by itself, one item at a time, through its own cache.
    assert {r.batch_size for r in of(run, EvalAnswer) if r.arm == "warm#1"} == {1}


def test_memory_of_a_batch_is_that_of_one_prompt(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    from specq.engines.hf_decoder import HFDecoder

    generate = HFDecoder.generate

    def counted(self: Any, prompts: Any, *how: Any, **more: Any) -> Any:
        asked.append(len(prompts))
        return generate(self, prompts, *how, **more)

    monkeypatch.setattr(HFDecoder, "generate", counted)
    with job(experiment(target, tmp_path, evals=[]), tmp_path / "out") as one:
        measure_memory(one, "b2#1")
        measure_memory(one, "warm#1")
        assert [r.arm for r in of(one.store.run_dir, Memory)] == ["b2#1", "warm#1"]
    assert asked == [2, 1]


def test_warm_up_leaves_a_prompt_to_be_found() -> None:
    whole: Any = SimpleNamespace(targets={"warm": TargetSpec(prefix_cache=True), "plain": TargetSpec()})
    prompt = Prompt(id="p", ids=(1, 2, 3), text="a b c", messages=({"role": "user", "content": "a"},))
    assert waves.unlike(whole, "plain", prompt) == prompt
    assert waves.unlike(whole, "warm", prompt).ids == (2, 3, 1)
    text = Prompt(id="p", ids=(), text="a b c", messages=({"role": "user", "content": "a"},))
    made = waves.unlike(whole, "warm", text)
    assert not made.text.startswith("a")
    assert made.messages[0]["content"].endswith(" a")
    assert not made.messages[0]["content"].startswith("a")
