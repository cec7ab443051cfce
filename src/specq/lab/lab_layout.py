"""The lab's numbers as sections: what terminal, Markdown and page show alike. Text here is not escaped."""

from __future__ import annotations

from collections.abc import Iterator

from specq.lab import halves
from specq.lab.batching import Batch
from specq.lab.context import Context
from specq.lab.halves import Halves
from specq.lab.measured import Deliverable, Lab
from specq.lab.prefix import NO_SIGN
from specq.lab.prompt_cache import Cache, Rate, Users
from specq.lab.rows import Spread
from specq.report.section import Section, table
from specq.report.words import NOTHING, milliseconds, number, ratio, share, size

HALVES, CONTEXT, CACHE, BATCH, COMES = "Two halves", "Context", "Prompt cache", "Batch", "What it comes to"
TAGS, USERS, NOTES, FLAGS = "Hits by tag", "Two users", "Notes", "Read this first"

_WHOSE = {
    "loaded": (),
    "told": ("as the server says of its own",),
    "named": ("of the model named: what the server holds is not known",),
}


def heading(lab: Lab) -> tuple[str, ...]:
    """The question, then what was asked and how, a sentence each."""
    info, drift = lab.info, lab.drift
    settings = info["settings"]
    facts = [
        str(info["question"]),
        f"{lab.requests} requests to {info['target']} ({info['kind']}), {settings['repeats']} repeats of each case in "
        f"shuffled order (seed {settings['seed']}), lengths in {info['unit']}. Medians, and the least and the greatest "
        "beside them.",
    ]
    if drift.e2e_s is not None:
        moved = (
            "" if drift.moved is None else f"; from the first half of the run to the last {100 * drift.moved:+.1f} %"
        )
        facts.append(f"The canary took {_ms(drift.e2e_s)} ms, asked {drift.e2e_s.n} times{moved}.")
    return tuple(facts)


def sections(lab: Lab) -> list[Section]:
    """Every section that has something to say, what it comes to first."""
    found = [Section(title=FLAGS, lines=lab.flags)] if lab.flags else []
    if lab.deliverable is not None:
        found.append(_comes(lab.deliverable))
    for section in (
        *([] if lab.halves is None else [_halves(lab.halves)]),
        *([] if lab.context is None else [_context(lab.context)]),
        *([] if lab.cache is None else _cache(lab.cache)),
        *([] if lab.batch is None else [_batch(lab.batch)]),
    ):
        found.append(section)
    return [*found, Section(title=NOTES, lines=lab.notes)] if lab.notes else found


def _comes(found: Deliverable) -> Section:
    row, own = found.row, found.own
    bound = "at least " if found.beyond else ""
    rows = [
        ("prefill, tokens/s", number(row.prefill_tokens_per_s), f"one request of {row.prompt_tokens:,} prompt tokens"),
        ("decode, tokens/s", number(row.decode_tokens_per_s), "the same request"),
        ("ratio of the two", number(row.ratio), "the same request"),
        ("first token's share", bound + share(found.ttft_share), f"{_own(found)} ({own.origin})"),
        ("time to first token, ms", bound + milliseconds(found.ttft_s), _own(found)),
        ("after the first token, ms", milliseconds(found.decode_s), _own(found)),
    ]
    if found.cold_ttft_s is not None and found.warm_ttft_s is not None and found.cache_tokens is not None:
        told = f"{milliseconds(found.cold_ttft_s)} to {milliseconds(found.warm_ttft_s)}"
        rows.append(("prompt read anew to cached, ms", told, f"{found.cache_tokens:,.0f} prompt tokens, first token"))
    if own.cached_share is not None:
        rows.append(("of your prompts from a cache", share(own.cached_share), "token-weighted"))
    if found.size is not None:
        if found.size.cache_bytes is not None:
            what = f"{found.size.tokens:,} tokens in {found.size.cache_type}"
            rows.append(("cache of one request", size(found.size.cache_bytes), what))
        bits = [] if found.size.bits is None else [f"{found.size.bits:.3g} bits a weight"]
        rows.append(("weights", size(found.size.weight_bytes), ", ".join([*bits, *_WHOSE[found.size.origin]])))
    lines = [found.paragraph]
    if found.beyond:
        lines += ["Your prompts are longer than what was measured: seconds beyond it are a lower bound."]
    return table(COMES, ("number", "value", "of"), rows, lines)


def _own(found: Deliverable) -> str:
    return f"{found.own.prompt_tokens:,.0f} prompt and {found.own.output_tokens:,.0f} output tokens"


def _halves(found: Halves) -> Section:
    rows: list[tuple[str, ...]] = [
        (
            f"{cell.prompt_tokens:,.0f}",
            _spread(cell.prefill_tokens_per_s),
            _spread(cell.decode_tokens_per_s),
            _spread(cell.ratio),
            _ms(cell.ttft_s),
            NOTHING if cell.off_line is None else f"{100 * cell.off_line:+.1f} %",
            _spread(cell.told_prefill_tokens_per_s),
        )
        for cell in found.cells
    ]
    columns: tuple[str, ...] = (
        "prompt tokens",
        "prefill, tokens/s",
        "decode, tokens/s",
        "ratio",
        "first token, ms",
        "off the model",
    )
    columns += ("prefill by the server's clock",)
    if not any(cell.told_prefill_tokens_per_s for cell in found.cells):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    lines = ["Prompts are read cold, and no two begin alike. Each ratio is of one request's two rates."]
    return table(HALVES, columns, rows, [*lines, *_model(found)])


def _model(found: Halves) -> Iterator[str]:
    model, checked, bend = found.model, found.checked, found.bend
    if model is None:
        yield f"No model: fewer than {halves.FEWEST_FITTED} lengths."
        return
    yield (
        f"Seconds of a request = {model.base_s:.4g} + {model.prompt_token_s:.4g} x prompt tokens + "
        f"{model.output_token_s:.4g} x output tokens, fitted over {model.lengths} lengths."
    )
    if checked is not None:
        said = checked.prediction
        yield (
            f"Predicted for {said.prompt_tokens:,.0f} prompt and {said.output_tokens} output tokens, a length not "
            f"asked before, at {said.utc}: {milliseconds(checked.predicted_s)} ms. Measured after it: "
            f"{_ms(checked.e2e_s)} ms, {100 * checked.error:+.1f} %."
        )
    if bend is not None:
        told = "bends away from a line" if bend.bent else "is a line as far as can be told"
        yield (
            f"The time to the first token {told}: its quadratic part is {100 * bend.share:+.1f} % of it at "
            f"{bend.prompt_tokens:,.0f} tokens, where repeats lie {100 * bend.noise:.1f} % apart and what lengths "
            f"scatter can feign {100 * bend.within:.1f} %."
        )


def _context(found: Context) -> Section:
    rows = [
        (
            f"{depth.prompt_tokens:,.0f}",
            _ms(depth.ttft_s),
            NOTHING if depth.ttft_share is None else _shares(depth.ttft_share),
            NOTHING if depth.tpot_s is None else _ms(depth.tpot_s),
            _ms(depth.e2e_s),
            NOTHING if depth.whole_s is None else _ms(depth.whole_s),
            ratio(depth.whole_over_streamed),
        )
        for depth in found.depths
    ]
    columns: tuple[str, ...] = (
        "prompt tokens",
        "first token, ms",
        "share of the total",
        "a further token, ms",
        "total streamed, ms",
    )
    columns += ("total in one piece, ms", "one over the other")
    lines = []
    if found.agree is not None:
        told = "agree" if found.agree else "do not agree"
        lines.append(
            f"Totals in one piece over streamed: {ratio(found.whole_over_streamed)} in the middle; they {told}."
        )
    if found.slower is not None and found.per_1000_s is not None:
        told = "" if found.slows else ", no more than repeats lie apart or lengths scatter"
        lines.append(
            f"A further token takes {found.slower:.2f} times as long after the longest context as after the shortest"
            f"{told}; 1,000 tokens of context add {milliseconds(found.per_1000_s)} ms to it."
        )
    return table(CONTEXT, columns, rows, lines)


def _cache(found: Cache) -> list[Section]:
    rows = [
        (
            case.name,
            f"{case.prompt_tokens:,.0f}",
            _ms(case.ttft_s),
            share(case.rate.share),
            share(case.possible),
            NOTHING if case.saved is None else share(case.saved),
        )
        for case in found.cases
    ]
    columns: tuple[str, ...] = (
        "second request",
        "prompt tokens",
        "first token, ms",
        "of it cached",
        "at most",
        "of a cold first token saved",
    )
    lines = [
        "Each trial begins with a stamp that no other has, whose tokens count. Cold: a new prompt. Warm: the same "
        "again. Bottom, at 12, top: one word changed there. Stamp: a newer time on top of the same.",
        f"Hit rate over all of these, weighted by tokens: {share(found.all.share)}; {NO_SIGN}.",
    ]
    sections = [table(CACHE, columns, rows, lines)]
    if found.users is not None:
        sections.append(_users(found.users))
    if found.own is not None:
        rated = {"all": found.own, **found.tags}
        told = [(tag, f"{one.requests:,}", f"{one.prompt_tokens:,}", share(one.share)) for tag, one in rated.items()]
        sections.append(table(TAGS, ("your own prompts", "requests", "tokens", "from the cache"), told))
    return sections


def _users(found: Users) -> Section:
    def row(name: str, rate: Rate, ttft: Spread) -> tuple[str, ...]:
        return (name, f"{rate.requests:,}", share(rate.share), _ms(ttft))

    rows = [
        row("one after the other", found.alone, found.alone_ttft_s),
        row("taking turns", found.turns, found.turns_ttft_s),
    ]
    told = {True: "Two users who take turns throw each other's prompt out.", False: "Both keep their prompts."}
    lines = [told[found.thrown_out]] if found.thrown_out is not None else []
    return table(USERS, ("order", "further questions", "of them cached", "first token, ms"), rows, lines)


def _batch(found: Batch) -> Section:
    rows = [
        (
            f"{point.batch}",
            _spread(point.tokens_per_s),
            NOTHING if point.decode_tokens_per_s is None else number(point.decode_tokens_per_s),
            ratio(point.step),
            _ms(point.tpot_s),
            _ms(point.ttft_s),
            _ms(point.e2e_s),
            NOTHING if point.intensity is None else number(point.intensity),
        )
        for point in found.points
    ]
    columns: tuple[str, ...] = (
        "batch",
        "tokens/s of all",
        "decoding alone",
        "step over that of 1",
        "a token of each, ms",
    )
    columns += ("first token, ms", "request, ms", "FLOP a byte")
    last = found.points[-1].batch
    until = f"the largest that was tried ({last})" if found.free_until == last else f"a batch of {found.free_until}"
    lines = [
        f"Decoding is free up to {until}: a step there takes at most {100 * found.slack:.0f} % more than that of one "
        "row. Beyond it each request pays for the others. Steps and decoding alone are of the time in which all rows "
        "decode; a token of each has also the wait while another's prompt is read."
    ]
    return table(BATCH, columns, rows, [*lines, *_ridge(found)])


def _ridge(found: Batch) -> Iterator[str]:
    machine = found.machine
    if machine is None:
        yield "No ridge: give --machine NAME, for peak FLOP/s and bandwidth are not known here."
        return
    yield (
        f"The ridge is {number(machine.flop_per_byte)} FLOP a byte ({number(machine.flops / 1e9)} GFLOP/s over "
        f"{number(machine.bandwidth / 1e9)} GB/s, {machine.origin}). A batch of B does 2B/b FLOP a byte at b bytes a "
        "weight"
        + (
            "."
            if machine.batch is None
            else f": with b = {machine.bytes_per_weight:.3g} it is reached at a batch of {number(machine.batch)}."
        )
    )


def _spread(value: Spread | None) -> str:
    if value is None:
        return NOTHING
    return f"{number(value.median)} ({number(value.low)} to {number(value.high)})"


def _ms(value: Spread) -> str:
    return f"{milliseconds(value.median)} ({milliseconds(value.low)} to {milliseconds(value.high)})"


def _shares(value: Spread) -> str:
    return f"{share(value.median)} ({share(value.low)} to {share(value.high)})"
