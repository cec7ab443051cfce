"""What `specq size` prints: one model in full, or several beside one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType

from specq.core.nouns import counted, listed
from specq.lab.size_memory import Card, Memory
from specq.lab.size_result import Asked, Sized, Sizing
from specq.lab.size_units import bandwidth, billions, gb, gib, kib, per_second, times
from specq.report.tables import Grid, Paragraph

SHOWN = ("fp16", "q8_0", "q4_0")
NOTHING = "-"
UNKNOWN = "unknown"


def shown(found: Sizing) -> Iterator[RenderableType]:
    """One model in full; several as a table, ranked where a card and a context are given."""
    if len(found.models) > 1:
        yield from _several(found)
        return
    (one,) = found.models
    yield from _model(one)
    if one.card is not None:
        yield from (Paragraph(text=line) for line in _card(one, one.card, found.asked))
    yield from _cache(one, found.asked)
    if one.memory is not None:
        yield from _parts(one, one.memory, found.asked)
    yield from _speed(one, found.asked)
    yield from (Paragraph(text=f"note: {note}") for note in one.notes)


def _model(one: Sized) -> Iterator[RenderableType]:
    shape, weights = one.model.shape, one.model.weights
    heads = f", {counted(shape.heads, 'head')}, {counted(shape.kv_heads, 'KV head')}, head size {shape.head_dim}"
    if shape.grouped == "latent attention":
        heads = f", {counted(shape.heads, 'head')}, latent attention of {shape.cache[0].kept}"
    window = "no window stated" if shape.context is None else f"window {shape.context:,} tokens"
    yield Paragraph(
        text=f"{one.model.name}: {shape.model_type}, {counted(shape.layers, 'layer')}{heads if shape.heads else ''}, "
        f"{window}"
    )
    how = {
        "nominal": "nominal",
        "stored": "as stored",
        "given": "as given",
        "counted": "counted from its quantization_config",
    }[weights.origin]
    count = "" if weights.parameters is None else f" for {billions(weights.parameters)} weights"
    text = f"Weights: {gb(weights.bytes)} GB ({gib(weights.bytes)} GiB), {_precision(one)}, {how}{count}"
    if weights.read() < 0.999 * weights.bytes:
        text += f"; a token reads {gb(weights.read())} GB of them"
    yield Paragraph(text=f"{text}.")


def _precision(one: Sized) -> str:
    """Bits a weight where they are real, else their name."""
    weights = one.model.weights
    if weights.origin != "nominal" and weights.bits is not None and weights.precision.endswith("bit"):
        return f"{weights.bits:.2f} bits a weight"
    return weights.precision.removesuffix(" of")


def _cache(one: Sized, asked: Asked) -> Iterator[RenderableType]:
    shape = one.model.shape
    if shape.cache:
        others = ", ".join(f"{kib(one.token.cache[kv])} KiB in {kv}" for kv in _types(asked)[1:])
        text = f"A token adds {one.token.cache[_types(asked)[0]]:,} bytes of cache in {_types(asked)[0]} "
        text += f"({kib(one.token.cache[_types(asked)[0]])} KiB), {others}"
        if shape.grouped:
            text += f"; without {shape.grouped} {kib(one.token.ungrouped)} KiB in fp16"
        yield Paragraph(text=f"{text}.")
        if shape.windows:
            widest = max(shape.windows)
            grows = shape.cache_bytes(widest + 1, "fp16") - shape.cache_bytes(widest, "fp16")
            yield Paragraph(text=f"Beyond {widest:,} tokens a token adds {kib(grows)} KiB in fp16: windows are full.")
    if shape.state_bytes:
        yield Paragraph(
            text=f"{counted(shape.state_layers, 'layer')} keep a constant state of {gib(shape.state_bytes)} GiB a "
            "sequence (float32), whatever its length; it counts with the cache."
        )
    if not shape.cache:
        return
    columns, rows = ["tokens"], [[f"{row.tokens:,}"] for row in one.rows]
    for kv in _types(asked):
        columns += [f"{kv}, GiB", "times"]
        for row, cells in zip(one.rows, rows, strict=True):
            cells += [gib(row.cache[kv]), times(one.times_weights(row, kv))]
    if shape.grouped:
        columns.append("ungrouped")
        for row, cells in zip(one.rows, rows, strict=True):
            cells.append(gib(row.ungrouped))
    yield from _table(columns, rows)
    text = f"times: the cache over the {_named(one)} weights, {gb(one.model.weights.bytes)} GB."
    if shape.grouped:
        text += f" ungrouped: GiB in fp16 without {shape.grouped}."
    yield Paragraph(text=text)


def _named(one: Sized) -> str:
    """The precision before the word weights: "bf16", "4.98-bit"."""
    return one.model.weights.precision.removesuffix(" of")


def _types(asked: Asked) -> tuple[str, ...]:
    return SHOWN if asked.kv in SHOWN else (asked.kv, *SHOWN)


def _parts(one: Sized, memory: Memory, asked: Asked) -> Iterator[RenderableType]:
    parts = [(f"weights, {_named(one)}", memory.weights)]
    parts.append((f"cache, {memory.sequences:,} x {memory.tokens:,} in {asked.kv}", memory.cache))
    if one.draft is not None:
        parts.append((f"draft's weights, {one.draft.weights.precision.removesuffix(' of')}", memory.draft_weights))
        parts.append(("draft's cache", memory.draft_cache))
    together = "together, at least" if one.at_least else "together"
    parts += [(f"margin, {asked.margin_words}", memory.margin), (together, memory.total)]
    if one.card is not None and one.card.free is not None:
        parts.append(("card", one.card.bytes))
        parts.append(("free" if one.card.free >= 0 else "missing", abs(one.card.free)))
    yield from _table(("memory", "GiB", "GB"), [(name, gib(size), gb(size)) for name, size in parts])


def _card(one: Sized, card: Card, asked: Asked) -> Iterator[str]:
    name = f"{gb(card.bytes)} GB ({gib(card.bytes)} GiB)"
    if asked.context is None:
        left = "do not fit"
        if one.at_least and card.room is None:
            left = "fit; how many tokens there is room for is not known"
        elif card.room != 0:
            room = "any number of tokens" if card.room is None else counted(card.room, "token")
            left = f"leave room for {room} of {asked.kv} cache in all"
        yield f"Card of {name}: weights and margin {left}."
        return
    many = f"{counted(asked.concurrency, 'sequence')} of {asked.context:,} tokens"
    assert card.held is not None
    if card.fits is None:
        yield f"Whether {many} {_verb(asked, card)} {name} is not known: {card.unknown}."
    else:
        held = ", ".join(f"{UNKNOWN if count is None else f'{count:,}'} in {kv}" for kv, count in card.held.items())
        alone = " Weights and margin alone leave no room for a token." if card.room == 0 else ""
        yield f"{many} {_verb(asked, card)} {name}.{alone} Sequences of that length that it holds: {held}."
    at = "one sequence" if asked.concurrency == 1 else f"each of {asked.concurrency:,} sequences"
    window = ", its whole window" if card.longest == one.model.shape.context else ""
    if card.longest:
        yield f"Longest {at} may be in {asked.kv}: {counted(card.longest, 'token')}{window}."
    if card.displaced is not None and one.draft is not None:
        yield (
            f"Without the draft {one.draft.name} it holds {card.held_without_draft:,} in {asked.kv}: the draft takes "
            f"the place of {counted(card.displaced, 'sequence')}."
        )


def _verb(asked: Asked, card: Card) -> str:
    if card.fits is not False:
        return "fits in" if asked.concurrency == 1 else "fit in"
    return "does not fit in" if asked.concurrency == 1 else "do not fit in"


def _speed(one: Sized, asked: Asked) -> Iterator[RenderableType]:
    if asked.bandwidth is not None:
        yield from _ceilings(one, asked, asked.bandwidth)
    if one.ridge is not None and asked.bandwidth is not None:
        yield from (Paragraph(text=line) for line in _ridge(one, asked, asked.bandwidth))
    if asked.machine is not None:
        machine = asked.machine
        yield Paragraph(text=f"Machine: {machine.name} ({machine.file.name}, {machine.date}). {machine.source}.")


def _ceilings(one: Sized, asked: Asked, speed: float) -> Iterator[RenderableType]:
    alone = [ceiling for ceiling in one.ceilings if ceiling.sequences == 1]
    several = {ceiling.tokens: ceiling for ceiling in one.ceilings if ceiling.sequences > 1}
    columns = ["context", "read a token, GB", "tokens/s at most"]
    columns += [f"{asked.concurrency:,} at once, each", "together"] if several else []
    rows = []
    for ceiling in alone:
        row = [f"{ceiling.tokens:,}", gb(ceiling.weights_read + ceiling.cache_read), per_second(ceiling.each)]
        if several:
            other = several[ceiling.tokens]
            row += [per_second(other.each), per_second(other.together)]
        rows.append(row)
    yield from _table(columns, rows)
    drafted = "" if one.draft is None else ", the draft left out"
    yield Paragraph(
        text=f"Decoding at most: {bandwidth(speed)} over the weights and {asked.kv} cache that a token reads{drafted}."
    )


def _ridge(one: Sized, asked: Asked, speed: float) -> Iterator[str]:
    ridge = one.ridge
    assert ridge is not None
    used = " in use" if one.model.weights.experts > 1 else ""
    yield (
        f"Ridge: {ridge.flops / 1e12:,.4g} TFLOP/s over {bandwidth(speed)} is {ridge.flop_per_byte:,.0f} FLOP a byte. "
        f"Decoding a batch of B does 2B/b, b = {ridge.bytes_per_weight:.3g} bytes a weight{used}: batch "
        f"{ridge.batch:,} reaches it, caches left out."
    )
    if ridge.cached is not None and ridge.tokens is not None and ridge.cached < 0.95 * ridge.flop_per_byte:
        yield (
            f"With {ridge.tokens:,} tokens in each cache that batch does {ridge.cached:,.3g} FLOP a byte: bandwidth "
            "still binds there, and a larger batch gives more tokens/s as far as the card holds it."
        )
    if ridge.held is None:
        why = "no --card" if one.card is None else "no --context" if asked.context is None else one.card.unknown
        yield f"Largest batch that pays: {ridge.largest:,}, bound by the ridge; what a card holds is not known: {why}."
    elif not ridge.held:
        yield f"The card holds no batch of that context; the ridge is at {ridge.batch:,}."
    else:
        other = f"the card holds {ridge.held:,}" if ridge.binds == "ridge" else f"the ridge is at {ridge.batch:,}"
        yield f"Largest batch that pays: {ridge.largest:,}, bound by the {ridge.binds}; {other}."
    if ridge.prefill is not None and ridge.tokens is not None:
        side = "arithmetic" if ridge.prefill >= ridge.flop_per_byte else "bandwidth"
        yield (
            f"Prefill of {ridge.tokens:,} tokens does 2P/b = {ridge.prefill:,.0f} FLOP a byte: bound by {side}; "
            f"from {ridge.batch:,} tokens on arithmetic binds."
        )


def _several(found: Sizing) -> Iterator[RenderableType]:
    asked = found.asked
    what = "" if asked.context is None else f" at {asked.context:,} tokens, {asked.kv} cache"
    many = "" if asked.concurrency == 1 else f", {asked.concurrency:,} at once"
    if found.ranked and asked.card is not None:
        yield Paragraph(
            text=f"Ranked for {gb(asked.card)} GB ({gib(asked.card)} GiB){what}{many}, margin {asked.margin_words}: "
            "what fits first, then by how many sequences it holds."
        )
    else:
        missing = {"a --card": asked.card, "a --context": asked.context}
        need = listed([name for name, given in missing.items() if given is None])
        yield Paragraph(text=f"{len(found.models)} models{what}{many}; ranking them takes {need}.")
    columns = ["model", *(["fits", "holds", "longest"] if found.ranked else [])]
    columns += ["needs, GiB"] if asked.context is not None else []
    columns += ["weights", "GB", "cache, GiB" if asked.context is not None else "KiB a token"]
    columns += ["tokens/s at most"] if asked.bandwidth is not None else []
    yield from _table(columns, [_one_of_several(one, found) for one in found.models])
    yield Paragraph(text=_legend(found))
    for one in found.models:
        yield from (Paragraph(text=f"note: {one.model.name}: {note}") for note in one.notes)


def _one_of_several(one: Sized, found: Sizing) -> list[str]:
    asked = found.asked
    row, memory = [one.model.name], one.memory
    if found.ranked and one.card is not None:
        row += [_fits(one, one.card), *_limits(one, one.card)]
    least = ">= " if one.at_least else ""
    if asked.context is not None:
        row.append(NOTHING if memory is None else f"{least}{gib(memory.total)}")
    row += [_named(one), gb(one.model.weights.bytes)]
    each = kib(one.token.cache[asked.kv])
    if asked.context is not None:
        each = NOTHING if memory is None else f"{least}{gib(memory.cache / memory.sequences)}"
    row.append(each)
    if asked.bandwidth is not None:
        at = [ceiling for ceiling in one.ceilings if ceiling.sequences == 1 and ceiling.tokens == (asked.context or 0)]
        row.append(per_second(at[0].each) if at else NOTHING)
    return row


def _fits(one: Sized, card: Card) -> str:
    if card.fits is None:
        return UNKNOWN
    return "yes" if card.fits else "no, window" if one.beyond else "no"


def _limits(one: Sized, card: Card) -> tuple[str, str]:
    """Sequences that the card holds, and tokens of the longest."""
    longest = UNKNOWN if one.at_least else "any"
    return (
        UNKNOWN if card.asked_held is None else f"{card.asked_held:,}",
        longest if card.longest is None else f"{card.longest:,}",
    )


def _legend(found: Sizing) -> str:
    asked = found.asked
    parts = []
    if found.ranked:
        many = "one sequence" if asked.concurrency == 1 else f"each of {asked.concurrency:,} sequences"
        parts.append(f"holds: sequences of that length. longest: tokens that {many} may have.")
        if any(one.beyond for one in found.models):
            parts.append("window: the context is beyond the model's own.")
    if asked.context is None:
        parts.append(f"KiB a token: what a token adds to the {asked.kv} cache.")
    else:
        parts.append("needs: weights, caches and margin. cache: of one sequence.")
    if asked.bandwidth is not None:
        parts.append(f"tokens/s at most: of one sequence at {bandwidth(asked.bandwidth)}.")
    return " ".join(parts)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[RenderableType]:
    yield from ("", Grid(columns=tuple(columns), rows=tuple(map(tuple, rows)), right=True), "")
