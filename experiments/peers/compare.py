"""What `decode.py` makes of its timings: one row an arm, one ratio a pair, over prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from specq.core.types import Step
from specq.stats.intervals import SpeedUp, log_ratio

SAMPLED = "specq early exit, sampled"
# (name, peer, arm): a ratio is the peer's time over the arm's, so above 1 the arm is faster.
RATIOS = (
    ("A/A", "transformers plain", "transformers plain again"),
    ("plain", "transformers plain", "specq plain"),
    ("lookup", "transformers lookup", "specq lookup"),
    ("early exit", "transformers early exit", "specq early exit"),
    ("plain, not packed", "transformers plain", "specq plain, not packed"),
    ("packing alone", "specq plain, not packed", "specq plain"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One arm on one prompt once.

    `decode_s` is the time of the `decoded` tokens after the first pass's; `whole_s` is the call's.
    `passes` counts the target's passes, prefill included.
    """

    ids: tuple[int, ...]
    whole_s: float
    decode_s: float
    decoded: int
    passes: int
    steps: tuple[Step, ...] = ()


def ratio(peer: list[list[Timed]], arm: list[list[Timed]], whole: bool) -> SpeedUp:
    """The peer's time a token over the arm's, one pair of sums a prompt."""
    times = [[sum(t.whole_s if whole else t.decode_s for t in runs) for runs in side] for side in (peer, arm)]
    counts = [[sum(len(t.ids) if whole else t.decoded for t in runs) for runs in side] for side in (peer, arm)]
    return log_ratio(times[0], counts[0], times[1], counts[1])


def same_tokens(rows: list[list[Timed]], base: list[list[Timed]]) -> tuple[int, int | None]:
    """How many prompts got the base's very tokens, and the earliest place of a difference."""
    equal, first = 0, None
    for mine, theirs in zip(rows, base, strict=True):
        pairs = zip(mine[0].ids, theirs[0].ids, strict=True)
        at = next((place for place, (a, b) in enumerate(pairs) if a != b), None)
        equal += at is None
        first = at if first is None or (at is not None and at < first) else first
    return equal, first


def costs(rows: list[list[Timed]]) -> dict[str, float]:
    """Where specq's steps went: shares of sampling and bookkeeping, and the draft's time a proposed token."""
    steps = [step for runs in rows for timed in runs for step in timed.steps]
    parts = {name: sum(getattr(s, name) for s in steps) for name in ("draft_s", "verify_s", "sample_s", "rest_s")}
    total = sum(parts.values())
    proposed = sum(s.proposed for s in steps)
    return {
        "sample_share": parts["sample_s"] / total,
        "rest_share": parts["rest_s"] / total,
        "sample_and_rest_share": (parts["sample_s"] + parts["rest_s"]) / total,
        "draft_ms_a_proposed": 1000 * parts["draft_s"] / proposed if proposed else 0.0,
    }


def show(console: Console, found: dict[str, list[list[Timed]]]) -> dict[str, Any]:
    """Print the tables of one dtype and return the same as data."""
    base = found["transformers plain"]
    arms: dict[str, Any] = {}
    table = Table(
        "arm", "ms a token", "s a request", "tokens a pass", "same tokens", "differs at", "sample + rest", "draft ms"
    )
    for name, rows in found.items():
        every = [timed for runs in rows for timed in runs]
        equal, first = same_tokens(rows, base)
        entry = {
            "ms_a_token": 1000 * sum(t.decode_s for t in every) / sum(t.decoded for t in every),
            "s_a_request": sum(t.whole_s for t in every) / len(every),
            "tokens_a_pass": sum(len(t.ids) for t in every) / sum(t.passes for t in every),
            "equal_outputs": None if name == SAMPLED else equal,
            "first_difference": None if name == SAMPLED else first,
            **(costs(rows) if every[0].steps else {}),
        }
        arms[name] = entry
        same = "-" if name == SAMPLED else f"{equal} of {len(rows)}"
        place = "-" if name == SAMPLED or first is None else f"token {first + 1}"
        share = f"{entry['sample_and_rest_share']:.1%}" if every[0].steps else "-"
        drafted = f"{entry['draft_ms_a_proposed']:.2f}" if entry.get("draft_ms_a_proposed") else "-"
        numbers = [f"{entry['ms_a_token']:.1f}", f"{entry['s_a_request']:.2f}", f"{entry['tokens_a_pass']:.2f}"]
        table.add_row(name, *numbers, same, place, share, drafted)
    console.print(table)
    ratios: dict[str, Any] = {}
    table = Table("ratio", "peer / arm", "decode [95 %]", "min to max", "whole request [95 %]")
    for name, peer, arm in RATIOS:
        if not {arm, peer} <= found.keys():
            continue
        both = [ratio(found[peer], found[arm], whole) for whole in (False, True)]
        ratios[name] = {kind: as_data(speed) for kind, speed in zip(("decode", "whole"), both, strict=True)}
        cells = [bounded(both[0]), f"{both[0].minimum:.2f} to {both[0].maximum:.2f}", bounded(both[1])]
        table.add_row(name, f"{peer} / {arm}", *cells)
    console.print(table)
    return {"ratios": ratios, "arms": arms}


def as_data(speed: SpeedUp) -> dict[str, float | int | None]:
    """A ratio for the JSON line: the geometric mean over prompts with its t interval, and the pooled value."""
    mean = speed.per_prompt
    named = {"ratio": mean.value, "low": mean.low, "high": mean.high, "min": speed.minimum, "max": speed.maximum}
    return {**named, "pooled": speed.pooled.value, "prompts": mean.n}


def bounded(speed: SpeedUp) -> str:
    """The geometric mean over prompts with its t interval, as text."""
    mean = speed.per_prompt
    return f"{mean.value:.3f}" + ("" if mean.low is None else f" [{mean.low:.3f}, {mean.high:.3f}]")
