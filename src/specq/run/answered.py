"""One answer as a record, and what its tokens alone tell."""

from __future__ import annotations

from collections.abc import Sequence

from specq.core import hashes
from specq.core.records import Generated, StepRow
from specq.core.types import DraftSpec, Generation, Prompt
from specq.run.schedule import Turn


def generated(
    answer: Generation,
    *,
    turn: Turn,
    place: int,
    arm: str,
    prompt: Prompt,
    draft: DraftSpec | None,
    eos: Sequence[int],
) -> Generated:
    """The record of one answer."""
    served = answer.served
    told = None if served is None else served.prompt_tokens
    return Generated(
        process=turn.process,
        arm=arm,
        prompt=prompt.id,
        repeat=turn.repeat,
        order=place,
        prompt_tokens=len(prompt.ids) or told or 0,
        new_tokens=answer.new_tokens,
        finish=answer.finish,
        ttft_s=answer.ttft_s,
        e2e_s=answer.e2e_s,
        rule=draft.rule if draft else None,
        steps=tuple(map(StepRow.of, answer.steps)),
        past_stop=past_stop(answer.ids, eos),
        repeated_share=repeated_share(answer.ids or answer.text.split()),
        prompt_sha256=hashes.of_prompt(prompt.ids, prompt.text, prompt.messages),
        output_sha256=hashes.of_answer(answer.ids, answer.text, has_ids=served is None or served.counted == "ids"),
        cache_share=answer.cache_share,
        copied=tuple(step.copied for step in answer.steps) if draft and draft.lookup_first else None,
        served=None if served is None else served.to_json(),
        cached_tokens=answer.cached_tokens if served is None else served.cached_tokens,
        batch=answer.batch,
        batch_s=answer.batch_s,
    )


def past_stop(ids: Sequence[int], eos: Sequence[int]) -> int:
    """How many tokens follow the first end-of-sequence token; 0 when there is none."""
    ends = set(eos)
    return next((len(ids) - place - 1 for place, token in enumerate(ids) if token in ends), 0)


def repeated_share(ids: Sequence[int] | Sequence[str], n: int = 4) -> float:
    """Share of the n-grams that occurred earlier in `ids`, or in words, in [0, 1]; 0 for fewer than n of them."""
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
