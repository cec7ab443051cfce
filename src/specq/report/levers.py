"""All levers on one table, where a run pulls several kinds: what each gained, what it cost in quality, its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specq.report import speed
from specq.report.arm import ArmReport
from specq.report.evals import EvalReport
from specq.report.measures import Measure
from specq.report.price import PER_ANSWER, TOKENS_PER_ANSWER
from specq.report.runfile import RunFile
from specq.report.section import Section, measured, table
from specq.report.words import NOTHING, interval, milliseconds, moved, number, share, size

if TYPE_CHECKING:
    from specq.report.assemble import Report

TITLE = "Levers"
_ANSWERS = 1000
_LOSSY = "lossy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """One arm beside the baseline: the kinds of its levers, and the baseline's time to the first token over its own.

    `quality` says in words, eval by eval, what became of the scores.
    """

    arm: str
    kinds: tuple[str, ...]
    ttft: Measure
    quality: tuple[str, ...]


def kinds(run: RunFile, arm: ArmReport) -> tuple[str, ...]:
    """The kinds of levers of an arm, as Case.kinds."""
    target = arm.target or {}
    there = {
        "draft": arm.draft is not None,
        _LOSSY: bool(run.lossy(arm.id)),
        "quantize": bool(target.get("recipe") or target.get("model")),
        "model": bool(target.get("source")),
        "kv_cache": bool(target.get("kv_cache")),
        "prompt": bool(run.steps(arm.id)),
        "prefix_cache": run.keeps_prefixes(arm.id),
        "batch": run.batch(arm.id) > 1,
    }
    return tuple(kind for kind, is_there in there.items() if is_there)


def pulled(
    run: RunFile, arms: Sequence[ArmReport], bases: list[speed.Arm], baseline: str, evals: Sequence[EvalReport]
) -> tuple[Pulled, ...]:
    """The arms beside the baseline in the order of the run; empty where all their levers are of one kind."""
    found = {arm.id: kinds(run, arm) for arm in arms if arm.id not in run.baselines and arm.generations}
    if len({kind for own in found.values() for kind in own} - {_LOSSY}) < 2 or not bases:
        return ()
    return tuple(
        Pulled(
            arm=arm,
            kinds=own,
            ttft=speed.prefill_measure(bases, run.generated[arm], baseline),
            quality=tuple(_quality(one, arm) for one in evals),
        )
        for arm, own in found.items()
    )


def _quality(report: EvalReport, arm: str) -> str:
    found = report.arm(arm)
    if found is None or found.all is None:
        return NOTHING
    change = found.all.change
    return "the baseline's own" if found.proved else moved(change.value, change.low, change.high, report.binary)


def section(report: Report) -> Section:
    """The table, the baseline first; nothing of it for levers of one kind."""
    if not report.levers:
        return Section(title=TITLE)
    base = next((arm for arm in report.arms if arm.verdict is None and arm.generations), None)
    priced = [name for name in (PER_ANSWER, TOKENS_PER_ANSWER) if any(name in arm.measures for arm in report.arms)]
    rows = [] if base is None else [_baseline(report, base, priced)]
    rows += [_row(report.arm(one.arm), one, priced) for one in report.levers]
    heads = {PER_ANSWER: "machine's price", TOKENS_PER_ANSWER: "tokens' price"}
    columns = ("arm", "TTFT", "TPOT", "throughput", "peak memory", *(heads[name] for name in priced))
    columns += (*(f"quality: {one.name}" for one in report.evals), "verdict")
    lines = [
        "TTFT, TPOT and throughput: baseline / arm of the time to the first token, of the time of each token after it "
        "and of the device's time for an answer, with 95 % intervals; above 1x is better. The baseline's row has the "
        "numbers themselves: milliseconds, and tokens a second of all time. Quality: arm less baseline on the same "
        "items.",
    ]
    if priced:
        lines.append(f"Prices are of {_ANSWERS:,} answers of the workload, in {_currency(report, priced)}.")
    if TOKENS_PER_ANSWER in priced:
        lines.append("Where tokens are paid for, a faster machine changes no bill: there only fewer tokens do.")
    return table(TITLE, columns, rows, lines)


def _baseline(report: Report, base: ArmReport, priced: Sequence[str]) -> tuple[str, ...]:
    scores = [NOTHING if one.baseline is None else _score(one) for one in report.evals]
    return (
        "baseline",
        f"{milliseconds(measured(base, 'ttft_s').value)} ms",
        f"{milliseconds(measured(base, 'tpot_s').value)} ms",
        f"{number(measured(base, 'answered_tokens_per_s').value)} tokens/s",
        size(measured(base, "peak_bytes").value),
        *(_price(base, name) for name in priced),
        *scores,
        NOTHING,
    )


def _score(report: EvalReport) -> str:
    assert report.baseline is not None
    return share(report.baseline.value) if report.binary else number(report.baseline.value)


def _row(arm: ArmReport, own: Pulled, priced: Sequence[str]) -> tuple[str, ...]:
    return (
        arm.label,
        _times(own.ttft),
        _times(measured(arm, "speedup")),
        _times(measured(arm, "throughput_speedup")),
        size(measured(arm, "peak_bytes").value),
        *(_price(arm, name) for name in priced),
        *own.quality,
        NOTHING if arm.verdict is None else arm.verdict.kind,
    )


def _times(found: Measure) -> str:
    if found.value is None:
        return NOTHING
    return f"{found.value:.2f}x" + (f" ({interval(found)})" if found.low is not None else "")


def _price(arm: ArmReport, name: str) -> str:
    found = measured(arm, name)
    return NOTHING if found.value is None else number(_ANSWERS * found.value)


def _currency(report: Report, priced: Sequence[str]) -> str:
    return next(arm.measures[name].unit for arm in report.arms for name in priced if name in arm.measures)
