"""Traces: when requests came and how long they were, without what they said.

Columns as in the Azure LLM inference traces (TIMESTAMP, ContextTokens, GeneratedTokens), BurstGPT (Timestamp, Request
tokens, Response tokens) and Mooncake's (timestamp in milliseconds, input_length, output_length), and plain numbers.
"""

from __future__ import annotations

from typing import Any

from specq.workloads.request import Asked, Unusable
from specq.workloads.timestamps import key_of

_PROMPT = ("contexttokens", "request tokens", "input_length", "prompt_tokens", "input_tokens", "num_prefill_tokens")
_OUTPUT = (
    *("generatedtokens", "response tokens", "output_length", "output_tokens", "completion_tokens"),
    "num_decode_tokens",
)


def fits(value: dict[str, Any]) -> bool:
    """Whether a row has a time and no text that is asked."""
    asks = ("messages", "prompt", "input", "turns", "conversations", "body", "request", "question_id")
    return key_of(value) is not None and not any(key in value for key in asks)


def take(value: dict[str, Any]) -> list[Asked]:
    """The time of a row, and its lengths where it has them.

    Raises:
        Unusable: it has no time.
    """
    key = key_of(value)
    if key is None or value[key] in (None, "") or isinstance(value[key], bool | dict | list):
        raise Unusable("no time in it")
    named = {name.strip().lower(): found for name, found in value.items()}
    return [
        Asked(
            at=value[key],
            at_key=key,
            prompt_tokens=_count(named, _PROMPT),
            output_tokens=_count(named, _OUTPUT),
        )
    ]


def _count(named: dict[str, Any], names: tuple[str, ...]) -> int | None:
    found = next((named[name] for name in names if name in named), None)
    try:
        count = int(found) if isinstance(found, str | int) and not isinstance(found, bool) else None
    except ValueError:
        return None
    return count if count is not None and count >= 0 else None
