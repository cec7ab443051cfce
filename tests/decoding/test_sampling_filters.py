"""Warping against transformers: the fast filters row by row, and the order that `generate` applies."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import toy
from torch import Tensor
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, MinPLogitsWarper, TopPLogitsWarper

from specq.core.types import Sampling
from specq.decoding.sampling import NUCLEUS_GUESS, Warper, min_p_mask, top_p_mask, warp

one_thread = pytest.fixture(autouse=True, scope="module")(toy.one_thread)

NONE = torch.empty((1, 0), dtype=torch.long)
EDGE = 3e-5
"""How far float32 sums over a large vocabulary may lie from the exact mass."""


def rows(count: int, words: int, sharp: float, *, seed: int = 0) -> Tensor:
    return torch.randn(count, words, generator=torch.Generator().manual_seed(seed)) * sharp


def filtered(processor: Any, ids: Tensor, scores: Tensor) -> Tensor:
    """Scores after one of transformers' processors, or a list of them."""
    return processor(ids, scores)


def same_nucleus(scores: Tensor, top_p: float, **settings: Any) -> None:
    """Both keep the same tokens but for those whose place is decided by rounding or by a tie."""
    ours = top_p_mask(scores, top_p, **settings)
    theirs = torch.isfinite(filtered(TopPLogitsWarper(top_p), NONE, scores)) & torch.isfinite(scores)
    ours = ours & torch.isfinite(scores)
    probs = scores.double().softmax(dim=-1)
    values, index = probs.sort(dim=-1, descending=True, stable=True)
    better = torch.zeros_like(probs).scatter_(1, index, values.cumsum(dim=-1) - values)
    # Among equals the order is free: a token may swap with its ties, and with what rounding lets by.
    tied = torch.zeros_like(probs)
    for row in range(len(scores)):
        _, inverse, counts = torch.unique(scores[row], return_inverse=True, return_counts=True)
        tied[row] = (counts[inverse] - 1) * probs[row]
    free = (better - top_p).abs() <= tied + EDGE
    assert torch.equal(ours | free, theirs | free)
    kept = [torch.where(mask, probs, 0.0).sum(dim=-1) for mask in (ours, theirs)]
    assert kept[0] == pytest.approx(kept[1], abs=2 * EDGE + float(values[:, 0].min()) * 1e-3)
    assert ours.any(dim=-1).all()


@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("sharp", [0.1, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("words", [3, 50, 2000])
def test_top_p_keeps_what_transformers_keeps(words: int, sharp: float, top_p: float) -> None:
    same_nucleus(rows(8, words, sharp), top_p)


@pytest.mark.parametrize("sharp", [0.02, 2.0, 6.0])
def test_top_p_keeps_what_transformers_keeps_in_a_large_vocabulary(sharp: float) -> None:
    scores = rows(3, 49_152, sharp)
    same_nucleus(scores, 0.9)
    # The flat row needs more than the guess: both ways must have been walked over these cases.
    assert (top_p_mask(scores, 0.9).sum(dim=-1) > NUCLEUS_GUESS).all() == (sharp < 4)


def test_top_p_of_flat_and_sharp_rows_together_does_not_depend_on_the_guess() -> None:
    scores = torch.cat([rows(2, 3000, 0.1), rows(2, 3000, 8.0)])
    wanted = top_p_mask(scores, 0.9, guess=3000)
    for guess in (1, 2, 100, 2999):
        assert torch.equal(top_p_mask(scores, 0.9, guess=guess), wanted)
        same_nucleus(scores, 0.9, guess=guess)


@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.74])
def test_top_p_of_ties_keeps_as_many_as_transformers(top_p: float) -> None:
    scores = torch.tensor([[0.0] * 8, [1.0, 1.0, 0.0, 0.0, -1.0, -1.0, -2.0, -2.0]])
    theirs = torch.isfinite(filtered(TopPLogitsWarper(top_p), NONE, scores)).sum(dim=-1)
    assert top_p_mask(scores, top_p).sum(dim=-1).tolist() == theirs.tolist()


def test_top_p_after_top_k_adds_no_excluded_token() -> None:
    sampling = Sampling(temperature=1.0, top_k=3, top_p=0.95)
    probs = warp(rows(50, 30, 0.1), sampling)
    assert probs.gt(0).sum(dim=-1).le(3).all()


@pytest.mark.parametrize("min_p", [0.01, 0.1, 0.6, 1.0])
@pytest.mark.parametrize("words", [3, 50, 49_152])
def test_min_p_keeps_what_transformers_keeps(words: int, min_p: float) -> None:
    for sharp in (0.1, 1.0, 6.0):
        scores = rows(4, words, sharp)
        theirs = torch.isfinite(filtered(MinPLogitsWarper(min_p), NONE, scores))
        assert torch.equal(min_p_mask(scores, min_p), theirs)


def test_min_p_of_ties_keeps_all_of_the_best() -> None:
    assert min_p_mask(torch.tensor([[2.0, 2.0, 0.0]]), 1.0).tolist() == [[True, True, False]]


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=60,
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
        )
    )


SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.7},
    {"temperature": 1.5, "top_k": 7},
    {"temperature": 0.5, "top_p": 0.8},
    {"temperature": 1.3, "min_p": 0.2},
    {"temperature": 1.0, "repetition_penalty": 1.7},
    {"temperature": 1.0, "min_new_tokens": 4},
    {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.3, "min_new_tokens": 4},
    {"temperature": 0.0, "repetition_penalty": 1.3, "min_new_tokens": 4},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(s))
def test_rows_of_a_block_are_warped_as_generate_would_one_by_one(model: Any, settings: dict[str, Any]) -> None:
    prompt, proposal, eos = [5, 9, 9, 31], [7, 5, 12, 40, 7], [2, 12]
    sampling = Sampling(**settings)
    greedy = sampling.temperature == 0.0
    config = GenerationConfig(
        do_sample=not greedy,
        temperature=None if greedy else sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p or None,
        repetition_penalty=sampling.repetition_penalty,
        min_new_tokens=sampling.min_new_tokens,
        eos_token_id=eos,
        pad_token_id=0,
    )
    model._prepare_special_tokens(config)
    processors = model._get_logits_processor(config, input_ids_seq_length=len(prompt))
    text = prompt + proposal
    logits = rows(len(proposal) + 1, 60, 2.0, seed=4)
    # Likely ends, so that a minimum length that is ignored shows.
    logits[:, eos] += 4.0
    warper = Warper(sampling, prompt_tokens=len(prompt), eos_ids=eos)
    ours, best = warper.probs(text, logits), warper.argmax(text, logits)
    for row in range(len(logits)):
        before = torch.tensor([text[: len(prompt) + row]])
        wanted = filtered(processors, before, logits[row : row + 1].clone())
        if greedy:
            assert int(ours[row].argmax()) == int(best[row]) == int(wanted.argmax())
        else:
            assert ours[row] == pytest.approx(wanted.softmax(dim=-1)[0], abs=1e-6)
            assert torch.equal(ours[row] > 0, wanted.softmax(dim=-1)[0] > 0)


def test_target_and_draft_are_warped_alike() -> None:
    # Same logits after the same text, one row as a draft sees it and three as the target does.
    sampling = Sampling(temperature=0.6, top_k=5, top_p=0.9, repetition_penalty=1.5, min_new_tokens=2)
    warper = Warper(sampling, prompt_tokens=2, eos_ids=[3])
    logits = rows(3, 12, 2.0)
    block = warper.probs([1, 4, 4, 7], logits)
    for row in range(3):
        assert torch.equal(block[row], warper.probs([1, 4, 4, 7][: 2 + row], logits[row : row + 1])[0])


def test_warping_gives_float32_whatever_the_logits_are() -> None:
    warper = Warper(Sampling(temperature=1.0), prompt_tokens=1, eos_ids=())
    logits = torch.tensor([[0.0, -20.0, -40.0]], dtype=torch.float16)
    probs = warper.probs([0], logits)
    assert probs.dtype == torch.float32
    # Both would be 0 in float16.
    assert probs[0, 2] > 0
    assert float(probs[0, 1] / probs[0, 2]) == pytest.approx(float(torch.tensor(20.0).exp()), rel=1e-3)


def test_temperature_close_to_0_does_not_overflow() -> None:
    probs = warp(torch.tensor([[80.0, 79.0, -80.0]]), Sampling(temperature=1e-4))
    assert probs.tolist() == [[1.0, 0.0, 0.0]]
