"""What a draft does, as sections: acceptance, by place, and where the time of a step goes."""

from __future__ import annotations

from collections.abc import Sequence

from specq.core.types import LOSSY_RULES
from specq.report.arm import ArmReport
from specq.report.measures import PARTS
from specq.report.section import Section, measured, table
from specq.report.words import interval, milliseconds, ratio, share

POSITIONS_SHOWN = 8


def draft(arms: Sequence[ArmReport]) -> Section:
    """How much a draft proposes and how much of it is accepted."""

    def row(arm: ArmReport) -> tuple[str, ...]:
        names = ("tokens_per_step", "draft_acceptance", "target_rows_per_token", "draft_tokens_per_token")
        tokens = measured(arm, "tokens_per_step")
        first, *others = (ratio(measured(arm, name).value) for name in names)
        return (arm.label, first, interval(tokens), *others)

    columns = ("arm", "tokens_per_step", "95 % interval", "draft_acceptance", "rows/token", "drafted/token")
    lines = ["rows/token: target rows computed for each token emitted; drafted/token: tokens proposed for each."]
    lines += [_lossy(arm) for arm in arms if arm.draft is not None and arm.draft.get("rule") in LOSSY_RULES]
    notes = ((arm.label, measured(arm, "draft_acceptance")) for arm in arms)
    lines += [f"{name}: {one.note}." for name, one in notes if one.value is None and one.note.startswith("unknown")]
    return table("Draft", columns, map(row, arms), lines)


def _lossy(arm: ArmReport) -> str:
    assert arm.draft is not None
    return (
        f"{arm.label}: rule {arm.draft['rule']}: a proposal stands where the target gives it at least "
        f"{arm.draft.get('threshold')} times the probability of its best token, so the outputs may not be the target's."
    )


def positions(arms: Sequence[ArmReport]) -> Section:
    """Acceptance by place in the proposal; nothing of a server that does not count by place."""
    # An arm of this engine that never proposed has no places; its row of dashes says so.
    longest = max((1, *(sum(name.startswith("survival[") for name in arm.measures) for arm in arms)))
    shown = list(range(1, longest + 1))
    if longest > POSITIONS_SHOWN:
        shown = [*shown[: POSITIONS_SHOWN - 1], longest]
    rows = []
    for arm in arms:
        for name in ("survival", "conditional_acceptance"):
            values = [measured(arm, f"{name}[{j}]").value for j in shown]
            if not arm.served or any(value is not None for value in values):
                rows.append((f"{arm.label} {name}", *map(ratio, values)))
    lines = [
        "By place in the proposal. survival: steps that accepted all up to this place, of all steps. "
        "conditional_acceptance: steps that accepted this place, of those that came to it.",
    ]
    if any(arm.served for arm in arms):
        lines.append("A server counts the steps that proposed, and not how many came to a place.")
    return table("Acceptance by place", ("arm", *map(str, shown)), rows, lines)


def steps(arms: Sequence[ArmReport]) -> Section:
    """The parts of a step's time."""
    parts = (*PARTS, "outside")

    def row(arm: ArmReport) -> tuple[str, ...]:
        cells = (
            f"{_small(measured(arm, f'step_{part}_s').value)} ({share(measured(arm, f'step_{part}_share').value)})"
            for part in parts
        )
        return (arm.label, *cells)

    with_steps = [arm for arm in arms if "step_verify_s" in arm.measures]
    lines = ("Milliseconds a step and share of decode time; outside: decode time that no step was billed for.",)
    return table("Where a step's time goes", ("arm", *parts), map(row, with_steps), lines)


def _small(seconds: float | None) -> str:
    """Milliseconds of a part of a step; digits below 0.01 ms tell nothing."""
    return "<0.01" if seconds is not None and 0 < seconds < 1e-5 else milliseconds(seconds)
