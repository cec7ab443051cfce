"""What proves a sampled run of the MLX engine: its text and steps against their laws, and draws against theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import torch
from mlx_lm.models.cache import trim_prompt_cache

from specq.core.hashes import seed_of
from specq.core.records import Divergence, FirstTokens, Sampled
from specq.core.types import DraftSpec, Generation, Prompt, Sampling
from specq.decoding import audit
from specq.decoding import divergence as distances
from specq.decoding.law import Law
from specq.engines import assembled
from specq.engines.mlx_decoder import MLXDecoder, make_processors, make_sampler

if TYPE_CHECKING:
    from specq.engines.mlx_target import MLXTarget

CELLS = 8
"""How many of the likeliest tokens are counted by themselves."""


def sampled(
    target: MLXTarget,
    arm: str,
    prompt: Prompt,
    repeat: int,
    generation: Generation,
    draft: DraftSpec | None,
    sampling: Sampling,
) -> Sampled:
    """A sampled text under the target's law, and the steps that the draft's law expects for it."""
    ids = generation.ids
    law = text_law(target, None, prompt, ids, sampling)
    mean, variance = float(len(ids) - 1), 0.0
    if draft is not None:
        drafted = text_law(target, draft, prompt, ids, sampling)
        # Where mlx-lm drafts one token more at the very end, no step is saved by it: the law of steps is the same.
        mean, variance = audit.expected_steps(draft, law, drafted)
    return assembled.sampled(arm, prompt, repeat, generation, law, (mean, variance))


def text_law(target: MLXTarget, draft: DraftSpec | None, prompt: Prompt, ids: Sequence[int], sampling: Sampling) -> Law:
    """The law of each token of a text under the target, or under a draft on the target's vocabulary."""
    session = target.session(None if draft is None else target.draft_model(draft))
    warper = target.warper(prompt, sampling)
    return audit.text_law(session, warper, prompt.ids, ids, target.rows(len(ids)), target.facts.vocab)


def first_tokens(
    target: MLXTarget, arm: str, prompt: Prompt, draft: DraftSpec | None, sampling: Sampling, draws: int
) -> FirstTokens:
    """The first token of a step over `draws` seeds, after the prompt's likeliest token, against its exact law.

    With a draft, each draw is a block of mlx-lm's own loop on caches that are rolled back after it; without one,
    the draws share one pass.
    """
    session, warper = target.session(), target.warper(prompt, sampling)
    best = int(warper.argmax(prompt.ids, session.forward(prompt.ids, last_only=True)))
    longer = audit.continued(prompt, best)
    logits = session.forward([best])
    p = warper.probs(longer.ids, logits)[0].double()
    likeliest = p.topk(min(CELLS, int((p > 0).sum())))
    tokens = _drawn(target, longer, draft, sampling, draws, logits)
    counts = {int(token): tokens.count(int(token)) for token in likeliest.indices}
    values = [float(value) for value in likeliest.values]
    return FirstTokens(
        arm=arm,
        prompt=prompt.id,
        draws=draws,
        cells=(*counts, -1),
        counts=(*counts.values(), draws - sum(counts.values())),
        expected=(*values, max(0.0, 1.0 - sum(values))),
        proposed=0 if draft is None else draws,
    )


def _drawn(
    target: MLXTarget, longer: Prompt, draft: DraftSpec | None, sampling: Sampling, draws: int, logits: torch.Tensor
) -> list[int]:
    sampler = make_sampler(sampling, target.facts.vocab)
    # The prompt's own length decides how many tokens count as new.
    processors = make_processors(sampling, longer.ids[:-1], target.ends(sampling))
    seeds = [seed_of(sampling.seed, "first tokens", i) for i in range(draws)]
    if draft is None:
        scores = mx.array(logits.numpy())
        for processor in processors:
            scores = processor(mx.array(list(longer.ids)), scores)
        logprobs = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
        found = []
        for seed in seeds:
            mx.random.seed(seed)
            found.append(int(sampler(logprobs).item()))
        return found
    decoder = MLXDecoder(target, draft)
    before, last = longer.ids[:-1], mx.array([longer.ids[-1]], mx.uint32)
    kvs = (target.kv, target.draft_model(draft).kv)
    caches = [kv.new() for kv in kvs]
    for kv, cache in zip(kvs, caches, strict=True):
        mx.eval(kv.prefill(cache, before))
    found = []
    for seed in seeds:
        mx.random.seed(seed)
        stepped = decoder.block(caches[0], caches[1], last, before, draft.k + 1, sampler, processors)
        found.append(next(stepped)[0])
        stepped.close()
        for cache in caches:
            trim_prompt_cache(cache, cache[0].offset - len(before))
    return found


def divergence(
    target: MLXTarget, arm: str, prompt: Prompt, ids: Sequence[int], baseline: MLXTarget | np.ndarray
) -> Divergence:
    """KL of the baseline's next-token laws (or of its logits [T, V]) against the target's along `ids`, unwarped.

    Raises:
        NonFiniteLogits: one of them returned NaN or infinite logits.
    """
    if isinstance(baseline, np.ndarray):
        found = distances.divergence(baseline, target.session(), prompt.ids, ids, target.rows(audit.SCORE_ROWS))
    else:
        rows = min(one.rows(audit.SCORE_ROWS) for one in (target, baseline))
        found = distances.divergence(baseline.session(), target.session(), prompt.ids, ids, rows)
    return assembled.divergence(arm, prompt, found)
