"""From a run folder to its report: `build` derives it, `write` puts it beside the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from specq.core import jsonl
from specq.core.errors import RunFolderError
from specq.report import audit as audits
from specq.report import blocks, facts, invariants, quantized, speed, targets
from specq.report.measures import Measure, accepted_histogram, of_arm
from specq.report.quantized import QuantizedWeights
from specq.report.recommend import recommend
from specq.report.runfile import RunFile, load
from specq.report.verdict import Case, Ground, Verdict, decide
from specq.report.words import interval, ratio


@dataclass(frozen=True, kw_only=True)
class ArmReport:
    """Everything about one arm. The baselines carry no verdict; the first carries no comparison.

    `faults` make the arm invalid, `flags` are to be read with its numbers. `failed` counts
    samples that raised; they are in no speed. `same_outputs` counts generations with the first
    baseline's token ids, of how many compared. `target` says what the arm changes about the target,
    None for nothing; `plain` is the id of the arm with the same target and no draft. `no_kernel` says
    which quantized layers run on no packed kernel and why, "" where none do.
    """

    id: str
    label: str
    draft: Mapping[str, Any] | None
    target: Mapping[str, Any] | None
    plain: str
    no_kernel: str
    generations: int
    failed: int
    measures: Mapping[str, Measure]
    strata: tuple[speed.Stratum, ...]
    accepted_histogram: list[int]
    audit: audits.Audit
    same_outputs: tuple[int, int]
    faults: tuple[str, ...]
    flags: tuple[str, ...]
    verdict: Verdict | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run's report. `flags` come first wherever it is shown, then `null` (the A/A comparison).

    `turns` says how arms on different targets took turns, where they ran in blocks; it is empty where all
    took turns on each prompt. `quantized` holds the models that the run quantized, with their audits.
    """

    run: str
    question: str
    experiment: str
    complete: bool
    smoke: bool
    flags: tuple[str, ...]
    baseline: str
    null: tuple[Measure, ...]
    turns: tuple[str, ...]
    workload: tuple[Measure, ...]
    quantized: tuple[QuantizedWeights, ...]
    arms: tuple[ArmReport, ...]
    recommendation: str
    notes: tuple[str, ...]
    config: Mapping[str, Any]
    config_sha256: str | None
    provenance: Mapping[str, Any]

    def arm(self, id: str) -> ArmReport:
        """The arm of that id.

        Raises:
            KeyError: the run has no such arm.
        """
        for arm in self.arms:
            if arm.id == id:
                return arm
        raise KeyError(id)

    def to_json(self) -> dict[str, Any]:
        """The whole report as JSON values."""
        return asdict(self)


def build(run_dir: Path | str) -> Report:
    """Derive the report of a run, finished or not.

    Raises:
        RunFolderError: not a run's folder.
        RunFailed: its records are broken before their last line.
    """
    return of_run(load(run_dir))


def write(run_dir: Path | str) -> Report:
    """Build the report and write report.json and report.md into the run's folder.

    Raises:
        RunFolderError: as `build`, and the folder cannot be written. RunFailed: as `build`. DiskFull: no space.
    """
    from specq.report.markdown import render

    report = build(run_dir)
    try:
        jsonl.write_whole(Path(run_dir) / "report.json", report.to_json())
        jsonl.write_text_whole(Path(run_dir) / "report.md", render(report))
    except RunFolderError as error:
        raise RunFolderError(f"{error}; to print the report alone type: specq show {run_dir}") from error
    return report


def of_run(run: RunFile) -> Report:
    """Derive the report of a run that was read."""
    baselines = run.baselines
    baseline = facts.baseline_name(run)
    bases = [run.generated[arm] for arm in baselines if run.generated[arm]]
    broken = [f"{arm}: {fault}" for arm in baselines for fault in _faults(run, arm)]
    arms, cases = [], []
    for info in run.info["arms"]:
        arm, compared = _arm(run, info, bases, baseline, broken)
        arms.append(arm)
        if compared is not None and arm.id not in baselines:
            cases.append(
                Case(
                    arm=arm.id,
                    label=arm.label,
                    measures=arm.measures,
                    compared=compared,
                    strata=arm.strata,
                    audit=arm.audit,
                    faults=arm.faults,
                    shortfall=facts.shortfall(run, arm.id),
                    changes=targets.changes(arm.measures) if arm.target is not None else "",
                    caveats=_caveats(arm),
                    apart=blocks.apart(run, arm.id),
                )
            )
    null = _null(run, arms)
    objective = str(run.setting("objective", "minimise", default="tpot_s"))
    ground = Ground(
        objective=objective,
        floor=run.setting("floor", default={}),
        processes=len({turn[0] for base in bases for turn in base}),
        audited=bool(run.setting("audit", "enabled", default=True)),
        smoke=bool(run.setting("smoke", default=False)),
        complete=not run.missing,
        shortfalls=tuple(f"{arm}: {short}" for arm in baselines if (short := facts.shortfall(run, arm))),
        null=next((m for m in null if (m.name == "e2e_speedup") == (objective == "e2e_s")), None),
        drift=facts.drift_beyond_limit(run),
    )
    verdicts = decide(cases, ground)
    weights = quantized.quantized(run)
    return Report(
        run=run.folder.name,
        question=str(run.info["question"]),
        experiment=str(run.info["experiment"]),
        complete=ground.complete,
        smoke=ground.smoke,
        flags=(
            *facts.flags(run),
            *([blocks.FLAG] if run.in_blocks else []),
            *quantized.flags(weights),
            *_arm_flags(arms),
            *broken,
            *_null_flags(null),
            *_baseline_audits(arms, baselines),
        ),
        baseline=baseline,
        null=null,
        turns=blocks.lines(run),
        workload=facts.workload(run, bases),
        quantized=weights,
        arms=tuple(_with_verdict(arm, verdicts.get(arm.id)) for arm in arms),
        recommendation=recommend(cases, verdicts, ground),
        notes=(*facts.notes(run), *quantized.notes(weights)),
        config=run.info["config"],
        config_sha256=run.info.get("config_sha256"),
        provenance=run.info.get("provenance") or {},
    )


def _arm(
    run: RunFile, info: Mapping[str, Any], bases: list[speed.Arm], baseline: str, broken: list[str]
) -> tuple[ArmReport, speed.Compared | None]:
    id = str(info["id"])
    own = run.generated[id]
    is_first = id == next(iter(run.baselines), None)
    is_baseline = id in run.baselines
    found = [*of_arm(list(own.values())), *facts.of_arm(run, id), *targets.measures(run, id)]
    faults = list(_faults(run, id))
    compared = None
    strata: tuple[speed.Stratum, ...] = ()
    if not is_first and bases and not faults:
        against = [run.generated[run.baselines[0]]] if is_baseline else bases
        name = f"{run.baselines[0]} alone" if is_baseline else baseline
        compared = speed.compare(against, own)
        found += speed.speed_measures(compared, name)
        found += [speed.prefill_measure(against, own, name)] if run.target(id) is not None else []
        strata = speed.strata(run, against, own)
    elif not is_first:
        compared = speed.compare([{}], {})
    measures = {measure.name: measure for measure in found}
    measures |= {measure.name: measure for measure in facts.ceilings(run, id, measures)}
    short = facts.shortfall(run, id)
    without = targets.no_kernel(run, id)
    flags = [f"{short}; they are in no number"] if short else []
    flags += [f"{targets.NO_KERNEL}{without}"] if without else []
    if compared is not None and compared.dropped and not run.missing:
        flags.append(f"{compared.dropped} turns are left out: an arm has no answer there")
    audit = audits.of_arm(run, id)
    prompts = len({g.prompt for g in own.values()})
    if audit.status != "missing" and (audit.status != "changed" or audit.prompts) and audit.prompts < prompts:
        flags.append(f"{audit.prompts} of {prompts} prompts are audited")
    changed, later = invariants.later_answers(own.values(), [prompt for prompt, _ in audit.kinds])
    if changed:
        flags.append(f"{changed} of {later} later answers differ from the audited one")
    first = list(run.generated[run.baselines[0]].values()) if run.baselines else []
    report = ArmReport(
        id=id,
        label=run.labels[id],
        draft=info.get("draft"),
        target=run.target(id),
        plain=run.plain(id),
        no_kernel=without,
        generations=len(own),
        failed=len(facts.failed(run, id)),
        measures=measures,
        strata=strata,
        accepted_histogram=accepted_histogram(own.values()),
        audit=audit,
        same_outputs=invariants.share_with_same_output(own.values(), first),
        faults=tuple(faults if is_baseline else [*faults, *broken]),
        flags=tuple(flags),
        verdict=None,
    )
    return report, compared


def _caveats(arm: ArmReport) -> tuple[str, ...]:
    """What goes with an arm's speed wherever it is judged."""
    return (f"{targets.NO_KERNEL}{arm.no_kernel}",) if arm.no_kernel else ()


def _faults(run: RunFile, arm: str) -> tuple[str, ...]:
    """What makes an arm's numbers void, whatever they say."""
    own = run.generated[arm].values()
    maximum = run.setting("workload", "max_new_tokens", default=None)
    found = list(invariants.violations(own, None if maximum is None else int(maximum)))
    if run.baselines:
        differ = invariants.prompts_that_differ(own, run.generated[run.baselines[0]].values())
        if differ:
            found.append(f"{len(differ)} prompts are not the baseline's, token by token, first {differ[0]}")
    return tuple(found)


def _null(run: RunFile, arms: list[ArmReport]) -> tuple[Measure, ...]:
    """The speed-ups of the first twin against the baseline; empty when there is none."""
    twins = [arm for arm in arms if arm.id in run.baselines[1:]]
    return tuple(twins[0].measures[name] for name in ("speedup", "e2e_speedup") if twins and name in twins[0].measures)


def _null_flags(null: tuple[Measure, ...]) -> list[str]:
    if not null or null[0].value is None:
        return ["no A/A comparison: what no difference looks like in this run is not known"]
    return [
        f"the baseline differs from itself: {measure.name} {ratio(measure.value)} ({interval(measure)})"
        for measure in null
        if measure.low is not None and measure.high is not None and not measure.low <= 1 <= measure.high
    ]


def _baseline_audits(arms: list[ArmReport], baselines: list[str]) -> list[str]:
    """Audits of the baselines that failed or broke: no verdict would tell of them."""
    return [f"{arm.id}: {arm.audit.sentence()}" for arm in arms if arm.id in baselines and arm.audit.reasons]


def _arm_flags(arms: list[ArmReport]) -> list[str]:
    return [f"{arm.label}: {flag}" for arm in arms for flag in arm.flags]


def _with_verdict(arm: ArmReport, verdict: Verdict | None) -> ArmReport:
    return replace(arm, verdict=verdict)
