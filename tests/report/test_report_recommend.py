from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from report_runs import ARMS, FINISHED, MACHINE, PROMPTS, generated, info, noise_and_audits, turns, write_run

from specq import api, report
from specq.core.errors import GateFailed
from specq.core.records import Canary, Failed, Generated, Record
from specq.report.layout import heading, sections
from specq.report.markdown import render


def faster(g: Generated) -> Generated:
    """Lookup at half the time of the baseline on every prompt, with a little spread."""
    if g.arm != "lookup#1":
        return g
    wobble = 1 + 0.01 * (sum(map(ord, g.prompt)) % 5)
    return generated(g.arm, g.prompt, [(3, 2, 3)] * 4, repeat=g.repeat, process=g.process, step_s=0.07 * wobble)


def broke(arm: str, prompt: str, repeat: int) -> Failed:
    return Failed(process=0, arm=arm, prompt=prompt, repeat=repeat, error="NonFiniteLogits", message="NaN at token 3")


def without(arm: str, count: int) -> Callable[[Sequence[Record]], list[Record]]:
    """The last `count` samples of an arm raised."""

    def change(lines: Sequence[Record]) -> list[Record]:
        mine = [line for line in lines if isinstance(line, Generated) and line.arm == arm][-count:]
        return [broke(arm, line.prompt, line.repeat) if line in mine else line for line in lines]  # type: ignore[union-attr]

    return change


def made(
    folder: Path,
    change: Callable[[Sequence[Record]], Sequence[Record]] = lambda lines: lines,
    *,
    arms: Sequence[str] = ARMS,
    more: Sequence[Record] = (),
    done: bool = True,
    finished: Sequence[Record] = FINISHED,
    **config: dict[str, Any],
) -> report.Report:
    about = info(arms, PROMPTS, **config)
    about["config"]["smoke"] = folder.name == "smoke"
    lines = [*MACHINE, *change([line for line in turns(faster) if getattr(line, "arm", "") in arms])]
    return report.build(write_run(folder, about, [*lines, *noise_and_audits(), *more, *finished], done=done))


def said(found: report.Report, arm: str = "lookup#1") -> str:
    verdict = found.arm(arm).verdict
    assert verdict is not None
    return f"{verdict.kind}: {verdict.sentence}"


def test_a_sound_run_recommends_with_what_it_could_not_see(tmp_path: Path) -> None:
    found = made(tmp_path / "run")
    assert said(found).startswith("keep: lookup is 2.")
    assert found.recommendation.startswith("Serve with lookup: speedup 2.")
    assert "a fault on fewer than 39 % of prompts may have been missed." in found.recommendation
    assert "The baseline against itself: 1.0" in found.recommendation
    assert "(this run had 1)" in found.recommendation
    assert heading(found)[1] == "toy / run, complete"


def test_emptied_records_give_a_verdict_or_a_recommendation(tmp_path: Path) -> None:
    found = report.build(write_run(tmp_path / "run", info(ARMS, PROMPTS), []))
    assert said(found).startswith("invalid: lookup has no data: 12 of 12 samples are not in the records; ")
    assert found.recommendation.startswith("No recommendation: the baseline is not whole")
    assert "baseline#1: 12 of 12 samples are not in the records; they are in no number" in found.flags
    with pytest.raises(GateFailed):
        api.check_gate(found)


def test_a_run_that_has_not_begun_recommends_something(tmp_path: Path) -> None:
    found = report.build(write_run(tmp_path / "run", info(ARMS, PROMPTS), [], done=False))
    assert "no data: no prompt was decoded by both it and the baseline" in said(found)
    assert found.recommendation == "No recommendation: no data (lookup has no data)."
    assert "plain decoding" not in found.recommendation


def test_an_unfinished_run_recommends_as_if_it_were_whole(tmp_path: Path) -> None:
    found = made(tmp_path / "run", done=False, finished=FINISHED[:1])
    assert found.recommendation.startswith("Provisional, for the run is unfinished: Serve with lookup")


@pytest.mark.parametrize("count", [1, 12])
def test_an_arm_whose_samples_failed_is_recommended_or_dropped_in_silence(tmp_path: Path, count: int) -> None:
    found = made(tmp_path / "run", without("lookup#1", count))
    assert "Serve with lookup" not in found.recommendation
    assert f"{count} of 12 samples failed, first on prompt " in found.recommendation
    assert "a run in which no sample fails" in found.recommendation or count == 12
    assert said(found).startswith("undecided: " if count == 1 else "invalid: lookup has no data: ")
    assert f"{count} of 12 samples failed" in said(found)
    assert any(flag.startswith(f"lookup: {count} of 12 samples failed") for flag in found.flags)
    assert any("NaN at token 3" in note for note in found.notes)
    assert heading(found)[1] == f"toy / run, complete, WITH FAILED SAMPLES: lookup ({count})"


@pytest.mark.parametrize("arm", ["baseline#1", "baseline#2"])
@pytest.mark.parametrize("count", [1, 12])
def test_a_baseline_whose_samples_failed_is_recommended_or_compared_with(tmp_path: Path, arm: str, count: int) -> None:
    found = made(tmp_path / "run", without(arm, count))
    assert found.recommendation.startswith("No recommendation: the baseline is not whole")
    assert f"({arm}: {count} of 12 samples failed, first on prompt " in found.recommendation
    assert not said(found).startswith("keep")
    assert f"{arm}: {count} of 12 samples failed" in said(found)


def test_an_arm_that_was_stopped_after_failures_counts_as_whole(tmp_path: Path) -> None:
    def stopped(lines: Sequence[Record]) -> list[Record]:
        kept = [line for line in lines if getattr(line, "arm", "") != "lookup#1"]
        return [*kept, *(broke("lookup#1", prompt, 0) for prompt in ("e1", "e2", "e3"))]

    found = made(tmp_path / "run", stopped)
    assert "3 of 12 samples failed" in said(found)
    assert "9 of 12 samples were not run" in said(found)
    assert found.arm("lookup#1").failed == 3


def test_a_failure_that_a_resume_made_good_still_counts(tmp_path: Path) -> None:
    found = made(tmp_path / "run", more=[broke("lookup#1", "e1", 0)])
    assert found.arm("lookup#1").failed == 0
    assert said(found).startswith("keep")


def test_a_failed_arm_hides_behind_another_that_is_kept(tmp_path: Path) -> None:
    arms = (*ARMS, "exit#1")
    failures = [broke("exit#1", prompt, repeat) for prompt in PROMPTS for repeat in (0, 1)]
    found = made(tmp_path / "run", arms=arms, more=failures)
    assert found.recommendation.startswith("Serve with lookup")
    assert "Not compared with it: exit has no data: 12 of 12 samples failed" in found.recommendation


def test_a_run_without_levers_recommends_plain_decoding(tmp_path: Path) -> None:
    found = made(tmp_path / "run", arms=ARMS[:2])
    assert found.recommendation == "No recommendation: no arm stands beside the baseline; add a lever."


def test_a_smoke_run_passes_for_a_finding(tmp_path: Path) -> None:
    found = made(tmp_path / "smoke", floor={"peak_bytes": 1})
    assert found.smoke
    assert found.flags[0].startswith("SMOKE RUN: 6 prompts")
    assert heading(found)[1].endswith(", SMOKE RUN")
    reason = "a smoke run is too short for a verdict"
    assert said(found) == f"undecided: lookup is not judged: {reason}; audit passed (6 of 6 texts identical)."
    assert found.recommendation.startswith("No recommendation: a smoke run ")
    page = render(found)
    assert "Serve with" not in page
    assert "times as fast as" not in page
    assert page.index("SMOKE RUN") < page.index("## ")
    assert sections(found)[0].title == "Read this first"
    failed = made(tmp_path / "whole" / "smoke", without("lookup#1", 12))
    assert said(failed).startswith("invalid: lookup has no data: 12 of 12 samples failed"), "what is broken is said"


def test_a_drift_is_not_held_against_the_recommendation(tmp_path: Path) -> None:
    canaries = [Canary(process=0, at_s=float(i), tpot_s=tpot) for i, tpot in enumerate((0.05, 0.05, 0.06))]
    assert "(this one drifted by 20 %)" in made(tmp_path / "a", more=canaries).recommendation
    assert "drifted" not in made(tmp_path / "b").recommendation


def test_staying_names_no_arm_that_was_turned_down(tmp_path: Path) -> None:
    def slower(lines: Sequence[Record]) -> list[Record]:
        return [
            generated(g.arm, g.prompt, [(3, 0, 1)] * 12, repeat=g.repeat, step_s=0.1 + 0.001 * (ord(g.prompt[1]) % 3))
            if isinstance(g, Generated) and g.arm == "lookup#1"
            else g
            for g in lines
        ]

    found = made(tmp_path / "run", slower)
    assert found.recommendation.startswith("Stay with plain decoding (lookup is slower). What would change this: ")
