"""How far a changed target's next-token laws lie from the baseline's, over its answers and by length of context.

A prompt is a document: intervals go over prompts, whose positions are no evidence of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from specq.core.records import Divergence
from specq.report.measures import Measure, from_interval
from specq.report.runfile import RunFile
from specq.stats.bootstrap import Resampled, mean_difference, perplexity_ratio
from specq.stats.intervals import P99_FROM, pooled_ratio
from specq.stats.quantiles import clustered


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Positions before which at least `first` and fewer than `end` tokens were read."""

    name: str
    words: str
    first: int
    end: float


BUCKETS = (
    Bucket(name="below_128", words="below 128", first=0, end=128),
    Bucket(name="from_128", words="128 to 511", first=128, end=512),
    Bucket(name="from_512", words="512 to 2047", first=512, end=2048),
    Bucket(name="from_2048", words="2048 and more", first=2048, end=np.inf),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """The positions of one prompt's answer, [T] each: tokens read before, KL in nats, argmaxes, log-probabilities."""

    context: np.ndarray
    kl: np.ndarray
    agree: np.ndarray
    base: np.ndarray
    own: np.ndarray

    def within(self, bucket: Bucket) -> _Document:
        there = (self.context >= bucket.first) & (self.context < bucket.end)
        parts = (self.context, self.kl, self.agree, self.base, self.own)
        context, kl, agree, base, own = (part[there] for part in parts)
        return _Document(context=context, kl=kl, agree=agree, base=base, own=own)


def measures(run: RunFile, arm: str) -> tuple[Measure, ...]:
    """How far a changed target is from the baseline's along the baseline's answers; empty for an unchanged one.

    KL of the baseline's next-token law against the arm's, in nats, and what each gives the text's own token, pooled
    over positions. Each stands again for every bucket of context that has a position, as NAME.BUCKET. A draft leaves
    its plain arm's law as it is, so an arm with one has that arm's; a lossy rule comes on top, and is not in it.
    """
    plain = run.plain(arm)
    if run.target(arm) is None:
        return ()
    records = list({r.prompt: r for r in run.of(Divergence) if r.arm == plain and r.positions > 0}.values())
    if not records:
        return ()
    its_own = "before its lossy rule" if run.lossy(arm) else "whose outputs these are"
    whose = "" if plain == arm else f", of {run.labels.get(plain, plain)}, {its_own}"
    found = list(_of_sums(records, whose))
    documents = [_document(r) for r in records if r.kl is not None]
    if documents:
        if len(documents) < len(records):
            whose = f"{whose}; {len(documents)} of {len(records)} prompts: the others were kept as sums"
        found += _of_positions(documents, "", whose)
        for bucket in BUCKETS:
            parts = [part for one in documents if (part := one.within(bucket)).kl.size]
            if parts:
                found += _of_bucket(parts, bucket, f"{whose}; after {bucket.words} tokens")
    return tuple(found)


def _document(record: Divergence) -> _Document:
    agree = np.ones(record.positions, dtype=bool)
    agree[list(record.differ or ())] = False
    return _Document(
        context=(record.prompt_tokens or 0) + np.arange(record.positions),
        kl=np.array(record.kl),
        agree=agree,
        base=np.array(record.base_logprobs),
        own=np.array(record.logprobs),
    )


def _of_sums(records: Sequence[Divergence], whose: str) -> Iterator[Measure]:
    yield from _pooled(
        [r.kl_sum for r in records],
        [float(r.agreed) for r in records],
        [float(r.positions) for r in records],
        max(r.kl_worst for r in records),
        "",
        whose,
    )


def _of_bucket(parts: Sequence[_Document], bucket: Bucket, whose: str) -> Iterator[Measure]:
    suffix = f".{bucket.name}"
    yield from _pooled(
        [float(part.kl.sum()) for part in parts],
        [float(part.agree.sum()) for part in parts],
        [float(part.kl.size) for part in parts],
        max(float(part.kl.max()) for part in parts),
        suffix,
        whose,
    )
    yield from _of_positions(parts, suffix, whose)


def _pooled(
    kl: Sequence[float], agreed: Sequence[float], positions: Sequence[float], worst: float, suffix: str, whose: str
) -> Iterator[Measure]:
    """What sums over each document are enough for, one number a document."""
    total = int(sum(positions))
    note = f"{total} positions of the baseline's answers{whose}"
    mean = pooled_ratio([[max(one, 0.0) for one in kl]], [positions])
    yield from_interval(f"kl_mean{suffix}", "nats/token", mean, note)
    yield Measure(name=f"kl_worst{suffix}", unit="nats", value=worst, n=total, note=f"n = {note}")
    share = pooled_ratio([agreed], [positions])
    yield from_interval(f"argmax_agreement{suffix}", "share", share, note, top=1.0)


def _of_positions(documents: Sequence[_Document], suffix: str, whose: str) -> Iterator[Measure]:
    """What needs each position: the tail of the KL, and what the arm gives the text's own tokens."""
    total = sum(one.kl.size for one in documents)
    note = f"{total} positions of the baseline's answers{whose}"
    for name, q, needed in (("kl_median", 0.5, 1), ("kl_p99", 0.99, P99_FROM)):
        if total < needed:
            few = f"n = {note}, too few: p99 needs {P99_FROM}"
            yield Measure(name=f"{name}{suffix}", unit="nats", value=None, n=total, note=few)
            continue
        tail = clustered([one.kl for one in documents], q)
        yield Measure(
            name=f"{name}{suffix}",
            unit="nats",
            value=tail.value,
            low=tail.low,
            high=tail.high,
            n=total,
            note=f"n = {note}",
        )
    of = np.repeat(np.arange(len(documents)), [one.kl.size for one in documents])
    base, own = (np.concatenate([getattr(one, name) for one in documents]) for name in ("base", "own"))
    change = mean_difference(np.exp(base), np.exp(own), of)
    yield _resampled(f"reference_probability_change{suffix}", "share", change, note)
    try:
        ratio = perplexity_ratio(-base, -own, np.ones(total), of)
    except OverflowError:
        why = f"beyond any number: the arm gives the text all but no probability; {note}"
        yield Measure(name=f"perplexity_ratio{suffix}", unit="ratio", value=None, n=len(documents), note=why)
        return
    yield _resampled(f"perplexity_ratio{suffix}", "ratio", ratio, note)


def _resampled(name: str, unit: str, found: Resampled, note: str) -> Measure:
    said = f"{note}; {found.note}" if found.note and found.low is None else note
    return Measure(name=name, unit=unit, value=found.value, low=found.low, high=found.high, n=found.clusters, note=said)
