"""Prompts with fewer tokens in a run: what arms read, what is charged to them, and what voids their numbers."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_checks import of

from specq.core import jsonl
from specq.core.errors import ConfigError
from specq.core.evaluated import EvalAnswer
from specq.core.records import Audited, Divergence, EvalProof, Failed, Generated, Machine
from specq.experiment import config
from specq.models import refs, tokenizers
from specq.report import build
from specq.run import inputs, left, measure, runner, transforming
from specq.run.audit import audit
from specq.run.evaluate import evaluate, prove
from specq.run.job import Job, Progress, Task

SAID = "so it goes, so it goes and so on."
TWICE = f"{SAID}\n\none two.\n\n{SAID}\n\nthree?"
ONCE = f"{SAID}\n\none two.\n\nthree?"


def experiment(target: Path, where: Path, **changes: Any) -> Any:
    rows = {
        "prompts": [
            {"id": "chat", "messages": [{"role": "user", "content": TWICE}]},
            {"id": "raw", "prompt": TWICE},
            {"id": "left alone", "prompt": "one?"},
        ],
        "items": [{"id": f"i{n}", "prompt": TWICE.replace("two", "two " * n), "reference": "a"} for n in range(3)],
    }
    for name, lines in rows.items():
        (where / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    values = {
        "name": "tiny",
        "target": {"model": str(target)},
        "engine": {"dtype": "float32", "threads": 1, "device": "cpu"},
        "workload": {"prompts": str(where / "prompts.jsonl"), "max_new_tokens": 5, "repeats": 2, "memory": False},
        "levers": {
            "tidy": {"kind": "prompt"},
            "short": {"kind": "prompt", "select": 0.2},
            "lookup": {"kind": "draft", "method": "lookup"},
        },
        "arms": {"run": ["short", "tidy + lookup"]},
        "evals": [{"name": "set", "items": str(where / "items.jsonl"), "metric": "contains", "max_new_tokens": 4}],
    }
    return config.from_resolved(values | changes)


@contextmanager
def job(asked: Any, out: Path) -> Iterator[Job]:
    with runner._create(asked, out, None) as store:
        yield Job(store=store, process=0, progress=Progress(stream=io.StringIO(), parent=os.getppid()))


@pytest.fixture
def target(folder_of: Callable[..., Path]) -> Path:
    return folder_of("llama")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        measure,
        "machine",
        lambda process, device, imports_bytes: Machine(
            process=process, bandwidth_bytes_per_s=1e9, threads=1, device=device, imports_bytes=imports_bytes
        ),
    )


def ran(target: Path, where: Path) -> Path:
    with job(experiment(target, where), where / "out") as one:
        # Laws after another prompt are not compared, nor after one that happened to stay.
        assert left.compared(one) == []
        measure.measure(one, Task(kind="measure"))
        audit(one, Task(kind="audit"))
        prove(one, Task(kind="prove", arm="tidy#1"))
        evaluate(one, Task(kind="eval", arm="baseline#1"))
        return one.store.run_dir


def test_an_arm_reads_its_own_prompts_and_pays_for_them(target: Path, tmp_path: Path) -> None:
    run = ran(target, tmp_path)
    assert not of(run, Failed)
    count = {name: len(tokenizers.load(refs.resolve(str(target)))(name)["input_ids"]) for name in (TWICE, ONCE)}
    raw = {r.arm: r for r in of(run, Generated) if r.prompt == "raw"}
    assert (raw["baseline#1"].prompt_tokens, raw["baseline#1"].transform_s) == (count[TWICE], None)
    for arm in ("tidy#1", "lookup+tidy#1"):
        assert (raw[arm].prompt_tokens, raw[arm].prompt_tokens_before) == (count[ONCE], count[TWICE])
        assert 0 < (raw[arm].transform_s or 0) < raw[arm].ttft_s < raw[arm].e2e_s
    assert raw["short#1"].prompt_tokens < count[ONCE]
    assert raw["lookup+tidy#1"].output_sha256 == raw["tidy#1"].output_sha256
    assert {r.arm for r in of(run, Audited)} == {"baseline#2", "lookup+tidy#1"}
    assert {(r.arm, r.holds) for r in of(run, EvalProof)} == {("lookup+tidy#1", True)}
    assert not of(run, Divergence)
    # Arms that share their weights share a worker, and each reads its own items.
    item = {r.arm: r.prompt_tokens for r in of(run, EvalAnswer) if r.item == "i1"}
    assert item["baseline#1"] > item["tidy#1"] > item["short#1"]
    found = build(run)
    assert [arm.faults for arm in found.arms] == [()] * len(found.arms)
    tidy = found.arm("tidy#1")
    assert tidy.measures["prompt_tokens"].value < tidy.measures["prompt_tokens_before"].value
    assert tidy.measures["transform_s"].value > 0
    assert tidy.measures["speedup"].value is not None
    assert any("lookup + tidy touches the tokens that prefill reads (" in line for line in found.binding)
    assert any("tidy transforms the prompts (clean)" in line for line in found.stand_ins)
    assert found.evals[0].arm("tidy#1").faults == ()


def changed(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    info = json.loads((run / "run.json").read_text())
    change(info)
    (run / "run.json").write_text(json.dumps(info))


def test_what_voids_an_arm(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transforming, "charged", lambda record, *_: record)
    run = ran(target, tmp_path)
    assert "without the transform's time" in str(build(run).arm("tidy#1").faults)

    def lose(info: dict[str, Any]) -> None:
        own = info["readings"]["prompts: clean"]["prompts"]
        own[0]["transform"]["lost"] = ["amount EUR 3"]
        own[1]["before_sha256"] = "0"

    changed(run, lose)
    told = str(build(run).arm("tidy#1").faults)
    assert "lost protected fields, first chat" in told
    assert "not the baseline's, message by message, first raw" in told


def test_a_transform_that_makes_another_prompt_now_fails_its_samples(target: Path, tmp_path: Path) -> None:
    with job(experiment(target, tmp_path), tmp_path / "out") as one:
        prompt = one.prompts_of("tidy#1")["raw"]
        other = replace(prompt, text=prompt.text + " four")
        with pytest.raises(Exception, match="transform differs"):
            transforming.timed(one, "tidy#1", other, inputs.tokenizer_of(one, one.targets["tidy#1"]))


def test_a_plan_says_what_goes(target: Path, tmp_path: Path) -> None:
    plan = inputs.make_plan(experiment(target, tmp_path))
    plan.check()
    assert any("levers.tidy: clean: 3 prompts" in note and "dropped: repeat" in note for note in plan.notes)
    told = {one["steps"]: one for one in plan.to_json()["transformed"]}
    assert list(told) == ["clean, select 0.2", "clean"]
    assert told["clean"]["prompts"]["tokens_after"] < told["clean"]["prompts"]["tokens_before"]
    jsonl.write_whole(tmp_path / "plan.json", plan.to_json())


@pytest.mark.parametrize(
    ("lever", "why"),
    [
        ({"kind": "prompt", "select": 1.0}, "share"),
        ({"kind": "prompt", "select": 0}, "share"),
        ({"kind": "prompt", "select": True}, "share"),
        ({"kind": "prompt", "select": "half"}, "select = half: allowed is a share"),
        ({"kind": "prompt", "clean": False}, "neither"),
        ({"kind": "prompt", "k": 4}, "does not read it"),
        ({"kind": "kv_cache", "type": "q8", "clean": True}, "does not read it"),
    ],
)
def test_a_lever_that_does_nothing_is_refused(target: Path, tmp_path: Path, lever: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        experiment(target, tmp_path, levers={"tidy": lever}, arms={"run": ["each"]})
