"""A head of some ids alone: the whole head's law given that the token is one of them, and never another token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
import toy
from torch import Tensor, nn
from toy_checks import ALARM, CONTROL, alarms, drawn_accepted, drawn_law, loop_accepted, loop_law
from toy_enumeration import by_code, by_definition, text_law

from specq.core.types import EXACT_RULES, Rule, Sampling
from specq.decoding.drafters import Proposal
from specq.decoding.drafters.chain import ModelDrafter
from specq.decoding.drafters.kept_head import KeptHead
from specq.decoding.sampling import Warper, draw
from specq.models.kept import Kept

one_thread = pytest.fixture(autouse=True, scope="module")(toy.one_thread)

IDS = (1, 2, 5, 6, 9)
KEPT = Kept(ids=IDS, rows=11)
PAIR = toy.toy(4)
PLAIN = toy.SAMPLINGS["T=1.0 none"]
NAMES = ("T=1.0 none", "T=1.5 top-p", "T=0.5 top-k", "T=1.0 penalty")


def of_kept(pair: toy.Toy, ids: Sequence[int]) -> toy.Toy:
    """The pair with a draft that proposes some ids alone."""
    draft = torch.full_like(pair.draft, -torch.inf)
    draft[..., list(ids)] = pair.draft[..., list(ids)]
    return toy.Toy(target=pair.target, draft=draft)


TRIMMED = of_kept(PAIR, (0, 2, 3))


def heads(*, bias: bool = True, dtype: torch.dtype = torch.float32) -> tuple[nn.Linear, Tensor]:
    torch.manual_seed(3)
    head = nn.Linear(16, KEPT.rows, bias=bias).to(dtype)
    return head, torch.randn(2, 7, 16).to(dtype)


def conditioned(whole: Tensor) -> Tensor:
    """A law [.., V] given that the token is one of IDS."""
    law = torch.zeros_like(whole)
    law[..., list(IDS)] = whole[..., list(IDS)]
    return law / law.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_the_law_is_not_the_whole_heads_given_the_kept_ids(bias: bool, dtype: torch.dtype) -> None:
    head, hidden = heads(bias=bias, dtype=dtype)
    trimmed = KeptHead(head, KEPT)
    logits = trimmed(hidden)
    assert logits.shape == (2, 7, KEPT.rows)
    assert logits.dtype == dtype
    found = logits.float().softmax(dim=-1)
    assert found == pytest.approx(
        conditioned(head(hidden).float().softmax(dim=-1)), abs=1e-6 if dtype == torch.float32 else 1e-2
    )
    assert (found > 0).any(dim=0).any(dim=0).nonzero().flatten().tolist() == list(IDS)
    # A planted table of ids that is one off gives another law.
    trimmed.ids = trimmed.ids + 1
    assert trimmed(hidden).float().softmax(dim=-1) != pytest.approx(found, abs=1e-2)


def test_the_rows_are_no_memory_of_their_own_or_the_whole_head_is_held_on() -> None:
    head, _ = heads()
    trimmed = KeptHead(head, KEPT)
    assert (trimmed.in_features, trimmed.out_features) == (16, KEPT.rows)
    assert trimmed.rows.weight.shape == (5, 16)
    assert trimmed.rows.weight.untyped_storage().nbytes() == 5 * 16 * 4
    assert not any(parameter.requires_grad for parameter in trimmed.parameters())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", EXACT_RULES)
def test_what_a_rule_writes_with_such_a_draft_is_not_the_targets_law(rule: Rule, name: str) -> None:
    at = toy.tree(TRIMMED, toy.SAMPLINGS[name], 3)
    assert (at.q[:, 1] == 0).all()
    for outcomes in (by_definition(at, rule), by_code(at, rule)):
        assert text_law(at, outcomes, 2, 3) == pytest.approx(at.law(3), abs=1e-6)


def test_the_loop_writes_another_law_or_takes_other_steps_than_its_closed_form() -> None:
    p_values: dict[str, float] = {}
    for rule in EXACT_RULES:
        drafter = toy.model_drafter(TRIMMED, rule)
        p_values[f"law {rule}"] = loop_law(TRIMMED, rule, PLAIN, count=1500, drafter=drafter)
        accepted, steps = loop_accepted(TRIMMED, rule, PLAIN, 3)
        p_values |= {f"accepted {rule}": accepted, f"steps {rule}": steps}
        p_values[f"first {rule}"] = drawn_accepted(toy.tree(TRIMMED, PLAIN, 4), rule, 3)
    assert alarms(p_values) == []


class Mapped(ModelDrafter):
    """The ids of proposals are taken from the next place of the table; q is as it was drawn from."""

    table = (0, 2, 3)

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        proposal = super().propose(ids, k)
        moved = [self.table[(self.table.index(token) + 1) % len(self.table)] for token in proposal.ids]
        return proposal._replace(ids=moved)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_planted_ids_that_are_mapped_wrongly_are_caught(rule: Rule) -> None:
    drafter = Mapped(cast(Any, toy.ToySession(TRIMMED.draft)), sampled=True, vocabulary=4)
    assert loop_law(TRIMMED, rule, PLAIN, count=1500, drafter=drafter) < CONTROL
    assert loop_law(TRIMMED, rule, PLAIN, count=1500, drafter=toy.model_drafter(TRIMMED, rule)) > ALARM


def test_planted_q_of_the_whole_head_is_caught() -> None:
    # Drawn among the kept ids, and scored with what the whole head gives them.
    at = toy.tree(TRIMMED, PLAIN, 3)
    whole = toy.tree(PAIR, PLAIN, 3)

    def propose(_: Any, rule: Rule, nodes: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        return draw(at.q[nodes], u), whole.q[nodes]

    assert drawn_law(at, "rejection", propose=propose) < CONTROL


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.7, top_p=0.9),
        Sampling(temperature=1.0, top_k=8),
        Sampling(temperature=1.3, min_p=0.1, repetition_penalty=1.2),
    ],
)
@torch.inference_mode()
def test_truncation_gives_a_token_that_is_not_kept_some_probability(sampling: Sampling) -> None:
    head, hidden = heads()
    warper = Warper(sampling, prompt_tokens=2, eos_ids=())
    q = warper.probs([1, 4], KeptHead(head, KEPT)(hidden[0, :1]))
    outside = np.setdiff1d(np.arange(KEPT.rows), IDS)
    assert float(q[0, outside].sum()) == 0.0
    assert float(q.sum()) == pytest.approx(1.0)
