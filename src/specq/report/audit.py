"""The lossless audit of an arm, from what the workers scored. Failing it makes the arm invalid.

At temperature 0 each prompt is identical, a tie or diverged: a gap between the arm's token and
the baseline's is a tie when it is at most twice the p99 of how far such gaps move between
one-row and block passes in this run. More ties than the baseline shows against itself fail as
well, for a cache that is off by one hides among ties. Above temperature 0 the surprise of the
arm's text, its step count and its early tokens are tested against their exact laws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specq.core.records import Audited, FirstTokens, GapNoise, Generated, Sampled
from specq.report.runfile import RunFile
from specq.stats.counts import fisher_more, g_test, tv_upper

TIE_FACTOR = 2.0
MORE_TIES_P = 0.01
Z_LIMIT = 4.0
FIRST_TOKEN_P = 1e-4

Status = Literal["passed", "failed", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokenTest:
    """Early tokens over repeated seeds at one prompt: G-test and an upper 95 % bound of the distance."""

    prompt: str
    draws: int
    p: float
    tv_upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What the audit of one arm found; fields of the other temperature are None or empty.

    `kinds` maps a prompt to identical, tie or diverged. `gap_limit` is the largest gap in logits
    that passes for a tie. `ties` and `positions` are the arm's, `noise_ties` and
    `noise_positions` the baseline's against itself; `more_ties_p` compares them.
    `seen_above` is the share of faulty prompts that would have shown up in 95 of 100 audits of
    this size.
    """

    status: Status
    reasons: tuple[str, ...] = ()
    prompts: int = 0
    positions: int = 0
    kinds: tuple[tuple[str, str], ...] = ()
    ties: int = 0
    noise_ties: int = 0
    noise_positions: int = 0
    gap_limit: float | None = None
    largest_gap: float | None = None
    more_ties_p: float | None = None
    surprise_z: float | None = None
    steps_z: float | None = None
    first_tokens: tuple[FirstTokenTest, ...] = ()
    seen_above: float | None = None

    def count(self, kind: str) -> int:
        """Prompts that came out identical, tie or diverged."""
        return sum(found == kind for _, found in self.kinds)

    def sentence(self) -> str:
        """The outcome in one clause."""
        if self.status == "failed":
            return "the audit failed: " + "; ".join(self.reasons)
        if self.status == "missing":
            return "outputs were not audited"
        if self.kinds:
            ties = self.count("tie")
            return f"outputs untouched ({self.count('identical')} identical, {ties} tie{'' if ties == 1 else 's'})"
        parts = [f"surprise z = {self.surprise_z:+.1f}", f"steps z = {self.steps_z:+.1f}"]
        if self.first_tokens:
            parts.append(f"first tokens within {max(test.tv_upper for test in self.first_tokens):.2f} of it")
        return f"outputs follow the target's law ({', '.join(parts)})"


def of_arm(run: RunFile, arm: str) -> Audit:
    """The audit of one arm by the run's temperature."""
    if run.greedy:
        reference = list(run.generated.get(run.baselines[0], {}).values()) if run.baselines else []
        own = list(run.generated.get(arm, {}).values())
        audited = [record for record in run.of(Audited) if record.arm == arm]
        return greedy(audited, run.of(GapNoise), shorter_than(own, reference))
    scored = run.of(Sampled)
    baseline = [record for record in scored if record.arm in run.baselines[:1]]
    mine = [record for record in scored if record.arm == arm]
    return sampled(mine, [record for record in run.of(FirstTokens) if record.arm == arm], baseline)


def shorter_than(arm: Sequence[Generated], baseline: Sequence[Generated]) -> frozenset[str]:
    """Prompts at which the arm ended before the baseline without the model's own stop.

    Scoring what stands in a text cannot see what is missing at its end.
    """
    lengths = {(g.process, g.prompt, g.repeat): g.new_tokens for g in baseline}
    return frozenset(
        g.prompt for g in arm if g.finish == "length" and g.new_tokens < lengths.get((g.process, g.prompt, g.repeat), 0)
    )


def greedy(audited: Sequence[Audited], noise: Sequence[GapNoise], short: frozenset[str] = frozenset()) -> Audit:
    """The audit at temperature 0; without measured noise no gap passes for a tie."""
    if not audited:
        return Audit(status="missing")
    moves = [move for record in noise for move in record.moves]
    limit = TIE_FACTOR * float(np.quantile(moves, 0.99)) if moves else 0.0
    kinds = tuple((record.prompt, "diverged" if record.prompt in short else _kind(record, limit)) for record in audited)
    gaps = [gap for record in audited for _, gap in record.gaps]
    positions, ties = sum(record.positions for record in audited), sum(gap <= limit for gap in gaps)
    noise_positions, noise_ties = sum(record.positions for record in noise), sum(record.ties for record in noise)
    p = fisher_more(ties, positions, noise_ties, noise_positions) if noise_positions else None
    diverged = [prompt for prompt, kind in kinds if kind == "diverged"]
    reasons = []
    if diverged:
        largest = f"the largest gap is {max(gaps):.3g} logits where ties end at {limit:.3g}" if gaps else "an early end"
        reasons.append(f"{len(diverged)} of {len(kinds)} prompts diverged, first {diverged[0]}; {largest}")
    if p is not None and p < MORE_TIES_P:
        reasons.append(
            f"{ties} ties in {positions} positions, the baseline against itself has {noise_ties} in {noise_positions} "
            f"(p = {p:.2g}): as a cache that is off by one looks"
        )
    return Audit(
        status="failed" if reasons else "passed",
        reasons=tuple(reasons),
        prompts=len(kinds),
        positions=positions,
        kinds=kinds,
        ties=ties,
        noise_ties=noise_ties,
        noise_positions=noise_positions,
        gap_limit=limit,
        largest_gap=max(gaps, default=0.0),
        more_ties_p=p,
        seen_above=1 - 0.05 ** (1 / len(kinds)),
    )


def sampled(scored: Sequence[Sampled], first: Sequence[FirstTokens], baseline: Sequence[Sampled] = ()) -> Audit:
    """The audit above temperature 0; `baseline` shows how many tokens rounding alone puts outside the law."""
    if not scored:
        return Audit(status="missing")
    surprise_z = _z(sum(r.surprise for r in scored), sum(r.surprise_variance for r in scored))
    steps_z = _z(sum(r.steps - r.steps_mean for r in scored), sum(r.steps_variance for r in scored))
    tests = tuple(
        FirstTokenTest(
            prompt=record.prompt,
            draws=record.draws,
            p=g_test(record.counts, record.expected),
            tv_upper=tv_upper(record.counts, record.expected),
        )
        for record in first
    )
    reasons = [
        f"{what}: z = {z:+.1f}, allowed is -{Z_LIMIT:.0f} to {Z_LIMIT:.0f}"
        for what, z in (
            ("the text is not as surprising as the target's own", surprise_z),
            ("the steps do not fit the accepted-length law", steps_z),
        )
        if abs(z) > Z_LIMIT
    ]
    outside, positions = sum(r.outside for r in scored), sum(r.positions for r in scored)
    rounded = sum(r.outside for r in baseline)
    of = sum(r.positions for r in baseline) or positions
    if (p := fisher_more(outside, positions, rounded, of)) < MORE_TIES_P:
        reasons.append(
            f"{outside} of {positions} tokens have no probability under the target, of the baseline's {rounded} of {of} "
            f"(p = {p:.2g})"
        )
    reasons += [
        f"first tokens at prompt {test.prompt} do not follow the target's law (p = {test.p:.2g}, {test.draws} draws)"
        for test in tests
        if test.p < FIRST_TOKEN_P
    ]
    return Audit(
        status="failed" if reasons else "passed",
        reasons=tuple(reasons),
        prompts=len({record.prompt for record in scored}),
        positions=positions,
        surprise_z=surprise_z,
        steps_z=steps_z,
        first_tokens=tests,
    )


def _kind(record: Audited, limit: float) -> str:
    if any(gap > limit for _, gap in record.gaps):
        return "diverged"
    # A text that differs from the baseline's without a gap is a tie that the baseline itself decided otherwise.
    return "identical" if not record.gaps and record.first_difference is None else "tie"


def _z(difference: float, variance: float) -> float:
    if variance > 0:
        return difference / math.sqrt(variance)
    # A law without variance allows its mean alone; 1e9 stands for infinity, which JSON lacks.
    return 0.0 if abs(difference) < 1e-6 else math.copysign(1e9, difference)
