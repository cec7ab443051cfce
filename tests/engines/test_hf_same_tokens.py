"""At temperature 0 in float32 no draft, rule or block length changes a token."""

from __future__ import annotations

import pytest
import torch

import tiny_models as tiny
from specq.core.types import EXACT_RULES, DraftSpec

PROMPT = tiny.prompt("abc abc, abd abc")
NEW = 28
KINDS = (*tiny.DENSE, "window")


@pytest.fixture(scope="module")
def plain(target_of):
    """The plain answer of each kind, decoded once."""
    known = {}

    def answer(kind):
        if kind not in known:
            known[kind] = target_of(kind).decoder(None).generate([PROMPT], tiny.greedy(NEW))[0]
        return known[kind]

    return answer


@pytest.mark.parametrize("kind", KINDS)
def test_plain_decoding_differs_from_uncached_passes_or_from_transformers_generate(target_of, plain, kind):
    target = target_of(kind)
    assert list(plain(kind).ids) == tiny.uncached(target.model, PROMPT.ids, NEW)
    start = torch.tensor([PROMPT.ids])
    # An eos beyond the vocabulary never comes.
    peer = target.model.generate(start, do_sample=False, max_new_tokens=NEW, eos_token_id=tiny.V)
    assert peer[0, len(PROMPT.ids) :].tolist() == list(plain(kind).ids)


def test_the_texts_are_too_dull_to_show_a_wrong_token(plain):
    for kind in KINDS:
        assert len(set(plain(kind).ids)) >= 6


@pytest.mark.parametrize("rule", EXACT_RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_or_a_drafter_changes_the_greedy_tokens(target_of, folder_of, plain, kind, rule):
    close = str(folder_of(kind, noise=0.2))
    mixed = 0
    for name, spec in tiny.drafts(rule, 4, close).items():
        got = target_of(kind).decoder(spec).generate([PROMPT], tiny.greedy(NEW))[0]
        assert got.ids == plain(kind).ids, name
        assert got.text == plain(kind).text
        proposed, accepted = (sum(s.proposed for s in got.steps), sum(s.accepted for s in got.steps))
        assert 0 <= accepted <= proposed
        assert sum(s.emitted for s in got.steps) + 1 == len(got.ids)
        mixed += 0 < accepted < proposed
    # Drafts that are always or never right would hide a wrong rollback.
    assert mixed >= 3


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_tokens_depend_on_k(target_of, folder_of, plain, kind):
    close = str(folder_of(kind, noise=0.2))
    for k in (1, 2, 3, 5, 8, 13):
        for name, spec in tiny.drafts("rejection", k, close).items():
            assert target_of(kind).decoder(spec).generate([PROMPT], tiny.greedy(NEW))[0].ids == plain(kind).ids, name


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_draft_changes_more_than_the_speed(target_of, folder_of, plain, kind):
    spec = DraftSpec(method="model", model=str(folder_of("llama", seed=9)), k=4)
    got = target_of(kind).decoder(spec).generate([PROMPT], tiny.greedy(NEW))[0]
    assert got.ids == plain(kind).ids
    assert sum(s.accepted for s in got.steps) < 0.3 * sum(s.proposed for s in got.steps)


@pytest.mark.parametrize("kind", ["window", "llama"])
def test_a_draft_with_a_sliding_window_forgets_or_keeps_too_much(target_of, folder_of, kind):
    """The draft's own text is what it would say with whole passes, beyond its window too."""
    draft = str(folder_of("window", noise=0.2))
    spec = DraftSpec(method="model", model=draft, k=3)
    got = target_of(kind).decoder(spec).generate([PROMPT], tiny.greedy(NEW))[0]
    model = target_of("window", noise=0.2).model
    text = [*PROMPT.ids, *got.ids]
    for step in got.steps:
        said = tiny.uncached(model, text[: step.context], step.proposed)
        hits = 0
        while hits < step.proposed and said[hits] == text[step.context + hits]:
            hits += 1
        assert step.accepted == hits


@pytest.mark.parametrize("kind", KINDS)
def test_an_early_exit_proposes_something_else_than_its_layers_say(target_of, kind):
    from specq.decoding.session import shallow

    target = target_of(kind)
    got = target.decoder(DraftSpec(method="early_exit", layers=2, k=3)).generate([PROMPT], tiny.greedy(NEW))[0]
    view = shallow(target.model, 2)
    text = [*PROMPT.ids, *got.ids]
    for step in got.steps:
        said = tiny.uncached(view, text[: step.context], step.proposed)
        hits = 0
        while hits < step.proposed and said[hits] == text[step.context + hits]:
            hits += 1
        assert step.accepted == hits
