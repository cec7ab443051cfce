"""The lossy rule on the reference engine: in batches, with every drafter, and as the audit scores it."""

from __future__ import annotations

import math

import pytest

import tiny_models as tiny
from specq.core.errors import ConfigError
from specq.core.types import DraftSpec, Sampling

PROMPTS = [tiny.prompt("abc abc, abd abc"), tiny.prompt("the cat and the ")]
NEW = 24
DRAFTS = {
    "lookup": DraftSpec(method="lookup", k=4, rule="lossy_threshold", threshold=0.1),
    "early_exit": DraftSpec(method="early_exit", layers=1, k=4, rule="lossy_threshold", threshold=0.1),
}


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("name", DRAFTS)
def test_a_lossy_text_depends_on_its_batch_or_on_what_ran_before(target_of, name, temperature):
    sampling = Sampling(temperature=temperature, max_new_tokens=NEW, ignore_eos=True, seed=3)
    decoder = target_of("llama").decoder(DRAFTS[name])
    alone = [one.ids for one in decoder.generate(PROMPTS, sampling)]
    assert [one.ids for one in decoder.generate(PROMPTS, sampling, batch_size=2)] == alone
    assert [one.ids for one in decoder.generate(PROMPTS[::-1], sampling)] == alone[::-1]


def test_a_lossy_text_is_the_plain_one_at_every_threshold_or_at_none(target_of):
    target, sampling = target_of("llama"), tiny.greedy(NEW)
    plain = target.decoder(None).generate(PROMPTS, sampling)

    def at(threshold):
        draft = DraftSpec(method="early_exit", layers=1, k=4, rule="lossy_threshold", threshold=threshold)
        return target.decoder(draft).generate(PROMPTS, sampling)

    assert [one.ids for one in at(1 - 1e-6)] == [one.ids for one in plain]
    loose = at(1e-30)
    assert [one.ids for one in loose] != [one.ids for one in plain]
    assert all(step.accepted == step.proposed for one in loose for step in one.steps)


def test_no_token_lies_further_below_the_best_than_the_threshold(target_of):
    target, allowed = target_of("llama"), -math.log(0.1)
    gaps = []
    for prompt in PROMPTS:
        (answer,) = target.decoder(DRAFTS["early_exit"]).generate([prompt], tiny.greedy(NEW))
        gaps += [gap for _, gap in target.audit_greedy("a", prompt, answer.ids, None).gaps]
    assert 0.1 < max(gaps) <= allowed + 1e-3


@pytest.mark.parametrize("name", DRAFTS)
def test_the_steps_of_a_lossy_arm_are_held_to_a_law_that_it_lacks(target_of, name):
    target, sampling = target_of("llama"), Sampling(temperature=0.9, max_new_tokens=NEW, ignore_eos=True)
    (answer,) = target.decoder(DRAFTS[name]).generate(PROMPTS[:1], sampling)
    record = target.audit_sampled("a", PROMPTS[0], 0, answer, DRAFTS[name], sampling)
    assert (record.steps, record.steps_mean, record.steps_variance) == (len(answer.steps), None, None)
    assert record.outside == 0


def test_drafts_that_differ_in_their_threshold_load_their_model_twice(target_of, folder_of):
    target, draft = target_of("llama"), str(folder_of("llama", noise=0.2))
    specs = [
        DraftSpec(method="model", model=draft, k=4, rule="lossy_threshold", threshold=0.1),
        DraftSpec(method="model", model=draft, k=2, rule="lossy_threshold", threshold=0.5),
        DraftSpec(method="model", model=draft, k=3, rule="match"),
    ]
    assert len({id(target.draft_model(spec)) for spec in specs}) == 1


@pytest.mark.parametrize(
    ("rule", "threshold", "says"),
    [
        ("lossy_threshold", None, "threshold is missing"),
        ("lossy_threshold", 1.5, "threshold = 1.5: allowed is above 0 and below 1"),
        ("rejection", 0.3, 'rule = "rejection" is exact and has none'),
    ],
)
def test_a_threshold_without_its_rule_decodes(target_of, rule, threshold, says):
    with pytest.raises(ConfigError, match=says):
        target_of("llama").decoder(DraftSpec(method="lookup", k=2, rule=rule, threshold=threshold))
