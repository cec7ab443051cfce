"""Conversations as ShareGPT's data sets hold them: `conversations`, a list of `from` and `value`."""

from __future__ import annotations

from typing import Any

from specq.workloads.content import ROLES, tags_of
from specq.workloads.request import Asked, Message, Unusable

_LISTS = ("conversations", "conversation")


def fits(value: dict[str, Any]) -> bool:
    """Whether a row is a conversation."""
    return any(isinstance(value.get(key), list) for key in _LISTS)


def take(value: dict[str, Any], each: bool = False) -> list[Asked]:
    """The first question of a conversation, or with `each` every one, with all that was said before it.

    Raises:
        Unusable: it has no question, begins with an answer, or a turn is no text of a known speaker.
    """
    turns = [_turn(one) for one in next(value[key] for key in _LISTS if isinstance(value.get(key), list))]
    asked = [place for place, turn in enumerate(turns) if turn["role"] == "user" and not _goes_on(turns, place)]
    if not asked:
        raise Unusable("a conversation without a question")
    if any(turn["role"] == "assistant" for turn in turns[: asked[0]]):
        raise Unusable("a conversation that begins with an answer")
    ident = value.get("id")
    name = str(ident) if isinstance(ident, str | int) and not isinstance(ident, bool) and ident != "" else None
    tags = tags_of(value.get("tags"))
    if not each:
        later = len(asked) - 1
        return [Asked(id=name, messages=tuple(turns[: asked[0] + 1]), tags=tags, later_turns=later)]
    return [
        Asked(
            id=name if name is None or len(asked) == 1 else f"{name}#{turn}",
            messages=tuple(turns[: place + 1]),
            tags=tags,
            user=name or "",
        )
        for turn, place in enumerate(asked, start=1)
    ]


def _goes_on(turns: list[Message], place: int) -> bool:
    """Whether the next turn is the user's too: both are asked as one."""
    return place + 1 < len(turns) and turns[place + 1]["role"] == "user"


def _turn(one: Any) -> Message:
    if not isinstance(one, dict):
        raise Unusable("a turn that is no object")
    speaker, text = one.get("from", one.get("role")), one.get("value", one.get("content"))
    role = ROLES.get(speaker) if isinstance(speaker, str) else None
    if role is None or role == "tool":
        raise Unusable("a turn of an unknown speaker; known are human, gpt and system")
    if not isinstance(text, str):
        raise Unusable("a turn whose value is no text")
    if not text.strip() and role != "system":
        raise Unusable("a turn without text")
    return {"role": role, "content": text}
