"""The built-in model: replay says of its texts how many steps life takes, draft by draft and prompt by prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from specq.core.types import EXACT_RULES, DraftSpec, Prompt, Sampling
from specq.forecast import replay, written

pytestmark = pytest.mark.real_model
DRAFTS = {
    "lookup": DraftSpec(method="lookup", k=3, rule="greedy_draft"),
    "early_exit": DraftSpec(method="early_exit", layers=25, k=3),
    "self8": DraftSpec(method="model", model="self", bits=8, k=3),
    "self4": DraftSpec(method="model", model="self", bits=4, group_size=32, k=3),
}
QUESTIONS = (
    "Repeat this line three times: the quick brown fox jumps over the lazy dog",
    "Name three planets and say one thing about each.",
)


def opened(dtype: str) -> Iterator[Any]:
    import torch

    from specq.engines.hf import HFEngine

    threads = torch.get_num_threads()
    # One thread: two that wait for each other on a busy machine take many times as long.
    with HFEngine(device="cpu", dtype=dtype, threads=1).open("builtin:smollm2-135m") as target:
        yield target
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def exact() -> Iterator[Any]:
    yield from opened("float32")


@pytest.fixture(scope="module")
def rounded() -> Iterator[Any]:
    yield from opened("bfloat16")


def prompts(target: Any, count: int) -> list[Prompt]:
    return [target.encode([{"role": "user", "content": text}], id=text[:6]) for text in QUESTIONS[:count]]


def off(target: Any, name: str, asked: list[Prompt], sampling: Sampling) -> list[float]:
    """Live steps less those that replay has for the text that the live arm wrote, prompt by prompt."""
    draft = DRAFTS[name]
    live = target.decoder(draft).generate(asked, sampling)
    texts = written.read(target, {name: draft}, asked, live, sampling, most=draft.k)[name]
    found = replay.steps(texts, draft.k).mean[:, EXACT_RULES.index(draft.rule), draft.k - 1]
    assert min(len(one.steps) for one in live) > 1
    return [len(one.steps) - float(steps) for one, steps in zip(live, found, strict=True)]


@pytest.mark.parametrize("name", DRAFTS)
def test_in_float32_a_greedy_text_takes_other_steps_than_were_replayed(exact: Any, name: str) -> None:
    assert off(exact, name, prompts(exact, 2), Sampling(max_new_tokens=16)) == [0.0, 0.0]


@pytest.mark.parametrize("name", ["lookup", "self8"])
def test_in_bfloat16_the_live_arms_own_text_takes_a_step_more_or_less_than_replay_says(rounded: Any, name: str) -> None:
    equal = dataclasses.replace(Sampling(max_new_tokens=16), ignore_eos=True)
    (apart,) = off(rounded, name, prompts(rounded, 1), equal)
    assert abs(apart) <= 1
