"""Tasks of lm-eval on specq's engines against lm-eval's own evaluator and model, document by document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest
import task_sets
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from task_sets import run, with_bos

import tiny_models
from specq.core.errors import Unsupported
from specq.evals.task_harness import evaluate_task
from specq.evals.tasks import load_task
from specq.models.quiet import quiet

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


def twin(path: Path, target: Any, tokenizer: Any = None, *, model: dict[str, Any] | None = None, **how: Any) -> Any:
    """What lm-eval's evaluator and its own model on the same weights say of each document."""
    with quiet():
        own = HFLM(pretrained=target.model, tokenizer=tokenizer or target.tokenizer, batch_size=1, **(model or {}))
        found = simple_evaluate(
            model=own,
            tasks=[str(path)],
            task_manager=TaskManager(include_defaults=False),
            bootstrap_iters=0,
            random_seed=None,
            numpy_random_seed=None,
            torch_random_seed=None,
            **how,
        )
    assert found is not None
    (samples,) = found["samples"].values()
    return sorted(samples, key=lambda one: one["doc_id"])


@pytest.fixture
def target(target_of: Any) -> Any:
    return target_of("llama")


@pytest.mark.parametrize(("kind", "shots"), [("llama", 0), ("gpt2", 2)])
@pytest.mark.parametrize(("name", "metric"), [("generate", "exact_match"), ("choice", "acc"), ("choice", "acc_norm")])
def test_answers_are_not_those_of_lm_eval(target_of, tmp_path, kind, shots, name, metric):
    target, path = target_of(kind), task_sets.write(tmp_path, task_sets.KINDS[name])
    task = load_task(str(path), metric=metric, num_fewshot=shots)
    found, wanted = run(task, target), twin(path, target, num_fewshot=shots)
    assert [one.item for one in found] == [f"own {place}" for place in range(len(task_sets.ROWS))]
    for one, theirs in zip(found, wanted, strict=True):
        assert one.score.value == theirs[metric]
        if name == "generate":
            assert one.answer == theirs["filtered_resps"][0]
        else:
            logprobs = [float(part[0]) for part in theirs["filtered_resps"]]
            assert [part.logprob for part in one.answer] == pytest.approx(logprobs, abs=1e-3)
    assert {one.score.value for one in found} <= {0.0, 1.0}


def test_a_task_by_its_name_is_asked_otherwise_than_by_lm_eval(target, monkeypatch):
    rows = [
        {
            "id": row["q"],
            "question": row["q"],
            "choices": {"text": [row["a"], row["wrong"], "seven"], "label": ["a", "b", "c"]},
            "answerKey": "abc"[row["gold"]],
        }
        for row in task_sets.ROWS
    ]
    part = datasets.Dataset.from_list(rows)
    monkeypatch.setattr(datasets, "load_dataset", lambda **_: dict.fromkeys(("train", "validation", "test"), part))
    task = load_task("arc_easy", num_fewshot=1, limit=4)
    found, wanted = run(task, target), twin(task.file, target, num_fewshot=1, limit=4)
    assert [one.item for one in found] == [f"arc_easy {place}" for place in range(4)]
    for one, theirs in zip(found, wanted, strict=True):
        assert one.score.value == theirs["acc"]
        logprobs = [float(part[0]) for part in theirs["filtered_resps"]]
        assert [part.logprob for part in one.answer] == pytest.approx(logprobs, abs=1e-3)


@pytest.mark.parametrize("end", ["", " ", "\n", " \n\n"])
def test_blanks_at_the_end_of_a_prompt_are_scored_with_the_wrong_part(target, tmp_path, end):
    path = task_sets.write(tmp_path, task_sets.CHOICE, doc_to_text="{{q}}" + end + "{{''}}")
    found, wanted = run(load_task(str(path)), target), twin(path, target)
    for one, theirs in zip(found, wanted, strict=True):
        logprobs = [float(part[0]) for part in theirs["filtered_resps"]]
        assert [part.logprob for part in one.answer] == pytest.approx(logprobs, abs=1e-3)


def test_choices_without_a_prompt_are_scored_after_something_else(target, tmp_path):
    metrics = [{"metric": "acc_mutual_info"}]
    path = task_sets.write(tmp_path, task_sets.CHOICE, metric_list=metrics)
    found, wanted = run(load_task(str(path)), target), twin(path, target)
    for one, theirs in zip(found, wanted, strict=True):
        assert one.score.value == theirs["acc_mutual_info"]
        assert len(one.answer) == 2
    empty = task_sets.write(tmp_path, task_sets.LIKELIHOOD, doc_to_text="")
    values = [one.score.value for one in run(load_task(str(empty)), target)]
    assert values == pytest.approx([theirs["perplexity"] for theirs in twin(empty, target)], abs=1e-3)


def test_log_probabilities_are_not_those_of_lm_eval(target, tmp_path):
    path = task_sets.write(tmp_path, task_sets.LIKELIHOOD)
    found = run(load_task(str(path)), target)
    wanted = [theirs["perplexity"] for theirs in twin(path, target)]
    assert [one.score.value for one in found] == pytest.approx(wanted, abs=1e-3)
    whole = target.tokenizer("the sky is blue")["input_ids"]
    assert [*found[1].prompt_ids] == whole[: -found[1].answer[0].tokens]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("window", [None, 7])
def test_a_whole_text_is_cut_or_scored_in_other_windows(target_of, tmp_path, kind, window):
    target, path = target_of(kind), task_sets.write(tmp_path, task_sets.ROLLING)
    wanted = twin(path, target, model={"max_length": window or tiny_models.CONTEXT})
    for metric in ("word_perplexity", "byte_perplexity"):
        found = run(load_task(str(path), metric=metric), target, context=window)
        per = [theirs[metric][0] / theirs[metric][1] for theirs in wanted]
        assert [one.score.value for one in found] == pytest.approx(per, abs=1e-3)
        assert [one.answer[0].tokens for one in found] == [len(row["text"]) for row in task_sets.ROWS]


@pytest.mark.parametrize("name", ["generate", "choice", "rolling"])
def test_a_bos_is_lost_or_doubled(target, tmp_path, name):
    path, tokenizer = task_sets.write(tmp_path, task_sets.KINDS[name]), with_bos()
    found = evaluate_task(load_task(str(path)), target, target.decoder(None), tokenizer)
    for one in found:
        assert [one.prompt_ids[0], *one.prompt_ids].count(1) == 2
    # lm-eval itself scores a bos after a bos where it is not told otherwise.
    wanted = twin(path, target, tokenizer, model={"add_bos_token": False} if name == "rolling" else {})
    for one, theirs in zip(found, wanted, strict=True):
        if name == "generate":
            assert one.answer == theirs["filtered_resps"][0]
        else:
            first = theirs["word_perplexity"][0] if name == "rolling" else theirs["filtered_resps"][0][0]
            assert one.answer[0].logprob == pytest.approx(float(first), abs=1e-3)


def test_a_chat_template_is_applied_unasked_or_otherwise_than_by_lm_eval(target, tmp_path, monkeypatch):
    path = task_sets.write(tmp_path, task_sets.CHOICE)
    template = "{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }};{% endfor %}a: "
    monkeypatch.setattr(target.tokenizer, "chat_template", template)
    plain, asked = (run(load_task(str(path), num_fewshot=1, chat_template=on), target) for on in (False, True))
    for found, on in ((plain, False), (asked, True)):
        wanted = twin(path, target, num_fewshot=1, apply_chat_template=on)
        for one, theirs in zip(found, wanted, strict=True):
            logprobs = [float(part[0]) for part in theirs["filtered_resps"]]
            assert [part.logprob for part in one.answer] == pytest.approx(logprobs, abs=1e-3)
    assert [one.prompt_ids for one in plain] != [one.prompt_ids for one in asked]
    monkeypatch.setattr(target.tokenizer, "chat_template", None)
    with pytest.raises(Unsupported, match="chat_template is asked and the model has none"):
        run(load_task(str(path), chat_template=True), target)


def test_an_answer_passes_another_filter_than_the_one_asked(target, tmp_path):
    filters = [
        {"name": "whole", "filter": [{"function": "take_first"}]},
        {"name": "short", "filter": [{"function": "regex", "regex_pattern": "^(.)"}, {"function": "take_first"}]},
    ]
    path = task_sets.write(tmp_path, task_sets.GENERATE, filter_list=filters)
    wanted = twin(path, target)
    for name in ("whole", "short"):
        found = run(load_task(str(path), metric=f"exact_match,{name}"), target)
        theirs = [one["filtered_resps"][0] for one in wanted if one["filter"] == name]
        assert [one.answer for one in found] == theirs


def test_choices_that_stand_in_the_prompt_are_scored_as_continuations(target, tmp_path):
    settings = {
        **task_sets.CHOICE,
        "doc_to_text": "gold",
        "doc_to_target": "text",
        "metric_list": [{"metric": "acc"}],
    }
    path = task_sets.write(tmp_path, settings)
    found, wanted = run(load_task(str(path)), target), twin(path, target)
    for one, row, theirs in zip(found, task_sets.ROWS, wanted, strict=True):
        assert [part.text for part in one.answer] == [row["a"], row["wrong"]]
        logprobs = [float(part[0]) for part in theirs["filtered_resps"]]
        assert [part.logprob for part in one.answer] == pytest.approx(logprobs, abs=1e-3)
        assert one.score.value == theirs["acc"]
        right = row["wrong"] if row["gold"] else row["a"]
        assert one.score.why == ("" if one.score.value else f'right is "{right}"')
