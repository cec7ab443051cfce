"""The values of an item's keys: what each may hold, and in one sentence what is wrong with one that does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specq.core.errors import nearest
from specq.evals import schemas

ROLES = ("system", "user", "assistant")
_MESSAGE_KEYS = ("role", "content")
_SOURCE_KEYS = ("id", "version", "text")
_SHOWN = 60
_REFERENCE = "allowed is a text, a list of texts, a number or an object, none of them empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One version of a document that an answer may quote."""

    id: str
    version: str
    text: str


def short(value: Any) -> str:
    """A JSON value in at most some 60 characters; a text as it stands."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def ident(value: Any, key: str) -> str:
    """An id, a cluster or a version.

    Raises:
        ValueError: it is no text and no whole number, or empty.
    """
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ValueError(f"{key} = {short(json.dumps(value))}: allowed is a text or a whole number")
    return str(value)


def prompt_of(value: Any) -> str:
    """A prompt that goes to the model as it stands.

    Raises:
        ValueError: it is no text, or holds no characters.
    """
    return _filled(value, "prompt")


def messages_of(value: Any) -> tuple[dict[str, str], ...]:
    """Messages for the chat template; only a system message may be empty.

    Raises:
        ValueError: no list, an empty one, an unknown key or role, or a message without content.
    """
    if not isinstance(value, list) or not value:
        raise ValueError("messages is empty or no list; allowed is a list of role and content")
    return tuple(_message(message) for message in value)


def _message(value: Any) -> dict[str, str]:
    _keys(value, _MESSAGE_KEYS, "message")
    role, content = value.get("role"), value.get("content")
    if role not in ROLES:
        raise ValueError(f"role {short(json.dumps(role))}: allowed is {', '.join(ROLES)}")
    # An empty system message is how a template's own system text is switched off.
    return {"role": role, "content": "" if (role, content) == ("system", "") else _filled(content, "content")}


def reference_of(value: Any) -> Any:
    """What is right: a text, a list of texts, a number or an object.

    Raises:
        ValueError: it is something else, or empty.
    """
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list):
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            raise ValueError(f"reference = {short(json.dumps(value, ensure_ascii=False))}: {_REFERENCE}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | dict) or value == {}:
        raise ValueError(f"reference = {short(value)}: {_REFERENCE}")
    return value


def choices_of(value: Any) -> tuple[str, ...]:
    """The choices of one question.

    Raises:
        ValueError: no list of texts, fewer than two, or one that stands twice.
    """
    texts = texts_of(value, "choices")
    if len(texts) < 2:
        raise ValueError(f"choices holds {len(texts)}: allowed are two or more, for one alone is always right")
    bare = [text.strip() for text in texts]
    if len(set(bare)) < len(bare):
        twice = next(text for i, text in enumerate(bare) if text in bare[:i])
        raise ValueError(f'choices: "{short(twice)}" stands twice; each choice stands once')
    return texts


def choice_place(reference: Any, choices: Sequence[str]) -> int:
    """The place from 0 of the right choice, which the reference names by its text or its place.

    Raises:
        ValueError: it is no choice.
    """
    if isinstance(reference, str) and reference in choices:
        return list(choices).index(reference)
    whole = isinstance(reference, int) and not isinstance(reference, bool)
    if whole and 0 <= reference < len(choices):
        return int(reference)
    close = nearest(reference, choices) if isinstance(reference, str) else ""
    raise ValueError(
        f"reference = {short(json.dumps(reference, ensure_ascii=False))} is no choice{close or ';'} allowed is the "
        f"text of one of the {len(choices)} choices, or its place from 0 to {len(choices) - 1}"
    )


def schema_of(value: Any) -> dict[str, Any]:
    """A JSON Schema.

    Raises:
        ValueError: it is none.
    """
    if why := schemas.fault(value):
        raise ValueError(f"schema {why}; allowed is a JSON Schema object")
    return dict(value)


def sources_of(value: Any) -> tuple[Source, ...]:
    """The documents that an answer may quote, each in one or several versions.

    Raises:
        ValueError: no list, an empty one, an unknown or missing key, or one version twice.
    """
    if not isinstance(value, list) or not value:
        raise ValueError("sources is empty or no list; allowed is a list of id, version and text")
    sources = tuple(_source(one) for one in value)
    names = [(source.id, source.version) for source in sources]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f'sources: "{short(twice[0])}" version "{short(twice[1])}" stands twice; each stands once')
    return sources


def _source(value: Any) -> Source:
    _keys(value, _SOURCE_KEYS, "source")
    return Source(
        id=ident(value.get("id"), "source id"),
        version=ident(value.get("version"), "source version"),
        text=_filled(value.get("text"), "source text"),
    )


def texts_of(value: Any, key: str) -> tuple[str, ...]:
    """A list of texts, none empty.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise ValueError(f"{key} = {short(json.dumps(value, ensure_ascii=False))}: allowed is a list of texts")
    return tuple(value)


def _filled(text: Any, key: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{key} is missing or no text; write it as a JSON string")
    if not text.strip():
        raise ValueError(f"{key} holds no characters; write some or take the line out")
    return text


def _keys(value: Any, known: Sequence[str], what: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"a {what} that is no object; allowed is an object with {', '.join(known)}")
    for key in value:
        if key not in known:
            raise ValueError(
                f'unknown {what} key "{short(key)}"{nearest(key, known) or ";"} known keys: {", ".join(known)}'
            )
