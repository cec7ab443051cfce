"""Evals in whole runs on tiny models: who answers, who takes over, and what a kill loses."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import psutil
import pytest
from run_checks import of

from specq.core.errors import RunFailed, RunFolderError, UserError
from specq.core.evaluated import PROBE
from specq.core.records import EvalAnswer, EvalChunk, EvalProof, Failed
from specq.experiment import config
from specq.experiment.schema import Experiment
from specq.report import build
from specq.run import runner

WORDS = ("a quick test", "one, two, three", "the end", "a b a b a b", "stones roll down the hill", "x", "so it goes")


@pytest.fixture
def experiment(folder_of: Callable[..., Path], tmp_path: Path) -> Callable[..., Experiment]:
    """An experiment on a tiny model with a text eval and a choice eval of 14 items each; tables go over it."""

    def make(texts: dict[str, Any] | None = None, **tables: Any) -> Experiment:
        lines = [{"id": f"p{n}", "prompt": text} for n, text in enumerate(WORDS[:2])]
        asked = [{"id": f"i{n}", "prompt": f"{WORDS[n % 7]} {n}", "reference": "a", "tags": ["t"]} for n in range(14)]
        chosen = [{**item, "choices": ["a", "b", "so it"], "reference": "b"} for item in asked]
        for name, rows in (("prompts", lines), ("texts", asked), ("choices", chosen)):
            path = tmp_path / f"{name}.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        text = {"name": "texts", "items": "texts.jsonl", "metric": "contains", "max_new_tokens": 6, "batch_size": 3}
        choice = {"name": "choices", "items": "choices.jsonl", "metric": "choice"}
        values = {
            "name": "tiny",
            "target": {"model": str(folder_of("llama"))},
            "engine": {"dtype": "float32", "threads": 1},
            "workload": {"prompts": "prompts.jsonl", "max_new_tokens": 4, "repeats": 1, "memory": False},
            "audit": {"enabled": False},
            "levers": {
                "lookup": {"kind": "draft", "method": "lookup"},
                "self8": {"kind": "draft", "method": "early_exit", "layers": 1, "k": 2},
            },
            "evals": [{**text, **(texts or {})}, choice],
            **tables,
        }
        for one in values["evals"]:
            if "items" in one:
                one["items"] = str(tmp_path / one["items"])
        values["workload"]["prompts"] = str(tmp_path / "prompts.jsonl")
        return config.from_resolved(values)

    return make


def answers(run: Path) -> Counter[tuple[str, str, str]]:
    return Counter((r.arm, r.eval, r.item) for r in of(run, EvalAnswer))


def capitals(folder: Path) -> dict[str, Any]:
    """A task of lm-eval with three documents of its own."""
    rows = [("France", ["a", "b"], 0), ("Italy", ["b", "a"], 1), ("Spain", ["a", "x"], 0)]
    lines = [json.dumps({"country": country, "cities": cities, "right": right}) for country, cities, right in rows]
    (folder / "capitals.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    task = {
        "task": "capitals",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "capitals.jsonl")}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "one, two, {{country}}",
        "doc_to_choice": "{{cities}}",
        "doc_to_target": "right",
        "metric_list": [{"metric": "acc"}],
    }
    (folder / "capitals.yaml").write_text(json.dumps(task), encoding="utf-8")
    return {"name": "capitals", "task": str(folder / "capitals.yaml")}


def raising(folder: Path) -> dict[str, Any]:
    """An eval whose metric is a function that raises on one item and ends its process on another."""
    function = folder / "own.py"
    lines = ["import os", "def judge(answer, item):", "    if item['id'] == 'i3':"]
    lines += ["        raise KeyError('no such thing')", "    if item['id'] == 'i5':", "        os._exit(3)"]
    function.write_text("\n".join([*lines, "    return True", ""]), encoding="utf-8")
    return {"name": "own", "items": str(folder / "texts.jsonl"), "metric": f"{function}:judge", "max_new_tokens": 2}


def test_a_run_with_evals_of_all_kinds(experiment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run, for it takes its time: each eval asks for a fault of its own."""
    forked.inside(monkeypatch.setattr)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    values = experiment().resolved()
    texts, choices = values["evals"]
    loop = {**texts, "name": "loop", "through_loop": True, "probe": 0.0}
    own = {**texts, **raising(tmp_path), "probe": 0.0}
    values["evals"] = [texts, choices, capitals(tmp_path), loop, own]
    run = runner.run(config.from_resolved(values), out=tmp_path / "out")
    nobody_is_left_out_or_answers_twice(run)
    the_probe_is_perturbed(run)
    drafts_through_the_loop_score_as_their_target(run)
    what_raises_on_an_item_is_counted(run)
    told = json.loads((run / "run.json").read_text())["evals"]["capitals"]["items"]
    assert [item["given"]["prompt"] for item in told] == ["one, two, France", "one, two, Italy", "one, two, Spain"]
    assert {item["given"]["reference"] for item in told} == {"a"}


def nobody_is_left_out_or_answers_twice(run: Path) -> None:
    plain, drafted = ("baseline#1", "baseline#2"), ("lookup#1", "self8#1")
    arms = {"texts": (*plain, PROBE), "choices": (plain[0], PROBE), "loop": (*plain, *drafted), "own": plain}
    expected = {(arm, name, f"i{n}") for name, several in arms.items() for arm in several for n in range(14)}
    expected |= {(arm, "capitals", f"capitals {n}") for arm in (plain[0], PROBE) for n in range(3)}
    found = answers(run)
    assert set(found) == expected
    assert set(found.values()) == {1}
    assert sum(chunk.items for chunk in of(run, EvalChunk)) == len(expected)
    assert {(proof.arm, proof.items, proof.equal) for proof in of(run, EvalProof)} == {(arm, 20, 20) for arm in drafted}
    sizes = {r.arm: r.batch_size for r in of(run, EvalAnswer) if r.eval == "texts"}
    assert sizes == {"baseline#1": 3, "baseline#2": 1, PROBE: 3}
    report = build(run)
    assert [one.name for one in report.evals] == ["texts", "choices", "capitals", "loop", "own"]
    for one in report.evals:
        assert {arm.source for arm in one.arms} == (set(drafted) if one.name == "loop" else {"baseline#1"})
        assert not [arm.faults for arm in one.arms if arm.faults]


def the_probe_is_perturbed(run: Path) -> None:
    logprobs = {
        arm: {r.item: r.logprobs for r in of(run, EvalAnswer) if (r.arm, r.eval) == (arm, "choices")}
        for arm in (PROBE, "baseline#1")
    }
    assert all(logprobs[PROBE][item] != found for item, found in logprobs["baseline#1"].items())


def drafts_through_the_loop_score_as_their_target(run: Path) -> None:
    by_arm: dict[str, dict[str, tuple[float | None, str]]] = {}
    for r in of(run, EvalAnswer):
        if r.eval == "loop":
            by_arm.setdefault(r.arm, {})[r.item] = (r.score, r.output_sha256)
    assert by_arm["lookup#1"] == by_arm["self8#1"] == by_arm["baseline#1"]


def what_raises_on_an_item_is_counted(run: Path) -> None:
    failed = [r for r in of(run, EvalAnswer) if r.score is None]
    arms, why = ("baseline#1", "baseline#2"), {"i3": "KeyError: 'no such thing'", "i5": "(exit code 3)"}
    assert {(r.arm, r.eval, r.item) for r in failed} == {(arm, "own", name) for arm in arms for name in why}
    assert all(r.why.endswith(why[r.item]) for r in failed)
    assert not of(run, Failed)
    one = build(run).evals[4]
    assert one.baseline is not None
    assert one.baseline.n == 12


def test_a_kill_in_an_eval_loses_or_repeats_answers(
    experiment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is started as a user's run starts it, and killed between two batches; the resume goes on here."""

    def kill(progress: runner.Progress) -> None:
        if "texts, " in progress.text:
            (worker,) = (one for one in psutil.Process().children() if "specq.run.worker" in one.cmdline())
            worker.kill()

    started = runner.run_worker
    forked.inside(monkeypatch.setattr)
    inside = runner.run_worker

    def only_evals_as_a_process(store: Any, task: Any, on_event: Any) -> None:
        (started if task.kind == "eval" else inside)(store, task, on_event)

    monkeypatch.setattr(runner, "run_worker", only_evals_as_a_process)
    with pytest.raises(RunFailed, match="killed"):
        # One item a batch, so that much is left when the first four are through.
        runner.run(experiment({"batch_size": 1}), out=tmp_path / "out", on_progress=kill)
    (run,) = (tmp_path / "out").glob("*/*")
    before = answers(run)
    assert 0 < len(before) < 14 * 5
    monkeypatch.setattr(runner, "run_worker", inside)
    runner.run(None, resume=run)
    after = answers(run)
    assert set(after.values()) == {1}
    assert len(after) == 14 * 5
    assert set(before) <= set(after)


def test_items_or_a_metric_that_changed_since_are_resumed(
    experiment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specq.run import left

    function = tmp_path / "slow.py"
    function.write_text("def score(answer, item):\n    return True\n")
    monkeypatch.setattr(left, "tasks", lambda asked: [])
    run = runner.run(experiment({"metric": f"{function}:score"}), out=tmp_path / "out")
    monkeypatch.undo()
    (run / "done.json").unlink()
    function.write_text("def score(answer, item):\n    return False\n")
    said = (
        f"{run} cannot go on, for this changed since it began: {function}, the file of the metric {function}:score of "
        'eval "texts"; put it back, or start a new run without --resume'
    )
    with pytest.raises(RunFolderError, match=f"^{re.escape(said)}$"):
        runner.run(None, resume=run)
    function.write_text("def score(answer, item):\n    return True\n")
    lines = (tmp_path / "texts.jsonl").read_text().replace('"reference": "a"', '"reference": "b"', 1)
    (tmp_path / "texts.jsonl").write_text(lines)
    with pytest.raises(RunFolderError, match='items of eval "texts": 1 item differs, first i0; put it back'):
        runner.run(None, resume=run)


@pytest.mark.parametrize(
    ("texts", "floor", "says"),
    [
        (
            {"limit": 3},
            {"texts": 0.01},
            'eval "texts": floor.quality "texts": 3 items cannot decide a margin of 1 point',
        ),
        ({}, {"texts:none": 0.5}, 'no item has the tag "none"; the tags are t'),
        ({"metric": "number_match"}, {}, 'metric "number_match" does not fit item "i0"'),
        ({"metric": "contain"}, {}, "no metric \"contain\", did you mean 'contains'?"),
        ({"items": "nowhere.jsonl"}, {}, "nowhere.jsonl: no such file"),
        ({"max_new_tokens": 5000}, {}, "nothing is truncated: shorten it, or lower max_new_tokens"),
    ],
)
def test_a_mistake_is_found_after_weights_load(
    experiment: Any, tmp_path: Path, texts: dict[str, Any], floor: dict[str, float], says: str
) -> None:
    with pytest.raises(UserError) as caught:
        runner.run(experiment(texts, floor={"quality": floor}), out=tmp_path / "out")
    assert says in str(caught.value)
    assert not (tmp_path / "out").exists()
