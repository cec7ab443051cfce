"""One arm's report: its measures, its audit, and what speaks against its numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specq.core.nouns import counted
from specq.core.records import Generated
from specq.report import audit as audits
from specq.report import facts, invariants, price, served, speed, targets, transforms
from specq.report.evals import EvalReport
from specq.report.evals import measures as of_eval
from specq.report.measures import Measure, accepted_histogram, of_arm
from specq.report.runfile import RunFile
from specq.report.verdict import Verdict

_PROMPTS = ("prompt is", "prompts are")


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

    @property
    def served(self) -> bool:
        """Whether a server answered, which counts what it counts."""
        return "asked_again" in self.measures


def of_run(
    run: RunFile,
    info: Mapping[str, Any],
    bases: list[speed.Arm],
    baseline: str,
    faults: tuple[str, ...],
    broken: list[str],
    evals: tuple[EvalReport, ...] = (),
) -> tuple[ArmReport, speed.Compared | None]:
    """The report of one arm of run.json, and how it compares with the baseline's arms `bases`; None for the first.

    `faults` are the arm's, as `faults_of` finds them; `broken` says what is wrong with the baselines themselves, which
    voids every other arm.
    """
    id = str(info["id"])
    own = run.generated[id]
    is_first = id == next(iter(run.baselines), None)
    is_baseline = id in run.baselines
    found = [
        *of_arm(list(own.values())),
        *served.measures(list(own.values())),
        *facts.of_arm(run, id),
        *targets.measures(run, id),
        *transforms.measures(list(own.values())),
    ]
    compared = None
    strata: tuple[speed.Stratum, ...] = ()
    if not is_first and bases and not faults:
        against = [run.generated[run.baselines[0]]] if is_baseline else bases
        name = f"{run.baselines[0]} alone" if is_baseline else baseline
        other = run.other_tokens(id)
        compared = speed.compare(against, own, other_tokens=other)
        found += speed.speed_measures(compared, name)
        prefills = run.target(id) is not None or run.keeps_prefixes(id) or run.batch(id) > 1
        found += [speed.prefill_measure(against, own, name)] if prefills else []
        strata = speed.strata(run, against, own, other_tokens=other)
    elif not is_first:
        compared = speed.compare([{}], {})
    measures = {measure.name: measure for measure in found}
    measures |= {measure.name: measure for measure in facts.ceilings(run, id, measures)}
    measures |= {measure.name: measure for one in evals for measure in of_eval(one, id)}
    measures |= {measure.name: measure for measure in price.per_answer(run, id, measures)}
    gain = price.advantage(compared.device, evals, id) if compared is not None else None
    measures |= {measure.name: measure for measure in price.measures(run, evals, id, measures, gain)}
    short = facts.shortfall(run, id)
    without = targets.no_kernel(run, id)
    flags = [f"{short}; they are in no number"] if short else []
    flags += [f"{targets.NO_KERNEL}{without}"] if without else []
    if compared is not None and compared.dropped and not run.missing:
        flags.append(f"{counted(compared.dropped, 'turn is', 'turns are')} left out: an arm has no answer there")
    flags += [cut] if (cut := _cut(run, id)) else []
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
        faults=faults if is_baseline else (*faults, *broken),
        flags=tuple(flags),
        verdict=None,
    )
    return report, compared


def faults_of(run: RunFile, arm: str) -> tuple[str, ...]:
    """What makes an arm's numbers void, whatever they say."""
    own = run.generated[arm].values()
    maximum = run.setting("workload", "max_new_tokens", default=None)
    found = list(invariants.violations(own, None if maximum is None else int(maximum)))
    if reading := run.reading(arm):
        found += _of_reading(run, own, reading["prompts"])
        found += transforms.faults(run, arm, own)
    elif run.baselines:
        differ = invariants.prompts_that_differ(own, run.generated[run.baselines[0]].values())
        if differ:
            found.append(f"{counted(len(differ), *_PROMPTS)} not the baseline's, token by token, first {differ[0]}")
    return tuple(found)


def _of_reading(run: RunFile, own: Collection[Generated], prompts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What is wrong with answers to prompts that a model of its own tokens or template reads.

    Their tokens are its own, so ids and messages are held against the baseline's.
    """
    asked = {str(one["id"]): _asked(one) for one in run.info["prompts"]}
    if other := [str(one["id"]) for one in prompts if not transforms.says(one, asked.get(str(one["id"])), _asked(one))]:
        yield f"{counted(len(other), *_PROMPTS)} not the baseline's, message by message, first {other[0]}"
    hashes = {str(one["id"]): one.get("prompt_sha256") for one in prompts}
    if differ := sorted({g.prompt for g in own if g.prompt_sha256 != hashes.get(g.prompt)}):
        yield (
            f"{counted(len(differ), *_PROMPTS)} not what its own model was to read, token by token, first {differ[0]}"
        )


def _asked(prompt: Mapping[str, Any]) -> Any:
    """What a prompt says before a template makes text of it: its messages, or the text that it is."""
    return prompt.get("messages") or prompt.get("text")


def _cut(run: RunFile, arm: str) -> str:
    """How many answers ended at a length that is another one in an arm's own tokens; "" where tokens are the same."""
    own = run.generated[arm].values()
    cut = sum(g.finish == "length" for g in own)
    if not cut or not run.other_tokens(arm):
        return ""
    return (
        f"{cut} of {len(own)} answers ended at max_new_tokens, which is another length of text in its tokens than in "
        "the baseline's: seconds an answer do not compare there"
    )
