"""What a prefix cache could hold of real prompts, what breaks it first, and what another order of their parts gains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from specq.lab.prefix_points import Points
    from specq.workloads.describe import Workload
    from specq.workloads.request import Request

NO_SIGN = "a hit says that a prompt was seen before, and nothing of how good its answer is"
BOUND = "as if nothing were ever thrown out: a cache that is too small holds less"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Tokens that a cache has, of all prompt tokens of some prompts."""

    cached: int
    tokens: int
    prompts: int

    @property
    def share(self) -> float:
        """The token-weighted hit rate; 0 without any token."""
        return self.cached / self.tokens if self.tokens else 0.0

    def to_json(self) -> dict[str, Any]:
        """The counts and their share."""
        return {**asdict(self), "share": self.share}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Hit rates of one cache over all prompts, by tag, and over prompts without a tag (None: there are none)."""

    all: Rate
    by_tag: dict[str, Rate]
    untagged: Rate | None

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "all": self.all.to_json(),
            "by_tag": {tag: rate.to_json() for tag, rate in self.by_tag.items()},
            "untagged": None if self.untagged is None else self.untagged.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefixes:
    """What prompts share.

    `rates` are by cache: "tokens" (any earlier prompt, token by token), "blocks" (whole blocks alone) and, where slots
    were asked for, "slots". `ordered` are the same with the parts of every prompt in order of stability. `taken_over`
    counts the prompts that found another's in their slot. `stated` is what the log itself says was cached.
    """

    workload: Workload
    unit: str
    by_lines: bool
    block: int
    slots: int | None
    rates: dict[str, Rates]
    ordered: dict[str, Rates]
    taken_over: int | None
    taken_over_ordered: int | None
    points: Points
    stated: Rate | None
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything but the prompts as JSON values."""
        return {
            "workload": self.workload.to_json(),
            "unit": self.unit,
            "by_lines": self.by_lines,
            "block": self.block,
            "slots": self.slots,
            "rates": {name: rates.to_json() for name, rates in self.rates.items()},
            "ordered": {name: rates.to_json() for name, rates in self.ordered.items()},
            "taken_over": self.taken_over,
            "taken_over_ordered": self.taken_over_ordered,
            "points": [asdict(point) for point in self.points.found],
            "rest": self.points.rest,
            "stated": None if self.stated is None else self.stated.to_json(),
            "notes": list(self.notes),
        }


def find_prefixes(
    log: Path | str,
    format: str = "auto",
    *,
    turns: str = "first",
    tag: str | None = None,
    limit: int | None = None,
    tokenizer: str | None = None,
    unit: str = "words",
    block: int = 16,
    slots: int | None = None,
    keep_personal_data: bool = False,
    phone_regions: Sequence[str] = ("US",),
    on_progress: Callable[[str], None] | None = None,
) -> Prefixes:
    """What a prefix cache could hold of the prompts of a log, in its order, and the first volatile token of each group.

    Lengths are tokens of the model `tokenizer`; without one they are of `unit`, words or characters, which are no
    tokens. `block` is the tokens of a block of a cache that keeps whole blocks; `slots` adds a server that keeps the
    last prompt of each of so many slots. The rest is as for read_workload.

    Raises:
        PromptError, ConfigError, ModelError: as read_workload; a trace has no prompts; a unit, block or number of
            slots that is not allowed.
    """
    from specq.core.errors import ConfigError, PromptError
    from specq.core.nouns import counted
    from specq.lab.prefix_tokens import Encoding
    from specq.workloads import read_workload

    tell = on_progress or (lambda _: None)
    if block < 1 or (slots is not None and slots < 1):
        raise ConfigError(f"block {block}, slots {slots}: allowed is 1 or more of each")
    encoding = Encoding(tokenizer, unit)
    workload = read_workload(
        log,
        format,
        turns=turns,
        tag=tag,
        limit=limit,
        keep_personal_data=keep_personal_data,
        phone_regions=phone_regions,
    )
    requests = [one for one in workload.requests if one.messages or one.prompt]
    if not requests:
        raise PromptError(f"{log}: a trace of times and lengths has no prompts; give a log that holds what was asked")
    tell(f"read {counted(len(requests), 'prompt')}")
    return _found(workload, requests, encoding, block, slots, tell)


def _found(
    workload: Workload,
    requests: Sequence[Request],
    encoding: Any,
    block: int,
    slots: int | None,
    tell: Callable[[str], None],
) -> Prefixes:
    from specq.core.nouns import counted
    from specq.lab import prefix_cache, prefix_parts, prefix_points, prefix_tokens

    parts = prefix_tokens.parts_of(requests, encoding)
    tokens = prefix_parts.encode(parts.texts, encoding.ids_of_all)
    prompts, by_lines = prefix_tokens.prompts_of(requests, parts, tokens, encoding)
    tell(f"encoded {counted(sum(map(len, prompts)) // prefix_cache.BYTES, encoding.unit.split()[0].rstrip('s'))}")
    found = prefix_cache.sort(prompts)
    rates, taken_over = _rates(requests, prompts, found, block, slots)
    points = prefix_points.points(found, requests, encoding.text)
    tell("simulated the order as it is")
    moved = prefix_parts.by_stability(parts)
    del parts, tokens
    pieces = prefix_parts.encode(moved.texts, encoding.ids_of_all)
    ordered = [pieces.of(numbers) for numbers in moved.prompts]
    rates_ordered, over_ordered = _rates(requests, ordered, prefix_cache.sort(ordered), block, slots)
    tell("simulated the order by stability")
    return Prefixes(
        workload=workload,
        unit=encoding.unit,
        by_lines=by_lines,
        block=block,
        slots=slots,
        rates=rates,
        ordered=rates_ordered,
        taken_over=taken_over,
        taken_over_ordered=over_ordered,
        points=points,
        stated=_stated(workload.requests),
        notes=(*_of_rendering(encoding.notes, len(requests)), *workload.notes),
    )


def _rates(
    requests: Sequence[Request], prompts: Sequence[bytes], found: Any, block: int, slots: int | None
) -> tuple[dict[str, Rates], int | None]:
    from specq.lab import prefix_cache

    overlap = prefix_cache.shared(found)
    cached = {
        "tokens": prefix_cache.reusable(overlap, found.lengths),
        "blocks": prefix_cache.reusable(overlap, found.lengths, block),
    }
    taken_over = None
    if slots is not None:
        kept = prefix_cache.slots(prompts, slots)
        cached["slots"], taken_over = kept.reused, kept.taken_over
    return {name: _by_tag(requests, one, found.lengths) for name, one in cached.items()}, taken_over


def _by_tag(requests: Sequence[Request], cached: np.ndarray, lengths: np.ndarray) -> Rates:
    """The rates of all prompts and of each tag; cached and lengths are tokens of prompts [n]."""
    places: dict[str, list[int]] = {}
    for place, one in enumerate(requests):
        for tag in dict.fromkeys(one.tags) or ("",):
            places.setdefault(tag, []).append(place)
    rates = {
        tag: Rate(cached=int(cached[held].sum()), tokens=int(lengths[held].sum()), prompts=len(held))
        for tag, held in sorted(places.items(), key=lambda one: -int(lengths[one[1]].sum()))
    }
    untagged = rates.pop("", None)
    every = Rate(cached=int(cached.sum()), tokens=int(lengths.sum()), prompts=len(requests))
    return Rates(all=every, by_tag=rates, untagged=untagged)


def _stated(requests: Sequence[Request]) -> Rate | None:
    """What the log says of its own cache: requests that tell both counts."""
    told = [
        (one.cached_tokens, one.prompt_tokens)
        for one in requests
        if one.cached_tokens is not None and one.prompt_tokens is not None
    ]
    if not told:
        return None
    return Rate(cached=sum(one[0] for one in told), tokens=sum(one[1] for one in told), prompts=len(told))


def _of_rendering(notes: dict[str, int], prompts: int) -> list[str]:
    return [note + ("" if count >= prompts else f" ({count} of {prompts:,} prompts)") for note, count in notes.items()]
