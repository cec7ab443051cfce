"""The reference engine along a given text: the laws of a target and of its drafts, for audits and for replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from specq.core.records import Sampled
from specq.core.types import DraftSpec, Generation, Prompt, Sampling
from specq.decoding import audit
from specq.decoding.law import Law
from specq.decoding.session import Session, shallow
from specq.engines import assembled
from specq.engines.base import Copies
from specq.engines.hf_decoder import lookup

if TYPE_CHECKING:
    from specq.engines.hf_target import HFTarget


def of_target(target: HFTarget, prompt: Prompt, ids: Sequence[int], sampling: Sampling) -> Law:
    """The target's own law along a text, read on its plain path."""
    session, warper = target.session("nothing"), target.warper(prompt, sampling)
    return audit.text_law(session, warper, prompt.ids, ids, target.rows(len(ids)), target.vocabulary)


def of_draft(
    target: HFTarget, draft: DraftSpec, prompt: Prompt, ids: Sequence[int], sampling: Sampling, k: int
) -> Law | Copies:
    """The law of a draft that is a model, on the target's vocabulary; of a lookup, what it would copy, up to k.

    Of a draft with a lookup before it, both.
    """
    warper = target.warper(prompt, sampling)
    if draft.lookup_first:
        found = of_draft(target, draft.lookup, prompt, ids, sampling, k)
        elsewhere = of_draft(target, draft.alone, prompt, ids, sampling, k)
        assert isinstance(found, Copies)
        assert isinstance(elsewhere, Law)
        return replace(found, elsewhere=elsewhere)
    if draft.method == "lookup":
        proposed, matched = audit.lookup_copies(lookup(draft), warper, prompt.ids, ids, k)
        return Copies(proposed=proposed, matched=matched)
    early = draft.method == "early_exit"
    model = shallow(target.model, draft.layers or 0) if early else target.draft_model(draft)
    # An early exit reads its target's cache; a second model has a plain one of its own.
    session = Session(model, keep="nothing", kv_cache=target.kv_cache if early else None)
    return audit.text_law(session, warper, prompt.ids, ids, target.rows(len(ids)), target.vocabulary)


def sampled(
    target: HFTarget,
    arm: str,
    prompt: Prompt,
    repeat: int,
    generation: Generation,
    draft: DraftSpec | None,
    sampling: Sampling,
) -> Sampled:
    """A sampled text against the law it should come from, and its steps against those expected."""
    ids = generation.ids
    law = of_target(target, prompt, ids, sampling)
    if draft is not None and draft.lossy:
        return assembled.sampled(arm, prompt, repeat, generation, law, None)
    mean, variance = float(len(ids) - 1), 0.0
    if draft is not None and draft.method == "lookup":
        warper = target.warper(prompt, sampling)
        mean = float(audit.lookup_steps(lookup(draft), warper, prompt.ids, ids, draft.k))
    elif draft is not None:
        found = of_draft(target, draft, prompt, ids, sampling, draft.k)
        copies = (found.proposed, found.matched) if isinstance(found, Copies) else None
        drafted = found.elsewhere if isinstance(found, Copies) else found
        assert drafted is not None
        mean, variance = audit.expected_steps(draft, law, drafted, copies)
    return assembled.sampled(arm, prompt, repeat, generation, law, (mean, variance))
