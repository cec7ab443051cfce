"""A worker's own transforms of prompts: made anew for each sample, timed, and held against the plan's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from specq.core.errors import RunFolderError
from specq.core.records import Generated
from specq.core.types import Prompt, TargetSpec
from specq.evals.items import Item
from specq.experiment.transformed import before, counter_of, steps_of
from specq.prompts.transform import transform
from specq.run.job import Job


def timed(job: Job, arm: str, prompt: Prompt, tokenizer: Any) -> float | None:
    """Seconds that the transform of an arm's prompt takes here and now; None where the arm transforms none.

    Raises:
        RunFolderError: it makes another prompt than the one that the run began with.
    """
    target = job.targets[arm]
    if not target.changes_prompts:
        return None
    asked = before(job.prompts[prompt.id])
    found = transform(asked, steps_of(target), count=counter_of(tokenizer))
    made = [{"role": m["role"], "content": m["content"]} for m in found.messages]
    wanted = [dict(m) for m in prompt.messages] if prompt.messages else [{"role": "user", "content": prompt.text}]
    if made != wanted:
        raise RunFolderError(
            f"prompt {prompt.id}: its transform differs from the one that the run began with: start a new run"
        )
    return found.seconds


def charged(record: Generated, job: Job, arm: str, seconds: float | None) -> Generated:
    """A record with the transform's seconds in its times, and the tokens of the prompt before it."""
    if seconds is None:
        return record
    return replace(
        record,
        ttft_s=record.ttft_s + seconds,
        e2e_s=record.e2e_s + seconds,
        transform_s=seconds,
        prompt_tokens_before=job.tokens_before[job.targets[arm].reading][record.prompt],
    )


def item(job: Job, name: str, one: Item, target: TargetSpec) -> Item:
    """An item of an eval as an arm's prompts are transformed; as it is where they are not."""
    if not target.changes_prompts:
        return one
    asked = job.store.info["readings"][target.reading]["evals"][name][one.id]["asked"]
    return replace(one, prompt=asked) if isinstance(asked, str) else replace(one, messages=tuple(asked))
