"""What an evaluation set is: sizes, duplicates, clusters, tags, which metrics fit, and what it can prove."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specq.core.nouns import counted
from specq.evals import metrics, texts
from specq.evals.items import Item
from specq.evals.metric import Metric
from specq.stats.floor import against_floor, one_sided
from specq.stats.power import items_needed, provable_margin

# A margin that needs a word: half of all answers may go wrong.
LARGE_MARGIN = 0.5
FLIP_RATES = (0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Prompt lengths over the items, in characters or tokens."""

    minimum: int
    median: float
    p95: float
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Provable:
    """What a set can prove where the lever flips a share `flip_rate` of its items.

    `margin` is the least "at most so much worse" that is proved with a power of 80 % by a lever that in truth costs
    nothing, as a share: with independent items, and (`margin_clustered`) where all items of a cluster flip together.
    1 means that nothing can be proved. `items_needed` is the count for the margin that was asked for, None without
    one.
    """

    flip_rate: float
    margin: float
    margin_clustered: float
    items_needed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """An evaluation set in numbers. Groups of duplicates hold ids.

    `duplicates` have the very same prompt, `near_duplicates` the same but for case, punctuation and blanks, and
    `contradictions` the same prompt with different references. `fits` lists the built-in metrics that fit all items,
    `partly` how many items the others fit, where they fit any; `misfits` says of these why they do not fit the rest:
    the items' ids by the reason. `proposed` is the metric to start with, None where none fits all items.
    """

    file: str
    items: int
    characters: Lengths
    tokens: Lengths | None
    duplicates: tuple[tuple[str, ...], ...]
    near_duplicates: tuple[tuple[str, ...], ...]
    contradictions: tuple[tuple[str, ...], ...]
    clusters: int
    largest_cluster: int
    tags: dict[str, int]
    untagged: int
    critical: int
    references: dict[str, int]
    fits: tuple[str, ...]
    partly: dict[str, int]
    misfits: dict[str, dict[str, tuple[str, ...]]]
    proposed: metrics.Proposal | None
    metric: str | None
    binary: bool | None
    margin: float | None
    provable: tuple[Provable, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return asdict(self)


def describe(
    path: Path,
    items: Sequence[Item],
    *,
    metric: Metric | None = None,
    margin: float | None = None,
    count_tokens: Callable[[Item], int] | None = None,
) -> Description:
    """Describe a set that was read from `path`. The metric, where there is one, must fit it.

    `margin` is the floor that it shall decide, as a share; `count_tokens` gives the tokens of an item's prompt.
    """
    duplicates = _groups(items, lambda item: json.dumps(item.asked))
    same = set(duplicates)
    clusters = Counter(item.cluster for item in items)
    wrong = {name: metrics.misfits(metrics.make(name), items) for name in metrics.NAMES}
    fits = tuple(name for name, found in wrong.items() if not found)
    partly = {name: found for name, found in wrong.items() if 0 < len(found) < len(items)}
    binary = None if metric is None else metric.binary
    provable = () if binary is False else _provable(len(items), len(clusters), margin)
    return Description(
        file=str(path),
        items=len(items),
        characters=_lengths([len(_asked(item)) for item in items]),
        tokens=None if count_tokens is None else _lengths([count_tokens(item) for item in items]),
        duplicates=duplicates,
        near_duplicates=tuple(group for group in _groups(items, _bare) if group not in same),
        contradictions=tuple(group for group in duplicates if _differ(items, group)),
        clusters=len(clusters),
        largest_cluster=max(clusters.values()),
        tags=dict(sorted(Counter(tag for item in items for tag in dict.fromkeys(item.tags)).items())),
        untagged=sum(not item.tags for item in items),
        critical=sum(item.critical for item in items),
        references=dict(Counter(item.kind for item in items)),
        fits=fits,
        partly={name: len(items) - len(found) for name, found in partly.items()},
        misfits={name: _by_reason(found) for name, found in partly.items()},
        proposed=metrics.to_start_with(fits),
        metric=None if metric is None else metric.name,
        binary=binary,
        margin=margin,
        provable=provable,
        notes=tuple(_notes(len(items), len(clusters), margin, binary)),
    )


def least_margin(items: int) -> float:
    """The smallest margin, as a share, that so many independent items can prove: where not one of them flips.

    It is the verdict's own one-sided 95 % bound for no flips among them, between 2 / n and 3 / n for many.
    """
    return -one_sided(0, 0, items).low


def least_items(margin: float) -> int:
    """The fewest independent items whose verdict can be "keep" at a margin, a share above 0 and below 1."""
    enough = 1
    while cannot_decide(enough, margin):
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        too_few, enough = (middle, enough) if cannot_decide(middle, margin) else (too_few, middle)
    return enough


def cannot_decide(items: int, margin: float) -> bool:
    """Whether so many items can never keep a lever under "at most `margin` worse", a share, even without a flip.

    With clusters their count stands for the items, where all of a cluster flip together.
    """
    return against_floor(0, 0, items, margin).outcome != "keep"


def undecidable(items: int, margin: float) -> str | None:
    """The sentence for a set that cannot decide a margin, or None where it can."""
    if not cannot_decide(items, margin):
        return None
    return (
        f"{counted(items, 'item')} cannot decide a margin of {points(margin)}: even with not one flip "
        f"{'they prove' if items > 1 else 'it proves'} at most {points(least_margin(items))} worse; "
        f"{counted(least_items(margin), 'item')} or more can"
    )


def points(share: float) -> str:
    """A share in percentage points, with three digits."""
    number = f"{100 * share:.3g}"
    return f"{number} point{'' if number == '1' else 's'}"


def _notes(items: int, clusters: int, margin: float | None, binary: bool | None) -> Iterable[str]:
    if margin is not None and binary is not False and (why := undecidable(items, margin)):
        yield why
    if margin is not None and margin >= LARGE_MARGIN:
        yield f"a margin of {points(margin)} of 100 lets half of all answers and more go wrong; 0.02 is 2 points"
    if binary is False:
        yield "the score is no 0 or 1: what margin it can prove depends on how far scores differ, which a run measures"
    if clusters < items:
        yield f"items of a cluster are no independent evidence: between {clusters:,} and {counted(items, 'item')} count"


def _provable(items: int, clusters: int, margin: float | None) -> tuple[Provable, ...]:
    fewest = None if margin is None else least_items(margin)

    def least(count: int, rate: float) -> float:
        # The formula knows only the expected flips, and is too hopeful where hardly one is expected.
        return min(1.0, max(provable_margin(count, rate), least_margin(count)))

    return tuple(
        Provable(
            flip_rate=rate,
            margin=least(items, rate),
            margin_clustered=least(clusters, rate),
            items_needed=None if margin is None or fewest is None else max(items_needed(margin, rate), fewest),
        )
        for rate in FLIP_RATES
    )


def _by_reason(misfits: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for item, why in misfits.items():
        found.setdefault(why, []).append(item)
    return {why: tuple(ids) for why, ids in found.items()}


def _lengths(counts: Sequence[int]) -> Lengths:
    p95 = float(np.percentile(counts, 95))
    return Lengths(minimum=min(counts), median=float(np.median(counts)), p95=p95, maximum=max(counts))


def _asked(item: Item) -> str:
    return item.prompt or "\n".join(message["content"] for message in item.messages)


def _bare(item: Item) -> str:
    return texts.normalised(_asked(item), case=True, punctuation=True, whitespace=True, form="NFKC")


def _groups(items: Sequence[Item], key: Callable[[Item], Hashable]) -> tuple[tuple[str, ...], ...]:
    found: dict[Hashable, list[str]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item.id)
    return tuple(tuple(ids) for ids in found.values() if len(ids) > 1)


def _differ(items: Sequence[Item], group: tuple[str, ...]) -> bool:
    right = {
        json.dumps([item.texts or item.reference, item.schema], sort_keys=True) for item in items if item.id in group
    }
    return len(right) > 1
