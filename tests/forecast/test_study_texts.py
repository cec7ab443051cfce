"""The target's texts of a study: written together, each with draws of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import tiny_models as tiny
from specq.core.errors import Unsupported
from specq.core.types import Sampling
from specq.forecast import study

PROMPTS = [tiny.prompt(f"{c}{c}ab {i} ab", id=c) for i, c in enumerate("bcd")]
WARM = Sampling(max_new_tokens=20, ignore_eos=True, temperature=1.0, seed=5)


def test_texts_of_prompts_alike_do_not_share_their_draws(target_of: Callable[..., Any]) -> None:
    twins = [dataclasses.replace(PROMPTS[0], id=id) for id in ("a", "b")]
    one, other = study._texts(target_of("llama"), twins, WARM, together=True)
    assert one.ids != other.ids


def test_texts_written_together_are_those_written_alone(target_of: Callable[..., Any]) -> None:
    target = target_of("llama")
    together = study._texts(target, PROMPTS, WARM, together=True)
    alone = study._texts(target, PROMPTS, WARM, together=False)
    assert [one.ids for one in together] == [one.ids for one in alone]


def test_a_target_that_cannot_be_ragged_writes_one_text_after_another(
    target_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from specq.engines import hf_decoder

    def ragged(*_: Any, **__: Any) -> None:
        raise Unsupported("a window cannot be ragged")

    monkeypatch.setattr(hf_decoder, "decode_batch", ragged)
    assert len(study._texts(target_of("llama"), PROMPTS, WARM, together=True)) == len(PROMPTS)


def test_a_sampling_too_few_is_said_and_not_spread_over_the_prompts(target_of: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="2 samplings for 3 prompts"):
        target_of("llama").decoder(None).generate(PROMPTS, [WARM, WARM])
