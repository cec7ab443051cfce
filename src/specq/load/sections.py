"""A load run as sections of text and tables, the same for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specq.core.nouns import listed
from specq.load import along, settled
from specq.load.by_level import by_level, name_of
from specq.load.check import Agreement
from specq.load.found import Found, Level
from specq.load.measures import Spread
from specq.load.versus import Ratio
from specq.load.words import flags
from specq.report.section import Section, table
from specq.report.words import NOTHING, milliseconds, number, ratio, share
from specq.stats.intervals import Interval

FIRST = "Read this first"
QUALITY = "What the answers are worth"


def sections(found: Found) -> list[Section]:
    """All that have something to show."""
    made = [
        Section(title=FIRST, lines=tuple(flags(found))),
        _curve(found),
        _latency(found),
        *settled.sections(found),
        _versus(found),
        *along.sections(found),
        _tags(found),
        _failures(found),
        _schema(found),
        _quality(found),
        _agreement(found),
        Section(title="How it was measured", lines=tuple(_how(found))),
        Section(title="Notes", lines=tuple(found.info.get("notes") or ())),
    ]
    return [one for one in made if one.lines or one.rows]


def _curve(found: Found) -> Section:
    floors = found.asked.floors
    of_p99 = [name.removesuffix("_p99") for name in floors if name.endswith("_p99")]

    def row(one: Level) -> Sequence[str]:
        shown = [number(one.rates.requests_per_s), number(one.rates.tokens_per_s)]
        shown += [milliseconds(one.latency.ttft_s.p50), milliseconds(one.latency.ttft_s.p95)]
        shown += [milliseconds(one.latency.tpot_s.p50), milliseconds(one.latency.tpot_s.p95)]
        shown += [str(one.requests), str(sum(one.failed.values()))]
        # A floor on a p99 is told by it, and not by the p95 that stands in every table.
        shown += [milliseconds(getattr(one.latency, name).p99) for name in of_p99]
        if floors:
            good = one.rates.good_share
            shown += [number(one.rates.good_per_s), share(good), NOTHING if one.held is None else one.held.word]
        return shown

    columns: tuple[str, ...] = (
        "requests/s",
        "tokens/s",
        "ttft ms p50",
        "p95",
        "tpot ms p50",
        "p95",
        "requests",
        "failed",
    )
    lines = [
        "Rates: what ended or arrived in the steady state, over its seconds. Latencies: of its requests that ended well"
        + ("." if found.asked.arrivals == "closed" else ", from the time each was due.")
    ]
    columns = (*columns, *(f"{name.removesuffix('_s')} ms p99" for name in of_p99))
    if floors:
        columns = (*columns, "goodput/s", "good", "floor")
        lines.append(f"floor: {listed([f'{name} of {value:g} s' for name, value in floors.items()])}.")
        lines.append("good: share of requests that ended well within every limit of the floor, failed ones counted.")
    return by_level(found, "Throughput and latency", columns, row, lines)


def _latency(found: Found) -> Section:
    """Every latency at p50, p95 and p99."""
    rows = []
    names = (("ttft_s", "ttft_s"), ("tpot_s", "tpot_s"), ("gap_s", "gap between tokens"), ("e2e_s", "e2e_s"))
    for one in found.levels:
        for name, shown in names:
            rows.append((name_of(found, one), shown, *_cells(getattr(one.latency, name))))
        queue = one.latency.queue_s
        if queue.n:
            rows.append((name_of(found, one), "queue_s", *_cells(queue)))
        else:
            mean = one.server_mean_queue_s
            told = ("unknown", "", "", "") if mean is None else (number(1000 * mean), *("",) * 3)
            rows.append((name_of(found, one), "queue_s", *told, "mean of counters" if mean is not None else ""))
    lines = ["In ms. p95 needs 20 values and p99 100. queue_s: as the server tells it, else unknown."]
    return table("Latencies", (found.asked.unit, "what", "mean", "p50", "p95", "p99", "values"), rows, lines)


def _cells(one: Spread) -> tuple[str, ...]:
    return (*map(milliseconds, (one.mean, one.p50, one.p95, one.p99)), f"{one.n:,}")


def _versus(found: Found) -> Section:
    base = found.asked.servers[0].name

    def cells(one: Ratio) -> tuple[str, ...]:
        measured = (one.speedup, one.e2e_speedup, one.throughput)
        return (
            *(text for each in measured for text in (_value(each), _interval(each))),
            f"{one.same} of {one.compared}",
        )

    columns = (
        found.asked.unit,
        "speedup",
        "95 % interval",
        "e2e_speedup",
        "95 % interval",
        "tokens/s",
        "95 % interval",
    )
    lines = [
        f"Above 1 is faster than {base}. speedup: time a token, e2e_speedup: whole requests, both over the prompts "
        "that both answered; tokens/s: throughput, its interval by batch means. Same texts: prompts answered alike."
    ]
    rows = [(f"{one.server} {one.level:g}", *cells(one)) for one in found.ratios]
    return table(f"Held against {base}", (*columns, "same texts"), rows, lines)


def _value(one: Interval | None) -> str:
    return NOTHING if one is None else ratio(one.value)


def _interval(one: Interval | None) -> str:
    return NOTHING if one is None or one.low is None or one.high is None else f"{one.low:.2f} to {one.high:.2f}"


def _tags(found: Found) -> Section:
    rows = [
        (
            name_of(found, one),
            tag,
            str(of.e2e_s.n),
            milliseconds(of.ttft_s.p50),
            milliseconds(of.ttft_s.p95),
            milliseconds(of.tpot_s.p50),
            milliseconds(of.tpot_s.p95),
            number(of.e2e_s.p50),
        )
        for one in found.levels
        for tag, of in one.tags.items()
    ]
    columns = (found.asked.unit, "tag", "requests", "ttft ms p50", "p95", "tpot ms p50", "p95", "e2e_s p50")
    return table("By tag", columns, rows)


def _failures(found: Found) -> Section:
    rows = [
        (name_of(found, one), kind, str(one.failed.get(kind, 0)), str(one.failed_outside.get(kind, 0)))
        for one in found.levels
        for kind in dict.fromkeys([*one.failed, *one.failed_outside])
    ]
    return table("Failures", (found.asked.unit, "kind", "in the steady state", "outside it"), rows)


def _schema(found: Found) -> Section:
    words = ("fits", "misfit", "no JSON")

    def row(one: Level) -> Sequence[str] | None:
        return [str(one.schema.get(word, 0)) for word in words] if one.schema else None

    return by_level(found, "Answers against the schema", words, row)


def _quality(found: Found) -> Section:
    worth = {(one.server, one.level): one.difference for one in found.worth}

    def row(one: Level) -> Sequence[str] | None:
        told = one.quality
        if told is None:
            return None
        score, other = told.score, worth.get((one.server, one.level))
        return (
            told.metric,
            NOTHING if score is None else share(score.value),
            NOTHING if score is None or score.low is None or score.high is None else _shares(score.low, score.high),
            NOTHING if other is None else f"{100 * other.value:+.1f}",
            NOTHING if other is None else f"{100 * other.low:+.1f} to {100 * other.high:+.1f}",
            f"{told.answers:,}",
            f"{told.failed:,}",
        )

    columns = ("metric", "score", "95 % interval", "points against the first", "95 % interval", "answers", "failed")
    lines = (
        "Over items, each in its cluster; several answers to one item count as their mean.",
        "Rows of speed and of quality have the same id in records.jsonl.",
    )
    return by_level(found, QUALITY, columns, row, lines)


def _shares(low: float, high: float) -> str:
    return f"{share(low)} to {share(high)}"


def _agreement(found: Found) -> Section:
    def row(one: Level) -> Sequence[str] | None:
        told: Agreement = one.agreement
        if told.ttft is None and told.tpot is None:
            return None
        return _exact(told.ttft), _exact(told.tpot), str(told.n)

    lines = [
        "Medians of specq's time over the server's own, request by request. Where the server does not tell how long a "
        "request waited, specq's ttft_s alone has that: hold it against one request at a time."
    ]
    return by_level(found, "Against the server's own clock", ("ttft_s", "tpot_s", "requests"), row, lines)


def _exact(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def _how(found: Found) -> Iterator[str]:
    asked = found.asked
    if asked.arrivals == "closed":
        yield "Closed loop: as many requests under way as the level says; as one ends, its user sends the next."
    else:
        how = {"poisson": "as a Poisson process", "steady": "evenly spaced", "trace": "at the times of the trace"}
        yield f"Open loop: requests are due {how[asked.arrivals]}, whatever is still under way."
    yield (
        "Steady state: from the sending of the first request after the warm-up to the end of the last that counts; "
        "more requests keep the load up until then. Ramp, tail and drain are in no number."
    )
    seconds = [one.rates.seconds for one in found.levels]
    if seconds:
        yield f"Steady states of {number(min(seconds))} to {number(max(seconds))} s."
    cache = "as they are: a prefix cache may hold them" if asked.warm_prefix else "cold, past any prefix cache"
    yield (
        f"Prompts go out {cache}; at most {asked.max_tokens} tokens an answer, temperature {asked.temperature:g}"
        + (", end tokens ignored." if asked.ignore_eos else ".")
    )
    if found.started and len(asked.servers) > 1:
        yield "Servers are started here, one at a time, each anew when its turn comes, and stopped before the next."
    for server in found.info.get("servers") or ():
        started = found.started.get(server["name"])
        settings = server["settings"] if started is None else started.settings
        told = ", ".join(f"{name} {value}" for name, value in settings.items() if value != "unknown")
        where = f"at {server['url']}" if started is None else f"started in {number(started.seconds)} s"
        whose = "it says" if started is None else "it says or was told"
        yield f"{server['name']}: {server['kind']} {where}; {whose} {told or 'nothing of its settings'}."
        if started is not None and started.exactness:
            yield f"{server['name']}: what it drafts is {started.exactness}: {started.reason} ({started.source})."
