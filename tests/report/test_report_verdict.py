from __future__ import annotations

from collections.abc import Callable
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

from specq import report
from specq.core.records import Generated, Memory, Record
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
    assert "outputs untouched (6 identical, 0 ties)" in verdict.sentence
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
    assert "even on writing" in verdict.sentence


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
        assert "5 identical, 1 tie)" in verdict.sentence


def test_outputs_that_were_not_audited_are_not_called_untouched(tmp_path: Path) -> None:
    verdict, _ = judged(tmp_path, lookup_at(0.1), audits=[])
    assert "not audited" in verdict.sentence
    assert "untouched" not in verdict.sentence


def test_fewer_than_three_processes_are_no_verdict_on_speed(tmp_path: Path) -> None:
    one, _ = judged(tmp_path / "1", lookup_at(0.1))
    three, _ = judged(tmp_path / "3", lookup_at(0.1), processes=3, workload={"processes": 3})
    assert any("3 fresh processes" in reason for reason in one.reasons)
    assert not any("fresh processes" in reason for reason in three.reasons)


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
    low, _ = judged(tmp_path / "a", lookup_at(0.1), more=(peak,), floor={"peak_bytes": 2 * 2**30})
    high, _ = judged(tmp_path / "b", lookup_at(0.1), more=(peak,), floor={"peak_bytes": 4 * 2**30})
    none, _ = judged(tmp_path / "c", lookup_at(0.1), floor={"ttft_s_p95": 2.0, "peak_bytes": None})
    assert (low.kind, high.kind, none.kind) == ("reject", "keep", "undecided")
    assert "3.00 GiB, allowed is 2.00 GiB" in low.sentence
    assert "p95 needs 20" in none.sentence


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

    found = report.build(write_run(tmp_path / "close", info(arms, PROMPTS), [*MACHINE, *lines(0.0473), *FINISHED]))
    verdicts = [arm.verdict for arm in found.arms[2:]]
    assert {verdict.kind for verdict in verdicts if verdict is not None} == {"keep"}
    assert found.recommendation.startswith("Stay with plain decoding")
    assert "Holm" in found.recommendation
    clear = report.build(write_run(tmp_path / "clear", info(arms, PROMPTS), [*MACHINE, *lines(0.04), *FINISHED]))
    assert clear.recommendation.startswith("Serve with try")
    assert "cannot be told from it" in clear.recommendation
