"""The verification rules at their edges: zeros, ties of p and q, padding, rounding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import toy
import toy_known as known
from toy_enumeration import ALMOST_ONE, measured

from specq.core.types import EXACT_RULES, Rule
from specq.decoding import rules

one_thread = pytest.fixture(autouse=True, scope="module")(toy.one_thread)


def uniforms(rows: int, k: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.random((rows, k + 1))), torch.from_numpy(rng.random(rows))


def test_impossible_tokens_are_refused_at_u_0() -> None:
    known.impossible_tokens_are_refused(rules.verify)


def test_tiny_probabilities_keep_their_ratio() -> None:
    known.tiny_probabilities_keep_their_ratio(rules.verify)


@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize(("words", "rows"), [(3, 20_000), (1000, 300)])
def test_equal_p_and_q_accept_everything_without_nan(rule: Rule, words: int, rows: int) -> None:
    p, x = known.random_rows(rows, 4, words)
    n = torch.full((rows,), 4)
    for u_accept, u_token in (
        uniforms(rows, 4),
        (torch.full((rows, 5), ALMOST_ONE, dtype=torch.float64), torch.zeros(rows)),
    ):
        accepted, token = rules.verify(rule, p, p[:, :4], x, n, u_accept, u_token)
        assert accepted.eq(4).all()
        assert p[:, 4].gather(1, token[:, None]).gt(0).all()


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_rounded_copy_of_p_as_q_gives_no_nan_and_no_impossible_token(rule: Rule) -> None:
    rows = 5000
    p, x = known.random_rows(rows, 3, 50, sharp=8.0)
    p = torch.where(p < 1e-6, 0.0, p)
    q = p[:, :3].bfloat16().float()
    x = torch.where(q.gather(-1, x[..., None]).squeeze(-1) > 0, x, q.argmax(dim=-1))
    u_accept, u_token = torch.full((rows, 4), ALMOST_ONE, dtype=torch.float64), uniforms(rows, 3)[1]
    accepted, token = rules.verify(rule, p, q, x, torch.full((rows,), 3), u_accept, u_token)
    assert p[torch.arange(rows), accepted, token].gt(0).all()
    assert accepted.lt(3).any()


def test_residual_that_sums_to_zero_falls_back_to_p() -> None:
    # q lies above p by rounding everywhere: a refusal leaves nothing of p - q.
    p = torch.tensor([[[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]]])
    q = (p[:, :1] * (1 + 1e-6)).contiguous()
    for rule in ("rejection", "block"):
        law = measured(rule, rules.verify, p, q, torch.tensor([[2]]))
        assert law[0, 0] / law[0, 0].sum() == pytest.approx([0.25, 0.25, 0.5], abs=1e-6)
        assert float(law.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_draft_that_shares_no_token_with_the_target_changes_nothing(rule: Rule) -> None:
    p = torch.tensor([[[0.3, 0.7, 0.0, 0.0]] * 3])
    q = torch.tensor([[[0.0, 0.0, 0.5, 0.5]] * 2])
    law = measured(rule, rules.verify, p, q, torch.tensor([[2, 3]]))
    assert law[0, 0].tolist() == pytest.approx([0.3, 0.7, 0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_padding_never_changes_a_row(rule: Rule) -> None:
    rows, k, words = 400, 4, 6
    p, x = known.random_rows(rows, k, words)
    q = known.random_rows(rows, k, words, seed=9)[0][:, :k]
    n = torch.arange(rows) % (k + 1)
    u_accept, u_token = uniforms(rows, k)
    accepted, token = rules.verify(rule, p, q, x, n, u_accept, u_token)
    assert (accepted <= n).all()
    # Padding of nonsense, zeros in q included, gives the same; so does each row alone, cut to its length.
    padding = torch.arange(k) >= n[:, None]
    other = rules.verify(
        rule,
        torch.where(torch.nn.functional.pad(padding, (1, 0))[..., None], 1 / words, p),
        torch.where(padding[..., None], 0.0, q),
        torch.where(padding, 0, x),
        n,
        u_accept,
        u_token,
    )
    assert torch.equal(other.accepted, accepted)
    assert torch.equal(other.token, token)
    for row, length in itertools.islice(enumerate(n.tolist()), 40):
        one = slice(row, row + 1)
        alone = rules.verify(
            rule,
            p[one, : length + 1],
            q[one, :length],
            x[one, :length],
            n[one],
            u_accept[one, : length + 1],
            u_token[one],
        )
        assert (int(alone.accepted), int(alone.token)) == (int(accepted[row]), int(token[row]))


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_no_proposals_draw_from_p(rule: Rule) -> None:
    p = torch.tensor([[[0.2, 0.0, 0.8]]])
    empty = torch.zeros((1, 0), dtype=torch.long)
    law = measured(rule, rules.verify, p, torch.zeros(1, 0, 3), empty)
    assert law[0, 0].tolist() == pytest.approx([0.2, 0.0, 0.8], abs=1e-6)


def test_one_hot_q_and_no_q_are_the_same() -> None:
    rows, k, words = 3000, 3, 5
    p, x = known.random_rows(rows, k, words)
    n = torch.full((rows,), k)
    u_accept, u_token = uniforms(rows, k)
    wanted = rules.verify("greedy_draft", p, None, x, n, u_accept, u_token)
    one_hot = torch.nn.functional.one_hot(x, words).float()
    for rule, q in (("rejection", None), ("rejection", one_hot), ("block", None), ("greedy_draft", p[:, :k])):
        found = rules.verify(rule, p, q, x, n, u_accept, u_token)  # type: ignore[arg-type]
        assert torch.equal(found.accepted, wanted.accepted)
        assert torch.equal(found.token, wanted.token)


def test_block_of_one_is_rejection() -> None:
    p, x = known.random_rows(2000, 1, 4)
    q = known.random_rows(2000, 1, 4, seed=3)[0][:, :1]
    args = (p, q, x, torch.ones(2000, dtype=torch.long), *uniforms(2000, 1))
    for found, wanted in zip(rules.verify("block", *args), rules.verify("rejection", *args), strict=True):
        assert torch.equal(found, wanted)


def test_match_writes_the_targets_own_draws_whatever_was_proposed() -> None:
    rows = 2000
    p, x = known.random_rows(rows, 3, 4)
    u_accept, u_token = uniforms(rows, 3)
    n = torch.full((rows,), 3)
    own = rules.draw(p, u_accept)
    for proposal in (x, (x + 1) % 4, own[:, :3]):
        accepted, token = rules.verify("match", p, None, proposal, n, u_accept, u_token)
        assert torch.equal(token, own[torch.arange(rows), accepted])
    assert accepted.eq(3).all()


def test_greedy_accepts_the_leading_argmaxes_only() -> None:
    best = torch.tensor([[1, 2, 3, 4]] * 5)
    x = torch.tensor([[1, 2, 3], [1, 9, 3], [9, 2, 3], [1, 2, 3], [1, 2, 9]])
    accepted, token = rules.greedy(best, x, torch.tensor([3, 3, 3, 1, 0]))
    assert accepted.tolist() == [3, 1, 0, 1, 0]
    assert token.tolist() == [4, 2, 1, 2, 1]
