from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from report_runs import (
    ARMS,
    DRAFTED,
    FINISHED,
    MACHINE,
    PLAIN,
    PROMPTS,
    generated,
    info,
    noise_and_audits,
    turns,
    write_run,
)

from specq import api, report
from specq.core.errors import GateFailed
from specq.core.records import Audited, Failed, GapNoise, Generated, Memory, Record
from specq.report.verdict import Verdict


def judged(
    folder: Path,
    change: Callable[[Generated], Generated] = lambda g: g,
    *,
    audits: list[Record] | None = None,
    more: tuple[Record, ...] = (),
    processes: int = 1,
    **config: dict[str, object],
) -> tuple[Verdict, report.Report]:
    lines = [*MACHINE, *turns(change, processes=processes), *more]
    lines += noise_and_audits() if audits is None else audits
    found = report.build(write_run(folder, info(ARMS, PROMPTS, **config), [*lines, *FINISHED]))
    verdict = found.arm("lookup#1").verdict
    assert verdict is not None
    return verdict, found


def lookup_at(step_s: float, counts: list[tuple[int, int, int]] = DRAFTED) -> Callable[[Generated], Generated]:
    """The same speed on every prompt, with a little spread."""

    def change(g: Generated) -> Generated:
        if g.arm != "lookup#1":
            return g
        wobble = 1 + 0.01 * (sum(map(ord, g.prompt)) % 5)
        return generated(g.arm, g.prompt, counts, repeat=g.repeat, process=g.process, step_s=step_s * wobble)

    return change


def test_a_clear_gain_is_kept_and_recommended_with_its_numbers(tmp_path: Path) -> None:
    verdict, found = judged(tmp_path, lookup_at(0.1))
    assert verdict.kind == "keep"
    assert verdict.sentence.startswith("lookup is 1.4")
    assert "audit passed (6 of 6 texts identical)" in verdict.sentence
    assert found.recommendation.startswith("Serve with lookup: speedup 1.4")
    assert "What would change this" in found.recommendation


def test_a_clear_loss_is_rejected(tmp_path: Path) -> None:
    verdict, found = judged(tmp_path, lookup_at(0.2))
    assert verdict.kind == "reject"
    assert "slower: 0.7" in verdict.sentence
    assert found.recommendation.startswith("Stay with plain decoding")


def test_an_unclear_gain_says_how_many_prompts_would_settle_it(tmp_path: Path) -> None:
    verdict, _ = judged(tmp_path)
    assert verdict.kind == "undecided"
    assert verdict.more_prompts is not None
    assert f"about {verdict.more_prompts} more prompts" in verdict.sentence
    assert re.search(
        r"; by tag faster on extraction \(3\.\d\d, \d\.\d\d to \d\.\d\d, n = 3\), even on writing \(", verdict.sentence
    )


def test_a_tag_is_named_only_where_it_stands_out(tmp_path: Path) -> None:
    # As fast as plain decoding on every tag, with a spread that hides any difference.
    wobble = {"e1": 0.8, "e2": 1.2, "e3": 1.0, "w1": 1.1, "w2": 0.9, "w3": 1.02}

    def change(g: Generated) -> Generated:
        if g.arm != "lookup#1":
            return g
        return generated(g.arm, g.prompt, PLAIN, repeat=g.repeat, step_s=0.05 * wobble[g.prompt])

    verdict, _ = judged(tmp_path, change)
    assert "; no tag stands out; " in verdict.sentence
    assert "writing" not in verdict.sentence


@pytest.mark.parametrize(("gaps", "kind"), [([(4, 0.05)], "keep"), ([(4, 0.05), (9, 3.0)], "invalid")])
def test_a_tie_is_kept_and_a_divergence_is_invalid_however_fast(
    tmp_path: Path, gaps: list[tuple[int, float]], kind: str
) -> None:
    verdict, found = judged(tmp_path, lookup_at(0.1), audits=noise_and_audits(w2=gaps))
    assert verdict.kind == kind
    if kind == "invalid":
        assert "Serve with lookup" not in found.recommendation
        assert "diverged, first w2" in verdict.sentence
    else:
        assert "(5 of 6 texts identical, 1 differs from a rounding tie on)" in verdict.sentence


def test_outputs_that_were_not_audited_are_not_called_untouched(tmp_path: Path) -> None:
    verdict, found = judged(tmp_path / "a", lookup_at(0.1), audits=[])
    assert verdict.kind == "undecided"
    assert verdict.sentence.count("outputs were not audited") == 1
    assert "passed" not in verdict.sentence
    assert found.recommendation.startswith("Stay with plain decoding")
    unasked, _ = judged(tmp_path / "b", lookup_at(0.1), audits=[], audit={"enabled": False})
    assert unasked.kind == "keep"


def broke(kind: str, arm: str) -> Failed:
    return Failed(process=0, arm=arm, prompt="w2", repeat=0, error=f"audit {kind}: RuntimeError", message="boom")


@pytest.mark.parametrize(("kind", "arm"), [("Audited", "lookup#1"), ("GapNoise", "baseline#1")])
def test_an_audit_that_broke_on_one_prompt_recommends_nothing_and_is_no_failed_sample(
    tmp_path: Path, kind: str, arm: str
) -> None:
    kinds = {"Audited": Audited, "GapNoise": GapNoise}
    audits = [
        record
        for record in noise_and_audits()
        if not (isinstance(record, kinds[kind]) and (getattr(record, "arm", arm), record.prompt) == (arm, "w2"))
    ]
    verdict, found = judged(tmp_path / "broke", lookup_at(0.1), audits=[*audits, broke(kind, arm)])
    assert verdict.kind == "undecided"
    assert f"first on prompt w2: {kind}: RuntimeError: boom" in verdict.sentence
    assert found.arm("lookup#1").audit.status == "missing"
    assert {arm.failed for arm in found.arms} == {0}
    assert any("audit" in note for note in found.notes)
    made_good, _ = judged(tmp_path / "good", lookup_at(0.1), audits=[broke(kind, arm), *noise_and_audits()])
    assert made_good.kind == "keep"


def test_without_any_noise_an_arm_with_ties_is_not_called_diverged(tmp_path: Path) -> None:
    audits = [record for record in noise_and_audits(w2=[(4, 0.05)]) if not isinstance(record, GapNoise)]
    _, found = judged(tmp_path, audits=[*audits, broke("GapNoise", "baseline#1")])
    assert found.arm("lookup#1").audit.status == "missing"


def test_a_divergence_stays_one_though_another_audit_broke(tmp_path: Path) -> None:
    audits = [*noise_and_audits(e1=[(4, 3.0)])]
    audits = [record for record in audits if not (isinstance(record, Audited) and record.prompt == "w2")]
    verdict, _ = judged(tmp_path, audits=[*audits, broke("Audited", "lookup#1")])
    assert verdict.kind == "invalid"


def test_an_arm_that_runs_past_the_end_of_the_baseline_is_invalid(tmp_path: Path) -> None:
    def longer(g: Generated) -> Generated:
        if (g.arm, g.prompt) != ("lookup#1", "w2"):
            return g
        return generated(g.arm, g.prompt, [*DRAFTED, (3, 2, 3)], repeat=g.repeat)

    audits = [
        replace(record, positions=16) if getattr(record, "arm", "") == "lookup#1" and record.prompt == "w2" else record
        for record in noise_and_audits()
    ]
    verdict, _ = judged(tmp_path, longer, audits=audits)
    assert "1 of 6 prompts diverged, first w2" in verdict.sentence


def test_a_twin_that_failed_its_audit_is_flagged_and_fails_the_gate(tmp_path: Path) -> None:
    audits = noise_and_audits(arms=["lookup#1", "baseline#2"], w2=[(9, 3.0)])
    verdict, found = judged(tmp_path, lookup_at(0.1), audits=audits)
    assert verdict.kind == "keep"
    assert any(flag.startswith("baseline#2: the audit failed: 1 of 6 prompts diverged") for flag in found.flags)
    with pytest.raises(GateFailed, match="baseline#2: the audit failed"):
        api.check_gate(found)
    api.check_gate(judged(tmp_path / "sound", lookup_at(0.1))[1])


def test_answers_that_change_after_the_audited_one_are_flagged(tmp_path: Path) -> None:
    def drift(g: Generated) -> Generated:
        return replace(g, output_sha256="other") if (g.arm, g.prompt, g.repeat) == ("lookup#1", "w1", 1) else g

    _, found = judged(tmp_path, drift)
    assert "lookup: 1 of 6 later answers differ from the audited one" in found.flags


def test_fewer_than_three_processes_are_no_verdict_on_speed(tmp_path: Path) -> None:
    one, _ = judged(tmp_path / "1", lookup_at(0.1))
    three, _ = judged(tmp_path / "3", lookup_at(0.1), processes=3, workload={"processes": 3})
    said = "measured in 1 process, a firm verdict takes 3"
    assert said in one.reasons
    assert one.sentence.endswith(f"; {said}.")
    assert "firm" not in " ".join([*three.reasons, three.sentence])


def test_processes_that_disagree_leave_it_undecided(tmp_path: Path) -> None:
    def change(g: Generated) -> Generated:
        return lookup_at(0.16 if g.process == 2 else 0.08)(g)

    verdict, found = judged(tmp_path, change, processes=3, workload={"processes": 3})
    assert found.arm("lookup#1").measures["speedup"].low or 0 > 1
    assert verdict.kind == "undecided"
    assert "processes disagree" in verdict.sentence


def test_end_to_end_is_judged_on_its_own_ratio(tmp_path: Path) -> None:
    # Decoding is faster, but the draft makes the first token so late that a request takes longer.
    def change(g: Generated) -> Generated:
        if g.arm != "lookup#1":
            return g
        wobble = 1 + 0.01 * (sum(map(ord, g.prompt)) % 5)
        return generated(g.arm, g.prompt, DRAFTED, repeat=g.repeat, step_s=0.1 * wobble, ttft_s=0.6)

    decode, _ = judged(tmp_path / "d", change)
    e2e, _ = judged(tmp_path / "e", change, objective={"minimise": "e2e_s"})
    assert (decode.kind, e2e.kind) == ("keep", "reject")
    assert "end to end" in e2e.sentence


def test_a_breached_floor_rejects_and_an_unmeasured_one_leaves_it_open(tmp_path: Path) -> None:
    peak = Memory(arm="lookup#1", peak_bytes=3 * 2**30, source="rss", prompt="e1", new_tokens=8)
    low, found = judged(tmp_path / "a", lookup_at(0.1), more=(peak,), floor={"peak_bytes": 2 * 2**30})
    high, _ = judged(tmp_path / "b", lookup_at(0.1), more=(peak,), floor={"peak_bytes": 4 * 2**30})
    none, _ = judged(tmp_path / "c", lookup_at(0.1), floor={"ttft_s_p95": 2.0, "peak_bytes": None})
    assert (low.kind, high.kind, none.kind) == ("reject", "keep", "undecided")
    assert "3.00 GiB, allowed is 2.00 GiB" in low.sentence
    assert "p95 needs 20" in none.sentence
    assert [len(verdict.floor) for verdict in (low, high, none)] == [1, 0, 1]
    with pytest.raises(GateFailed, match="lookup#1: the floor's peak_bytes is breached"):
        api.check_gate(found)


def test_the_best_of_many_arms_must_survive_holm(tmp_path: Path) -> None:
    # Twelve arms at one speed that is just clear for one of them alone.
    arms = ("baseline#1", "baseline#2", *(f"try{i}#1" for i in range(12)))
    spread = (0.93, 1.06, 0.99, 1.04, 0.9, 0.98)

    def lines(step_s: float) -> list[Record]:
        return [
            generated(arm, prompt, PLAIN, step_s=0.05 if arm.startswith("baseline") else step_s * factor)
            for arm in arms
            for prompt, factor in zip(PROMPTS, spread, strict=True)
        ]

    unaudited = info(arms, PROMPTS, audit={"enabled": False}, workload={"repeats": 1})
    found = report.build(write_run(tmp_path / "close", unaudited, [*MACHINE, *lines(0.0473), *FINISHED]))
    verdicts = [arm.verdict for arm in found.arms[2:]]
    assert {verdict.kind for verdict in verdicts if verdict is not None} == {"keep"}
    assert found.recommendation.startswith("Stay with plain decoding")
    assert "Holm" in found.recommendation
    clear = report.build(write_run(tmp_path / "clear", unaudited, [*MACHINE, *lines(0.04), *FINISHED]))
    assert clear.recommendation.startswith("Serve with try")
    assert "cannot be told from it" in clear.recommendation
