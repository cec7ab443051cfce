"""The prompts of an experiment as a model reads them: through its own template and tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from specq.core.errors import PromptError
from specq.core.nouns import counted
from specq.core.types import Prompt
from specq.experiment.checks import Refusal
from specq.experiment.prompts import Item
from specq.models import tokenizers


def render(items: Sequence[Item], tokenizer: Any) -> tuple[tuple[Prompt, ...], list[Refusal], list[str]]:
    """The prompts that the tokenizer can make, why it cannot make the others, and notes on what it did."""
    prompts, refused, notes = [], dict[str, list[str]](), Counter[str]()
    for item in items:
        try:
            rendered = tokenizers.render(tokenizer, item.prompt or list(item.messages))
        except PromptError as error:
            refused.setdefault(str(error), []).append(item.id)
            continue
        notes.update(rendered.notes)
        prompts.append(Prompt(id=item.id, ids=rendered.ids, text=rendered.text, messages=item.messages, tags=item.tags))
    refusals = []
    for reason, (first, *others) in refused.items():
        # What a template refuses it refuses in most prompts, so the first stands for all.
        more = f" (and {counted(len(others), 'more prompt')})" if others else ""
        refusals.append(Refusal(arm=None, reason=f'prompt "{first}"{more}: {reason}', error=PromptError))
    some = {n: f" ({n} of {counted(len(items), 'prompt')})" for n in notes.values() if n < len(items)}
    said = [note + some.get(n, "") for note, n in notes.items()]
    return tuple(prompts), refusals, said
