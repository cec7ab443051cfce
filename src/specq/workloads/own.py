"""Rows that an experiment's prompts file may have: specq's own and Spec-Bench's, read by the same parser."""

from __future__ import annotations

from typing import Any

from specq.core.errors import PromptError
from specq.experiment import prompts
from specq.workloads.content import compact
from specq.workloads.request import Asked, Unusable


def fits(value: dict[str, Any]) -> bool:
    """Whether a row is specq's own: an id, messages or prompt, and no key of another format."""
    return "id" in value and ("messages" in value or "prompt" in value) and value.keys() <= set(prompts.OWN_KEYS)


def fits_spec_bench(value: dict[str, Any]) -> bool:
    """Whether a row is a question of Spec-Bench."""
    return "question_id" in value and "turns" in value


def take(value: dict[str, Any], text: str = "") -> list[Asked]:
    """The prompt of a row; `text` is its line where it stands on one.

    Raises:
        Unusable: with the reason that an experiment would give.
    """
    try:
        item = prompts.parsed(text or compact(value), where="")
    except PromptError as error:
        raise Unusable(str(error).removeprefix(": ")) from error
    return [
        Asked(
            id=item.id,
            messages=item.messages,
            prompt=item.prompt,
            tags=item.tags,
            later_turns=item.dropped_turns,
        )
    ]
