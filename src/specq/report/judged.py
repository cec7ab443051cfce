"""What the evals say of an arm against the floor on quality, after Holm over the arms that are asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from specq.report.evals import ArmQuality, EvalReport, Slice
from specq.report.words import points
from specq.stats.counts import holm

LEVEL = 0.05
Kind = Literal["keep", "reject", "undecided", "invalid", "unjudged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An arm's quality: within the floor, beyond it, not decided, void, or measured with no floor to hold it against.

    `sentences` say so, one for each margin. `p` is Holm-adjusted: that it is within the floor by chance, or, of a
    rejected one, beyond it. `more_items` says how many items beyond these would settle what is undecided, where that
    can be said.
    """

    kind: Kind
    sentences: tuple[str, ...]
    p: float | None = None
    more_items: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """One margin and the slice of an arm that is held against it."""

    of: EvalReport
    slice: Slice
    margin: float

    @property
    def where(self) -> str:
        return self.of.name if self.slice.tag is None else f"{self.of.name} ({self.slice.tag})"


def judge(evals: Sequence[EvalReport], lossless: Sequence[str]) -> dict[str, Judged]:
    """The judgement of every arm that an eval compares with the baseline.

    An arm is within the floor where every margin is held with the Holm-adjusted p below 0.05 over the arms asked (the
    largest p of its margins counts, for all must hold), and beyond it where one is breached (its smallest p, times
    its margins). `lossless` arms were proved to give the baseline's own answers: nothing is to be tested about them.
    """
    arms = dict.fromkeys(one.arm for report in evals for one in report.arms)
    held = {arm: list(_margins(evals, arm)) for arm in arms}
    asked = [arm for arm in arms if held[arm] and arm not in lossless and not _faults(evals, arm)]
    within = _adjusted({arm: max(one.slice.change.p_within(one.margin) for one in held[arm]) for arm in asked})
    beyond = _adjusted(
        {
            arm: min(1.0, len(held[arm]) * min(one.slice.change.p_beyond(one.margin) for one in held[arm]))
            for arm in asked
        }
    )
    return {arm: _judge(evals, arm, held[arm], within.get(arm), beyond.get(arm), arm in lossless) for arm in arms}


def _judge(
    evals: Sequence[EvalReport],
    arm: str,
    held: Sequence[_Held],
    within: float | None,
    beyond: float | None,
    lossless: bool,
) -> Judged:
    if faults := _faults(evals, arm):
        return Judged(kind="invalid", sentences=tuple(faults))
    broken = [
        f"{report.name}: {', '.join(found.broken)} {_fell(report)} and {_are(found.broken)} critical"
        for report in evals
        if (found := report.arm(arm)) is not None and found.broken
    ]
    if broken:
        return Judged(kind="reject", sentences=tuple(broken))
    blind = [f"{report.name}: {one.unseen}" for report in evals if (one := report.arm(arm)) is not None and one.unseen]
    if len(blind) == len(evals):
        return Judged(kind="undecided", sentences=tuple(blind))
    missing = [
        report.name
        for report in evals
        if (one := report.arm(arm)) is None or (one.all is None and not (one.unseen and one.source == ""))
    ]
    missing += [
        f"{report.name} ({tag})"
        for report in evals
        if report.name not in missing and (one := report.arm(arm)) is not None and not one.unseen
        for tag in report.margins
        if tag is not None and tag not in {part.tag for part in one.slices}
    ]
    if missing:
        return Judged(kind="undecided", sentences=tuple(f"{name}: it has no scores there" for name in missing))
    if lossless:
        return Judged(kind="keep", sentences=("its answers are the baseline's own",))
    if not held:
        return Judged(kind="unjudged", sentences=(*_unjudged(evals, arm), *blind))
    sentences = tuple(_sentence(one) for one in held)
    if beyond is not None and beyond < LEVEL:
        told = [text for one, text in zip(held, sentences, strict=True) if one.slice.outcome == "reject"]
        return Judged(kind="reject", sentences=tuple(told) or sentences, p=beyond)
    lacks = [
        f"{report.name}: {one.unscored} items that the baseline has a score for have none, and count for nothing"
        for report in evals
        if (one := report.arm(arm)) is not None and one.unscored
    ]
    # What an eval cannot see is vouched for by a margin on one that can.
    seeing = {report.name for report in evals if (one := report.arm(arm)) is not None and not one.unseen}
    if blind and not any(one.of.name in seeing for one in held):
        lacks.append("no margin is on an eval that sees it")
    deaf = [report for report in {id(one.of): one.of for one in held}.values() if report.caught is False]
    if within is not None and within < LEVEL and not deaf and not lacks:
        return Judged(kind="keep", sentences=(*sentences, *blind), p=within)
    why = [
        f"{report.name} did not notice weights perturbed by {100 * report.probe_noise:.0f} %, so that no loss is found "
        "says little"
        for report in deaf
    ]
    why += lacks
    if all(one.slice.outcome == "keep" for one in held) and not deaf and not lacks:
        why.append(f"each margin is held alone, but not after Holm over the arms asked (p = {within:.2g})")
    open_ = [one for one in held if one.slice.outcome == "undecided"]
    more = [n for one in open_ if (n := one.slice.change.against(one.margin).more_items) is not None]
    settled = max(more) if more and len(more) == len(open_) else None
    return Judged(kind="undecided", sentences=(*sentences, *why, *blind), p=within, more_items=settled)


def _adjusted(p: Mapping[str, float]) -> dict[str, float]:
    return dict(zip(p, holm(list(p.values())), strict=True))


def _margins(evals: Sequence[EvalReport], arm: str) -> Iterator[_Held]:
    for report in evals:
        found = report.arm(arm)
        for one in found.slices if found is not None else ():
            if one.margin is not None:
                yield _Held(of=report, slice=one, margin=one.margin)


def _faults(evals: Sequence[EvalReport], arm: str) -> list[str]:
    return [fault for one in _of(evals, arm) for fault in one.faults]


def _of(evals: Sequence[EvalReport], arm: str) -> list[ArmQuality]:
    return [one for report in evals if (one := report.arm(arm)) is not None]


def _unjudged(evals: Sequence[EvalReport], arm: str) -> Iterator[str]:
    for report in evals:
        found = report.arm(arm)
        if found is not None and found.all is not None:
            change = found.all.change
            yield (
                f"{report.name}: {points(change.value, report.binary)} "
                f"({points(change.low, report.binary)} to {points(change.high, report.binary)}), and the floor names "
                "no margin"
            )


def _sentence(one: _Held) -> str:
    change, binary = one.slice.change, one.of.binary
    found = change.against(one.margin)
    moved = f"{points(change.value, binary)}, {change.worse} items worse and {change.better} better of {change.n}"
    allowed = points(-one.margin, binary)
    if found.outcome == "keep":
        return f"{one.where}: {moved}; at worst {points(change.low_one_sided, binary)}, allowed {allowed}"
    if found.outcome == "reject":
        return f"{one.where}: {moved}; at best {points(change.high_one_sided, binary)}, allowed {allowed}"
    ends = f"{points(change.low_one_sided, binary)} to {points(change.high_one_sided, binary)}"
    more = f"; about {found.more_items} more items would decide" if found.more_items is not None else ""
    return f"{one.where}: {moved}; {ends} cannot tell it from {allowed}{more}"


def _fell(report: EvalReport) -> str:
    return "went from right to wrong" if report.binary else "fell from the full score"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
