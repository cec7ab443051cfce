"""lm-eval on specq's engines: the tokens that the model sees, and the scores that come of them."""

from __future__ import annotations

import json
from typing import Any

import eval_items
import numpy as np
import pytest
import torch

from specq.core.errors import PromptError
from specq.core.types import DraftSpec
from specq.evals import items, metrics
from specq.evals.harness import Settings, evaluate

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ("a quick test", "one, two, three", "the end", "a b a b a b", "stones roll down the hill", "x")


def some(**more: Any) -> tuple[items.Item, ...]:
    lines = [{"id": f"i{n}", "prompt": text, "reference": "a", **more} for n, text in enumerate(TEXTS)]
    return tuple(items.read_line(json.dumps(line), n + 1) for n, line in enumerate(lines))


def run(target: Any, given: Any, metric: str, settings: Settings | None = None, draft: Any = None, **more: Any) -> Any:
    made = metrics.make(metric)
    return evaluate(given, made, target, target.decoder(draft), target.tokenizer, settings, **more)


@pytest.fixture
def target(target_of: Any) -> Any:
    return target_of("llama")


def test_the_prompt_gains_or_loses_a_token(target):
    found = run(target, some(), "contains", Settings(max_new_tokens=6))
    assert [one.item for one in found] == [f"i{n}" for n in range(len(TEXTS))]
    for one, text in zip(found, TEXTS, strict=True):
        assert list(one.prompt_ids) == target.tokenizer(text)["input_ids"]
        assert one.generation is not None
        assert one.answer == one.generation.text


@pytest.mark.parametrize(
    "draft", [None, DraftSpec(method="lookup", k=3), DraftSpec(method="early_exit", layers=1, k=2)]
)
def test_a_batch_or_a_draft_changes_an_answer(target, draft):
    alone = run(target, some(), "exact_match", Settings(max_new_tokens=16, batch_size=1))
    other = run(target, some(), "exact_match", Settings(max_new_tokens=16, batch_size=4), draft)
    assert [one.generation.ids for one in other] == [one.generation.ids for one in alone]
    assert [one.score for one in other] == [one.score for one in alone]


def test_an_answer_runs_on_past_its_stop(target):
    free = run(target, some(), "contains", Settings(max_new_tokens=20))
    stop = free[0].answer[3]
    cut = run(target, some(), "contains", Settings(max_new_tokens=20, stop=(stop,)))
    for one, whole in zip(cut, free, strict=True):
        assert one.answer == whole.answer.split(stop)[0]


@pytest.mark.parametrize("metric", ["choice", "loglikelihood"])
def test_continuations_are_scored_after_another_prompt(target, metric):
    choices = ["one two", "three", "a b c d"]
    more = {"choices": choices} if metric == "choice" else {}
    given = some(**{**more, "reference": "three" if more else ["three", "a b"]})
    tokenizer, found = target.tokenizer, run(target, given, metric)
    for one, text in zip(found, TEXTS, strict=True):
        assert [part.text for part in one.answer] == (choices if more else ["three", "a b"])
        for part in one.answer:
            whole = tokenizer(f"{text} {part.text}")["input_ids"]
            with torch.inference_mode():
                logits = target.model(input_ids=torch.tensor([whole]), use_cache=False).logits[0].double()
            start = len(one.prompt_ids)
            assert list(one.prompt_ids) == whole[:start]
            rows = logits[start - 1 : -1].log_softmax(dim=-1)
            want = rows[torch.arange(len(whole) - start), whole[start:]].sum()
            assert part.logprob == pytest.approx(float(want), abs=1e-3)
            assert part.tokens == len(whole) - start
        assert one.generation is None
    if more:
        wanted = [int(np.argmax([part.logprob for part in one.answer]) == 1) for one in found]
        assert [one.score.value for one in found] == wanted


def test_a_long_prompt_is_cut_without_a_word(target):
    lengths = sorted(len(target.tokenizer(text)["input_ids"]) for text in TEXTS)
    settings = Settings(max_new_tokens=24 - lengths[-3])
    with pytest.raises(
        PromptError, match=r'2 of 6 items need more tokens.*context of 24: "i\d" \(\d+\).*nothing is truncated'
    ):
        run(target, some(), "contains", settings, context=24)


def test_a_failing_metric_ends_the_run_or_counts_as_wrong(target, tmp_path):
    (tmp_path / "own.py").write_text("def odd(output, item):\n    return 1 / (item['id'] != 'i2')\n")
    made = metrics.make("own.py:odd", folder=tmp_path)
    told: list[str] = []
    settings = Settings(max_new_tokens=2)
    found = evaluate(some(), made, target, target.decoder(None), target.tokenizer, settings, on_judge=told.append)
    assert told == [f"i{n}" for n in range(6)], "an item whose metric ends the process could not be named"
    assert [one.score.failed for one in found] == [False, False, True, False, False, False]
    assert "ZeroDivisionError" in found[2].score.why


def test_the_callers_random_state_is_moved(target):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    run(target, some(), "contains", Settings(max_new_tokens=2))
    assert torch.equal(before, torch.get_rng_state())


def test_messages_that_the_template_refuses_are_not_named(target, monkeypatch):
    monkeypatch.setattr(target.tokenizer, "chat_template", "{{ raise_exception('no system role') }}")
    line = {"id": "z", "messages": [{"role": "user", "content": "hello"}], "reference": "a"}
    with pytest.raises(PromptError, match=r'item "z": .*no system role'):
        run(target, (eval_items.item("a"), items.read_line(json.dumps(line))), "contains")


def test_a_template_is_followed_by_a_blank_or_loses_its_end(target, monkeypatch):
    template = "{% for m in messages %}<{{ m['content'] }}>\n{% endfor %}"
    monkeypatch.setattr(target.tokenizer, "chat_template", template)
    line = {
        "id": "z",
        "messages": [{"role": "user", "content": "hello"}],
        "reference": "one",
        "choices": ["one", "two"],
    }
    (found,) = run(target, (items.read_line(json.dumps(line)),), "choice")
    text = "<hello>\n"
    assert list(found.prompt_ids) == target.tokenizer(text, add_special_tokens=False)["input_ids"]
    whole = target.tokenizer(f"{text}one", add_special_tokens=False)["input_ids"]
    assert found.answer[0].tokens == len(whole) - len(found.prompt_ids)


def test_the_cache_of_lm_eval_is_used(target_of):
    """Two models, one after the other, must not share answers."""
    one, two = target_of("llama"), target_of("qwen2")
    first, second = (run(each, some(), "contains", Settings(max_new_tokens=12)) for each in (one, two))
    assert [each.generation.ids for each in first] != [each.generation.ids for each in second]
