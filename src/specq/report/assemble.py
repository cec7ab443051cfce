"""From a run folder to its report: `build` derives it, `write` puts it beside the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specq.core import jsonl
from specq.core.errors import RunFolderError
from specq.report import arm as arms_of
from specq.report import (
    binding,
    blocks,
    facts,
    forecast_gaps,
    guards,
    kernels,
    levers,
    price,
    quality,
    quantized,
    served,
    targets,
    transforms,
)
from specq.report.arm import ArmReport as ArmReport
from specq.report.arm import faults_of
from specq.report.evals import EvalReport
from specq.report.forecast_gaps import ForecastReport
from specq.report.judged import judge
from specq.report.levers import Pulled
from specq.report.measures import Measure
from specq.report.plain import plain
from specq.report.quantized import QuantizedWeights
from specq.report.recommend import recommend
from specq.report.runfile import RunFile, load
from specq.report.verdict import Case, Ground, Verdict, decide
from specq.report.words import interval, ratio


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run's report. `flags` come first wherever it is shown, then `null` (the A/A comparison).

    `binding` says what costs here and which lever touches it, `evals` hold what quality was measured on.
    `turns` says how arms on different targets took turns, where they ran in blocks; it is empty where all
    took turns on each prompt. `quantized` holds the models that the run quantized, with their audits, `forecast` what
    was forecast of the run before it began, None where nothing was. `stand_ins` says which models stand in the
    target's place, and what was made of prompts. `levers` has every arm where levers are of several kinds.
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
    binding: tuple[str, ...]
    quantized: tuple[QuantizedWeights, ...]
    evals: tuple[EvalReport, ...]
    arms: tuple[ArmReport, ...]
    forecast: ForecastReport | None
    recommendation: str
    notes: tuple[str, ...]
    config: Mapping[str, Any]
    config_sha256: str | None
    provenance: Mapping[str, Any]
    stand_ins: tuple[str, ...] = ()
    levers: tuple[Pulled, ...] = ()

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
        found: dict[str, Any] = plain(self)
        return found


def build(run_dir: Path | str) -> Report:
    """Derive the report of a run, finished or not.

    Raises:
        RunFolderError: not a run's folder.
        RunFailed: its records are broken before their last line.
    """
    return of_run(load(run_dir))


def write(run_dir: Path | str) -> Report:
    """Build the report and write report.json, report.md and report.html into the run's folder.

    Raises:
        RunFolderError: as `build`, and the folder cannot be written. RunFailed: as `build`. DiskFull: no space.
    """
    from specq.report import page
    from specq.report.markdown import render

    run = load(run_dir)
    report = of_run(run)
    try:
        jsonl.write_whole(Path(run_dir) / "report.json", report.to_json())
        jsonl.write_text_whole(Path(run_dir) / "report.md", render(report))
        jsonl.write_text_whole(Path(run_dir) / "report.html", page.render(report, run.info))
    except RunFolderError as error:
        raise RunFolderError(f"{error}; to print the report alone type: specq show {run_dir}") from error
    return report


def of_run(run: RunFile) -> Report:
    """Derive the report of a run that was read."""
    baselines = run.baselines
    baseline = facts.baseline_name(run)
    bases = [run.generated[arm] for arm in baselines if run.generated[arm]]
    faults = {str(info["id"]): faults_of(run, str(info["id"])) for info in run.info["arms"]}
    broken = [f"{arm}: {fault}" for arm in baselines for fault in faults[arm]]
    arms, cases = [], []
    scored = quality.evals(run)
    judged = judge(scored, quality.lossless(run, scored)) if scored else {}
    for info in run.info["arms"]:
        arm, compared = arms_of.of_run(run, info, bases, baseline, faults[str(info["id"])], broken, scored)
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
                    changes=targets.changes(run, arm.id, arm.measures, arm.audit),
                    caveats=_caveats(run, arm),
                    apart=blocks.apart(run, arm.id),
                    quality=judged.get(arm.id),
                    advantage=price.advantage(compared.device, scored, arm.id),
                    price=price.bounded(run, scored, arm.id),
                    kinds=levers.kinds(run, arm),
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
        null=next((m for m in null if (m.name == "e2e_speedup") == (objective != "tpot_s")), None),
        drift=facts.drift_beyond_limit(run),
    )
    verdicts = decide(cases, ground)
    weights = quantized.quantized(run)
    judged_arms = tuple(_with_verdict(arm, verdicts.get(arm.id)) for arm in arms)
    allowed = facts.workload(run, bases)
    return Report(
        run=run.folder.name,
        question=str(run.info["question"]),
        experiment=str(run.info["experiment"]),
        complete=ground.complete,
        smoke=ground.smoke,
        flags=(
            *facts.flags(run),
            *([blocks.flag(run)] if run.in_blocks else []),
            *kernels.flags(run),
            *quantized.flags(weights),
            *guards.flags(scored),
            *served.flags(run),
            *_arm_flags(arms),
            *broken,
            *_null_flags(null),
            *_baseline_audits(arms, baselines),
        ),
        baseline=baseline,
        null=null,
        turns=blocks.lines(run),
        workload=allowed,
        binding=binding.lines(run, arms, {measure.name: measure for measure in allowed}),
        quantized=weights,
        evals=scored,
        arms=judged_arms,
        forecast=forecast_gaps.of_run(run, judged_arms, scored),
        recommendation=recommend(cases, verdicts, ground),
        notes=(*facts.notes(run), *served.notes(run), *kernels.notes(run), *quantized.notes(weights)),
        stand_ins=(*targets.stand_ins(run), *transforms.lines(run)),
        levers=levers.pulled(run, arms, bases, baseline, scored),
        config=run.info["config"],
        config_sha256=run.info.get("config_sha256"),
        provenance=run.info.get("provenance") or {},
    )


def _caveats(run: RunFile, arm: ArmReport) -> tuple[str, ...]:
    """What goes with an arm's speed wherever it is judged."""
    other = ("whole answers are compared, for its tokens are another model's",) if run.other_tokens(arm.id) else ()
    return (*((f"{targets.NO_KERNEL}{arm.no_kernel}",) if arm.no_kernel else ()), *other)


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
