"""The target's texts of a study: written together, each with draws of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiny_models as tiny
from specq.core.errors import Unsupported, UserError
from specq.core.types import Sampling
from specq.decoding.law import Law
from specq.forecast import written

PROMPTS = [tiny.prompt(f"{c}{c}ab {i} ab", id=c) for i, c in enumerate("bcd")]
WARM = Sampling(max_new_tokens=20, ignore_eos=True, temperature=1.0, seed=5)


def test_texts_of_prompts_alike_do_not_share_their_draws(target_of: Callable[..., Any]) -> None:
    twins = [dataclasses.replace(PROMPTS[0], id=id) for id in ("a", "b")]
    one, other = written.write(target_of("llama"), twins, WARM, together=True)
    assert one.ids != other.ids


def test_texts_written_together_are_those_written_alone(target_of: Callable[..., Any]) -> None:
    target = target_of("llama")
    together = written.write(target, PROMPTS, WARM, together=True)
    alone = written.write(target, PROMPTS, WARM, together=False)
    assert [one.ids for one in together] == [one.ids for one in alone]


def test_a_target_that_cannot_be_ragged_writes_one_text_after_another(
    target_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from specq.engines import hf_decoder

    def ragged(*_: Any, **__: Any) -> None:
        raise Unsupported("a window cannot be ragged")

    monkeypatch.setattr(hf_decoder, "decode_batch", ragged)
    assert len(written.write(target_of("llama"), PROMPTS, WARM, together=True)) == len(PROMPTS)


def test_a_sampling_too_few_is_said_and_not_spread_over_the_prompts(target_of: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="2 samplings for 3 prompts"):
        target_of("llama").decoder(None).generate(PROMPTS, [WARM, WARM])


@pytest.mark.parametrize(("new_tokens", "who"), [(60, "prompt b: "), (3, "^")])
def test_greedy_texts_are_taken_for_sampled_ones(target_of: Callable[..., Any], new_tokens: int, who: str) -> None:
    """Long ones each by itself, short ones together."""
    prompts = PROMPTS if new_tokens > 3 else [tiny.prompt(f"{c}{d}ab", id=c + d) for c in "bcdefgh" for d in "bcdefgh"]
    target = target_of("llama")
    sampling = dataclasses.replace(WARM, max_new_tokens=new_tokens)
    texts = target.decoder(None).generate(prompts, dataclasses.replace(sampling, temperature=0.0))
    with pytest.raises(UserError, match=rf"{who}the target does not write such a text at these settings \(z = "):
        written.laws(target, prompts, texts, sampling)
    own = written.write(target, prompts, sampling, together=True)
    assert len(written.laws(target, prompts, own, sampling)) == len(prompts)


def test_greedy_texts_with_few_foreign_tokens_each_pass_together(target_of: Callable[..., Any]) -> None:
    prompts, greedy = [tiny.prompt(f"{c}{c}ab", id=c) for c in "bcdefgh"], dataclasses.replace(WARM, temperature=0.0)
    target = target_of("llama")
    texts = [
        dataclasses.replace(one, ids=(*one.ids[:-2], *((id + 1) % 20 for id in one.ids[-2:])))
        for one in target.decoder(None).generate(prompts, greedy)
    ]
    assert len(written.laws(target, prompts[:1], texts[:1], greedy)) == 1
    with pytest.raises(UserError, match=r"^the target .* \(14 of 140 tokens are not its likeliest, over all 7\)"):
        written.laws(target, prompts, texts, greedy)


def test_texts_without_a_step_end_in_an_internal_error(target_of: Callable[..., Any]) -> None:
    at_once = dataclasses.replace(WARM, max_new_tokens=1)
    with pytest.raises(UserError, match="ends each of 3 texts with the first token"):
        written.write(target_of("llama"), PROMPTS, at_once, together=True)


def test_a_tie_at_the_top_of_the_draft_is_always_proposed() -> None:
    """As the audit of a live run has it; greedy steps are counted, so that a half of one means nothing there."""
    ones = np.ones(3)
    law = Law(p=ones, entropy=ones, variance=ones, hit=np.array([1.0, 0.5, 0.0]), gap=np.array([0.0, 0.0, 2.0]),
              confidence=ones)  # fmt: skip
    assert written.traced(law, law, WARM).hit.tolist() == [1.0, 0.5, 0.0]
    assert written.traced(law, law, dataclasses.replace(WARM, temperature=0.0)).hit.tolist() == [1.0, 1.0, 0.0]
