"""The text of chat messages as services write them: strings, lists of parts, tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from specq.workloads.request import Message, Unusable

TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
ROLES = {
    "system": "system",
    "developer": "system",
    "human": "user",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""The names of roles that services and data sets use, and what they are here."""
TOOLS = "tool calls or their results, which specq's own format does not have"


def compact(value: Any) -> str:
    """A JSON value as the shortest text, keys in the order in which they were given."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def messages_of(found: Any) -> tuple[tuple[Message, ...], str]:
    """Messages as role and text, and what of them specq's own format cannot hold.

    Raises:
        Unusable: no list, an unknown role, or content that is no text.
    """
    if not isinstance(found, list) or not found:
        raise Unusable("messages is empty or no list")
    taken, foreign = list[Message](), ""
    for one in found:
        if not isinstance(one, dict):
            raise Unusable("a message that is no object")
        if one.get("type", "message") not in ("message", "text"):
            # An item of the responses API that is no message: a function call, its output, reasoning.
            taken.append({"role": "tool", "content": compact(one)})
            foreign = TOOLS
            continue
        role, text, tools = _message(one)
        foreign = TOOLS if tools or role == "tool" else foreign
        taken.append({"role": role, "content": text})
    return tuple(taken), foreign


def _message(one: dict[str, Any]) -> tuple[str, str, bool]:
    role = one.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise Unusable("a message with an unknown role")
    text, tools = text_of(one.get("content"))
    if calls := one.get("tool_calls") or one.get("function_call"):
        text, tools = text + compact(calls), True
    # An empty system message is how a template's own system text is switched off.
    if not text.strip() and ROLES[role] != "system":
        raise Unusable("a message without text")
    return ROLES[role], text, tools


def text_of(content: Any) -> tuple[str, bool]:
    """The text of a message's content, and whether some of it is a tool's call or result.

    Raises:
        Unusable: it holds an image, sound or a file, or is neither text nor a list of parts.
    """
    if content is None:
        return "", False
    if isinstance(content, str):
        return content, False
    if not isinstance(content, list):
        raise Unusable("content that is neither text nor a list of parts")
    texts, tools = [], False
    for part in content:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in TEXT_PARTS:
            text = part.get("text", part.get("refusal"))
            if not isinstance(text, str):
                raise Unusable("a text part without text")
            texts.append(text)
        elif kind in ("tool_use", "tool_result"):
            texts.append(compact(part))
            tools = True
        else:
            raise Unusable(f"content of type {kind}, which is no text" if isinstance(kind, str) else "an unknown part")
    return "".join(texts), tools


def without_answer(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], bool]:
    """The messages up to the last that the model did not write itself, and whether an answer stood after them.

    Raises:
        Unusable: nothing was asked.
    """
    end = len(messages)
    while end and messages[end - 1]["role"] == "assistant":
        end -= 1
    if not any(message["role"] in ("user", "tool") for message in messages[:end]):
        # A system message alone is a prompt where nothing follows it, and an answer alone is none.
        if end and end == len(messages):
            return messages, False
        raise Unusable("answers and nothing that was asked")
    return messages[:end], end < len(messages)


def tags_of(*found: Any) -> tuple[str, ...]:
    """The texts and whole numbers among some values or lists of them, each once, in order."""
    flat: list[Any] = []
    for one in found:
        flat += one if isinstance(one, list) else [one]
    return tuple(dict.fromkeys(str(tag) for tag in flat if isinstance(tag, str | int) and str(tag).strip()))


def at_path(value: Any, path: Sequence[str]) -> Any:
    """What stands under keys inside keys; None where there is nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
