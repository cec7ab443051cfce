"""Tasks of lm-eval on specq's engines: the same prompts whoever asks, and what goes wrong document by document."""

from __future__ import annotations

import random
from typing import Any

import pytest
import task_sets
import torch
from task_sets import run, with_bos

from specq.core.errors import PromptError, RunFailed
from specq.core.types import DraftSpec
from specq.evals.task_harness import evaluate_task
from specq.evals.tasks import load_task

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


@pytest.fixture
def target(target_of: Any) -> Any:
    return target_of("llama")


def test_a_bos_is_put_before_a_template(target, tmp_path, monkeypatch):
    path, tokenizer = str(task_sets.write(tmp_path, task_sets.CHOICE)), with_bos()
    for one in (tokenizer, target.tokenizer):
        monkeypatch.setattr(one, "chat_template", "u:{{ messages[0]['content'] }}; a: ")
    wanted = run(load_task(path, chat_template=True), target)
    found = evaluate_task(load_task(path, chat_template=True), target, target.decoder(None), tokenizer)
    assert [one.prompt_ids for one in found] == [one.prompt_ids for one in wanted]
    assert [one.answer for one in found] == [one.answer for one in wanted]


def test_a_prompt_with_two_bos_is_asked(target, tmp_path, monkeypatch):
    monkeypatch.setattr(target.tokenizer, "chat_template", "<s><s>{{ messages[0]['content'] }}")
    task = load_task(str(task_sets.write(tmp_path, task_sets.GENERATE)), chat_template=True)
    with pytest.raises(PromptError, match='item "own 0": the prompt begins with two bos tokens'):
        run(task, target)


def test_a_draft_a_batch_or_a_second_arm_changes_an_answer(target, tmp_path):
    task = load_task(str(task_sets.write(tmp_path, task_sets.GENERATE)), num_fewshot=2)
    alone = run(task, target, batch_size=1)
    for draft, size in ((DraftSpec(method="lookup", k=3), 3), (None, 4)):
        other = run(task, target, draft, batch_size=size)
        assert [one.prompt_ids for one in other] == [one.prompt_ids for one in alone]
        assert [one.generation.ids for one in other] == [one.generation.ids for one in alone]


@pytest.mark.parametrize("chat", [False, True])
def test_a_part_of_a_task_is_asked_otherwise_than_the_whole(target, tmp_path, monkeypatch, chat):
    template = "{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }};{% endfor %}a: "
    monkeypatch.setattr(target.tokenizer, "chat_template", template)
    path = str(task_sets.write(tmp_path, task_sets.CHOICE))
    task, again = (load_task(path, num_fewshot=2, chat_template=chat) for _ in range(2))
    whole = run(task, target)
    assert [one.item for one in whole] == list(task.ids)
    parts = [run(which, target, places=places) for which, places in ((task, {1, 3}), (again, {3}), (again, {1}))]
    assert parts[0] == [whole[1], whole[3]]
    assert [*parts[2], *parts[1]] == [whole[1], whole[3]]
    assert run(task, target, places=()) == []
    told: list[str] = []
    run(task, target, places={3}, on_judge=told.append)
    assert told == [whole[3].item], "an item whose metric ends the process could not be named"


def test_two_tokenizers_get_the_prompts_of_one(target, tmp_path):
    task = load_task(str(task_sets.write(tmp_path, task_sets.GENERATE)))
    first = run(task, target, places={0})
    (other,) = evaluate_task(task, target, target.decoder(None), with_bos(), places={0})
    assert other.prompt_ids == (1, *first[0].prompt_ids)


def test_examples_do_not_follow_the_seed(target, tmp_path):
    path = str(task_sets.write(tmp_path, task_sets.GENERATE))
    prompts = [
        [one.prompt_ids for one in run(load_task(path, num_fewshot=2, fewshot_seed=seed), target)] for seed in (1, 1, 2)
    ]
    assert prompts[0] == prompts[1] != prompts[2]


def test_documents_are_shuffled_anew_or_the_callers_random_state_is_moved(target, tmp_path):
    code = (
        "import random\ndef mix(docs):\n    order = list(range(len(docs)))\n    random.shuffle(order)\n"
        "    return docs.select(order)\n"
    )
    path = str(task_sets.write(tmp_path, task_sets.GENERATE, code=code, process_docs="FUNCTION:mix"))
    random.seed(1)
    state, torch_state = random.getstate(), torch.get_rng_state()
    found = []
    for _ in range(2):
        task = load_task(path, limit=3)
        found.append((task.docs_sha256, [one.prompt_ids for one in run(task, target)]))
        assert random.getstate() == state
        assert torch.equal(torch.get_rng_state(), torch_state)
        random.seed(2)
        state = random.getstate()
    assert found[0] == found[1]
    assert len(found[0][1]) == 3


def test_a_long_prompt_is_cut_from_the_left_without_a_word(target, tmp_path):
    task = load_task(str(task_sets.write(tmp_path, task_sets.GENERATE)))
    with pytest.raises(PromptError, match=r'1 of 5 items needs .*context of 30: "own 0" \(33\); nothing is truncated'):
        run(task, target, context=30)
    assert len(run(task, target, context=33)) == len(task_sets.ROWS)


def test_a_document_whose_metric_raises_ends_the_run_or_counts_as_wrong(target, tmp_path):
    code = (
        "def judge(doc, results):\n    if not results[0]:\n        return {'good': 1}\n"
        "    return {'good': 1 / (doc['q'] != 'x'), **({} if doc['gold'] else {'other': 1})}\n"
    )
    metrics = [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("good", "other")]
    more = {"metric_list": metrics, "process_results": "FUNCTION:judge", "generation_kwargs": {"max_gen_toks": 2}}
    path = str(task_sets.write(tmp_path, task_sets.GENERATE, code=code, **more))
    found = run(load_task(path), target)
    assert [one.score.failed for one in found] == [False, False, False, False, True]
    assert "ZeroDivisionError" in found[-1].score.why


def test_a_template_that_breaks_on_a_later_document_is_a_traceback(target, tmp_path):
    code = "def ask(doc):\n    return doc['q'] if doc['q'] != 'x' else 1 / 0\n"
    path = str(task_sets.write(tmp_path, task_sets.GENERATE, code=code, doc_to_text="FUNCTION:ask"))
    with pytest.raises(RunFailed, match='task "own": its documents cannot be written as prompts: ZeroDivisionError'):
        run(load_task(path), target)


def test_the_cache_of_lm_eval_is_asked(target_of, tmp_path):
    task = load_task(str(task_sets.write(tmp_path, task_sets.GENERATE)))
    first, second = (run(task, target_of(kind)) for kind in ("llama", "qwen2"))
    assert [one.generation.ids for one in first] != [one.generation.ids for one in second]
