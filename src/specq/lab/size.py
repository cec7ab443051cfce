"""What models take on a machine, from config.json or a file's header alone: cache, memory, ceilings, batch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from specq.core.errors import ConfigError, ModelError, nearest
from specq.lab import (
    dated,
    machines,
    size_gguf,
    size_memory,
    size_shape,
    size_speed,
    size_stored,
    size_units,
    size_weights,
)
from specq.lab.size_config import text_part
from specq.lab.size_find import Found, find
from specq.lab.size_memory import Card, Load, Model
from specq.lab.size_result import Asked, Row, Sized, Sizing
from specq.lab.size_shape import KV_ALIASES, KV_TYPES
from specq.models.layers import BadSize

TABLE = (8_192, 32_768, 131_072)
MARGIN = "10%"
"""What is kept free by default, of all that is held: activations, the engine itself and what it cannot place."""


def size_models(
    models: str | Sequence[str],
    *,
    context: str | int | None = None,
    concurrency: int = 1,
    kv: str = "fp16",
    weights: str | None = None,
    weights_bytes: str | float | None = None,
    parameters: str | float | None = None,
    draft: str | None = None,
    card: str | float | None = None,
    machine: Path | str | None = None,
    bandwidth: str | float | None = None,
    flops: str | float | None = None,
    margin: str | float = MARGIN,
) -> Sizing:
    """What one or several models take, without loading or downloading weights.

    Args:
        models: folders with a config.json (which is enough), config files, GGUF files, built-ins, hub ids that are
            here; several are ranked for the card.
        context: tokens of a sequence; "32k" is 32,768.
        concurrency: sequences at once.
        kv: type of the cache: fp16, fp8, q8_0 or q4_0.
        weights: nominal precision, as "bf16" or "w4", whatever is stored.
        weights_bytes: real bytes, as "2.0GB" or a number; of one model.
        parameters: how many weights there are, as "3.2e9"; of one model.
        draft: a draft model that is held beside each, with a cache of its own.
        card: memory, as "24GB" (decimal) or "24GiB".
        machine: a name or file of configs/machines, which gives card, bandwidth and FLOP/s.
        bandwidth: bytes a second, as "380GB/s".
        flops: peak FLOP/s, as "989T".
        margin: kept free: a share of what is held, as "10%", or bytes.

    Raises:
        ConfigError: a value is impossible, or a context is beyond the window of a single model.
        ModelError: a model is not here, or its config cannot be read or lacks a size.
    """
    names = [models] if isinstance(models, str) else list(models)
    if not names:
        raise ConfigError("no model; type: specq size FOLDER, a folder with a config.json is enough")
    for what, value in (("--weights-bytes", weights_bytes), ("--parameters", parameters)):
        if value is not None and len(names) > 1:
            raise ConfigError(f"{what} is of one model, and {len(names)} are given: size them one by one")
    if weights is not None and weights_bytes is not None:
        raise ConfigError("--weights and --weights-bytes exclude each other: nominal bits or real bytes; give one")
    asked = _asked(context, concurrency, kv, card, machine, bandwidth, flops, margin)
    precision = None if weights is None else size_weights.check_precision(weights)
    given = None if weights_bytes is None else size_units.size("--weights-bytes", weights_bytes)
    count = None if parameters is None else size_units.weights("--parameters", parameters)
    beside = None if draft is None else _load(draft, None, None, None)
    sized = [_sized(_load(name, precision, given, count), beside, asked, alone=len(names) == 1) for name in names]
    return Sizing(asked=asked, models=tuple(sorted(sized, key=_rank) if asked.card and asked.context else sized))


def _asked(
    context: str | int | None,
    concurrency: int,
    kv: str,
    card: str | float | None,
    machine: Path | str | None,
    bandwidth: str | float | None,
    flops: str | float | None,
    margin: str | float,
) -> Asked:
    known = KV_ALIASES.get(kv, kv)
    if known not in KV_TYPES:
        allowed = [*KV_TYPES, *KV_ALIASES]
        raise ConfigError(f'--kv "{kv}"{nearest(kv, allowed) or ";"} allowed: {", ".join(allowed)}')
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= 1_000_000:
        raise ConfigError(f"--concurrency {concurrency}: allowed is a whole number of sequences from 1 to 1,000,000")
    on = None if machine is None else machines.load(machine)
    memory = None if card is None else size_units.size("--card", card)
    speed = None if bandwidth is None else size_units.rate("--bandwidth", bandwidth)
    peak = None if flops is None else size_units.flops("--flops", flops)
    if on is not None:
        memory, speed, peak = memory or on.memory, speed or on.bandwidth, peak or on.peak
    if peak is not None and speed is None:
        raise ConfigError("--flops alone tells nothing: the ridge is FLOP/s over bandwidth; give --bandwidth too")
    return Asked(
        context=None if context is None else size_units.tokens("--context", context),
        concurrency=concurrency,
        kv=known,
        card=memory,
        bandwidth=speed,
        flops=peak,
        margin=size_units.margin("--margin", margin),
        machine=on,
    )


def _load(name: str, precision: str | None, given: int | None, parameters: int | None) -> tuple[Model, tuple[str, ...]]:
    try:
        return _read(name, precision, given, parameters)
    except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
        # Dozens of keys are read, most by one family alone; a wrong kind of value shows where it is computed with.
        raise ModelError(
            f"{name}: a key of its config.json or header holds what it cannot ({error}): get the file that belongs to "
            "the model"
        ) from error


def _read(name: str, precision: str | None, given: int | None, parameters: int | None) -> tuple[Model, tuple[str, ...]]:
    found = find(name)
    try:
        return _of(found, name, precision, given, parameters)
    except BadSize as error:
        raise ModelError(f"{found.place}: {error.said}") from error


def _of(
    found: Found, name: str, precision: str | None, given: int | None, parameters: int | None
) -> tuple[Model, tuple[str, ...]]:
    config, inside = text_part(found.config)
    shape = size_shape.from_config(name, found.place, config)
    weights, notes = size_stored.measure(found, config, asked=precision, given=given, parameters=parameters)
    if inside and not weights.aside:
        notes.append("a model that also sees or hears: its other parts are not counted; --weights-bytes N counts all")
    if weights.experts > 1:
        notes.append(
            f"mixture of experts: all are held, a token reads {weights.active} of {weights.experts} in each such "
            "layer, a batch those that one of its rows picks (evenly spread)"
        )
    if found.gguf is not None and found.gguf.parts > 1:
        notes.append(f"a GGUF file in {found.gguf.parts} parts, all counted")
    notes += size_gguf.notes(found.gguf) if found.gguf is not None else []
    return Model(name=name, shape=shape, weights=weights), (*shape.notes, *notes)


def _sized(
    loaded: tuple[Model, tuple[str, ...]], beside: tuple[Model, tuple[str, ...]] | None, asked: Asked, *, alone: bool
) -> Sized:
    model, notes = loaded
    draft = None if beside is None else beside[0]
    window = model.shape.context
    beyond = asked.context is not None and window is not None and asked.context > window
    if beyond and alone:
        raise ConfigError(
            f"--context {asked.context:,} is beyond the window of {model.name}, {window:,} tokens "
            f"(max_position_embeddings): give at most {window}"
        )
    load = Load(target=model, draft=draft, kv=asked.kv, margin=asked.margin)
    held = (
        None
        if asked.card is None
        else size_memory.card(load, asked.card, context=asked.context, sequences=asked.concurrency)
    )
    contexts = _contexts(window, None if beyond else asked.context)
    speed = (
        ()
        if asked.bandwidth is None
        else size_speed.ceilings(model, asked.kv, asked.bandwidth, (0, *contexts), asked.concurrency)
    )
    ridge = None
    if asked.bandwidth is not None and asked.flops is not None:
        ridge = size_speed.ridge(model, asked.kv, asked.bandwidth, asked.flops, None if beyond else asked.context, held)
    more = [*notes, *_more_notes(model, draft, asked, held)]
    if beside is not None:
        more += [f"draft {beside[0].name}: {note}" for note in beside[1]]
    return Sized(
        model=model,
        draft=draft,
        beyond=beyond,
        rows=tuple(_row(model, tokens) for tokens in contexts),
        token=_row(model, 1),
        memory=None if asked.context is None or beyond else load.memory(asked.context, asked.concurrency),
        card=held,
        ceilings=speed,
        ridge=ridge,
        notes=tuple(dict.fromkeys(more)),
    )


def _contexts(window: int | None, context: int | None) -> tuple[int, ...]:
    """The rows of the table: the usual lengths within the window, the window itself, and what was asked for."""
    rows = {tokens for tokens in TABLE if window is None or tokens <= window}
    if len(rows) < 2 and window is not None:
        rows |= {window // 4, window // 2} - {0}
    return tuple(sorted(rows | {one for one in (window, context) if one}))


def _row(model: Model, tokens: int) -> Row:
    shape = model.shape
    types = tuple(KV_TYPES)
    return Row(
        tokens=tokens,
        cache={kv: shape.sequence_bytes(tokens, kv) if tokens > 1 else shape.cache_bytes(tokens, kv) for kv in types},
        ungrouped=shape.cache_bytes(tokens, "fp16", ungrouped=True),
    )


def _more_notes(model: Model, draft: Model | None, asked: Asked, held: Card | None) -> list[str]:
    notes = []
    for kv in dict.fromkeys((asked.kv, "q8_0")):
        if row := model.shape.unblocked(kv):
            notes.append(
                f"{kv} packs {KV_TYPES[kv].values} values, and a row of {row} is no multiple: llama.cpp refuses such a "
                "cache; its column is what the blocks would take"
            )
    if draft is not None:
        window = draft.shape.context
        if asked.context is not None and window is not None and asked.context > window:
            notes.append(f"the draft's window is {window:,} tokens: it drafts nothing beyond")
        notes.append("whether the draft speaks the same tokens is not asked here: specq drafts does")
    if held is not None and held.unknown:
        notes.append(held.unknown)
    if asked.card is not None and asked.context is None:
        notes.append("no --context: a cache of unknown length is not said to fit anywhere")
    if asked.machine is not None and (ahead := dated.ahead(asked.machine.file, asked.machine.date, date.today())):
        notes.append(ahead)
    if asked.machine is not None and asked.machine.peak is None and asked.flops is None:
        notes.append(f"{asked.machine.file} states no FLOP/s of 16-bit floats: no ridge; --flops gives them")
    return notes


def _rank(one: Sized) -> tuple[int, int, int]:
    """Those that fit first, then those that may, then by how many sequences the card holds, then the lighter."""
    fits, held = (False, 0) if one.card is None else (one.card.fits, one.card.asked_held or 0)
    return (0 if fits else 1 if fits is None else 2, -held, one.model.weights.bytes)
