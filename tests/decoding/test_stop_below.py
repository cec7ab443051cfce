"""A draft that ends its block by its own confidence: the target's law comes out, and not with a planted bug."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
import toy
from toy_checks import ALARM, CONTROL, alarms, loop_law

from specq.core.types import EXACT_RULES, Rule, Sampling
from specq.decoding.drafters import Proposal
from specq.decoding.drafters.chain import ModelDrafter, confidence
from specq.decoding.sampling import Warper

one_thread = pytest.fixture(autouse=True, scope="module")(toy.one_thread)

PAIR = toy.toy(4)
PLAIN = toy.SAMPLINGS["T=1.0 none"]
BELOW = 0.4


def stopping(rule: Rule, kind: type[ModelDrafter] = ModelDrafter) -> ModelDrafter:
    session = cast(Any, toy.ToySession(PAIR.draft))
    return kind(session, sampled=rule != "greedy_draft", vocabulary=PAIR.words, stop_below=BELOW)


class Drops(ModelDrafter):
    """The token that the draft is unsure of is dropped: an unlikely draw is then never proposed."""

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        ids_, q, _ = super().propose(ids, k)
        assert q is not None
        kept = len(ids_) - (float(q[-1, ids_[-1]]) < BELOW)
        # All was fed but the last token, so that a dropped one leaves the cache no longer than it was.
        return Proposal(ids_[:kept], q[:kept] if kept else None)


def test_the_loop_with_a_draft_that_stops_writes_the_targets_law() -> None:
    names = ("T=1.0 none", "T=1.5 top-k", "T=0.5 penalty")
    p_values = {
        f"{rule} {name}": loop_law(PAIR, rule, toy.SAMPLINGS[name], count=800, drafter=stopping(rule))
        for rule in EXACT_RULES
        for name in names
    }
    assert alarms(p_values) == []


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_planted_unsure_token_that_is_dropped_is_caught(rule: Rule) -> None:
    assert loop_law(PAIR, rule, PLAIN, count=1500, drafter=stopping(rule, Drops)) < CONTROL
    assert loop_law(PAIR, rule, PLAIN, count=1500, drafter=stopping(rule)) > ALARM


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_a_block_goes_on_after_a_token_that_the_draft_is_unsure_of_or_ends_before_it(rule: Rule) -> None:
    warper = Warper(PLAIN, prompt_tokens=3, eos_ids=())
    drafter, sizes, text = stopping(rule), set[int](), list(toy.PROMPT)
    rng = np.random.default_rng(1)
    for _ in range(40):
        drafter.start(text, warper, rng)
        ids, q, _ = drafter.propose(text, 3)
        told = [*text, *ids]
        laws = [warper.probs(told[:t], PAIR.draft[told[t - 2], told[t - 1]][None]) for t in range(len(text), len(told))]
        sure = [float(one[0, token]) for one, token in zip(laws, ids, strict=True)]
        assert all(one >= BELOW for one in sure[:-1])
        assert len(ids) == 3 or sure[-1] < BELOW
        assert (q is None) == (rule == "greedy_draft")
        assert q is None or len(q) == len(ids)
        sizes.add(len(ids))
        text = [*text, int(rng.integers(PAIR.words))][-6:]
    assert sizes == {1, 2, 3}


def test_at_temperature_0_a_draft_is_sure_of_all_that_it_says() -> None:
    logits = torch.tensor([[1.0, 2.0, 0.0]])
    want = float(logits.softmax(-1)[0, 1])
    greedy = Warper(Sampling(top_k=1, top_p=0.1), prompt_tokens=1, eos_ids=())
    assert confidence(greedy, [0], logits, 1, None) == pytest.approx(want)
    warm = Warper(Sampling(temperature=0.5), prompt_tokens=1, eos_ids=())
    want = float((logits / 0.5).softmax(-1)[0, 1])
    assert confidence(warm, [0], logits, 1, None) == pytest.approx(want)
    assert confidence(warm, [0], logits, 1, warm.probs([0], logits)) == pytest.approx(want)
