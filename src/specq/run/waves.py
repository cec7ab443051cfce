"""Prompts that are asked at once: who waits for whom, and what a prefix cache must not have seen before."""

from __future__ import annotations

from dataclasses import replace

from specq.core.types import Prompt
from specq.run.job import Asked

UNLIKE = "Another beginning:"


def size(asked: Asked, arm: str) -> int:
    """How many prompts an arm is asked at once."""
    return asked.targets[arm].batch


def prompts(asked: Asked, arm: str, prompt: str) -> tuple[str, ...]:
    """The prompts that are asked with one: the run's, cut into waves in their order; the last may have fewer."""
    names = list(asked.prompts_of(arm))
    start = names.index(prompt) // size(asked, arm) * size(asked, arm)
    return tuple(names[start : start + size(asked, arm)])


def unlike(asked: Asked, arm: str, prompt: Prompt) -> Prompt:
    """A prompt for warm-up and canary: where an arm keeps a prefix cache, one that begins as no prompt of the run.

    It has as many tokens; what a sample finds in the cache then comes from the samples before it.
    """
    if not asked.targets[arm].prefix_cache:
        return prompt
    if prompt.ids:
        return replace(prompt, ids=prompt.ids[1:] + prompt.ids[:1])
    messages = tuple({**one, "content": f"{UNLIKE} {one['content']}"} for one in prompt.messages)
    return replace(prompt, text=f"{UNLIKE} {prompt.text}", messages=messages)
