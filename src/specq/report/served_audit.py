"""The audit of an arm on a server, which gives no logits: texts beside texts, or draws beside draws.

A text that differs from the plain arm's is reported as one that differs. It may be a rounding tie, as reference runs
show many; without scores nothing tells, so it is never called one, and the arm is not called lossless.
"""

from __future__ import annotations

from dataclasses import replace

from specq.core.nouns import counted
from specq.core.records import SameText, ServedDraws
from specq.report.audit_found import Audit
from specq.report.first_tokens import FirstTokenTest
from specq.report.runfile import RunFile
from specq.report.served import draws_test, exactness

P = 1e-4
"""As of the tests of the reference engine's audit: a sound arm fails in about one run of ten thousand."""


def of_arm(run: RunFile, arm: str, broken: tuple[str, ...]) -> Audit:
    """The audit of one arm; `broken` says which of its audits raised."""
    plain, changed = run.plain(arm), run.target(arm) is not None
    against = run.labels.get(plain, plain) if changed and plain != arm else ""
    if plain == arm:
        return Audit(status="changed" if changed else "missing", reasons=broken)
    found = _texts(run, arm, against) if run.greedy else _draws(run, arm, plain, against)
    if broken and found.status not in ("failed", "differs"):
        return Audit(status="missing", against=against, reasons=broken)
    if found.status == "passed" and exactness(run, arm) in ("unknown", "lossy"):
        return replace(found, status="unknown" if exactness(run, arm) == "unknown" else "lossy")
    return found


def _texts(run: RunFile, arm: str, against: str) -> Audit:
    known = [record for record in run.of(SameText) if record.arm == arm]
    if not known:
        return Audit(status="missing", against=against)
    other = [record for record in known if record.first_difference is not None]
    return Audit(
        status="differs" if other else "passed",
        against=against,
        reasons=tuple(_difference(run, arm, other, len(known))) if other else (),
        of_texts=True,
        prompts=len(known),
        positions=sum(record.length for record in known),
        kinds=tuple((r.prompt, "identical" if r.first_difference is None else "differs") for r in known),
        seen_above=1 - 0.05 ** (1 / len(known)),
    )


def _difference(run: RunFile, arm: str, other: list[SameText], of: int) -> list[str]:
    first = other[0]
    assert first.first_difference is not None
    plain = run.labels.get(first.plain, first.plain)
    said = [
        f"{len(other)} of {counted(of, 'text')} {'differs' if len(other) == 1 else 'differ'} from {plain}'s, first on "
        f"prompt {first.prompt} at {first.unit.removesuffix('s')} {first.first_difference + 1}"
    ]
    twins = [r for r in run.of(SameText) if r.arm in run.baselines[1:] and r.first_difference is not None]
    if arm not in run.baselines:
        asked = sum(r.arm in run.baselines[1:] for r in run.of(SameText))
        said.append(f"the baseline differs from itself, in a server started anew, on {len(twins)} of {asked}")
    return said


def _draws(run: RunFile, arm: str, plain: str, against: str) -> Audit:
    own, other = (next((r for r in run.of(ServedDraws) if r.arm == one), None) for one in (arm, plain))
    if own is None or other is None:
        return Audit(status="missing", against=against)
    test = draws_test(own, other)
    reasons = []
    if test.p < P:
        reasons.append(
            f"first tokens at prompt {test.prompt} do not follow those of {run.labels.get(plain, plain)} "
            f"(p = {test.p:.2g}, {test.draws} and {test.plain_draws} draws, {test.tv:.2f} apart)"
        )
    shown = FirstTokenTest(prompt=test.prompt, draws=test.draws, outside=0, p=test.p, tv_upper=test.tv_upper)
    return Audit(
        status="failed" if reasons else "passed",
        against=against,
        reasons=tuple(reasons),
        prompts=1,
        positions=own.draws * own.tokens,
        first_tokens=(shown,),
    )
