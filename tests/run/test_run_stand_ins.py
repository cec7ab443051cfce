"""Another model in the target's place, in this process: which tokens it reads, and what it is held against."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from run_checks import of

import tiny_models
from specq.core import hashes
from specq.core.errors import RunFolderError
from specq.core.evaluated import PROBE, EvalAnswer
from specq.core.records import Audited, Divergence, EvalProof, Failed, GapNoise, Generated, LoadedModel, Machine
from specq.experiment import config
from specq.models import refs, tokenizers
from specq.report import build
from specq.run import folder, left, measure, runner
from specq.run.audit import audit
from specq.run.evaluate import evaluate, prove
from specq.run.job import Job, Progress, Task

ASKED = ("so it goes, so it", "one two one two")


def smaller(where: Path, *, pieces: tuple[str, ...] = tiny_models.PIECES, template: str | None = None) -> Path:
    """One layer of another model; `pieces` are its tokens, in their order."""
    made = tiny_models.save(where, tiny_models.make("llama", seed=5, num_hidden_layers=1), pieces=pieces)
    if template is not None:
        (made / "chat_template.jinja").write_text(template)
    return made


def experiment(target: Path, small: Path, where: Path, **workload: Any) -> Any:
    chat = {"id": "chat", "messages": [{"role": "user", "content": ASKED[0]}]}
    rows = {
        "prompts": [chat, {"id": "raw", "prompt": ASKED[1]}],
        "items": [{"id": f"i{n}", "prompt": f"{n} {n} a", "reference": "a"} for n in range(4)],
    }
    for name, lines in rows.items():
        (where / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    values = {
        "name": "tiny",
        "target": {"model": str(target)},
        "engine": {"dtype": "float32", "threads": 1, "device": "cpu"},
        "workload": {"prompts": str(where / "prompts.jsonl"), "max_new_tokens": 5, "repeats": 1, "memory": False}
        | workload,
        "objective": {"minimise": "e2e_s"},
        "levers": {"small": {"kind": "model", "model": str(small)}, "lookup": {"kind": "draft", "method": "lookup"}},
        "arms": {"run": ["small", "small + lookup"]},
        "evals": [{"name": "set", "items": str(where / "items.jsonl"), "metric": "contains", "max_new_tokens": 4}],
    }
    return config.from_resolved(values)


@contextmanager
def job(asked: Any, out: Path) -> Iterator[Job]:
    with runner._create(asked, out, None) as store:
        yield Job(store=store, process=0, progress=Progress(stream=io.StringIO(), parent=os.getppid()))


@pytest.fixture
def target(folder_of: Callable[..., Path]) -> Path:
    return folder_of("llama")


def test_a_model_is_asked_and_audited_in_the_tokens_of_another(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        measure,
        "machine",
        lambda process, device, imports_bytes: Machine(
            process=process, bandwidth_bytes_per_s=1e9, threads=1, device=device, imports_bytes=imports_bytes
        ),
    )
    pieces = (*tiny_models.PIECES[:4], *tiny_models.PIECES[:3:-1])
    small = smaller(tmp_path / "small", pieces=pieces)
    with job(experiment(target, small, tmp_path, lengths="natural"), tmp_path / "out") as one:
        assert left.compared(one) == []
        measure.measure(one, Task(kind="measure"))
        audit(one, Task(kind="audit"))
        prove(one, Task(kind="prove", arm="small#1"))
        for arm in ("baseline#1", "small#1", PROBE):
            evaluate(one, Task(kind="eval", arm=arm))
        run = one.store.run_dir
    assert not of(run, Failed)
    read = {name: tokenizers.load(refs.resolve(str(path))) for name, path in (("own", small), ("target", target))}
    ids = {name: hashes.of_ids(own(ASKED[1])["input_ids"]) for name, own in read.items()}
    assert ids["own"] != ids["target"]
    asked = {(r.arm, r.prompt_sha256) for r in of(run, Generated) if r.prompt == "raw"}
    own = {("small#1", ids["own"]), ("lookup+small#1", ids["own"])}
    assert asked == own | {("baseline#1", ids["target"]), ("baseline#2", ids["target"])}
    # The draft is held against its own target's text and noise, and no laws over other tokens are compared.
    assert {r.arm for r in of(run, GapNoise)} == {"baseline#1", "small#1"}
    audited = {r.arm: r for r in of(run, Audited) if r.prompt == "raw"}
    assert (audited["lookup+small#1"].first_difference, audited["lookup+small#1"].gaps) == (None, ())
    assert not of(run, Divergence)
    assert {(r.arm, r.holds) for r in of(run, EvalProof)} == {("lookup+small#1", True)}
    item = {r.arm: r for r in of(run, EvalAnswer) if r.item == "i0"}
    assert item["small#1"].prompt_sha256 == hashes.of_ids(read["own"]("0 0 a")["input_ids"])
    assert item[PROBE].prompt_sha256 == item["baseline#1"].prompt_sha256 != item["small#1"].prompt_sha256
    names = {(r.role, r.name, arm) for r in of(run, LoadedModel) for arm in r.arms}
    assert {("target", str(small), "small#1"), ("eval", str(small), "small#1")} <= names
    # The report takes all of it for what it is.
    found = build(run)
    arms = {arm.id: arm for arm in found.arms}
    assert [arm.faults for arm in found.arms] == [()] * 4
    assert arms["small#1"].measures["speedup"].value is None
    assert arms["small#1"].measures["e2e_speedup"].value is not None
    assert arms["lookup+small#1"].audit.sentence().startswith("outputs are those of small: ")
    assert (set_of := found.evals[0]).arm("small#1") is not None
    assert [one.faults for one in set_of.arms] == [(), ()]


def test_laws_after_another_prompt_are_compared(target: Path, tmp_path: Path) -> None:
    small = smaller(tmp_path / "small", template="{{ messages[0]['content'] }}!")
    with job(experiment(target, small, tmp_path), tmp_path / "out") as one:
        # Only the raw prompt is the same tokens for both.
        assert left.compared(one) == [("small#1", "raw")]
        assert len(one.prompts_of("small#1")["chat"].ids) == len(one.prompts["chat"].ids) + 1
        assert one.first_prompt("small#1") == one.prompts_of("lookup+small#1")["chat"]
        assert one.prompts_of("baseline#2") == one.prompts
        assert one.fitting(1000) == tiny_models.CONTEXT - len(one.first_prompt("small#1").ids)
        info = json.loads(json.dumps(one.store.info))
    (reading,) = info["readings"].values()
    for broken in ({**reading, "prompts": reading["prompts"][:1]}, {"prompts": reading["prompts"]}, []):
        with pytest.raises(RunFolderError, match=r"readings of .* are not as specq run writes them"):
            folder.check_shape(tmp_path, {**info, "readings": {str(small): broken}})


def test_equal_tokens_are_kept_twice_or_not_compared(target: Path, tmp_path: Path) -> None:
    with job(experiment(target, smaller(tmp_path / "small"), tmp_path), tmp_path / "out") as one:
        assert one.store.info["readings"] == {}
        assert left.compared(one) == [("small#1", "chat"), ("small#1", "raw")]
