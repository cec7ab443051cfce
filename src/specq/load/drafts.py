"""What drafts gave at a level, from the server's counters or from the numbers that it told of each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specq.load.measures import Attempt

_NAMES = ("proposed", "accepted", "draft_steps", "decode_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """Counts over a steady state, and where they are from; None where they are not known.

    `drafts` are the passes that verified something: a lookup finds nothing at most places, and a server counts those
    passes nowhere. `steps` are all passes of a request after its first token: each gives a token of the target's own
    beside the accepted ones, so that there are as many as tokens that were not accepted. `decode_s` are the seconds
    that the server decoded, of all requests. `draft_call_s` are the seconds of a round of drafting, None where the
    server does not tell them.
    """

    source: Literal["counters", "requests"]
    steps: int | None
    drafts: int | None
    proposed: int
    accepted: int
    decode_s: float | None
    draft_call_s: float | None = None

    @property
    def draft_acceptance(self) -> float | None:
        """Accepted over proposed."""
        return self.accepted / self.proposed if self.proposed else None

    @property
    def accepted_per_step(self) -> float | None:
        """Accepted proposals a step, those that proposed nothing among them."""
        return self.accepted / self.steps if self.steps else None

    @property
    def accepted_per_draft(self) -> float | None:
        """Accepted proposals a pass that verified some."""
        return self.accepted / self.drafts if self.drafts else None

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens a step gives: the accepted ones and the target's own."""
        return None if self.accepted_per_step is None else self.accepted_per_step + 1

    @property
    def step_s(self) -> float | None:
        """Seconds a step of one request, drafting and verifying together."""
        return self.decode_s / self.steps if self.steps and self.decode_s is not None else None

    @property
    def verify_s(self) -> float | None:
        """Seconds of a step beside its round of drafting: the target's pass, sampling, and what the server does else.

        None where the server does not tell what drafting takes.
        """
        if self.step_s is None or self.draft_call_s is None:
            return None
        return max(0.0, self.step_s - self.draft_call_s)


def drafting(attempts: Sequence[Attempt]) -> Drafting | None:
    """What drafts gave; None where the server tells nothing, or nothing was proposed."""
    answers = [row for one in attempts for row in one.steady if row.error is None]
    counters = [one.point.numbers for one in attempts]
    calls, seconds = _total(counters, "draft_calls"), _total(counters, "draft_s")
    call_s = seconds / calls if calls else None
    if all("proposed" in one and "accepted" in one for one in counters):
        tokens = _total(counters, "new_tokens")
        own = sum(row.output_tokens or 0 for row in answers)
        # Of the tokens that the counters saw, as many are a request's first as in the answers of the steady state.
        decoded = None if tokens is None or not own else round(tokens * (1 - len(answers) / own))
        return _made("counters", counters, decoded, call_s)
    told = [{name: value for name in _NAMES if (value := getattr(row, name)) is not None} for row in answers]
    if told and all("proposed" in one and "accepted" in one for one in told):
        return _made("requests", told, sum(max(0, (row.output_tokens or 0) - 1) for row in answers), call_s)
    return None


def _made(
    source: Literal["counters", "requests"],
    counts: Sequence[Mapping[str, Any]],
    decoded: int | None,
    call_s: float | None,
) -> Drafting | None:
    proposed, accepted = _total(counts, "proposed"), _total(counts, "accepted")
    if not proposed:
        return None
    steps = None if decoded is None or decoded <= accepted else decoded - accepted
    drafts, decode_s = _total(counts, "draft_steps"), _total(counts, "decode_s")
    return Drafting(
        source=source,
        steps=steps,
        drafts=drafts,
        proposed=proposed,
        accepted=accepted,
        decode_s=decode_s,
        draft_call_s=call_s,
    )


def _total(counts: Sequence[Mapping[str, Any]], name: str) -> Any:
    """The sum of a count, None where somebody does not tell it."""
    return sum(one[name] for one in counts) if all(name in one for one in counts) else None
