"""Plain and speculative decoding of one request at a time.

The whole algorithm stands here: prefill gives token 1; then each step drafts, runs the target once
over the last token and the proposals, verifies, emits, and rolls back what was refused. Plain
decoding is the same loop without a drafter. The target's cache holds all tokens but the last, and
with a slot it begins with what it holds of the prompt.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from specq.core.clock import Laps
from specq.core.types import Step
from specq.decoding.drafters import Drafter, Proposal
from specq.decoding.prefix import Slot
from specq.decoding.request import Request
from specq.decoding.session import Session

NOTHING = Proposal([], None)


@torch.inference_mode()
def decode(
    request: Request,
    target: Session,
    drafter: Drafter | None,
    k: int,
    *,
    sync: Callable[[], None] | None = None,
    slot: Slot | None = None,
) -> None:
    """Run a request to its end; steps, times and tokens are kept in it.

    The time to the first token holds the target's prefill and the drafter's start. `sync` waits for
    the device before each reading of the clock. `slot` is the target's own session, of which the beginning
    that it shares with the prompt is reused.

    Raises:
        NonFiniteLogits: target or draft returned NaN or infinite logits.
    """
    whole = Laps(sync)
    if slot is None:
        target.restart()
    else:
        request.cached_tokens = slot.ready(request.ids)
    logits = target.forward(request.ids[request.cached_tokens or 0 :], last_only=True)
    target.rollback(0)
    request.take(NOTHING, logits)
    if drafter is not None and request.finish is None:
        drafter.start(request.ids, request.warper, request.streams.draft)
    whole.lap("prefill")
    request.ttft_s = whole.total()
    laps = Laps(sync)
    while request.finish is None:
        step(request, target, drafter, k, laps)
    whole.lap("decode")
    request.e2e_s = whole.total()
    if slot is not None:
        slot.keep(request.ids)


def step(request: Request, target: Session, drafter: Drafter | None, k: int, laps: Laps | None = None) -> None:
    """One step: draft, one pass of the target, verify, emit, roll back; recorded in the request."""
    laps = Laps() if laps is None else laps
    laps.lap("rest")
    context = len(request.ids)
    proposal = NOTHING
    if drafter is not None and (reach := request.reach(k)) > 0:
        proposal = drafter.propose(request.ids, reach)
        laps.lap("draft")
    logits = target.forward([request.ids[-1], *proposal.ids])
    laps.lap("verify")
    accepted, emitted = request.take(proposal, logits)
    laps.lap("sample")
    target.rollback(len(proposal.ids) + 1 - emitted)
    if drafter is not None and request.finish is None:
        drafter.commit(request.ids)
    laps.lap("rest")
    request.record(step_of(laps.take(), context, proposal, accepted, emitted))


def step_of(parts: dict[str, float], context: int, proposal: Proposal, accepted: int, emitted: int) -> Step:
    """A step's record from its proposal, its counts and the seconds of its parts."""
    return Step(
        context=context,
        proposed=len(proposal.ids),
        accepted=accepted,
        emitted=emitted,
        draft_s=parts.get("draft", 0.0),
        verify_s=parts["verify"],
        sample_s=parts["sample"],
        rest_s=parts["rest"],
        copied=len(proposal.ids) if proposal.copied else 0,
    )
