"""What one event says, whichever server sent it: text, token ids, counts, the end, and the server's own numbers.

Sources: https://platform.openai.com/docs/api-reference/chat-streaming (with the `token_ids`, `metrics` and running
`usage` of vLLM, and the `timings` of llama.cpp), tools/server/README.md of ggml-org/llama.cpp (/completion),
docs/api.md of ollama/ollama, and python/sglang/srt/managers/tokenizer_manager.py of SGLang (/generate).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What carries the answer or repeats the prompt: read here, or kept elsewhere, and no number of the server's own.
_PAYLOAD = frozenset(
    (
        *("choices", "usage", "content", "tokens", "response", "message", "thinking", "context", "text", "output_ids"),
        *("prompt", "stop", "done", "error", "completion_probabilities", "prompt_token_ids", "logprobs"),
    )
)

# NaN and the infinities are no JSON: as text they are kept, and nobody computes with them.
_JSON = json.JSONDecoder(parse_constant=str)


class Malformed(ValueError):
    """An event that is not what its server's API says; the message says how."""


@dataclass(slots=True, kw_only=True)
class Content:
    """What an event says.

    `total` is the server's count of all tokens so far, this event's with them. `whole` is for servers that repeat all
    of the text with each event. `ends` is for the one event after which a server says nothing more. `refused` is an
    event that tells of a failure, in place of an answer.
    """

    text: str = ""
    reasoning: str = ""
    calls: str = ""
    ids: tuple[int, ...] | None = None
    total: int | None = None
    finish: str | None = None
    usage: Mapping[str, Any] | None = None
    server: dict[str, Any] = field(default_factory=dict)
    whole: bool = False
    ends: bool = False
    refused: Mapping[str, Any] | None = None
    known: bool = True

    @property
    def says(self) -> bool:
        """Whether there is something of the answer in it."""
        return bool(self.text or self.reasoning or self.calls or self.ids)


def read(data: bytes) -> Content:
    """What an event's data says.

    Raises:
        Malformed: it is no JSON object in UTF-8, or a field of it is of another type than it must be.
    """
    try:
        told = _JSON.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    if not isinstance(told, dict):
        raise Malformed(f"a JSON value that is no object: {type(told).__name__}")
    if told.get("error") or told.get("object") == "error" or ("code" in told and "message" in told):
        return Content(refused=told)
    if "choices" in told:
        content = _openai(told)
    elif "meta_info" in told:
        content = _sglang(told)
    elif "done" in told:
        content = _ollama(told)
    elif "content" in told and "stop" in told:
        content = _llamacpp(told)
    else:
        content = Content(known=False)
    content.server |= {name: value for name, value in told.items() if name not in _PAYLOAD and value is not None}
    return content


def _openai(told: Mapping[str, Any]) -> Content:
    usage = _object(told, "usage")
    choices = told["choices"]
    if not isinstance(choices, list) or not all(isinstance(one, dict) for one in choices):
        raise Malformed("choices is no list of objects")
    content = Content(usage=usage)
    if not choices:
        return content
    if len(choices) > 1 or choices[0].get("index") not in (None, 0):
        raise Malformed("more than one answer; ask for n = 1")
    (choice,) = choices
    # A server that does not stream says `message` where it would say `delta`.
    delta = _object(choice, "delta") or _object(choice, "message") or {}
    content.text = _text(delta, "content") or _text(choice, "text")
    content.reasoning = _text(delta, "reasoning_content") or _text(delta, "reasoning")
    content.calls = _calls(delta.get("tool_calls"))
    content.ids = _ids(choice, "token_ids")
    content.finish = _text(choice, "finish_reason") or None
    content.total = _count(usage or {}, "completion_tokens")
    if choice.get("stop_reason") is not None:
        content.server["stop_reason"] = choice["stop_reason"]
    return content


def _calls(told: Any) -> str:
    """Names and arguments of tool calls, as far as this event has them."""
    if told is None:
        return ""
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        raise Malformed("tool_calls is no list of objects")
    functions = [_object(one, "function") or {} for one in told]
    return "".join(_text(one, "name") + _text(one, "arguments") for one in functions)


def _llamacpp(told: Mapping[str, Any]) -> Content:
    ends = told["stop"] is True
    return Content(
        text=_text(told, "content"),
        ids=_ids(told, "tokens"),
        total=_count(told, "tokens_predicted"),
        finish=(_text(told, "stop_type") or "stop") if ends else None,
        ends=ends,
    )


def _ollama(told: Mapping[str, Any]) -> Content:
    ends = told["done"] is True
    message = _object(told, "message") or {}
    return Content(
        text=_text(told, "response") or _text(message, "content"),
        reasoning=_text(told, "thinking") or _text(message, "thinking"),
        calls="".join(json.dumps(one, ensure_ascii=False) for one in message.get("tool_calls") or ()),
        total=_count(told, "eval_count"),
        finish=(_text(told, "done_reason") or "stop") if ends else None,
        ends=ends,
    )


def _sglang(told: Mapping[str, Any]) -> Content:
    meta = _object(told, "meta_info") or {}
    reason = meta.get("finish_reason")
    if isinstance(reason, dict):
        if reason.get("type") == "abort":
            return Content(refused={"message": reason.get("message"), "code": reason.get("status_code")})
        reason = reason.get("type")
    return Content(
        text=_text(told, "text"),
        ids=_ids(told, "output_ids"),
        total=_count(meta, "completion_tokens"),
        finish=str(reason) if reason else None,
        whole=True,
    )


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    if value is not None and not isinstance(value, str):
        raise Malformed(f"{name} is no text")
    return value or ""


def _object(told: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    value = told.get(name)
    if value is not None and not isinstance(value, dict):
        raise Malformed(f"{name} is no object")
    return value


def _ids(told: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    value = told.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or any(type(one) is not int for one in value):
        raise Malformed(f"{name} is no list of token ids")
    return tuple(value)


def _count(told: Mapping[str, Any], name: str) -> int | None:
    value = told.get(name)
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise Malformed(f"{name} is no count")
    return value
