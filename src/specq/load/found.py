"""What a load run found, derived from its folder alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core.errors import RunFolderError
from specq.load import asked as asking
from specq.load import rows as reading
from specq.load.asked import Asked
from specq.load.ceiling import Ceiling, Machine, ceiling
from specq.load.check import Agreement, agreement
from specq.load.curve import Held, Knee, Spot, held, highest_held, knee
from specq.load.device import together
from specq.load.drafts import Drafting, drafting
from specq.load.ends import End, end
from specq.load.measures import Attempt, Latency, Rates, e2e_s, failures, latency, rates, tpot_s, ttft_s
from specq.load.pauses import Pauses, pauses
from specq.load.quality import Quality, Worth, quality, worth
from specq.load.rows import Began, Judged, Measured, Requested, Started
from specq.load.stalls import Stall, stall
from specq.load.sure import Sure, of_floors, power_draws, sure
from specq.load.versus import Ratio, Win, ratio, win
from specq.report.plain import plain
from specq.run.folder import DONE, RECORDS
from specq.run.provenance import show_home


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A server at one level, its repeats together.

    `requests` are those of the steady state, `failed` those of them that failed by what was wrong, `failed_outside`
    those of the ramp, the tail and the long prompts. `sure` has the intervals of rates and medians. `client_share` is
    what specq took of a core; `device` is by reading, over all repeats; `cached_share` is of prompt tokens, None where
    the server does not tell; `backlog` is how many requests of an open loop were under way at its end more than at its
    beginning. `schema` counts answers by how they fit, `uncounted` those of whose tokens the server told no count:
    there each event counts as one.
    """

    server: str
    level: float
    repeats: int
    requests: int
    latency: Latency
    rates: Rates
    sure: Sure
    failed: dict[str, int]
    failed_outside: dict[str, int]
    tags: dict[str, Latency]
    held: Held | None
    drafting: Drafting | None
    agreement: Agreement
    pauses: Pauses | None
    ceiling: Ceiling | None
    client_share: float
    device: dict[str, Any]
    server_mean_queue_s: float | None
    cached_share: float | None
    backlog: int
    schema: dict[str, int]
    quality: Quality | None
    notes: tuple[str, ...]
    uncounted: int

    @property
    def answered(self) -> int:
        """Requests of the steady state that ended well."""
        return self.requests - sum(self.failed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A load run: its levels by server in rising order, each server's knee and the level up to which floors hold.

    `ratios` hold the other servers against the first; `wins` say up to which level they are surely faster, `ends` where
    the ratio falls through 1; `stalls` what long prompts do to the others' tokens, `worth` what the answers of another
    server are worth against the first's. `interrupted` requests belong to
    attempts that were broken off, and count nowhere. `started` is the last start of each server that was started.
    """

    run: Path
    done: bool
    asked: Asked
    info: Mapping[str, Any]
    levels: tuple[Level, ...]
    knees: dict[str, Knee | None]
    held_up_to: dict[str, float | None]
    ratios: tuple[Ratio, ...]
    stalls: tuple[Stall, ...]
    worth: tuple[Worth, ...]
    wins: dict[str, Win]
    ends: dict[str, End | None]
    interrupted: int
    torn_bytes: int
    started: dict[str, Started]

    def of(self, server: str) -> tuple[Level, ...]:
        """The levels of one server."""
        return tuple(one for one in self.levels if one.server == server)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The servers that answered no request of any level's steady state."""
        counts = {one.name: self.of(one.name) for one in self.asked.servers}
        return tuple(name for name, of in counts.items() if of and not any(one.answered for one in of))

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        left_out = ("info", "run", "asked")
        values = {name: getattr(self, name) for name in self.__slots__ if name not in left_out}
        return {"run": str(self.run), "asked": self.asked.to_json(), **plain(values)}


def find(run: Path, info: Mapping[str, Any], machines: Mapping[str, Machine] | None = None) -> Found:
    """Derive everything from a run's rows.

    Raises:
        RunFolderError: a row is damaged.
    """
    try:
        asked = asking.from_json(show_home(info["asked"]))
    except (TypeError, KeyError, ValueError) as error:
        raise RunFolderError(f"{run}/run.json: asked is not as specq load writes it ({error}); put it back") from error
    found, torn = reading.read(run / RECORDS)
    attempts, interrupted = _attempts(found)
    closed = asked.arrivals == "closed"
    grouped: dict[tuple[str, float], list[Attempt]] = defaultdict(list)
    for one in attempts:
        grouped[one.point.server, one.point.level].append(one)
    names = [server.name for server in asked.servers]
    keys = sorted(grouped, key=lambda key: (names.index(key[0]), key[1]))
    levels = tuple(_level(grouped[key], asked, (machines or {}).get(key[0])) for key in keys)
    pairs = [
        (grouped[names[0], level], grouped[name, level])
        for name, level in keys
        if name != names[0] and (names[0], level) in grouped
    ]
    ratios = [ratio(*pair, closed=closed) for pair in pairs]
    stalls, judged = [stall(*pair) for pair in pairs], [worth(*pair) for pair in pairs]

    def of_level(name: str) -> dict[float, list[Attempt]]:
        return {level: of for (server, level), of in grouped.items() if server == name}

    by_server = {name: [one for one in levels if one.server == name] for name in names}
    return Found(
        run=run,
        done=(run / DONE).is_file(),
        asked=asked,
        info=info,
        levels=levels,
        knees={name: _knee(of, of_level(name), closed=closed) for name, of in by_server.items()},
        held_up_to={name: highest_held([(one.level, one.held) for one in of]) for name, of in by_server.items()},
        ratios=tuple(ratios),
        stalls=tuple(one for one in stalls if one is not None),
        worth=tuple(one for one in judged if one is not None),
        wins={name: win([one for one in ratios if one.server == name]) for name in names[1:]},
        ends={name: end(of_level(names[0]), of_level(name)) for name in names[1:]},
        interrupted=interrupted,
        torn_bytes=torn,
        started={row.server: row for row in found if isinstance(row, Started)},
    )


def attempts_of(found: Sequence[reading.Row]) -> tuple[dict[str, int], set[str]]:
    """How many attempts each point had, and which points are complete."""
    tried: dict[str, int] = defaultdict(int)
    for row in found:
        if isinstance(row, Began):
            tried[row.point] = max(tried[row.point], row.attempt)
    return dict(tried), {row.point for row in found if isinstance(row, Measured)}


def _attempts(found: Sequence[reading.Row]) -> tuple[list[Attempt], int]:
    measured = {(row.point, row.attempt): row for row in found if isinstance(row, Measured)}
    asked: dict[tuple[str, int], list[Requested]] = defaultdict(list)
    interrupted = 0
    judged: dict[tuple[str, int], list[Judged]] = defaultdict(list)
    for row in found:
        if isinstance(row, Judged):
            judged[row.point, row.attempt].append(row)
        if isinstance(row, Requested):
            if (row.point, row.attempt) in measured:
                asked[row.point, row.attempt].append(row)
            else:
                interrupted += 1
    complete = [
        Attempt(point=point, rows=tuple(asked[key]), judged=tuple(judged[key])) for key, point in measured.items()
    ]
    return complete, interrupted


def _level(attempts: Sequence[Attempt], asked: Asked, machine: Machine | None) -> Level:
    closed = asked.arrivals == "closed"
    steady = [row for one in attempts for row in one.steady]
    outside = [row for one in attempts for row in one.rows if row.phase != "steady"]

    def good(row: Requested) -> bool:
        values = {"ttft_s": ttft_s(row, closed=closed), "e2e_s": e2e_s(row, closed=closed)}
        values["tpot_s"] = tpot_s(row) if (row.output_tokens or 0) > 1 else 0.0
        known = ((values[name.rsplit("_", 1)[0]], limit) for name, limit in asked.floors.items())
        met = (value is not None and value <= limit for value, limit in known)
        return row.error is None and all(met)

    found = latency(attempts, closed=closed)
    going = rates(attempts, good if asked.floors else None)
    drafts = drafting(attempts)
    tags = dict.fromkeys(tag for row in steady for tag in row.tags)
    return Level(
        server=attempts[0].point.server,
        level=attempts[0].point.level,
        repeats=len(attempts),
        requests=len(steady),
        latency=found,
        rates=going,
        sure=sure(attempts, closed=closed),
        failed=failures(steady),
        failed_outside=failures(outside),
        tags={tag: latency(attempts, closed=closed, tag=tag) for tag in tags},
        held=held(found, asked.floors, of_floors(attempts, tuple(asked.floors), closed=closed)),
        drafting=drafts,
        agreement=agreement(attempts),
        pauses=pauses(attempts),
        ceiling=None if machine is None else ceiling(machine, going, attempts, drafts),
        client_share=sum(one.point.client_cpu_s for one in attempts) / max(1e-9, _wall(attempts)),
        device=together([one.point.device for one in attempts]),
        server_mean_queue_s=_mean_queue(attempts),
        cached_share=_cached(steady),
        backlog=0
        if closed
        else sum(_under_way(one, one.point.end_at_s) - _under_way(one, one.point.start_at_s) for one in attempts),
        schema=_schema(steady),
        quality=quality(attempts),
        notes=tuple(dict.fromkeys(note for one in attempts for note in one.point.notes)),
        uncounted=sum(row.counted == "events" and row.error is None for row in steady),
    )


def _wall(attempts: Sequence[Attempt]) -> float:
    return sum(one.point.client_wall_s for one in attempts)


def _mean_queue(attempts: Sequence[Attempt]) -> float | None:
    """Mean seconds in the server's queue by its counters."""
    told = [one.point.numbers for one in attempts]
    if not all(one.get("queue_s") is not None and one.get("requests") for one in told):
        return None
    return float(sum(one["queue_s"] for one in told) / sum(one["requests"] for one in told))


def _cached(rows: Sequence[Requested]) -> float | None:
    told = [(row.cached_tokens, row.prompt_tokens) for row in rows if row.error is None]
    if not told or any(cached is None or not prompt for cached, prompt in told):
        return None
    return sum(cached or 0 for cached, _ in told) / sum(prompt or 0 for _, prompt in told)


def _under_way(one: Attempt, at_s: float) -> int:
    return sum(row.due_at_s <= at_s < row.end_at_s for row in one.rows)


def _schema(rows: Sequence[Requested]) -> dict[str, int]:
    words = [row.schema for row in rows if row.schema is not None]
    return {word: words.count(word) for word in dict.fromkeys(words)}


def _knee(levels: Sequence[Level], attempts: Mapping[float, Sequence[Attempt]], *, closed: bool) -> Knee | None:
    spots = [_spot(one) for one in levels if one.latency.e2e_s.p50]
    # Levels are measured one after another: each has resamples of its own.
    draws = {one.level: power_draws(attempts[one.level], closed=closed, seed=seed) for seed, one in enumerate(spots)}
    return knee(spots, draws)


def _spot(one: Level) -> Spot:
    return Spot(level=one.level, throughput=one.rates.tokens_per_s, latency_s=one.latency.e2e_s.p50 or 0.0)
