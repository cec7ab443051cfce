"""The gate: whether a report lets a change pass."""

from __future__ import annotations

from collections.abc import Sequence

from specq.core.errors import ConfigError, GateFailed, nearest
from specq.experiment.arms import arms
from specq.experiment.schema import Experiment
from specq.report.arm import ArmReport
from specq.report.assemble import Report
from specq.report.runfile import LOSSY, titled


def check(report: Report, arm: str | None) -> None:
    """Do nothing when the run is complete, every arm is valid and audited, the twin too, and the floor is held.

    With `arm`, its id or its label, that one alone is asked: its verdict must be keep.

    Raises:
        GateFailed: in one line, what is not met.
        ConfigError: the run has no such arm beside the baseline.
    """
    if arm is not None:
        judged = {name: one.verdict for one in report.arms if one.verdict is not None for name in _names(one)}
        check_name(arm, list(judged))
        verdict = judged[arm]
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


def names_of(experiment: Experiment) -> list[str]:
    """What its arms will be called in the report: labels, and ids."""
    asked = [one for one in arms(experiment) if one.levers]
    labels = [titled(one.levers, one.target.source) for one in asked]
    bare = [" + ".join(one.levers) for one in asked]
    return list(dict.fromkeys([*bare, *labels, *(f"{one} ({LOSSY})" for one in labels), *(one.id for one in asked)]))


def _names(arm: ArmReport) -> tuple[str, ...]:
    """An arm's label, its id, and its levers where another model's name stands beside them in the label."""
    source = (arm.target or {}).get("source")
    bare = arm.id.rpartition("#")[0].replace("+", " + ")
    return (arm.label, arm.id, *([bare] if source and not arm.label.endswith(f"({LOSSY})") else []))


def check_name(arm: str, known: Sequence[str]) -> None:
    """Do nothing where an arm is one of those known.

    Raises:
        ConfigError: it is none.
    """
    if arm not in known:
        told = nearest(arm, known) or f"; its arms are {', '.join(known) or 'none'}"
        raise ConfigError(f'gate: the run has no arm "{arm}"{told}')
