"""The gate: whether a report lets a change pass."""

from __future__ import annotations

from specq.core.errors import ConfigError, GateFailed, nearest
from specq.report.assemble import Report


def check(report: Report, arm: str | None) -> None:
    """Do nothing when the run is complete, every arm is valid and audited, the twin too, and the floor is held.

    With `arm`, its id or its label, that one alone is asked: its verdict must be keep.

    Raises:
        GateFailed: in one line, what is not met.
        ConfigError: the run has no such arm beside the baseline.
    """
    if arm is not None:
        judged = {name: one.verdict for one in report.arms if one.verdict is not None for name in (one.label, one.id)}
        if (verdict := judged.get(arm)) is None:
            known = nearest(arm, judged) or f"; its arms are {', '.join(judged) or 'none'}"
            raise ConfigError(f'gate: the run has no arm "{arm}"{known}')
        if not report.complete or verdict.kind != "keep":
            unfinished = "" if report.complete else "the run is incomplete; "
            raise GateFailed(f"the gate failed: {unfinished}{verdict.kind}: {verdict.sentence}")
        return
    failed = [] if report.complete else ["the run is incomplete"]
    for one in report.arms:
        if one.verdict is None:
            # A baseline: the first is not audited at temperature 0, but an audit that failed or broke counts.
            failed += [f"{one.id}: {one.audit.sentence()}"] if one.audit.reasons else []
            continue
        if one.verdict.kind == "invalid":
            failed.append(f"{one.id} is invalid ({'; '.join(one.verdict.reasons)})")
        elif one.audit.status == "missing":
            failed.append(f"{one.id}: {one.audit.sentence()}")
        failed += [f"{one.id}: {why}" for why in one.verdict.floor]
    if failed:
        raise GateFailed(f"the gate failed: {'; '.join(failed)}")
