"""The transform of a prompt: clean, then select, with a log of all that went and of what was refused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from specq.core.clock import now
from specq.core.errors import RunFailed
from specq.prompts import blocks, protected, question
from specq.prompts.clean import clean
from specq.prompts.select import select
from specq.prompts.types import WORDS, Count, Message, Result, Steps, content_of, count_words, size
from specq.prompts.work import Work, unmarked


def transform(
    prompt: str | Sequence[Message], steps: Steps, *, count: Count = count_words, counted_in: str = WORDS
) -> Result:
    """A prompt, as messages or as a text, with fewer tokens.

    A text is one message of a user, of which the last paragraph is always kept: a model goes on from it. `count` says
    how many tokens a text has and `counted_in` what they are. `seconds` holds all of it: reading, deleting, checking
    that no protected field is lost, and counting; nothing that an earlier call found is used again.

    Raises:
        RunFailed: a protected field was lost, which is a fault of the transform; nothing is returned then.
    """
    started = now()
    blocks.forget()
    protected.forget()
    is_text = isinstance(prompt, str)
    messages: Sequence[Message] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    work = Work(messages, count, question=partial(question.find, is_text=is_text))
    before = size(messages, count)
    if steps.clean:
        clean(work)
    budget = steps.budget(before.tokens)
    notes = () if budget is None else select(work, budget)
    left = [part for part in work.parts if not part.gone]
    made = tuple(part.made() for part in left)
    # Extracted anew from what goes out: the deletions were checked one by one, and this holds them to it.
    # A mark that was put in is not of the prompt.
    sent = [unmarked(content_of(message), part.origins) for message, part in zip(made, left, strict=True)]
    fields_before = tuple(protected.changed(map(content_of, messages), ()))
    fields_after = tuple(protected.changed(sent, ()))
    result = Result(
        messages=made,
        deletions=tuple(work.deletions),
        kept=tuple(work.kept),
        protected_before=fields_before,
        protected_after=fields_after,
        before=before,
        after=size(made, count),
        counted_in=counted_in,
        seconds=now() - started,
        notes=notes,
    )
    if lost := result.lost:
        raise RunFailed(f"{len(lost)} protected fields would be lost, first {lost[0]}: the prompt stays as it was")
    return result
