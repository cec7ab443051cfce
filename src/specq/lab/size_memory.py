"""Weights, caches and a margin in the memory of a card: what they take, how many sequences fit, how long one may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specq.lab.size_shape import KV_TYPES, Shape
from specq.lab.size_weights import Weights

# No context is longer than this; it bounds the search where a model states no window.
_LONGEST = 1 << 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model's shape and its weights, with the name that the user wrote."""

    name: str
    shape: Shape
    weights: Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of so many sequences of so many tokens; `cache` includes constant states."""

    tokens: int
    sequences: int
    weights: int
    cache: int
    draft_weights: int
    draft_cache: int
    margin: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.draft_weights + self.draft_cache + self.margin


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a card of so many bytes holds.

    Without a context `fits`, `free` and `held` are None: a cache of unknown length fits nowhere. `free` is negative
    where memory is short. `held` is by cache type. `longest` is in tokens, of all sequences at once, up to the window,
    and `room` is how many tokens of cache there is place for in all; both are None where memory sets no limit.

    `unknown` says why what is None is not known, "" where nothing but a context is missing. Where a sequence takes more
    than is counted, what does not fit even so is said not to fit, and everything else is None. Beyond the model's
    window no sequence is held, with the draft or without, so that the draft displaces nothing that is known.
    """

    bytes: int
    fits: bool | None
    free: int | None
    held: dict[str, int | None] | None
    held_without_draft: int | None
    longest: int | None
    room: int | None
    unknown: str = ""

    @property
    def displaced(self) -> int | None:
        """Sequences that the draft takes the place of; None without a draft or a context, or where not known."""
        held = self.asked_held
        return None if self.held_without_draft is None or held is None else self.held_without_draft - held

    @property
    def asked_held(self) -> int | None:
        """Sequences held in the cache type that was asked for, which stands first; None where not known."""
        return next(iter(self.held.values())) if self.held else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A target, perhaps with a draft, in one cache type and under a margin: a share of all that is held, and bytes."""

    target: Model
    draft: Model | None
    kv: str
    margin: tuple[float, int]

    def memory(self, tokens: int, sequences: int) -> Memory:
        """What so many sequences of so many tokens take."""
        weights, cache = self.target.weights.bytes, sequences * self.target.shape.sequence_bytes(tokens, self.kv)
        draft_weights = self.draft.weights.bytes if self.draft else 0
        draft_cache = sequences * self.draft.shape.sequence_bytes(tokens, self.kv) if self.draft else 0
        share, fixed = self.margin
        held = weights + cache + draft_weights + draft_cache
        return Memory(
            tokens=tokens,
            sequences=sequences,
            weights=weights,
            cache=cache,
            draft_weights=draft_weights,
            draft_cache=draft_cache,
            margin=round(share * held) + fixed,
        )

    def held(self, tokens: int, card: int) -> int:
        """The most sequences of so many tokens that the card holds."""
        return _most(lambda count: self.memory(tokens, count).total <= card, _LONGEST)

    def longest(self, sequences: int, card: int, limit: int | None) -> int | None:
        """The most tokens that each of so many sequences may have on the card, up to `limit`.

        0 where not even the weights fit; None without a limit where caches do not grow.
        """
        found = _most(lambda tokens: self.memory(tokens, sequences).total <= card, limit or _LONGEST)
        return None if limit is None and found == _LONGEST else found

    @property
    def uncounted(self) -> str:
        """Whose constant state has no known size, so that `memory` is the least it takes; "" where all is counted."""
        target = "" if self.target.shape.state_known else "the constant state"
        draft = "" if self.draft is None or self.draft.shape.state_known else "the draft's constant state"
        named = " and ".join(one for one in (target, draft) if one)
        return f"the size of {named} is not known here" if named else ""

    def without_draft(self) -> Load:
        """The target alone."""
        return Load(target=self.target, draft=None, kv=self.kv, margin=self.margin)

    def in_cache(self, kv: str) -> Load:
        """The same with another cache type."""
        return Load(target=self.target, draft=self.draft, kv=kv, margin=self.margin)


def card(load: Load, size: int, *, context: int | None, sequences: int) -> Card:
    """What a card of so many bytes holds of a load."""
    window = load.target.shape.context
    within = window is None or context is None or context <= window
    uncounted, without = load.uncounted, load.without_draft()

    def least(counted: int | None) -> int | None:
        """Nothing is certain where not all is counted, and 0 is where not even that fits."""
        return None if uncounted and counted != 0 else counted

    longest = least(load.longest(sequences, size, window))
    room = least(load.longest(1, size, None))
    unknown = [f"{uncounted}: neither is what a sequence takes"] if uncounted else []
    if context is None:
        return Card(
            bytes=size, fits=None, free=None, held=None, held_without_draft=None, longest=longest, room=room,
            unknown="; ".join(unknown),
        )  # fmt: skip
    free = size - load.memory(context, sequences).total
    types = (load.kv, *(one for one in ("fp16", "q8_0", "q4_0") if one != load.kv))
    assert set(types) <= set(KV_TYPES)
    if load.draft is not None and not within:
        unknown.append(f"{context:,} tokens are beyond the window of {window:,}: a draft takes the place of none")
    return Card(
        bytes=size,
        fits=False if not within or free < 0 else None if uncounted else True,
        free=None if uncounted else free,
        held={kv: least(load.in_cache(kv).held(context, size)) if within else 0 for kv in types},
        held_without_draft=without.held(context, size) if load.draft and within and not without.uncounted else None,
        longest=longest,
        room=room,
        unknown="; ".join(unknown),
    )


def _most(holds: Callable[[int], bool], limit: int) -> int:
    """The largest count up to `limit` for which `holds` is true, which it is up to there; 0 where it never is."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
