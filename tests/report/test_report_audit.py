from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import report_runs

from specq.core.records import Audited, FirstTokens, GapNoise, Record, Sampled
from specq.report import runfile
from specq.report.audit import greedy, of_arm, sampled


def noise(ties: int = 10, positions: int = 1000, largest: float = 0.1) -> list[GapNoise]:
    moves = tuple(np.linspace(0, largest, 500).tolist())
    return [GapNoise(prompt="p", rows=5, positions=positions, ties=ties, moves=moves)]


def audited(prompt: str, *gaps: float, positions: int = 64) -> Audited:
    placed = tuple((i * 3, gap) for i, gap in enumerate(gaps))
    return Audited(
        arm="a", prompt=prompt, positions=positions, first_difference=placed[0][0] if placed else None, gaps=placed
    )


def test_numeric_ties_pass_and_are_counted() -> None:
    found = greedy([audited("p1"), audited("p2", 0.05, 0.15), audited("p3")], noise())
    assert found.status == "passed"
    assert found.kinds == (("p1", "identical"), ("p2", "tie"), ("p3", "identical"))
    assert found.gap_limit == pytest.approx(0.2, rel=0.02)
    assert found.sentence() == "audit passed (2 of 3 texts identical, 1 differs from a rounding tie on)"


def test_one_large_gap_diverges() -> None:
    found = greedy([audited("p1"), audited("p2", 0.05, 2.5)], noise())
    assert found.status == "failed"
    assert found.kinds[1] == ("p2", "diverged")
    assert "p2" in found.sentence()
    assert "2.5" in found.sentence()


def _off_by_one(rng: np.random.Generator, ties: float) -> Sequence[Audited]:
    """Texts whose every gap is small, as one lost cache row looks on a confident model."""
    return [audited(f"p{i}", *rng.uniform(0, 0.15, rng.binomial(64, ties))) for i in range(12)]


def test_a_cache_off_by_one_does_not_hide_among_ties() -> None:
    rng = np.random.default_rng(0)
    found = greedy(_off_by_one(rng, 0.06), noise())
    assert found.largest_gap is not None
    assert found.gap_limit is not None
    assert found.largest_gap < found.gap_limit
    assert found.status == "failed"
    assert found.count("tie") == 0
    assert found.count("diverged") == 12
    assert "off by one" in found.sentence()


def test_as_many_ties_as_the_baseline_has_are_no_fault() -> None:
    rng = np.random.default_rng(1)
    outcomes = [greedy(_off_by_one(rng, 0.01), noise()).status for _ in range(100)]
    assert outcomes.count("failed") == 0


def test_some_more_ties_than_the_baseline_are_chance_until_one_in_ten_thousand() -> None:
    few, many = (
        greedy([audited(f"p{i}", *[0.01] * each, positions=100) for i in range(10)], noise()) for each in (3, 5)
    )
    assert 1e-4 < (few.more_ties_p or 0) < 0.01
    assert (few.status, few.count("tie")) == ("passed", 10)
    assert (many.status, many.count("diverged")) == ("failed", 10)


def test_without_measured_noise_no_gap_is_a_tie() -> None:
    assert greedy([audited("p", 0.001)], []).status == "failed"
    assert greedy([audited("p")], []).status == "passed"


def test_another_text_without_a_gap_is_not_called_identical() -> None:
    record = Audited(arm="a", prompt="p", positions=64, first_difference=5, gaps=())
    assert greedy([record], noise()).kinds == (("p", "tie"),)


@pytest.mark.parametrize("positions", [63, 65])
def test_a_text_that_agrees_but_is_shorter_or_longer_diverges(positions: int) -> None:
    found = greedy([audited("p", positions=positions), audited("q")], noise(), {"p": 64, "q": 64})
    assert found.kinds == (("p", "diverged"), ("q", "identical"))
    assert "1 of 2 prompts diverged, first p; the texts agree but one is longer" in found.sentence()


def test_after_a_tie_two_texts_may_have_two_lengths() -> None:
    assert greedy([audited("p", 0.05, positions=40)], noise(), {"p": 64}).kinds == (("p", "tie"),)


def test_nothing_audited_is_said_and_not_passed() -> None:
    assert greedy([], noise()).status == "missing"
    assert sampled([], []).sentence() == "outputs were not audited"


def test_what_the_audit_could_have_seen_grows_with_prompts() -> None:
    few, many = (greedy([audited(f"p{i}") for i in range(n)], noise()).seen_above or 0 for n in (3, 60))
    assert few == pytest.approx(1 - 0.05 ** (1 / 3))
    assert many < 0.05


def scored(surprise: float, steps: int, outside: int = 0, **changes: float) -> Sampled:
    values = {"surprise_variance": 25.0, "steps_mean": 40.0, "steps_variance": 4.0, **changes}
    return Sampled(
        arm="a", prompt="p", repeat=0, positions=64, outside=outside, surprise=surprise, steps=steps, **values
    )


def test_sampled_text_within_its_law_passes() -> None:
    first = FirstTokens(arm="a", prompt="p", draws=100, cells=(5, 9, -1), counts=(52, 29, 19), expected=(0.5, 0.3, 0.2))
    found = sampled([scored(4.0, 42), scored(-3.0, 39)], [first])
    assert found.status == "passed"
    assert found.surprise_z == pytest.approx(1 / 50**0.5)
    assert found.steps_z == pytest.approx(1 / 8**0.5)
    assert found.first_tokens[0].tv_upper == pytest.approx(0.02 + (np.log(20) / 200) ** 0.5)


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([scored(25.0, 40)] * 3, "surprising"),
        ([scored(0.0, 52)], "steps"),
        ([scored(0.0, 41, steps_variance=0.0)], "steps"),
    ],
)
def test_sampled_text_off_its_law_fails(records: list[Sampled], says: str) -> None:
    found = sampled(records, [])
    assert found.status == "failed"
    assert says in found.sentence()


def test_a_law_without_variance_allows_its_mean() -> None:
    assert sampled([scored(0.0, 40, steps_variance=0.0)], []).status == "passed"


def test_first_tokens_off_the_law_fail() -> None:
    first = FirstTokens(arm="a", prompt="p", draws=200, cells=(5, 9, -1), counts=(50, 90, 60), expected=(0.5, 0.3, 0.2))
    found = sampled([scored(0.0, 40)], [first])
    assert found.status == "failed"
    assert "do not follow" in found.sentence()


@pytest.mark.parametrize(
    ("draws", "outside", "passes"), [(20, 2, True), (20, 3, False), (400, 8, True), (400, 9, False)]
)
def test_first_tokens_at_the_edge_of_a_truncated_law_pass_for_rounding_while_they_are_few(
    draws: int, outside: int, passes: bool
) -> None:
    inside = draws - outside
    counts = (inside - inside // 3, inside // 3, outside)
    first = FirstTokens(arm="a", prompt="p", draws=draws, cells=(5, 9, -1), counts=counts, expected=(2 / 3, 1 / 3, 0.0))
    found = sampled([scored(0.0, 40)], [first])
    assert (found.status == "passed") == passes
    assert found.first_tokens[0].outside == outside
    assert found.first_tokens[0].p > 0.5
    assert passes or f"{outside} of {draws} first tokens at prompt p have no probability" in found.sentence()


def test_a_law_of_which_nothing_was_drawn_fails_by_its_outside_alone() -> None:
    first = FirstTokens(arm="a", prompt="p", draws=50, cells=(5, -1), counts=(0, 50), expected=(1.0, 0.0))
    assert len(sampled([scored(0.0, 40)], [first]).reasons) == 1


def test_tokens_that_truncation_forbids_pass_for_rounding_only_while_the_baseline_has_as_many():
    noise = [scored(0.0, 40, outside=2)] * 4
    assert sampled([scored(0.0, 40, outside=2)] * 4, [], noise).status == "passed"
    broken = sampled([scored(0.0, 40, outside=9)] * 4, [], noise)
    assert broken.status == "failed"
    assert "36 of 256 tokens have no probability under the target" in broken.reasons[0]
    assert sampled([scored(0.0, 40, outside=9)] * 4, []).status == "failed"


def test_draws_in_which_a_draft_proposed_nothing_pass_for_a_test_of_the_draft(tmp_path: Path) -> None:
    def of(arm: str, proposed: int | None) -> str:
        first = FirstTokens(
            arm=arm, prompt="e1", draws=50, cells=(5, -1), counts=(30, 20), expected=(0.6, 0.4), proposed=proposed
        )
        lines: list[Record] = [replace(scored(0.0, 40), arm=arm), first]
        about = report_runs.info(["baseline#1", "lookup#1"], {"e1": []}, workload={"temperature": 1.0})
        run = runfile.load(report_runs.write_run(tmp_path / f"{arm}-{proposed}", about, lines))
        return of_arm(run, arm).sentence()

    only = "of plain sampling only, for the draft proposed nothing there"
    assert only in of("lookup#1", 0)
    for arm, proposed in (("lookup#1", 50), ("lookup#1", 1), ("lookup#1", None), ("baseline#1", 0)):
        said = of(arm, proposed)
        assert "first tokens within" in said
        assert only not in said
