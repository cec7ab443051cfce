"""From a run folder to its report: `build` derives it, `write` puts it beside the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from specq.core import jsonl
from specq.report import audit as audits
from specq.report import facts, invariants, speed
from specq.report.measures import Measure, accepted_histogram, of_arm
from specq.report.runfile import RunFile, load
from specq.report.verdict import Case, Verdict, decide, recommend
from specq.report.words import interval, ratio


@dataclass(frozen=True, kw_only=True)
class ArmReport:
    """Everything about one arm. The baselines carry no verdict; the first carries no comparison.

    `faults` make the arm invalid, `flags` are to be read with its numbers. `failed` counts
    samples that raised; they are in no speed. `same_outputs` counts generations with the first
    baseline's token ids, of how many compared.
    """

    id: str
    label: str
    draft: Mapping[str, Any] | None
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
    """A run's report. `flags` come first wherever it is shown, then `null` (the A/A comparison)."""

    run: str
    question: str
    experiment: str
    complete: bool
    flags: tuple[str, ...]
    baseline: str
    null: tuple[Measure, ...]
    workload: tuple[Measure, ...]
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
        RunFolderError, RunFailed: as `build`; DiskFull: the files cannot be written.
    """
    from specq.report.markdown import render

    report = build(run_dir)
    jsonl.write_whole(Path(run_dir) / "report.json", report.to_json())
    jsonl.write_text_whole(Path(run_dir) / "report.md", render(report))
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
                )
            )
    objective = str(run.setting("objective", "minimise", default="tpot_s"))
    processes = len({turn[0] for base in bases for turn in base})
    audited = bool(run.setting("audit", "enabled", default=True))
    verdicts = decide(cases, objective, run.setting("floor", default={}), processes, audited=audited)
    null = _null(run, arms)
    return Report(
        run=run.folder.name,
        question=str(run.info["question"]),
        experiment=str(run.info["experiment"]),
        complete=not run.missing,
        flags=(*facts.flags(run), *broken, *_null_flags(null), *_baseline_audits(arms, baselines), *_arm_flags(arms)),
        baseline=baseline,
        null=null,
        workload=facts.workload(run, bases),
        arms=tuple(_with_verdict(arm, verdicts.get(arm.id)) for arm in arms),
        recommendation=recommend(cases, verdicts, objective, processes),
        notes=facts.notes(run),
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
    found = [*of_arm(list(own.values())), *facts.of_arm(run, id)]
    faults = list(_faults(run, id))
    compared = None
    strata: tuple[speed.Stratum, ...] = ()
    if not is_first and bases and not faults:
        against = [run.generated[run.baselines[0]]] if is_baseline else bases
        name = f"{run.baselines[0]} alone" if is_baseline else baseline
        compared = speed.compare(against, own)
        found += speed.speed_measures(compared, name)
        strata = speed.strata(run, against, own)
    elif not is_first:
        compared = speed.compare([{}], {})
    measures = {measure.name: measure for measure in found}
    measures |= {measure.name: measure for measure in facts.ceilings(run, measures)}
    failed = facts.failed(run, id)
    flags = [f"{failed} samples failed and are in no number"] if failed else []
    if compared is not None and compared.dropped and not run.missing:
        flags.append(f"{compared.dropped} turns are left out: an arm has no answer there")
    audit = audits.of_arm(run, id)
    prompts = len({g.prompt for g in own.values()})
    if audit.status != "missing" and audit.prompts < prompts:
        flags.append(f"{audit.prompts} of {prompts} prompts are audited")
    changed, later = invariants.later_answers(own.values(), [prompt for prompt, _ in audit.kinds])
    if changed:
        flags.append(f"{changed} of {later} later answers differ from the audited one")
    first = list(run.generated[run.baselines[0]].values()) if run.baselines else []
    report = ArmReport(
        id=id,
        label=" + ".join(info.get("levers") or ()) or id,
        draft=info.get("draft"),
        generations=len(own),
        failed=failed,
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
