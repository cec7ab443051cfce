"""What the evals say of an arm against the floor on quality, after Holm over the arms that are asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from specq.core.nouns import counted
from specq.evals import margins
from specq.report.evals import ArmQuality, EvalReport, Slice
from specq.report.words import moved, points, span
from specq.stats.counts import holm

LEVEL = 0.05
Kind = Literal["keep", "reject", "undecided", "invalid", "unjudged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An arm's quality: within the floor, beyond it, not decided, void, or measured with no floor to hold it against.

    `sentences` say so, one for each margin. `p` is Holm-adjusted: that it is within the floor by chance, or, of a
    rejected one, beyond it. `lacks` names what would let it be judged, such as a margin or a count of items more;
    nothing for an arm that is judged.
    """

    kind: Kind
    sentences: tuple[str, ...]
    p: float | None = None
    lacks: tuple[str, ...] = ()


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
        return Judged(kind="undecided", sentences=tuple(blind), lacks=("an eval that generates answers",))
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
        said = tuple(f"{name}: it has no scores there" for name in missing)
        # All that is lacking, at once: who mends the first alone would only meet the next.
        more = [lack for _, lack in _left_open(evals, arm, held, blind)]
        more += [] if lossless or any(report.margins for report in evals) else [_margin(evals, arm)]
        scores = f"scores on {', '.join(missing)}"
        return Judged(kind="undecided", sentences=said, lacks=(scores, *more))
    if lossless:
        return Judged(kind="keep", sentences=("its answers are the baseline's own",))
    if not held:
        return Judged(kind="unjudged", sentences=(*_unjudged(evals, arm), *blind), lacks=(_margin(evals, arm),))
    sentences = tuple(_sentence(one) for one in held)
    if beyond is not None and beyond < LEVEL:
        told = [text for one, text in zip(held, sentences, strict=True) if one.slice.outcome == "reject"]
        return Judged(kind="reject", sentences=tuple(told) or sentences, p=beyond)
    left_open = list(_left_open(evals, arm, held, blind))
    if within is not None and within < LEVEL and not left_open:
        return Judged(kind="keep", sentences=(*sentences, *blind), p=within)
    if all(one.slice.outcome == "keep" for one in held) and not left_open:
        why = f"each margin is held alone, but not after Holm over the arms asked (p = {within:.2g})"
        left_open.append((why, "more items, or fewer arms asked at once"))
    return Judged(
        kind="undecided",
        sentences=(*sentences, *(why for why, _ in left_open), *blind),
        p=within,
        lacks=(*(lack for _, lack in left_open), *map(_more, [one for one in held if one.slice.outcome != "keep"])),
    )


def _left_open(
    evals: Sequence[EvalReport], arm: str, held: Sequence[_Held], blind: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """What keeps margins that are held from deciding anything, in words, each with what is lacking."""
    for report in {id(one.of): one.of for one in held}.values():
        if report.caught is False:
            noise = f"{100 * report.probe_noise:.0f} %"
            why = f"{report.name} did not notice weights perturbed by {noise}, so that no loss is found says little"
            yield why, f"an eval that notices a loss, for {report.name} did not notice its probe"
    for report in evals:
        if (one := report.arm(arm)) is not None and one.unscored:
            items = counted(one.unscored, "item")
            has, count = ("has", "counts") if one.unscored == 1 else ("have", "count")
            why = f"{report.name}: {items} that the baseline has a score for {has} none, and {count} for nothing"
            yield why, f"a score for {items} of {report.name} more"
    # What an eval cannot see is vouched for by a margin on one that can.
    seeing = {report.name for report in evals if (one := report.arm(arm)) is not None and not one.unseen}
    if blind and not any(one.of.name in seeing for one in held):
        yield "no margin is on an eval that sees it", f"a margin in [floor] on {' or '.join(sorted(seeing))}"


def _more(one: _Held) -> str:
    """How many items an undecided margin lacks; no count where what was seen lies at the margin or beyond it."""
    more = one.slice.change.against(one.margin).more_items
    if more is None:
        return f"more items in {one.where} (how many cannot be told: what was seen lies at the margin or beyond it)"
    return f"about {counted(more, 'more item')} in {one.where}"


def _margin(evals: Sequence[EvalReport], arm: str) -> str:
    """The margins to set in [floor], on each eval that sees the arm, as a line to paste; or why there is none yet."""
    made = [
        margins.proposed(report.name, one.all.change.clusters, binary=report.binary)
        for report in evals
        if (one := report.arm(arm)) is not None and one.all is not None and not one.unseen
    ]
    given = [one for one in made if one.margin is not None]
    if not made:
        return "a margin for its quality in [floor]"
    if not given:
        return f"more items, for {made[0].about}"
    # Of each line what stands within the braces: one key holds the margins of all evals.
    within = ", ".join(one.line.partition("{ ")[2].removesuffix(" }") for one in given)
    return f"a margin for its quality in [floor], for example: quality = {{ {within} }}"


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
                f"{report.name}: {moved(change.value, change.low, change.high, report.binary)}, and the floor names "
                "no margin"
            )


def _sentence(one: _Held) -> str:
    change, binary = one.slice.change, one.of.binary
    found = change.against(one.margin)
    worse = f"{counted(change.worse, 'item')} worse"
    fell = f"{points(change.value, binary)}, {worse} and {change.better} better of {change.n}"
    allowed = points(-one.margin, binary)
    if found.outcome == "keep":
        return f"{one.where}: {fell}; at worst {points(change.low_one_sided, binary)}, allowed {allowed}"
    if found.outcome == "reject":
        return f"{one.where}: {fell}; at best {points(change.high_one_sided, binary)}, allowed {allowed}"
    ends = span(change.low_one_sided, change.high_one_sided, binary) + (" points" if binary else "")
    more = f"; about {counted(found.more_items, 'more item')} would decide" if found.more_items is not None else ""
    return f"{one.where}: {fell}; {ends} cannot tell it from {allowed}{more}"


def _fell(report: EvalReport) -> str:
    return "went from right to wrong" if report.binary else "fell from the full score"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
