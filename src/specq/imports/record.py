"""What is read out of another tool's file: records of counts and seconds, and flags on counts that mislead.

Both are lines of imported.jsonl; `kind` on disk names the class.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Scope = Literal["request", "run"]
StepsFrom = Literal["counted", "derived"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One request, or where a file knows no requests, all that it counted together. None is what it does not say.

    `requests` are the generations that the counts cover, and all seconds are sums over them. `prompt_tokens` has the
    `cached_tokens` in it. `steps` are target passes after the one that read the prompt; "derived" means that no
    counter says it and that it follows from new_tokens = requests + accepted + steps, which holds where no block was
    cut. `draft_steps` are the passes that had proposals. `accepted_by_position[j]` of those accepted their first
    j + 1 proposals at least. `k` is the most that a step may propose. `wall_s` is how long a whole run took.
    """

    source: str
    line: int
    request: str | None = None
    scope: Scope = "request"
    requests: int | None = 1
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    new_tokens: int | None = None
    steps: int | None = None
    steps_from: StepsFrom | None = None
    draft_steps: int | None = None
    proposed: int | None = None
    accepted: int | None = None
    k: int | None = None
    accepted_by_position: tuple[int, ...] | None = None
    finish: str | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    wall_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A count of the file that cannot be, that misleads, or that was left out; `name` is one of FLAGS."""

    name: str
    line: int
    request: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate that the file states: `value` is claimed to be one of `ups` over `down`."""

    name: str
    value: float
    ups: tuple[float, ...]
    down: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a file states beside its counts, and that the counts are held against.

    `length` is a mean acceptance length with the target's own token. `histogram[j]` counts the steps that accepted j.
    `blocks` holds (proposed, accepted) of each step in order. `first_in_step` is true where the pass that read the
    prompt verified a block already, so that no token came from a prefill alone. With `open` tokens and drafts were
    not counted over the same requests, and are not held against each other.
    """

    length: float | None = None
    draft_acceptance: float | None = None
    histogram: tuple[int, ...] | None = None
    blocks: tuple[tuple[int, int], ...] | None = None
    rates: tuple[Rate, ...] = ()
    first_in_step: bool = False
    open: bool = False


FLAGS: dict[str, str] = {
    "accepted_above_proposed": "more proposals were accepted than made",
    "length_above_k": "tokens per step above k + 1, which no step can emit",
    "bonus_counted_twice": "the target's own token of each step was counted twice",
    "stop_inside_block": "what a block held after a stop was counted as accepted",
    "budget_cut": "what a block held past the token budget was counted as proposed or accepted",
    "block_cut": "blocks were cut, by a stop or by the token budget, and counted whole",
    "overcounted": "more tokens than any cut of the last block explains",
    "tokens_without_step": "tokens that no counted step explains",
    "positions_rise": "more steps accepted a later position than an earlier one",
    "positions_do_not_sum": "the counts by position or the histogram contradict the totals",
    "counter_reset": "a counter fell between two scrapes: the server restarted",
    "since_start": "a single scrape counts all traffic since the server started",
    "rate_contradicts": "a stated rate contradicts its counts",
    "counts_differ": "two counters of the same thing differ",
    "chunks_not_tokens": "the gaps between tokens are gaps between chunks",
    "not_a_number": "a count or a time is negative, infinite, NaN or no whole number",
    "no_tokens": "fewer new tokens than answers: some have none, and no time to a first one",
    "missing_usage": "the count of new tokens is missing",
    "failed": "a request failed and is in no count",
    "left_out": "a request was left out on purpose, such as a warm-up",
    "copied_counters": "an answer that failed carries the counters of the one before",
    "unfinished": "the answer's last lines are missing",
}
"""Every name of a flag, and what it says."""


def to_json(one: Imported | Flag) -> dict[str, Any]:
    """The record or flag as a JSON object with its kind first."""
    return {"kind": type(one).__name__, **asdict(one)}


def derive_steps(
    new_tokens: int | None, accepted: int | None, draft_steps: int | None = None, requests: int = 1
) -> tuple[int | None, StepsFrom | None]:
    """Target passes after the prompt's, where only some of them were counted, and how they are known.

    Each pass emits its own token and those that it accepted. Where a block was cut that counts too few, and the
    passes that had proposals are then the most that is known.
    """
    if new_tokens is None or accepted is None:
        return None, None
    found = max(new_tokens - requests - accepted, draft_steps or 0)
    return (found, "derived") if found > 0 or new_tokens <= requests else (None, None)


def by_position(histogram: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """From steps that accepted exactly 0, 1, 2, ... to steps that accepted at least 1, 2, ..."""
    return None if histogram is None else tuple(sum(histogram[j:]) for j in range(1, len(histogram)))
