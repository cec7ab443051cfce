"""The lossless audit of an arm, from what the workers scored. Failing it makes the arm invalid.

At temperature 0 each prompt is identical, a tie or diverged: a gap between the arm's token and
the baseline's is a tie when it is at most twice the p99 of how far such gaps move between
one-row and block passes in this run. More ties than the baseline shows against itself count as
diverged, for a cache that is off by one hides among ties; so does a text that agrees with the
baseline's as far as both go but is shorter or longer. Above temperature 0 the surprise of the
arm's text, its step count and its early tokens are tested against their exact laws. An audit that
broke is no audit: its arm's status is "missing", and the reason stands with it.

A draft is held against the plain arm of its own target, the baseline or a changed one. An arm that changes
the target is not lossless by right: its status is "changed", with the audit against its plain arm passed.
An arm under a lossy rule is never lossless: its status is "lossy", and what is audited is that it kept to its
own rule: at temperature 0 no token may lie further below the target's best one than its threshold allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from specq.core.records import AUDIT, Audited, Divergence, Failed, FirstTokens, GapNoise, SameText, Sampled, ServedDraws
from specq.report import served_audit
from specq.report.audit_found import BASELINE as BASELINE
from specq.report.audit_found import Audit as Audit
from specq.report.audit_found import Status as Status
from specq.report.first_tokens import edge_draws, of_record
from specq.report.runfile import RunFile
from specq.stats.counts import fisher_more

TIE_FACTOR = 2.0
# Error levels: a sound arm fails one of these tests in about one run of ten thousand.
MORE_TIES_P = 1e-4
Z_LIMIT = 4.0
FIRST_TOKEN_P = 1e-4


def of_arm(run: RunFile, arm: str) -> Audit:
    """The audit of one arm by the run's temperature."""
    plain, changed = run.plain(arm), run.target(arm) is not None
    itself = run.labels.get(plain, plain) if changed else BASELINE
    broken, threshold = _broken(run, arm, plain), run.threshold(arm)
    if run.served:
        return served_audit.of_arm(run, arm, broken)
    if run.greedy:
        # The audit takes the answers of the first process and repeat.
        answers = run.generated.get(plain, {}).items()
        lengths = {prompt: g.new_tokens for (process, prompt, repeat), g in answers if process == repeat == 0}
        noise = [record for record in run.of(GapNoise) if record.arm == plain]
        # Without any noise every tie would pass for a divergence.
        scored = [] if broken and not noise else [record for record in run.of(Audited) if record.arm == arm]
        found = greedy(scored, noise, lengths, itself, threshold=threshold)
    else:
        baseline = [record for record in run.of(Sampled) if record.arm == plain]
        mine = [record for record in run.of(Sampled) if record.arm == arm]
        first = [record for record in run.of(FirstTokens) if record.arm == arm]
        drafted = any(one.get("draft") for one in run.info["arms"] if one["id"] == arm)
        found = sampled(mine, first, baseline, itself, drafted=drafted, lossy=threshold is not None)
    if broken and found.status != "failed":
        found = replace(found, status="missing", reasons=broken)
    if not changed:
        return found
    # A plain arm of a changed target has nothing to be lossless against, so it lacks nothing either.
    by_right = found.status == "passed" or (found.status == "missing" and plain == arm)
    against = "" if plain == arm else itself
    return replace(found, status="changed" if by_right else found.status, against=against)


def _broken(run: RunFile, arm: str, plain: str) -> tuple[str, ...]:
    """Audits of an arm that raised, and those of the noise it is held against; none that a resume made good."""
    failed = [record for record in run.of(Failed) if record.of_audit]
    if not failed:
        return ()
    made = {
        (type(r).__name__, r.arm, r.prompt, getattr(r, "repeat", 0))
        for r in run.records
        if isinstance(r, GapNoise | Audited | Sampled | FirstTokens | Divergence | SameText | ServedDraws)
    }
    kinds: dict[str, list[Failed]] = {}
    for record in failed:
        kind = record.error.removeprefix(AUDIT).split(":")[0]
        mine = record.arm == arm or (kind == GapNoise.__name__ and record.arm == plain)
        if mine and (kind, record.arm, record.prompt, record.repeat) not in made:
            kinds.setdefault(record.error.removeprefix(AUDIT), []).append(record)
    return tuple(
        f"the audit broke {len(group)} times, first on prompt {group[0].prompt}: {error}: {group[0].message}"
        for error, group in kinds.items()
    )


def greedy(
    audited: Sequence[Audited],
    noise: Sequence[GapNoise],
    lengths: Mapping[str, int] | None = None,
    itself: str = BASELINE,
    *,
    threshold: float | None = None,
) -> Audit:
    """The audit at temperature 0; without measured noise no gap passes for a tie.

    `lengths` are the new tokens of the plain arm's answer to each prompt; `noise` and the name `itself` are
    that arm's. `threshold` is that of a lossy rule: a token may then lie -log(threshold) logits below the best, and
    what gaps move by beyond it, and near-ties are no sign of a fault.
    """
    if not audited:
        return Audit(status="missing")
    moves = [move for record in noise for move in record.moves]
    limit = TIE_FACTOR * float(np.quantile(moves, 0.99)) if moves else 0.0
    allowed = None if threshold is None else -math.log(threshold)
    kinds = [(record.prompt, _kind(record, limit, (lengths or {}).get(record.prompt), allowed)) for record in audited]
    gaps = [gap for record in audited for _, gap in record.gaps]
    positions, ties = sum(record.positions for record in audited), sum(gap <= limit for gap in gaps)
    noise_positions, noise_ties = sum(record.positions for record in noise), sum(record.ties for record in noise)
    exact = allowed is None
    p = fisher_more(ties, positions, noise_ties, noise_positions) if noise_positions and exact else None
    diverged = [prompt for prompt, kind in kinds if kind == "diverged"]
    reasons = []
    if diverged:
        beyond = max(gaps, default=0.0)
        why = f"the largest gap is {beyond:.3g} logits where ties end at {limit:.3g}"
        if allowed is not None:
            why += f" and the threshold allows {allowed:.3g}"
        if beyond <= limit + (allowed or 0.0):
            why = "the texts agree but one is longer"
        reasons.append(f"{len(diverged)} of {len(kinds)} prompts diverged, first {diverged[0]}; {why}")
    if p is not None and p < MORE_TIES_P:
        kinds = [(prompt, "diverged" if kind == "tie" else kind) for prompt, kind in kinds]
        reasons.append(
            f"{ties} ties in {positions} positions, {itself} against itself has {noise_ties} in {noise_positions} "
            f"(p = {p:.2g}): as a cache that is off by one looks"
        )
    return Audit(
        status="failed" if reasons else "passed" if exact else "lossy",
        reasons=tuple(reasons),
        prompts=len(kinds),
        positions=positions,
        kinds=tuple(kinds),
        ties=ties,
        noise_ties=noise_ties,
        noise_positions=noise_positions,
        gap_limit=limit,
        rule_limit=allowed,
        largest_gap=max(gaps, default=0.0),
        more_ties_p=p,
        seen_above=1 - 0.05 ** (1 / len(kinds)),
    )


def sampled(
    scored: Sequence[Sampled],
    first: Sequence[FirstTokens],
    baseline: Sequence[Sampled] = (),
    itself: str = BASELINE,
    *,
    drafted: bool = False,
    lossy: bool = False,
) -> Audit:
    """The audit above temperature 0.

    `baseline` is the text of the plain arm `itself`: it shows how many tokens rounding alone puts outside the law.
    `drafted`: the arm has a draft. `lossy`: its rule is lossy, so its law is another one by right, and it is held
    to nothing but tokens that have a probability under the target.
    """
    if not scored:
        return Audit(status="missing")
    surprise_z = _z(sum(r.surprise for r in scored), sum(r.surprise_variance for r in scored))
    steps = [(r.steps - r.steps_mean, r.steps_variance or 0.0) for r in scored if r.steps_mean is not None]
    steps_z = None if lossy else _z(sum(d for d, _ in steps), sum(variance for _, variance in steps))
    tests = tuple(of_record(record, drafted) for record in first)
    reasons = [
        f"{what}: z = {z:+.1f}, allowed is -{Z_LIMIT:.0f} to {Z_LIMIT:.0f}"
        for what, z in (
            ("the text is not as surprising as the target's own", surprise_z),
            ("the steps do not fit the accepted-length law", steps_z),
        )
        if z is not None and abs(z) > Z_LIMIT and not lossy
    ]
    outside, positions = sum(r.outside for r in scored), sum(r.positions for r in scored)
    rounded = sum(r.outside for r in baseline)
    of = sum(r.positions for r in baseline) or positions
    if (p := fisher_more(outside, positions, rounded, of)) < MORE_TIES_P:
        reasons.append(
            f"{outside} of {positions} tokens have no probability under the target, of {itself}'s {rounded} "
            f"of {of} (p = {p:.2g})"
        )
    reasons += [
        f"first tokens at prompt {test.prompt} do not follow the target's law (p = {test.p:.2g}, {test.draws} draws)"
        for test in tests
        if test.p < FIRST_TOKEN_P and not lossy
    ]
    reasons += [
        f"{test.outside} of {test.draws} first tokens at prompt {test.prompt} have no probability under the target, "
        f"rounding explains at most {edge_draws(test.draws)}"
        for test in tests
        if test.outside > edge_draws(test.draws)
    ]
    return Audit(
        status="failed" if reasons else "lossy" if lossy else "passed",
        reasons=tuple(reasons),
        prompts=len({record.prompt for record in scored}),
        positions=positions,
        surprise_z=surprise_z,
        steps_z=steps_z,
        first_tokens=tests,
    )


def _kind(record: Audited, limit: float, length: int | None, allowed: float | None = None) -> str:
    """How a text stands to the plain arm's; `allowed` is the gap that a lossy rule may leave."""
    if any(gap > limit + (allowed or 0.0) for _, gap in record.gaps):
        return "diverged"
    # Scoring what stands in a text cannot see what is missing at its end, or should not stand there.
    if record.first_difference is None and length is not None and record.positions != length:
        return "diverged"
    if allowed is not None and any(gap > limit for _, gap in record.gaps):
        return "lossy"
    # A text that differs from the baseline's without a gap is a tie that the baseline itself decided otherwise.
    return "identical" if not record.gaps and record.first_difference is None else "tie"


def _z(difference: float, variance: float) -> float:
    if variance > 0:
        return difference / math.sqrt(variance)
    # A law without variance allows its mean alone; 1e9 stands for infinity, which JSON lacks.
    return 0.0 if abs(difference) < 1e-6 else math.copysign(1e9, difference)
