"""How much of the machine's bandwidth and arithmetic a level uses, from what a token takes by the model's config.

A pass over B sequences reads the weights once and each sequence's cache, and does 2 FLOP a weight and row; prefill does
2 FLOP a weight and prompt token. Attention's own FLOP and the passes that prefill makes are left out, so that both
shares are lower bounds; see lab/size_speed.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specq.lab.size_memory import Model
from specq.load.drafts import Drafting
from specq.load.measures import Attempt, Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The model and what its machine allows: bytes a second, FLOP/s (None: not known), the cache's type."""

    model: Model
    bandwidth: float
    flops: float | None
    kv: str = "fp16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """Shares of a level: `passes_per_s` of the target, bytes of each, and what share of the machine that is."""

    passes_per_s: float
    bytes_per_pass: float
    context: float
    bandwidth_share: float
    flops_share: float | None


def ceiling(machine: Machine, rates: Rates, attempts: Sequence[Attempt], drafts: Drafting | None) -> Ceiling | None:
    """The shares of a level; None where nothing was decoded, or a server that drafts does not tell its steps."""
    rows = [row for one in attempts for row in one.steady if row.error is None and row.prompt_tokens is not None]
    if not rows or rates.decoding <= 0 or (drafts is not None and drafts.tokens_per_step is None):
        return None
    tokens_a_pass = 1.0 if drafts is None or drafts.tokens_per_step is None else drafts.tokens_per_step
    context = sum((row.prompt_tokens or 0) + (row.output_tokens or 0) / 2 for row in rows) / len(rows)
    # Tokens that decoding gave: each request's first is prefill's.
    decoded = max(0.0, rates.tokens_per_s - rates.requests_per_s)
    streams = max(1.0, rates.decoding)
    passes = decoded / (streams * tokens_a_pass)
    weights, shape = machine.model.weights, machine.model.shape
    each = weights.read(max(1, round(streams))) + streams * shape.sequence_bytes(round(context), machine.kv)
    share = None
    if machine.flops is not None and weights.used and rates.prompt_tokens_per_s is not None:
        cached = sum(row.cached_tokens or 0 for row in rows) / max(1, sum(row.prompt_tokens or 0 for row in rows))
        proposed = 0.0 if drafts is None or not drafts.steps else drafts.proposed / drafts.steps
        done = rates.prompt_tokens_per_s * (1 - cached) + passes * streams * (1 + proposed)
        share = 2 * weights.used * done / machine.flops
    return Ceiling(
        passes_per_s=passes,
        bytes_per_pass=each,
        context=context,
        bandwidth_share=passes * each / machine.bandwidth,
        flops_share=share,
    )
