"""What a load run found, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from specq.core.nouns import counted, listed
from specq.load.ends import End, Place
from specq.load.found import Found, Level
from specq.load.measures import LATE_S
from specq.load.settled import FEWEST_OF, told
from specq.load.versus import Ratio, Win
from specq.report.words import NOTHING, number

SLOW_CLIENT = 0.5
"""From this share of a core on, specq's own work may have delayed what it measured."""


def answer(found: Found) -> str:
    """The run in one paragraph."""
    if not found.levels:
        return "Nothing was measured: no level is complete."
    said = []
    for server in found.asked.servers:
        said += [_best(found, server.name), *_knee(found, server.name), *_floor(found, server.name)]
    said += [f"{win_words(found, name, one)}" for name, one in found.wins.items()]
    return " ".join(said)


def _best(found: Found, server: str) -> str:
    levels = found.of(server)
    if not levels:
        return f"{server}: nothing was measured."
    if server in found.unanswered:
        kinds = Counter[str]()
        for one in levels:
            kinds.update(one.failed)
        return f"{server}: no request succeeded ({_kinds(kinds)})."
    best = max(levels, key=lambda one: one.rates.tokens_per_s)
    interval = told(best.sure.tokens_per_s)
    sure = "" if interval == NOTHING else f" (95 % interval {interval})"
    what = "event" if any(one.uncounted for one in levels) else "token"
    return (
        f"{server}: at most {number(best.rates.tokens_per_s)} {what}s/s{sure}, at {found.asked.unit} {best.level:g} "
        f"with a median of {_ms(best.latency.ttft_s.p50)} to the first {what} and {_ms(best.latency.tpot_s.p50)} "
        f"{'an' if what == 'event' else 'a'} {what}."
    )


def _knee(found: Found, server: str) -> list[str]:
    knee = found.knees.get(server)
    return [] if knee is None else [f"{knee.words(found.asked.unit).capitalize()}."]


def _floor(found: Found, server: str) -> list[str]:
    if not found.asked.floors:
        return []
    limits = listed([f"{name} of {value:g} s" for name, value in found.asked.floors.items()])
    upto, unit = found.held_up_to[server], found.asked.unit
    held = [one for one in found.of(server) if one.held is not None]
    after = next((one for one in held if upto is None or one.level > upto), None)
    said = f"The floor, {limits}, holds" + (" at no level" if upto is None else f" up to {unit} {upto:g}")
    if after is None or after.held is None:
        return [f"{said}."]
    if after.held.holds is not None:
        return [f"{said}." if upto is None else f"{said} and is broken at {after.level:g}."]
    unsettled = f"not settled at {unit} {after.level:g}, {_unsettled(after)}"
    return [f"The floor, {limits}, is {unsettled}." if upto is None else f"{said}; it is {unsettled}."]


def _unsettled(one: Level) -> str:
    """Why it is not settled whether a level holds the floor, and what would settle it."""
    assert one.held is not None
    few = {name: FEWEST_OF[name.rpartition("_")[2]] for name, (_, high) in one.held.ends.items() if high is None}
    if few:
        needed = listed([f"{count} for {name}" for name, count in few.items()])
        return f"with {counted(one.answered, 'answer')}: a bound needs {needed}, more where prompts repeat (--requests)"
    open_ = [
        f"{name} {_ms(one.held.values[name])}, {_ms(low)} to {_ms(high)}"
        for name, (low, high) in one.held.ends.items()
        if high is not None and high > one.held.limits[name]
    ]
    return f"where the limit lies within the bounds ({listed(open_)}); more --requests narrow them"


def win_words(found: Found, server: str, one: Win) -> str:
    """Where a server's win over the first ends."""
    base, unit = found.asked.servers[0].name, found.asked.unit
    crosses = _crosses(found.ends.get(server), unit)
    ratios = {ratio.level: ratio for ratio in found.ratios if ratio.server == server}
    if not any(ratio.speedup for ratio in ratios.values()):
        return f"{server} cannot be held against {base}: no prompt was answered by both."
    if one.last is None:
        first = ratios[min(ratios)]
        at = f"{_speed(first)} at {unit} {first.level:g}"
        return f"{server} is not surely faster than {base} a token, from the lowest level on ({at}){crosses}."
    said = f"{server} is faster than {base} a token up to {unit} {one.last:g} ({_speed(ratios[one.last])})"
    if one.first_not is None:
        return f"{said}, the highest level measured: where the win ends lies above it{crosses}."
    return f"{said}, and no longer surely at {one.first_not:g} ({_speed(ratios[one.first_not])}){crosses}."


def _crosses(one: End | None, unit: str) -> str:
    """Where the ratio falls through 1, with its interval."""
    if one is None:
        return ""
    beyond = {"below": "below the lowest level", "above": "above the highest level"}

    def place(of: Place) -> str:
        return beyond[of] if isinstance(of, str) else f"{of:.3g}"

    if one.low is None or one.high is None:
        # Of a place beyond the levels with nothing around it there is nothing to say.
        return "" if isinstance(one.at, str) else f"; the ratio falls through 1 at about {one.at:.3g}"
    if one.low == one.high and isinstance(one.low, str):
        return f"; the ratio falls through 1 {beyond[one.low]}, in all of its 95 % interval"
    if (one.low, one.high) == ("below", "above"):
        return f"; where the ratio falls through 1 these levels and {one.prompts} prompts do not tell"
    ends = f"95 % interval over {one.prompts} prompts: {place(one.low)} to {place(one.high)}"
    if isinstance(one.at, str):
        return f"; the ratio falls through 1 {beyond[one.at]} ({ends})"
    return f"; the ratio falls through 1 at {unit} {one.at:.3g} ({ends})"


def _speed(ratio: Ratio) -> str:
    one = ratio.speedup
    if one is None:
        return "no ratio"
    if one.low is None or one.high is None:
        return f"{one.value:.2f}"
    return f"{one.value:.2f}, {one.low:.2f} to {one.high:.2f}"


def flags(found: Found) -> list[str]:
    """What must be read before any number."""
    said = []
    if not found.done:
        said.append("the run is not complete: levels are missing")
    if found.interrupted:
        said.append(f"{counted(found.interrupted, 'request')} of attempts that were broken off stand in records.jsonl")
    if found.torn_bytes:
        said.append(f"the last line of records.jsonl was torn ({found.torn_bytes} bytes) and is left out")
    for one in found.levels:
        said += [f"{one.server} at {one.level:g}: {text}" for text in _level_flags(found, one)]
    return said


def _level_flags(found: Found, one: Level) -> list[str]:
    said = []
    if one.failed:
        failed = f"{sum(one.failed.values())} of {counted(one.requests, 'request')} failed ({_kinds(one.failed)})"
        said.append(failed)
    if one.uncounted:
        said.append(
            f"the server told no count of tokens for {one.uncounted} of {counted(one.answered, 'answer')}: each event "
            "counts as one token there, and may hold several; tokens/s and milliseconds a token are those of events"
        )
    if one.client_share > SLOW_CLIENT:
        said.append(f"specq itself took {100 * one.client_share:.0f} % of a core, which may have made it late")
    if found.asked.arrivals != "closed" and one.latency.late:
        said.append(
            f"{counted(one.latency.late, 'request')} went out over {1000 * LATE_S:.0f} ms late; latencies count from "
            "when they were due"
        )
    if one.backlog > max(3, 0.1 * one.requests):
        said.append(
            f"overloaded: {one.backlog} more requests were under way at its end than at its beginning; latencies grow "
            "with the length of the run"
        )
    return [*said, *one.notes]


def _kinds(failed: Mapping[str, int]) -> str:
    return listed([f"{count} {kind}" for kind, count in failed.items()])


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{number(1000 * value)} ms"
