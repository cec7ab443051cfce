"""A prompt of a workload as one text: through a model's chat template, or in the plain form that needs none."""

from __future__ import annotations

from typing import Any

from specq.core.errors import PromptError
from specq.workloads.request import Message, Request


def asked(one: Request) -> str | list[Message]:
    """What a chat template is given: a text, or messages in roles that every template knows.

    Tool definitions stand at the beginning of the first system message, for templates put them there or close to it;
    what a tool said is the user's.
    """
    if not one.messages:
        return one.prompt
    messages = [{**message, "role": "user"} if message["role"] == "tool" else message for message in one.messages]
    if not one.tools:
        return messages
    if messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{one.tools}\n{messages[0]['content']}"}, *messages[1:]]
    return [{"role": "system", "content": one.tools}, *messages]


def plain(one: Request) -> str:
    """A prompt without any template: each message after a line with its role."""
    if not one.messages:
        return one.prompt
    head = f"tools\n{one.tools}\n" if one.tools else ""
    return head + "".join(f"{message['role']}\n{message['content']}\n" for message in one.messages)


def text_of(tokenizer: Any, one: Request) -> tuple[str, bool, tuple[str, ...]]:
    """The text that a model sees, whether its special tokens come around it, and notes.

    What its template refuses is taken in the plain form, with a note.
    """
    from specq.models import tokenizers

    try:
        return tokenizers.text_of(tokenizer, asked(one))
    except PromptError as error:
        return plain(one), False, (f"taken without the template: {error}",)
