"""What a run on a server tells: acceptance from the server's own counts, its times, and how it was set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specq.core.records import Generated, ServedDraws, Serving
from specq.core.served import ServedAnswer
from specq.report.measures import Measure, from_interval
from specq.report.runfile import RunFile
from specq.report.words import share
from specq.stats.counts import two_samples
from specq.stats.intervals import pooled_ratio

_NO_STEPS = "the server counts no steps; those that emitted each token but the accepted ones"
Pair = tuple[Generated, ServedAnswer]


def answers(generations: Sequence[Generated]) -> list[Pair]:
    """The generations that a server made, with what it told."""
    return [(g, ServedAnswer.of(g.served)) for g in generations if g.served is not None]


def measures(generations: Sequence[Generated]) -> tuple[Measure, ...]:
    """What the server's own counts and seconds come to; empty for an engine of specq's own."""
    pairs = answers(generations)
    if not pairs:
        return ()
    found = [*_times(pairs), *_cached(pairs)]
    if any(g.rule is not None for g, _ in pairs):
        found += _drafted(pairs)
    return tuple(found)


def _times(pairs: Sequence[Pair]) -> Iterator[Measure]:
    for name, of in (
        ("server_queue_s", lambda one: one.queue_s),
        ("server_prefill_s", lambda one: one.prefill_s),
        ("server_decode_s", lambda one: one.decode_s),
    ):
        known = [(g, value) for g, one in pairs if (value := of(one)) is not None]
        if known:
            yield _ratio(name, "s", [(g.prompt, value, 1.0) for g, value in known], "the server's own, a mean")
    again = sum(one.retries + one.repeats for _, one in pairs)
    note = "requests that went out again, for the server was busy or an answer broke off; n = generations"
    yield Measure(name="asked_again", unit="requests", value=float(again), n=len(pairs), note=note)


def _cached(pairs: Sequence[Pair]) -> Iterator[Measure]:
    known = [
        (g.prompt, float(one.cached_tokens), float(one.prompt_tokens))
        for g, one in pairs
        if one.cached_tokens is not None and one.prompt_tokens
    ]
    if known:
        yield _ratio("cached_prompt_share", "share", known, "of prompt tokens, from the server's prefix cache", top=1.0)


def _drafted(pairs: Sequence[Pair]) -> list[Measure]:
    """Acceptance by the server's counts; None, which is unknown, where it tells none."""
    counts = [(g, one) for g, one in pairs if one.proposed is not None and one.accepted is not None]
    names = (("tokens_per_step", "tokens/step"), ("draft_acceptance", "share"))
    if not counts:
        why = "unknown: the server does not count proposals"
        return [Measure(name=name, unit=unit, value=None, n=len(pairs), note=why) for name, unit in names]
    told = all(one.draft_steps is not None for _, one in counts)
    steps = [_steps(g, one) for g, one in counts]
    rows = list(zip(counts, steps, strict=True))
    note = "(n - 1) / steps, pooled; steps that proposed nothing are counted by their tokens" if told else _NO_STEPS
    decoded = [(g.prompt, float(max(g.new_tokens - 1, 0)), float(count)) for (g, _), count in rows]
    proposed = [(g.prompt, float(one.accepted or 0), float(one.proposed or 0)) for g, one in counts]
    drafts = [(g.prompt, float(one.proposed or 0), float(max(g.new_tokens - 1, 0))) for g, one in counts]
    asked = [
        (g.prompt, float((one.proposed or 0) + count), float(max(g.new_tokens - 1, 0))) for (g, one), count in rows
    ]
    return [
        _ratio(*names[0], decoded, note),
        _ratio(*names[1], proposed, "accepted / proposed, pooled, by the server's counts", top=1.0),
        _ratio("target_rows_per_token", "rows/token", asked, "sum(proposed + 1) / emitted, by the server's counts"),
        _ratio("draft_tokens_per_token", "tokens/token", drafts, "proposed / emitted, by the server's counts"),
        *_survival([one for _, one in counts]),
    ]


def _steps(g: Generated, one: ServedAnswer) -> int:
    """Target passes of decoding: every token after the first came from a pass of its own, unless it was accepted."""
    return max(g.new_tokens - 1 - (one.accepted or 0), 0)


def _survival(known: Sequence[ServedAnswer]) -> Iterator[Measure]:
    """survival[j] over the steps that proposed, where the server counts them by position."""
    by_place = [(one.accepted_by_position, one.draft_steps) for one in known]
    steps = sum(count or 0 for _, count in by_place)
    if not steps or any(places is None or count is None for places, count in by_place):
        return
    for place in range(max(len(places or ()) for places, _ in by_place)):
        survivors = sum((places or ())[place] if place < len(places or ()) else 0 for places, _ in by_place)
        note = "n = steps that proposed, by the server's counts"
        yield Measure(name=f"survival[{place + 1}]", unit="share", value=survivors / steps, n=steps, note=note)


def _ratio(
    name: str, unit: str, rows: Sequence[tuple[str, float, float]], note: str, *, top: float = math.inf
) -> Measure:
    ups: dict[str, float] = {}
    downs: dict[str, float] = {}
    for prompt, up, down in rows:
        ups[prompt] = ups.get(prompt, 0.0) + up
        downs[prompt] = downs.get(prompt, 0.0) + down
    if sum(downs.values()) <= 0:
        return Measure(name=name, unit=unit, value=None, n=len(downs), note=f"nothing to divide by; {note}")
    return from_interval(name, unit, pooled_ratio([list(ups.values())], [list(downs.values())]), note, top=top)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawsTest:
    """First tokens of an arm beside those of its plain arm, both drawn over many seeds on the same server.

    `p` is the least of a test for each length of the beginning, times their number; `tv` the distance between what
    came, and `tv_upper` its upper 95 % bound, over the likeliest beginnings of the length that shows most.
    """

    prompt: str
    draws: int
    plain_draws: int
    p: float
    tv: float
    tv_upper: float


def draws_test(own: ServedDraws, plain: ServedDraws) -> DrawsTest:
    """Hold an arm's draws against its plain arm's."""
    by_token = own.unit == plain.unit == "tokens"
    lengths = range(1, own.tokens + 1) if by_token else (0,)
    tests = [
        two_samples(_beginnings(own, length, by_token), _beginnings(plain, length, by_token)) for length in lengths
    ]
    worst = min(tests, key=lambda test: test.p)
    return DrawsTest(
        prompt=own.prompt,
        draws=own.draws,
        plain_draws=plain.draws,
        p=min(1.0, worst.p * len(tests)),
        tv=worst.tv,
        tv_upper=worst.tv_upper,
    )


def _beginnings(drawn: ServedDraws, length: int, by_token: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for outcome, count in zip(drawn.outcomes, drawn.counts, strict=True):
        begins = " ".join(outcome.split(" ")[:length]) if by_token else outcome
        found[begins] = found.get(begins, 0) + count
    return found


def exactness(run: RunFile, arm: str) -> str:
    """What the server's way to verify leaves of the target's law, for an arm with a draft; "" for any other."""
    for one in run.info.get("served") or ():
        if one["arm"] == arm:
            return str(one["exactness"])
    return ""


def why(run: RunFile, arm: str) -> str:
    """The reason for it, and who says so."""
    for one in run.info.get("served") or ():
        if one["arm"] == arm and one["exactness"]:
            return f"{one['exactness']}: {one['reason']} ({one['source']})"
    return ""


def notes(run: RunFile) -> list[str]:
    """How the servers were set, each setting once, and how each draft is verified."""
    found: dict[str, list[str]] = {}
    for record in run.of(Serving):
        told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in record.settings.items())
        text = f"{record.server}: {told}"
        labels = found.setdefault(text, [])
        labels += [label for arm in record.arms if (label := run.labels.get(arm, arm)) not in labels]
    settings = [f"the server of {', '.join(arms)}: {text}" for text, arms in found.items()]
    return [*settings, *(f"{run.labels[arm]} is {text}" for arm in run.labels if (text := why(run, arm)))]


def flags(run: RunFile) -> list[str]:
    """What must be read before any number of a server's."""
    counted = {one.counted for per_arm in run.generated.values() for _, one in answers(list(per_arm.values()))}
    found = []
    if "events" in counted:
        found.append(
            "the server tells neither ids nor counts of tokens of some answers: their tokens are its events, of which "
            "each may hold several; no rate of tokens is to be trusted"
        )
    unknown = [run.labels[arm] for arm in run.labels if exactness(run, arm) == "unknown"]
    if unknown:
        found.append(f"whether {', '.join(unknown)} leaves the target's law as it is, is unknown: not called lossless")
    found += _by_usage(run)
    return found


def _by_usage(run: RunFile) -> Iterator[str]:
    """Where the tokens that the server counts and the events that came are far apart, tokens came in bundles."""
    pairs = [pair for per_arm in run.generated.values() for pair in answers(list(per_arm.values()))]
    tokens, events = sum(one.tokens for _, one in pairs), sum(len(one.event_s) for _, one in pairs)
    if tokens and events and any(one.counted == "usage" for _, one in pairs) and events < tokens / 2:
        yield (
            f"answers came in bundles: {share(events / tokens)} as many events as tokens, so that gaps between tokens "
            "are those between bundles"
        )
