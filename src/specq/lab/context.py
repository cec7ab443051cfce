"""What a longer context costs: the first token later, each further token slower, and whether streaming costs anything.

Each length is asked twice in turn, streamed and in one piece, with prompts that begin as no others do, read cold. The
two totals must agree: where they do not, stamps or the server's streaming are at fault, and no rate here is right.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specq.lab import rows as records
from specq.lab.bench import Bench
from specq.lab.fits import least
from specq.lab.rows import Row, Spread, spread

PART = "context"
STREAMED, WHOLE = "streamed", "whole"
AGREE = 0.05
SMALL = 0.02
"""A slow-down below it is called none, however quiet the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """One length. `whole_over_streamed` compares totals of answers of one length, None where there are none such."""

    length: int
    prompt_tokens: float
    ttft_s: Spread
    ttft_share: Spread | None
    tpot_s: Spread | None
    e2e_s: Spread
    whole_s: Spread | None
    whole_over_streamed: float | None
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What was found. `slower` is the seconds a token after the longest context over those after the shortest.

    `per_1000_s` is what 1,000 tokens of context add to each further token, by a line through all lengths. `noise` is
    how far repeats lie apart, `within` how large a slow-down the scatter of the lengths about that line can feign, 95
    times of 100 (fits.least); None below three lengths.
    """

    depths: tuple[Depth, ...]
    slower: float | None
    per_1000_s: float | None
    noise: float
    within: float | None

    @property
    def slows(self) -> bool:
        """Whether the slow-down is more than 2 %, than what repeats lie apart and than what lengths scatter."""
        return self.slower is not None and self.slower - 1 > max(SMALL, self.noise, self.within or 0.0)

    @property
    def whole_over_streamed(self) -> float | None:
        """The middle of all lengths' totals in one piece over those streamed; None where none was compared."""
        told = [depth.whole_over_streamed for depth in self.depths if depth.whole_over_streamed is not None]
        return statistics.median(told) if told else None

    @property
    def agree(self) -> bool | None:
        """Whether totals are the same within 5 %, or what repeats lie apart over the root of how many lengths."""
        ratio = self.whole_over_streamed
        if ratio is None:
            return None
        noise = statistics.median(depth.noise for depth in self.depths) / math.sqrt(len(self.depths))
        return abs(ratio - 1) <= max(AGREE, noise)


def measure(bench: Bench) -> None:
    """Ask every length streamed and in one piece, in shuffled order, which of the two goes first in turn."""
    settings = bench.settings
    lengths = sorted(set(settings.lengths))
    cases = [(length, repeat) for length in lengths for repeat in range(settings.repeats)]
    texts = iter(bench.texts(PART, [length for length, _ in cases for _ in (STREAMED, WHOLE)]))
    asked = [(length, repeat, (next(texts), next(texts))) for length, repeat in cases]
    bench.rng(PART).shuffle(asked)
    bench.say(f"context: {2 * len(asked)} requests of {len(lengths)} lengths, streamed and in one piece")
    for length, repeat, two in asked:
        order = (STREAMED, WHOLE) if repeat % 2 == 0 else (WHOLE, STREAMED)
        group = bench.group()
        for what, text in zip(order, two, strict=True):
            bench.ask(
                bench.requester.prompt(f"{PART}-{length}-{repeat}-{what}", text),
                settings.output_tokens,
                part=PART,
                what=what,
                length=length,
                repeat=repeat,
                group=group,
                streamed=what == STREAMED,
            )
    bench.canary()


def found(rows: Sequence[Row]) -> Context | None:
    """What the rows show; None where there are none."""
    depths = tuple(
        depth
        for length, own in records.by_length(records.of(rows, PART)).items()
        if (depth := _depth(length, own)) is not None
    )
    if not depths:
        return None
    timed = [depth for depth in depths if depth.tpot_s is not None]
    times = np.array([depth.tpot_s.median for depth in timed if depth.tpot_s is not None])
    lengths = np.array([depth.prompt_tokens for depth in timed])
    apart = len(set(lengths)) > 1 and bool(times.all())
    line = least(np.stack([np.ones_like(times), lengths], 1), times, times) if apart else None
    within = None if line is None or line.within is None else float(line.within[1] * np.ptp(lengths) / times[0])
    return Context(
        depths=depths,
        slower=float(times[-1] / times[0]) if len(times) > 1 and times[0] else None,
        per_1000_s=None if line is None else 1000 * line.coefficients[1],
        noise=statistics.median(depth.tpot_s.width for depth in timed if depth.tpot_s is not None) if timed else 0.0,
        within=within,
    )


def _depth(length: int, rows: Sequence[Row]) -> Depth | None:
    streamed = [row for row in rows if row.streamed]
    ttft, e2e = spread(row.ttft_s for row in streamed), spread(row.e2e_s for row in streamed)
    if ttft is None or e2e is None:
        return None
    whole = [row for row in rows if not row.streamed]
    in_one = spread(row.e2e_s for row in whole)
    return Depth(
        length=length,
        prompt_tokens=statistics.median(row.prompt_tokens for row in streamed),
        ttft_s=ttft,
        ttft_share=spread(row.ttft_share for row in streamed),
        tpot_s=spread(row.tpot_s for row in streamed),
        e2e_s=e2e,
        whole_s=in_one,
        whole_over_streamed=_compared(streamed, whole),
        noise=e2e.width if in_one is None else max(e2e.width, in_one.width),
    )


def _compared(streamed: Sequence[Row], whole: Sequence[Row]) -> float | None:
    """Total in one piece over streamed, of answers with as many tokens, each a token of its own length."""
    both = {row.output_tokens for row in streamed} & {row.output_tokens for row in whole}
    ratios = []
    for output in sorted(both):
        one, other = (spread(row.e2e_s for row in some if row.output_tokens == output) for some in (whole, streamed))
        if one is not None and other is not None:
            ratios.append(one.median / other.median)
    return statistics.median(ratios) if ratios else None
