"""Rows of services that speak OpenAI's API: request bodies, logs of requests and answers, batch files.

Shapes as in OpenAI's API reference (chat completions, completions, responses, batch) and, for `system` beside
`messages`, in Anthropic's messages API; wrapped ones as proxies log them.
"""

from __future__ import annotations

import json
from typing import Any

from specq.workloads import own
from specq.workloads.content import at_path, compact, messages_of, tags_of, text_of, without_answer
from specq.workloads.request import Asked, Message, Unusable
from specq.workloads.timestamps import key_of

_WRAPS = ("body", "request", "request_body", "requestBody", "payload")
_ANSWERS = ("response", "response_body", "responseBody", "output", "completion")
_USERS = ("user", "user_id", "safety_identifier", "session_id", "conversation_id", "prompt_cache_key")
_IDS = ("custom_id", "id", "request_id", "requestId", "trace_id", "uuid")


def fits(value: dict[str, Any]) -> bool:
    """Whether a row asks something, by itself or in what wraps it, and is not specq's own."""
    return any(key in _body(value) for key in ("messages", "prompt", "input")) and not own.fits(value)


def take(value: dict[str, Any], tag: str | None = None) -> list[Asked]:
    """The prompt of a row. `tag` names a key, with points for keys inside keys, whose value becomes a tag.

    Raises:
        Unusable: it asks nothing that is text.
    """
    body, answer = _body(value), _answer(value)
    messages, prompt, foreign, answered = _asked(body)
    tools = body.get("tools") or body.get("functions")
    at_key, at = _time(value, body, answer)
    prompt_tokens, cached_tokens, output_tokens = _usage(value, answer)
    metadata = _object(body.get("metadata")) or {}
    named = () if tag is None else (_under(value, body, tag),)
    one = Asked(
        id=next((str(value[key]) for key in _IDS if _named(value, key)), None),
        messages=messages,
        prompt=prompt,
        tools=compact(tools) if tools else "",
        tags=tags_of(value.get("tags"), body.get("tags"), metadata.get("tags"), *named),
        user=next((str(each[key]) for key in _USERS for each in (value, body, metadata) if _named(each, key)), ""),
        at=at,
        at_key=at_key,
        answered=answered,
        foreign=foreign or ("tool definitions, which specq's own format does not have" if tools else ""),
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        output_tokens=output_tokens,
    )
    return [one]


def _named(each: Any, key: str) -> bool:
    return isinstance(each.get(key), str | int) and not isinstance(each.get(key), bool) and each[key] != ""


def _body(value: dict[str, Any]) -> dict[str, Any]:
    for key in _WRAPS:
        inner = _object(value.get(key))
        if inner is not None:
            return _body(inner)
    return value


def _answer(value: dict[str, Any]) -> dict[str, Any]:
    for key in _ANSWERS:
        inner = _object(value.get(key))
        if inner is not None:
            return _object(inner.get("body")) or inner
    return {}


def _object(found: Any) -> dict[str, Any] | None:
    """An object, also one that was logged as JSON text."""
    if isinstance(found, str) and found[:1] == "{":
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


def _asked(body: dict[str, Any]) -> tuple[tuple[Message, ...], str, str, bool]:
    """Messages or a prompt, what cannot be held of them, and whether the answer stood at their end."""
    if "messages" in body:
        messages, foreign = messages_of(body["messages"])
        messages, answered = without_answer((*_leading(body.get("system")), *messages))
        return messages, "", foreign, answered
    if "prompt" in body:
        prompt = body["prompt"]
        if isinstance(prompt, list) and len(prompt) == 1:
            prompt = prompt[0]
        if isinstance(prompt, list):
            kind = "token ids" if prompt and isinstance(prompt[0], int | list) else "several prompts"
            raise Unusable(f"prompt is a list of {kind}; a text is needed")
        if not isinstance(prompt, str) or not prompt.strip():
            raise Unusable("prompt is empty or no text")
        return (), prompt, "", False
    if "input" in body:
        first = _leading(body.get("instructions"))
        if isinstance(body["input"], str):
            if not body["input"].strip():
                raise Unusable("input is empty")
            return (*first, {"role": "user", "content": body["input"]}), "", "", False
        messages, foreign = messages_of(body["input"])
        messages, answered = without_answer((*first, *messages))
        return messages, "", foreign, answered
    raise Unusable("no messages, prompt or input in it")


def _leading(system: Any) -> tuple[Message, ...]:
    text, _ = text_of(system)
    return ({"role": "system", "content": text},) if text.strip() else ()


def _time(value: dict[str, Any], body: dict[str, Any], answer: dict[str, Any]) -> tuple[str, Any]:
    """The row's own time; without one that of its request, then that of its answer."""
    for each in (value, _object(value.get("request")) or {}, body, answer):
        key = key_of(each)
        if key is not None and each[key] not in (None, "") and not isinstance(each[key], bool | dict | list):
            return key, each[key]
    return "", None


def _usage(value: dict[str, Any], answer: dict[str, Any]) -> tuple[int | None, int | None, int | None]:
    usage = next((one for one in (value.get("usage"), answer.get("usage")) if isinstance(one, dict)), {})
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    prompt = _count(usage, "prompt_tokens", "input_tokens")
    cached = _count(details, "cached_tokens") if isinstance(details, dict) else None
    if cached is None and (read := _count(usage, "cache_read_input_tokens")) is not None:
        # Anthropic's input_tokens leave out what the cache gave and took.
        cached, written = read, _count(usage, "cache_creation_input_tokens") or 0
        prompt = None if prompt is None else prompt + read + written
    return prompt, cached, _count(usage, "completion_tokens", "output_tokens")


def _count(usage: dict[str, Any], *names: str) -> int | None:
    found = next((usage[name] for name in names if name in usage), None)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _under(value: dict[str, Any], body: dict[str, Any], tag: str) -> Any:
    found = at_path(value, tag.split("."))
    return at_path(body, tag.split(".")) if found is None else found
