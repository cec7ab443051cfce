"""The target's texts of a study: written together, and read by the target itself and by each draft."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from specq.core.errors import Unsupported, UserError
from specq.core.hashes import seed_of
from specq.core.nouns import counted
from specq.core.types import DraftSpec, Generation, Prompt, Sampling
from specq.decoding.law import LEAST_P, Law
from specq.engines.base import Copies, Decoder, LoadedTarget
from specq.forecast import MOST_K, origin
from specq.forecast.replay import Copied, Traced

BATCH = 16
"""Texts that the target writes at a time."""
_STRANGE = "the target does not write such a text at these settings"


def write(target: LoadedTarget, prompts: Sequence[Prompt], sampling: Sampling, *, together: bool) -> list[Generation]:
    """The target's texts, several at a time where engine and model can: nobody times them, and their law is the same.

    Each has a seed of its own: texts that share their draws would be fewer texts than they seem.

    Raises:
        UserError: no text has a second token, so that none has a step.
    """
    found = _written(target.decoder(None), prompts, sampling, together=together)
    if all(len(one.ids) < 2 for one in found):
        raise UserError(
            f"the target ends each of {counted(len(found), 'text')} with the first token, so there is no step to "
            'forecast; ask what it answers at more length, or go on past its end with workload.lengths = "equal"'
        )
    return found


def _written(decoder: Decoder, prompts: Sequence[Prompt], sampling: Sampling, *, together: bool) -> list[Generation]:
    own = [replace(sampling, seed=seed_of(sampling.seed, "forecast", prompt.id)) for prompt in prompts]
    if together:
        # What cannot be ragged (windows, recurrent states, compiled passes) goes one text after another.
        with suppress(Unsupported):
            return decoder.generate(prompts, own, batch_size=BATCH)
    return decoder.generate(prompts, own)


def laws(
    target: LoadedTarget, prompts: Sequence[Prompt], generations: Sequence[Generation], sampling: Sampling
) -> list[Law]:
    """The target's law along its texts; for a greedy text at temperature 1, since at 0 it is as sure of all of them.

    Raises:
        UserError: the target did not write a text: it is not in its law.
    """
    read_at, found, told = _unwarped(sampling), [], []
    for prompt, generation in zip(prompts, generations, strict=True):
        found.append(target.law(prompt, generation.ids, read_at))
        told.append(origin.of_law(found[-1], sampling))
        if why := told[-1].why_not:
            raise UserError(f"prompt {prompt.id}: {_STRANGE} ({why}): let it write the text anew")
    if why := sum(told, origin.Evidence()).why_not:
        raise UserError(f"{_STRANGE} ({why}, over all {len(told)}): let it write them anew")
    return found


def read(
    target: LoadedTarget,
    drafts: dict[str, DraftSpec],
    prompts: Sequence[Prompt],
    generations: Sequence[Generation],
    sampling: Sampling,
    *,
    most: int = MOST_K,
    along: Sequence[Law] | None = None,
) -> dict[str, tuple[Traced | Copied, ...]]:
    """What each draft says along texts of the target, whose laws `along` them are read where they are not given.

    Raises:
        UserError: the target did not write a text: it is not in its law.
    """
    found: dict[str, list[Traced | Copied]] = {name: [] for name in drafts}
    along = laws(target, prompts, generations, sampling) if along is None else along
    for prompt, generation, law in zip(prompts, generations, along, strict=True):
        # A live step proposes up to the limit, wherever the text then ends.
        room = sampling.max_new_tokens - len(generation.ids)
        for name, draft in drafts.items():
            own = target.draft_law(draft, prompt, generation.ids, _unwarped(sampling), most)
            if isinstance(own, Copies):
                other = None if own.elsewhere is None else traced(law, own.elsewhere, sampling, draft.stop_below)
                found[name].append(Copied(matched=own.matched, proposed=own.proposed, elsewhere=other, room=room))
            else:
                found[name].append(replace(traced(law, own, sampling, draft.stop_below), room=room))
    return {name: tuple(some) for name, some in found.items()}


def traced(target: Law, draft: Law, sampling: Sampling, stop_below: float | None = None) -> Traced:
    """A text for replay; at temperature 0 each token is the target's own, and the draft has it or not.

    A token that ties with another at the top of a sampled text's draft is what it proposes in half of the cases, as
    the audit of a live run counts it. At temperature 0 steps are counted, not expected, and a tie is taken for a hit.

    A draft that stops below a confidence does so after a text's token by its probability of that token, and whatever it
    drew by that of its likeliest one. The laws are those of `_unwarped` sampling.
    """
    unsure = None if stop_below is None else draft.confidence < stop_below
    if sampling.temperature == 0:
        hit = (draft.gap <= 0).astype(float)
        # What it proposes is its likeliest token, so there is one case.
        return Traced(p=np.ones(len(hit)), q=hit, hit=hit, stops=unsure)
    stops = None if stop_below is None else draft.p < stop_below
    # Rounding may leave a token at the edge of a truncated law without probability; the text has it, so it had some.
    p, q = np.clip(target.p, LEAST_P, 1.0), np.clip(draft.p, 0.0, 1.0)
    return Traced(p=p, q=q, hit=draft.hit, stops=stops, unsure=unsure)


def _unwarped(sampling: Sampling) -> Sampling:
    """The sampling that laws are read at: for greedy texts temperature 1, since at 0 a model is sure of all it says."""
    if sampling.temperature > 0:
        return sampling
    return replace(sampling, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
