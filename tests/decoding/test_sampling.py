"""Draws, streams of chance, and logits that are not numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import toy_planted as planted
from toy_checks import ALARM, CONTROL, fits
from toy_enumeration import ALMOST_ONE

from specq.core.errors import NonFiniteLogits
from specq.core.types import Sampling
from specq.decoding.sampling import Streams, Warper, draw

P = torch.tensor([0.0, 0.1, 0.0, 0.6, 0.3, 0.0])


def drawn(u: float, probs: torch.Tensor = P) -> int:
    return int(draw(probs, torch.tensor(u, dtype=torch.float64)))


def test_draw_never_gives_a_token_of_probability_0_at_the_ends() -> None:
    assert drawn(0.0) == 1
    assert drawn(ALMOST_ONE) == 4
    # Whatever the total is, the largest u below 1 stays below it.
    for total in (0.1, 0.3, 0.7, 1e-30, 3.0):
        assert drawn(0.0, P * total) == 1
        assert drawn(ALMOST_ONE, P * total) == 4


def test_draw_cells_are_as_wide_as_the_probabilities() -> None:
    tokens = draw(P.expand(10_000, 6), (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000)
    assert torch.bincount(tokens, minlength=6).tolist() == [0, 1000, 0, 6000, 3000, 0]


def test_draw_does_not_need_probabilities_that_sum_to_1() -> None:
    u = torch.rand(500, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert torch.equal(draw((P * 0.01).expand(500, 6), u), draw(P.expand(500, 6), u))


def test_draw_has_the_law_of_multinomial() -> None:
    gen = torch.Generator().manual_seed(3)
    probs = (torch.randn(40, generator=gen) * 2).softmax(dim=-1)
    ours = draw(probs.expand(100_000, 40), torch.from_numpy(np.random.default_rng(3).random(100_000)))
    theirs = torch.multinomial(probs, 100_000, replacement=True, generator=gen)
    for tokens in (ours, theirs):
        assert fits(torch.bincount(tokens, minlength=40).numpy(), probs.numpy()) > ALARM


def test_draw_keeps_rare_tokens_of_a_large_vocabulary() -> None:
    # In float32 the running sum of the second half would stand still: 1 + 1e-8 is 1.
    probs = torch.full((50_000,), 1e-8)
    probs[0] = 1.0
    total = float(probs.double().sum())
    for goal in (1, 777, 30_001, 49_999):
        assert drawn((1 + (goal - 0.5) * float(probs[1])) / total, probs) == goal


def test_draw_of_a_batch_is_each_rows_own() -> None:
    gen = torch.Generator().manual_seed(5)
    probs = torch.rand(4, 3, 7, generator=gen)
    u = torch.rand(4, 3, generator=gen, dtype=torch.float64)
    both = draw(probs, u)
    assert both.shape == (4, 3)
    for i, j in itertools.product(range(4), range(3)):
        assert int(both[i, j]) == int(draw(probs[i, j], u[i, j]))


def streams_are_independent(make: Any) -> float:
    """Smallest p-value over all pairs of streams of one seed, and of one stream under consecutive seeds."""
    one = make(11)
    columns = [stream.random(20_000) for stream in (one.draft, one.accept, one.token)]
    many = [make(seed) for seed in range(400)]
    for name in ("draft", "accept", "token"):
        first = np.array([getattr(streams, name).random() for streams in many])
        columns.append(np.concatenate([first[:-1], first[1:]]))
    pairs = list(itertools.combinations(columns[:3], 2))
    pairs += [(column[:399], column[399:]) for column in columns[3:]]
    pairs += list(itertools.combinations([column[:399] for column in columns[3:]], 2))
    worst = 1.0
    for a, b in pairs:
        cells = np.bincount((a * 4).astype(int) * 4 + (b * 4).astype(int), minlength=16)
        worst = min(worst, fits(cells, np.full(16, 1 / 16)) * len(pairs))
    return worst


def test_streams_of_draft_acceptance_and_token_are_independent() -> None:
    assert streams_are_independent(Streams) > ALARM


def test_planted_one_stream_for_all_three_is_caught() -> None:
    assert streams_are_independent(planted.OneStream) < CONTROL


def test_a_seed_means_the_same_whatever_was_asked_for_before() -> None:
    late = Streams(5)
    Streams(6).draft.random(10)
    assert Streams(5).draft.random(3).tolist() == late.draft.random(3).tolist()
    # Nor does one stream's use move another.
    used = Streams(5)
    used.draft.random(100)
    assert used.accept.random(3).tolist() == Streams(5).accept.random(3).tolist()


@pytest.mark.parametrize("bad", [[0.0, torch.nan, 1.0], [0.0, torch.inf, 1.0], [-torch.inf] * 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_logits_that_are_no_numbers_are_refused(bad: list[float], dtype: torch.dtype, temperature: float) -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0], bad, [0.0, 1.0, 2.0]], dtype=dtype)
    for penalty in (1.0, 1.2):
        sampling = Sampling(temperature=temperature, repetition_penalty=penalty)
        warper = Warper(sampling, prompt_tokens=1, eos_ids=())
        for call in (warper.argmax, warper.probs, warper.scores):
            with pytest.raises(NonFiniteLogits, match="not finite"):
                call([0, 1, 2], logits)


def test_minus_infinity_beside_finite_logits_is_a_token_that_cannot_be() -> None:
    warper = Warper(Sampling(temperature=0.7), prompt_tokens=1, eos_ids=())
    probs = warper.probs([0], torch.tensor([[-torch.inf, 0.0, 0.0]]))
    assert probs.tolist() == [[0.0, 0.5, 0.5]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_tied_logits_give_the_lowest_id(dtype: torch.dtype, penalty: float) -> None:
    logits = torch.zeros(2, 5000, dtype=dtype)
    logits[0, [17, 400, 4999]] = 3.0
    logits[1, [4000, 4998]] = 3.0
    warper = Warper(Sampling(repetition_penalty=penalty), prompt_tokens=1, eos_ids=())
    assert warper.argmax([0, 1], logits).tolist() == [17, 4000]
    assert warper.probs([0, 1], logits).argmax(dim=-1).tolist() == [17, 4000]
    assert warper.probs([0, 1], logits).sum(dim=-1).tolist() == [1.0, 1.0]
