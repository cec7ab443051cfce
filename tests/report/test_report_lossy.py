"""Arms under a lossy rule: their audit, their verdict, and the word lossy wherever they show."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import report_runs
from report_runs import ARMS, FINISHED, MACHINE, PROMPTS

from specq.core.records import Audited, FirstTokens, GapNoise, Record, Sampled
from specq.report import build, markdown, runfile
from specq.report.assemble import Report
from specq.report.audit import greedy, of_arm, sampled
from specq.report.evals import ArmQuality, EvalReport, Slice
from specq.report.judged import judge
from specq.stats.scores import Paired, difference, rate

THRESHOLD = 0.3
ALLOWED = -math.log(THRESHOLD)
NOISE = [GapNoise(prompt="p", rows=5, positions=1000, ties=1, moves=(0.02, 0.05, 0.1))]


def audited(prompt: str, *gaps: float, positions: int = 64) -> Audited:
    placed = tuple((i * 3, gap) for i, gap in enumerate(gaps))
    return Audited(
        arm="a", prompt=prompt, positions=positions, first_difference=placed[0][0] if placed else None, gaps=placed
    )


def test_a_token_that_the_threshold_allows_fails_the_audit_or_passes_for_lossless() -> None:
    found = greedy([audited("p1"), audited("p2", 0.05), audited("p3", 1.1)], NOISE, threshold=THRESHOLD)
    assert (found.status, found.reasons) == ("lossy", ())
    assert found.kinds == (("p1", "identical"), ("p2", "tie"), ("p3", "lossy"))
    assert found.rule_limit == pytest.approx(ALLOWED)
    assert found.sentence() == (
        "its rule is lossy, and it kept to it (1 of 3 texts are the baseline's, no token lies more than 1.1 logits "
        "below the target's best, and the threshold allows 1.2 and what rounding moves)"
    )
    # The same gaps under an exact rule are a fault.
    assert greedy([audited("p3", 1.1)], NOISE).status == "failed"


def test_identical_texts_make_a_lossy_rule_lossless() -> None:
    assert greedy([audited("p1"), audited("p2")], NOISE, threshold=THRESHOLD).status == "lossy"
    assert sampled([scored(0.0)], [], lossy=True).status == "lossy"


def test_a_token_beyond_the_threshold_passes() -> None:
    found = greedy([audited("p1"), audited("p2", ALLOWED + 0.5)], NOISE, threshold=THRESHOLD)
    assert (found.status, found.kinds[1]) == ("failed", ("p2", "diverged"))
    assert "the largest gap is 1.7 logits where ties end at 0.198 and the threshold allows 1.2" in found.sentence()
    # Rounding may move a gap that stood at the threshold.
    assert greedy([audited("p", ALLOWED + 0.1)], NOISE, threshold=THRESHOLD).status == "lossy"


def test_near_ties_that_the_rule_takes_on_purpose_look_like_a_wrong_cache() -> None:
    many = [audited(f"p{i}", *[0.05] * 9) for i in range(12)]
    assert greedy(many, NOISE).status == "failed"
    assert greedy(many, NOISE, threshold=THRESHOLD).status == "lossy"


def test_a_text_that_agrees_but_is_longer_passes_under_a_lossy_rule() -> None:
    assert greedy([audited("p", positions=65)], NOISE, {"p": 64}, threshold=THRESHOLD).status == "failed"


def scored(surprise: float, outside: int = 0) -> Sampled:
    return Sampled(
        arm="a",
        prompt="p",
        repeat=0,
        positions=64,
        outside=outside,
        surprise=surprise,
        surprise_variance=25.0,
        steps=20,
        steps_mean=None,
        steps_variance=None,
    )


def test_sampled_text_off_the_targets_law_fails_a_lossy_arm() -> None:
    first = FirstTokens(arm="a", prompt="p", draws=200, cells=(5, 9, -1), counts=(50, 90, 60), expected=(0.5, 0.3, 0.2))
    found = sampled([scored(-60.0)] * 3, [first], drafted=True, lossy=True)
    assert (found.status, found.steps_z) == ("lossy", None)
    assert found.surprise_z is not None
    assert found.surprise_z < -4
    assert "above temperature 0 its law is not tested" in found.sentence()
    exact = [Sampled(**{**vars_of(scored(-60.0)), "steps_mean": 20.0, "steps_variance": 4.0})] * 3
    assert sampled(exact, [first], drafted=True).status == "failed"


def vars_of(record: Sampled) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def test_sampled_tokens_that_the_target_never_gives_pass() -> None:
    baseline = [Sampled(**{**vars_of(scored(0.0)), "steps_mean": 20.0, "steps_variance": 4.0})] * 3
    found = sampled([scored(0.0, outside=12)] * 3, [], baseline, drafted=True, lossy=True)
    assert found.status == "failed"
    assert "have no probability under the target" in found.sentence()


def lossy_run(folder: Path, *, gap: float = 1.1, **config: Any) -> Report:
    """A whole run whose last arm drafts under the lossy rule and is faster, with one text that differs."""
    about = report_runs.info(ARMS, PROMPTS, **config)
    about["arms"][2] |= {"levers": ["fast"]}
    about["arms"][2]["draft"] |= {"rule": "lossy_threshold", "threshold": THRESHOLD}
    fast = report_runs.turns(prompts={prompt: ["extraction"] for prompt in PROMPTS}, processes=3)
    lines: list[Record] = [*MACHINE, *fast, *report_runs.noise_and_audits(e1=[(3, gap)])]
    done: list[Record] = [*FINISHED, *(type(FINISHED[0])(process=p, task="measure") for p in (1, 2))]
    about["config"]["workload"]["processes"] = 3
    about["config_sha256"] = report_runs.config_sha256(about["config"])
    return build(report_runs.write_run(folder, about, [*lines, *done]))


def test_a_lossy_arm_is_kept_for_its_speed_alone(tmp_path: Path) -> None:
    found = lossy_run(tmp_path / "run").arm("lookup#1")
    assert found.verdict is not None
    assert (found.audit.status, found.verdict.kind) == ("lossy", "undecided")
    assert found.verdict.faster_but_changed
    said = "changes the outputs (lossy rule, threshold 0.3: 5 of 6 texts identical)"
    assert f"but it {said} and its quality on your task is not measured" in found.verdict.sentence


def test_a_lossy_arm_that_left_its_own_rule_is_not_invalid(tmp_path: Path) -> None:
    found = lossy_run(tmp_path / "run", gap=2.5).arm("lookup#1")
    assert found.verdict is not None
    assert found.verdict.kind == "invalid"


def test_the_report_hides_that_an_arm_is_lossy(tmp_path: Path) -> None:
    report = lossy_run(tmp_path / "run")
    text = markdown.render(report)
    rows = [line for line in text.splitlines() if line.startswith("|") and "fast" in line]
    assert rows
    assert all("fast (lossy)" in line for line in rows)
    assert "fast (lossy): rule lossy_threshold: a proposal stands where the target gives it at least 0.3 times" in text
    (audit,) = (line for line in rows if "| lossy |" in line)
    cells = [cell.strip() for cell in audit.strip("|").split("|")]
    # identical, tie, lossy, diverged
    assert cells[2:6] == ["5", "0", "1", "0"]
    assert "so it is not lossless" in text
    assert "fast (lossy) would be faster" in report.recommendation


def test_an_exact_arm_is_called_lossy_or_has_a_column_of_it(tmp_path: Path) -> None:
    text = markdown.render(build(report_runs.whole_run(tmp_path / "run")))
    assert "lossy" not in text


def test_a_lossy_draft_on_a_changed_target_is_called_lossless_or_only_changed(tmp_path: Path) -> None:
    about = report_runs.info(("baseline#1", "baseline#2", "w4#1", "fast+w4#1"), PROMPTS)
    target = {"recipe": "w4.toml", "model": None, "prefill": "dense", "kv_cache": None}
    lossy = {"method": "lookup", "k": 3, "rule": "lossy_threshold", "threshold": THRESHOLD}
    about["arms"][2] |= {"draft": None, "target": target, "plain": "w4#1"}
    about["arms"][3] |= {"levers": ["fast", "w4"], "draft": lossy, "target": target, "plain": "w4#1"}
    noise = [GapNoise(prompt=p, rows=4, positions=100, ties=1, moves=(0.02, 0.1), arm="w4#1") for p in PROMPTS]
    mine = [Audited(arm="fast+w4#1", prompt=p, positions=13, first_difference=3, gaps=((3, 1.0),)) for p in PROMPTS]
    run = runfile.load(report_runs.write_run(tmp_path / "run", about, [*MACHINE, *noise, *mine]))
    found = of_arm(run, "fast+w4#1")
    assert (found.status, found.against) == ("lossy", "w4")
    assert "0 of 6 texts are those of w4" in found.sentence()


def evaluated(name: str, *, unseen: str = "", margin: float | None = 0.2, scores: bool = True) -> EvalReport:
    """An eval on which the arm answered 200 items as the baseline did, or could not be seen."""
    pairs = Paired(before=(1.0,) * 200, after=(1.0,) * 200, clusters=tuple(map(str, range(200))), binary=True)
    slices = (
        Slice(tag=None, rate=rate([1.0] * 200, pairs.clusters, binary=True), change=difference(pairs), margin=margin),
    )
    arm = ArmQuality(
        arm="a",
        label="a",
        source="a" if scores else "",
        how="its own loop",
        slices=slices if scores else (),
        flips=(),
        broken=(),
        failed=0,
        cut=0,
        empty=0,
        looping=0,
        answers=200,
        seconds=None,
        faults=(),
        flags=(),
        unseen=unseen,
    )
    return EvalReport(
        name=name,
        metric="choice",
        output="choice" if unseen else "text",
        binary=True,
        items=200,
        clusters=200,
        batch_size=8,
        baseline=None,
        tags={},
        arms=(arm,),
        noise=None,
        noise_batch_size=None,
        probe=None,
        probe_noise=0.0,
        flags=(),
        against_control=(),
    )


BLIND = "it scores texts and generates none, so it does not see the lossy rule, threshold 0.3"


@pytest.mark.parametrize("scores", [False, True], ids=["own-target-unchanged", "own-target-changed"])
def test_an_eval_that_cannot_see_a_lossy_rule_keeps_it(scores: bool) -> None:
    found = judge([evaluated("choices", unseen=BLIND, scores=scores)], [])["a"]
    assert (found.kind, found.sentences) == ("undecided", (f"choices: {BLIND}",))


def test_an_eval_that_cannot_see_a_lossy_rule_holds_up_one_that_can() -> None:
    found = judge([evaluated("texts"), evaluated("choices", unseen=BLIND, scores=False)], [])["a"]
    assert found.kind == "keep"
    assert found.sentences[-1] == f"choices: {BLIND}"


def test_missing_scores_of_an_eval_that_sees_the_rule_are_let_pass() -> None:
    assert judge([evaluated("texts", scores=False), evaluated("more")], [])["a"].kind == "undecided"
