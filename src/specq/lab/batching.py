"""What a batch costs and brings: tokens a second of all, seconds a token of each, where decoding stops being free.

A step reads the weights once for all rows, so that a row more is free as long as the machine waits for memory:
arithmetic intensity is 2B/b FLOP a byte at batch B and b bytes a weight, and the ridge is peak FLOP/s over bandwidth
(Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009). Where the two meet is beside where it was measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specq.core.errors import ConfigError
from specq.lab import rows as records
from specq.lab.bench import Bench
from specq.lab.rows import Row, Spread, spread

PART = "batch"
SIZES = (1, 2, 4, 8)
FREE = 0.10
"""A step may take so much more than that of one row and still count as free; repeats further apart widen it."""

SAME = 0.1
"""Stamps no further apart than this share of a row's median gap are of one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the ridge is made of, and where that is from. `bytes_per_weight` None: the model's size is not known."""

    origin: str
    flops: float
    bandwidth: float
    bytes_per_weight: float | None

    @property
    def flop_per_byte(self) -> float:
        """The ridge."""
        return self.flops / self.bandwidth

    @property
    def batch(self) -> float | None:
        """The batch whose intensity 2B/b reaches the ridge."""
        return None if self.bytes_per_weight is None else self.flop_per_byte * self.bytes_per_weight / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One batch size. `tokens_per_s` counts all answers over the whole time, prefill with it.

    `tpot_s` is what a request waits for a token of its own, also while another's prompt is read. `step_s` is the time
    of a step in which all rows decode, `step` that over one row's, `decode_tokens_per_s` what such steps bring; all
    None where no two tokens of a row came while all others were decoding too. `efficiency` is its tokens a second over
    batch x those of one.
    """

    batch: int
    tokens_per_s: Spread
    decode_tokens_per_s: float | None
    tpot_s: Spread
    step_s: Spread | None
    ttft_s: Spread
    e2e_s: Spread
    step: float | None
    efficiency: float
    intensity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What was found. `free_until` is the largest batch up to which a step takes no longer than that of one row."""

    points: tuple[Point, ...]
    machine: Machine | None
    free_until: int
    slack: float


def check(sizes: Sequence[int]) -> None:
    """Refuse batches that no curve goes through.

    Raises:
        ConfigError: less than two sizes, none of them 1, or one below 1.
    """
    if 1 not in sizes or len(set(sizes)) < 2 or min(sizes) < 1:
        raise ConfigError(
            f"batch sizes {', '.join(map(str, sizes))}: allowed are 1 and one larger or more; type --batch 1,2,4,8"
        )


def measure(bench: Bench, sizes: Sequence[int]) -> None:
    """Ask every batch size, in shuffled order, all prompts of one length, read cold and begun as no others.

    Raises:
        Unsupported: the engine cannot run the model's rows together.
    """
    settings = bench.settings
    length = sorted(settings.lengths)[len(settings.lengths) // 2]
    cases = [(size, repeat) for size in sorted(set(sizes)) for repeat in range(settings.repeats)]
    texts = iter(bench.texts(PART, [length] * sum(size for size, _ in cases)))
    waves = [(size, repeat, [next(texts) for _ in range(size)]) for size, repeat in cases]
    bench.rng(PART).shuffle(waves)
    bench.say(f"batch: {len(waves)} waves of {', '.join(map(str, sorted(set(sizes))))} requests of {length} each")
    for size, repeat, own in waves:
        prompts = [bench.requester.prompt(f"{PART}-{size}-{repeat}-{row}", text) for row, text in enumerate(own)]
        bench.ask_together(prompts, settings.output_tokens, part=PART, what="wave", length=length, repeat=repeat)
    bench.canary()


def found(rows: Sequence[Row], machine: Machine | None = None) -> Batch | None:
    """What the rows show; None where there are no waves of one."""
    waves: dict[int, list[list[Row]]] = {}
    groups: dict[int, list[Row]] = {}
    for row in records.of(rows, PART):
        groups.setdefault(row.group, []).append(row)
    for own in groups.values():
        # A run that was killed may have written down a part of its last wave.
        if len(own) < own[0].batch:
            continue
        waves.setdefault(own[0].batch, []).append(own)
    one = waves.get(1)
    alone = _steps(one) if one else None
    if alone is None:
        return None
    base = spread(_tokens_per_s(wave) for wave in one or ())
    points = []
    for size in sorted(waves):
        point = _point(size, waves[size], alone, base, machine)
        if point is not None:
            points.append(point)
    slack = max(FREE, alone.width)
    return Batch(points=tuple(points), machine=machine, free_until=free_until(points, slack), slack=slack)


def free_until(points: Sequence[Point], slack: float = FREE) -> int:
    """The largest batch up to which, going up from 1, no step took more than 1 + slack times that of one row.

    A batch whose rows never decoded together ends it.
    """
    last = 1
    for point in points:
        if point.step is None or point.step > 1 + slack:
            break
        last = point.batch
    return last


def _point(
    size: int, waves: Sequence[Sequence[Row]], alone: Spread, base: Spread | None, machine: Machine | None
) -> Point | None:
    rows = [row for wave in waves for row in wave]
    tpot, ttft, e2e = (spread(getattr(row, name) for row in rows) for name in ("tpot_s", "ttft_s", "e2e_s"))
    step = _steps(waves)
    together = spread(_tokens_per_s(wave) for wave in waves)
    if tpot is None or ttft is None or e2e is None or together is None or base is None:
        return None
    weight = None if machine is None else machine.bytes_per_weight
    return Point(
        batch=size,
        tokens_per_s=together,
        decode_tokens_per_s=None if step is None else size / step.median,
        tpot_s=tpot,
        step_s=step,
        ttft_s=ttft,
        e2e_s=e2e,
        step=None if step is None else step.median / alone.median,
        efficiency=together.median / (size * base.median),
        intensity=None if weight is None else 2 * size / weight,
    )


def _steps(waves: Sequence[Sequence[Row]]) -> Spread | None:
    """Seconds of a step of some waves, over their rows; what came in one piece shows none."""
    return spread(seconds for wave in waves for seconds in _together(wave) if seconds > 0)


def _together(wave: Sequence[Row]) -> Iterator[float]:
    """Seconds a token of each row, over the time in which all rows of its wave decode.

    That is from the last first token to the first last one: before it some prompt is still read, and the gaps of the
    others have that in them; after it the batch is smaller. Rows with fewer than two stamps in it are left out.
    """
    if any(row.ttft_s is None or row.e2e_s is None for row in wave):
        return
    begins = max(row.at_s + (row.ttft_s or 0.0) for row in wave)
    ends = min(row.at_s + (row.e2e_s or 0.0) for row in wave)
    for row in wave:
        if len(row.stamps_s) < 2:
            continue
        # Rows of one step are stamped one after the other. The mean of the gaps has waits in it, the median has not.
        near = SAME * statistics.median(later - one for one, later in pairwise(row.stamps_s))
        inside = [
            (row.at_s + stamp, tokens)
            for stamp, tokens in zip(row.stamps_s, row.stamp_tokens, strict=True)
            if begins - near <= row.at_s + stamp <= ends + near
        ]
        tokens = sum(count for _, count in inside[1:])
        if tokens:
            yield (inside[-1][0] - inside[0][0]) / tokens


def _tokens_per_s(wave: Sequence[Row]) -> float:
    """Tokens of all answers over the time from the first request to the last token."""
    ends = max(row.at_s + (row.e2e_s or 0.0) for row in wave)
    return sum(row.output_tokens for row in wave) / (ends - min(row.at_s for row in wave))
