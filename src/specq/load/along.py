"""Along the curve: what drafts gave, what a pass took, how busy the machine was, and what long prompts did.

At each level what a draft saves and what it costs stand in one row, for the win ends where the device has no room left.
"""

from __future__ import annotations

from collections.abc import Sequence

from specq.load import unknown
from specq.load.by_level import by_level
from specq.load.found import Found, Level
from specq.report.section import Section, table
from specq.report.words import NOTHING, milliseconds, number, share
from specq.stats.intervals import Interval
from specq.stats.quantiles import Difference

ALONG, COUNTS, MACHINE = "Drafts and device along the curve", "What drafts gave", "Machine"
LONG, STALLS = "Long prompts among steady decoding", "Long prompts, held against"


def sections(found: Found) -> list[Section]:
    """All of them; those without rows say nothing."""
    return [_along(found), _counts(found), _machine(found), _long(found), _stalls(found)]


def _along(found: Found) -> Section:
    def row(one: Level) -> Sequence[str]:
        drafts, ceiling = one.drafting, one.ceiling
        used = one.device.get("device_share")
        return (
            *((NOTHING,) * 2 if drafts is None else (number(drafts.accepted_per_step), share(drafts.draft_acceptance))),
            NOTHING if drafts is None else milliseconds(drafts.step_s),
            NOTHING if drafts is None else _or_unknown(drafts.verify_s),
            share(used["mean"]) if used else "unknown",
            str(one.device.get("source", "unknown")),
            "unknown" if ceiling is None else share(ceiling.bandwidth_share),
            "unknown" if ceiling is None or ceiling.flops_share is None else share(ceiling.flops_share),
        )

    columns = ("accepted a step", "draft_acceptance", "step ms", "verify ms")
    lines = [
        "step: a step of one request, drafting and verifying together, from the server's decode time. verify: the same "
        "without the drafting, where the server tells how long that takes (a llama.cpp that was started here).",
        "device: mean use of the busiest GPU (NVML), or of all cores by the server's processes, or by the machine. "
        "Of bandwidth and FLOP/s: lower bounds, see docs/load.md.",
        *unknown.lines(found),
    ]
    return by_level(found, ALONG, (*columns, "device", "from", "of bandwidth", "of FLOP/s"), row, lines)


def _or_unknown(value: float | None) -> str:
    return "unknown" if value is None else milliseconds(value)


def _counts(found: Found) -> Section:
    def row(one: Level) -> Sequence[str] | None:
        drafts = one.drafting
        if drafts is None:
            return None
        return (
            number(drafts.accepted_per_step),
            number(drafts.accepted_per_draft),
            number(drafts.tokens_per_step),
            f"{drafts.proposed:,}",
            f"{drafts.accepted:,}",
            milliseconds(drafts.draft_call_s),
            drafts.source,
        )

    columns = ("accepted a step", "a draft", "tokens_per_step", "proposed", "accepted", "drafting ms", "from")
    lines = (
        "Accepted a step: over all steps; a draft: over those that proposed something, where the server counts them.",
        "drafting: a round of it, for all requests at once.",
    )
    return by_level(found, COUNTS, columns, row, lines)


def _machine(found: Found) -> Section:
    def row(one: Level) -> Sequence[str]:
        cores = one.device.get("server_cores")
        return (
            number(one.rates.in_flight),
            number(one.rates.decoding),
            "unknown" if cores is None else number(cores["mean"]),
            "unknown" if one.cached_share is None else share(one.cached_share),
            share(one.client_share),
        )

    columns = ("in flight", "decoding", "server's cores", "prompt cached", "specq's core")
    lines = ["in flight, decoding: requests under way, and past their first token, on average."]
    return by_level(found, MACHINE, columns, row, lines)


def _long(found: Found) -> Section:
    def row(one: Level) -> Sequence[str] | None:
        long = one.pauses
        if long is None:
            return None
        return (
            f"{long.injected}" + (f" ({long.failed} failed)" if long.failed else ""),
            number(long.prompt_tokens.p50),
            number(long.ttft_s.p50),
            *map(milliseconds, (long.before.p99, long.during.p99, long.after.p99)),
            f"{long.before.n:,} / {long.during.n:,} / {long.after.n:,}",
        )

    columns = ("long prompts", "tokens", "their ttft_s", "gap p99 ms before", "during", "after", "gaps")
    lines = ["Gaps of the other streams, by whether a long prompt was being read meanwhile."]
    return by_level(found, LONG, columns, row, lines)


def _stalls(found: Found) -> Section:
    base = found.asked.servers[0].name
    rows = [
        (
            f"{one.server} {one.level:g}",
            *_difference(one.p99_s),
            *_difference(one.longest_s),
            *_difference(one.ttft_s),
            str(one.prompts),
        )
        for one in found.stalls
    ]
    interval = "95 % interval"
    columns = ("gap p99 ms", interval, "longest gap ms", interval, "their ttft ms", interval, "long prompts")
    lines = [
        f"Differences from {base} while long prompts are read; below 0 is shorter than there.",
        "gap p99: of all gaps that overlap the reading of one, its interval by a bootstrap over long prompts, from 5.",
        "longest gap: the mean of the longest that each brought. their ttft: the long prompts' own.",
    ]
    return table(f"{STALLS} {base}", (found.asked.unit, *columns), rows, lines)


def _difference(one: Interval | Difference | None) -> tuple[str, str]:
    if one is None:
        return NOTHING, NOTHING
    value = _signed(one.value)
    if one.low is None or one.high is None:
        return value, NOTHING
    return value, f"{_signed(one.low)} to {_signed(one.high)}"


def _signed(seconds: float) -> str:
    """Milliseconds with their sign, to three digits and whole from 100 on."""
    value = 1000 * seconds
    return f"{value:+,.0f}" if abs(value) >= 100 else f"{value:+.3g}"
