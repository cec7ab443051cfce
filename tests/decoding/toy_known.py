"""Checks with one right answer. Each takes the piece it judges, so that a planted bug meets the same check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from toy import PROMPT, LightRequest, Toy, ToySession, toy
from toy_enumeration import measured

from specq.core.types import Prompt, Sampling
from specq.decoding.drafters import Proposal
from specq.decoding.drafters.chain import ModelDrafter
from specq.decoding.loop import decode
from specq.decoding.request import Request
from specq.decoding.sampling import Streams, Warper

WORDS = 12
GREEDY = Sampling(temperature=0.0, max_new_tokens=12)


def counting() -> Toy:
    """A target that counts on: after token n comes n + 1."""
    table = torch.zeros(WORDS, WORDS, WORDS)
    for last in range(WORDS):
        table[:, last, (last + 1) % WORDS] = 5.0
    return Toy(target=table, draft=table)


class Scripted:
    """Proposes what it is told, step by step, and then nothing."""

    def __init__(self, *proposals: Sequence[int]) -> None:
        self.waiting = [list(ids) for ids in proposals]

    def start(self, ids: Sequence[int], warper: Warper, stream: np.random.Generator) -> None:
        pass

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        return Proposal(self.waiting.pop(0)[:k] if self.waiting else [], None)

    def commit(self, ids: Sequence[int]) -> None:
        pass


def decoded(
    pair: Toy, sampling: Sampling, drafter: Any, k: int, *, make: Any = LightRequest, eos: Sequence[int] = ()
) -> tuple[Request, ToySession]:
    """One request through the real loop, and the target's session as it was left."""
    session = ToySession(pair.target)
    one = make(
        prompt=Prompt(id="toy", ids=PROMPT), sampling=sampling, eos_ids=tuple(eos), tokenizer=None, rule="rejection"
    )
    one.warper = Warper(sampling, prompt_tokens=len(PROMPT), eos_ids=eos)
    one.streams = Streams(sampling.seed)
    decode(one, cast(Any, session), drafter, k)
    return one, session


def fifth_of_five_replaced(*, make: Any = LightRequest) -> None:
    """Five proposed, four right: accepted 4, emitted 5, one pass of 6 rows."""
    one, session = decoded(counting(), Sampling(max_new_tokens=7), Scripted([2, 3, 4, 5, 9]), 5, make=make)
    first = one.steps[0]
    assert (first.proposed, first.accepted, first.emitted) == (5, 4, 5)
    assert one.new_ids == [1, 2, 3, 4, 5, 6, 7]
    # The prefill, this step and the plain one that adds token 7.
    assert session.passes == 3
    assert session.fed == len(PROMPT) + 6 + 1


def full_acceptance_emits_one_more(*, make: Any = LightRequest) -> None:
    """Five proposed, all right: emitted 6."""
    one, session = decoded(counting(), Sampling(max_new_tokens=7), Scripted([2, 3, 4, 5, 6]), 5, make=make)
    assert len(one.steps) == 1
    step = one.steps[0]
    assert (step.proposed, step.accepted, step.emitted) == (5, 5, 6)
    assert session.passes == 2
    assert len(session.held) == len(one.ids) - 1


def eos_inside_a_block(place: int, *, make: Any = LightRequest) -> None:
    """Five right proposals, and the one at `place` (0 to 4) ends the text; 5 is the bonus token."""
    one, session = decoded(
        counting(), Sampling(max_new_tokens=40), Scripted([2, 3, 4, 5, 6]), 5, make=make, eos=[2 + place]
    )
    assert len(one.steps) == 1
    step = one.steps[0]
    assert one.finish == "eos"
    assert one.new_ids == list(range(1, 3 + place))
    assert (step.proposed, step.emitted, step.accepted) == (5, place + 1, min(place + 1, 5))
    assert sum(s.emitted for s in one.steps) + 1 == len(one.new_ids)
    assert session.held == one.ids[:-1]


def ties_go_to_the_lowest_id(*, make: Any = LightRequest) -> None:
    """All logits equal: token 0 for ever, and a draft that says so is always right."""
    flat = Toy(target=torch.zeros(WORDS, WORDS, WORDS), draft=torch.zeros(WORDS, WORDS, WORDS))
    one, _ = decoded(flat, GREEDY, Scripted([0, 0, 0], [1, 0, 0], [0, 0]), 3, make=make)
    assert one.new_ids == [0] * 12
    assert [step.accepted for step in one.steps[:3]] == [3, 0, 2]


def accepts_itself_after_refusals(session: Any) -> None:
    """A draft that is the target accepts everything, also after steps whose proposals were spoiled."""

    class Spoiled(ModelDrafter):
        turn = 0

        def propose(self, ids: Sequence[int], k: int) -> Proposal:
            proposal = super().propose(ids, k)
            self.turn += 1
            place = {0: 0, 1: 2}.get(self.turn % 3)
            if place is None or place >= len(proposal.ids):
                return proposal
            return Proposal([(v + (i == place)) % WORDS for i, v in enumerate(proposal.ids)], proposal.q)

    pair = toy(WORDS)
    drafter = Spoiled(session(pair.target), sampled=True, vocabulary=WORDS)
    one, _ = decoded(pair, Sampling(max_new_tokens=60), drafter, 4)
    whole = [step for turn, step in enumerate(one.steps, start=1) if turn % 3 == 2]
    spoiled = [step for turn, step in enumerate(one.steps[:-1], start=1) if turn % 3 == 0]
    assert len(whole) > 5
    assert [step.accepted for step in whole] == [step.proposed for step in whole]
    assert {step.accepted for step in spoiled} == {0}


def tiny_probabilities_keep_their_ratio(verify: Any) -> None:
    """p = 1e-9 against q = 4e-9 accepts one in four, however small both are."""
    for scale in (1.0, 1e-8, 1e-20):
        p_x, q_x = 0.1 * scale, 0.4 * scale
        p = torch.tensor([[[p_x, 1 - p_x], [0.5, 0.5]]])
        q = torch.tensor([[[q_x, 1 - q_x]]])
        law = measured("rejection", verify, p, q, torch.tensor([[0]]))
        assert float(law[0, 1].sum()) == pytest.approx(0.25, abs=1e-6)


def impossible_tokens_are_refused(verify: Any) -> None:
    """p(x) = 0 is refused even at u = 0, under every rule, and never drawn."""
    p = torch.tensor([[[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]]])
    q = torch.tensor([[[0.6, 0.4, 0.0]]])
    u = torch.zeros(1, 2, dtype=torch.float64)
    for rule in ("rejection", "greedy_draft", "match", "block"):
        for u_token in (0.0, 0.5, float(np.nextafter(1.0, 0.0))):
            added = torch.tensor([u_token], dtype=torch.float64)
            accepted, token = verify(rule, p, q, torch.tensor([[0]]), torch.tensor([1]), u, added)
            assert (int(accepted), int(token)) == (0, 1)


def random_rows(rows: int, k: int, words: int, *, seed: int = 0, sharp: float = 3.0) -> tuple[Tensor, Tensor]:
    """Random p [rows, k + 1, words] and a proposal drawn from it, [rows, k]."""
    gen = torch.Generator().manual_seed(seed)
    p = (torch.randn(rows, k + 1, words, generator=gen) * sharp).softmax(dim=-1)
    x = torch.multinomial(p[:, :k].reshape(-1, words), 1, generator=gen).reshape(rows, k)
    return p, x
