from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from report_runs import DRAFTED, PLAIN, Counts, generated

from specq.core.records import Generated, StepRow
from specq.report import invariants
from specq.report.invariants import later_answers, prompts_that_differ, share_with_same_output, violations
from specq.report.measures import accepted_histogram, of_arm


def values(*generations: Generated) -> dict[str, float | None]:
    return {measure.name: measure.value for measure in of_arm(generations)}


def test_known_answer_five_proposed_four_right() -> None:
    found = values(generated("a", "p", [(5, 4, 5)]))
    assert found["tokens_per_step"] == 5
    assert found["draft_acceptance"] == pytest.approx(0.8)
    assert found["target_rows_per_token"] == pytest.approx(6 / 5)
    assert found["draft_tokens_per_token"] == pytest.approx(1.0)
    assert [found[f"survival[{j}]"] for j in range(1, 6)] == [1, 1, 1, 1, 0]
    assert [found[f"conditional_acceptance[{j}]"] for j in range(1, 6)] == [1, 1, 1, 1, 0]


def test_plain_decoding_is_one_token_a_step_and_has_no_acceptance() -> None:
    found = values(generated("a", "p", PLAIN, step_s=0.05, ttft_s=0.4))
    assert found["tokens_per_step"] == 1
    assert found["decode_tokens_per_s"] == pytest.approx(20)
    assert found["tpot_s"] == pytest.approx(0.05)
    assert found["e2e_s"] == found["device_s_per_answer"] == pytest.approx(1.0)
    assert "draft_acceptance" not in found


def test_a_draft_that_never_proposed_keeps_its_measures() -> None:
    measures = {measure.name: measure for measure in of_arm([generated("a", "p", PLAIN, rule="greedy_draft")])}
    assert measures["draft_acceptance"].value is None
    assert measures["draft_acceptance"].note.startswith("nothing was proposed")
    assert measures["target_rows_per_token"].value == 1
    assert measures["draft_tokens_per_token"].value == 0


def test_a_stop_inside_a_block_counts_what_was_emitted() -> None:
    # All three proposals were right, but the second of them was the end: two tokens came out.
    found = values(generated("a", "p", [(3, 3, 2)]))
    assert found["tokens_per_step"] == 2
    assert found["draft_acceptance"] == 1


def test_prefill_is_in_no_decode_rate() -> None:
    fast, slow = (values(generated("a", "p", PLAIN, ttft_s=ttft)) for ttft in (0.1, 9.0))
    assert fast["decode_tokens_per_s"] == pytest.approx(slow["decode_tokens_per_s"])
    assert fast["tpot_s"] == pytest.approx(slow["tpot_s"])


def test_an_answer_of_one_token_has_no_decoding() -> None:
    found = values(generated("a", "p", []))
    assert found["tokens_per_step"] is None
    assert found["decode_tokens_per_s"] is None
    assert found["e2e_s"] == pytest.approx(0.1)


def test_a_short_proposal_does_not_survive_but_is_no_refusal() -> None:
    # Two of four steps proposed one token only.
    found = values(generated("a", "p", [(2, 2, 3), (1, 1, 2), (2, 1, 2), (1, 1, 2)]))
    assert found["survival[1]"] == 1
    assert found["survival[2]"] == pytest.approx(1 / 4)
    assert found["conditional_acceptance[2]"] == pytest.approx(1 / 2)


def test_step_times_reconcile_with_decode_time() -> None:
    found = values(generated("a", "p", PLAIN, step_s=0.05, parts=(0.2, 0.5, 0.1, 0.1)))
    shares = {part: found[f"step_{part}_share"] for part in ("draft", "verify", "sample", "rest", "outside")}
    assert shares == pytest.approx({"draft": 0.2, "verify": 0.5, "sample": 0.1, "rest": 0.1, "outside": 0.1})
    assert found["step_verify_s"] == pytest.approx(0.025)


def _draws(rng: np.random.Generator, alpha: float, k: int, steps: int) -> Counts:
    accepted = np.minimum(rng.geometric(1 - alpha, steps) - 1, k)
    return [(k, int(a), int(a) + 1) for a in accepted]


@pytest.mark.parametrize(("k", "expected"), [(1, 0.80), (3, 0.65), (5, 0.54), (8, 0.42), (16, 0.24)])
def test_draft_acceptance_falls_with_k_while_the_draft_stays_as_good(k: int, expected: float) -> None:
    rng = np.random.default_rng(k)
    found = values(generated("a", "p", _draws(rng, 0.8, k, 20_000)))
    assert found["draft_acceptance"] == pytest.approx(expected, abs=0.01)
    for j in range(1, min(k, 6) + 1):
        assert found[f"survival[{j}]"] == pytest.approx(0.8**j, abs=0.02)
        assert found[f"conditional_acceptance[{j}]"] == pytest.approx(0.8, abs=0.02)


def test_pooled_and_per_prompt_tokens_per_step_differ_on_mixed_prompts() -> None:
    rng = np.random.default_rng(0)
    # As many tokens in both: 11.64 and 1.54 tokens a step.
    good, bad = _draws(rng, 0.95, 16, 4_000), _draws(rng, 0.35, 16, round(4_000 * 11.64 / 1.538))
    answers = [generated("a", "good", good), generated("a", "bad", bad)]
    each = [values(answer)["tokens_per_step"] or 0 for answer in answers]
    pooled = values(*answers)["tokens_per_step"]
    assert np.mean(each) == pytest.approx(6.58, abs=0.15)
    assert pooled == pytest.approx(2.71, abs=0.05)


def test_repeats_of_a_prompt_do_not_narrow_the_interval() -> None:
    prompts = [generated("a", f"p{i}", [(4, i, i + 1)] * 6) for i in range(4)]
    more = [replace(g, repeat=repeat) for repeat in range(9) for g in prompts]
    once, often = (
        next(m for m in of_arm(generations) if m.name == "tokens_per_step") for generations in (prompts, more)
    )
    assert (once.low, once.high, once.n) == (pytest.approx(often.low), pytest.approx(often.high), often.n)


def test_shares_stay_below_one_with_their_intervals() -> None:
    generations = [generated("a", f"p{i}", [(4, 4, 5), (4, 3 + i, 4 + i)]) for i in range(2)]
    acceptance = next(m for m in of_arm(generations) if m.name == "draft_acceptance")
    assert acceptance.high == 1.0


@pytest.mark.parametrize(("generations", "tail"), [(19, None), (20, 95)])
def test_tails_need_their_values(generations: int, tail: int | None) -> None:
    found = values(*(generated("a", f"p{i}", PLAIN, ttft_s=float(i + 1)) for i in range(generations)))
    assert (found["ttft_s.p95"] is None) == (tail is None)
    assert found["ttft_s.p50"] == pytest.approx((generations + 1) / 2)
    assert found["ttft_s.p99"] is None


def test_histogram_adds_up_to_steps_and_accepted() -> None:
    histogram = accepted_histogram([generated("a", "p", DRAFTED), generated("a", "p", [(5, 0, 1), (5, 4, 5)])])
    assert histogram == [1, 0, 4, 0, 1]


SOUND = generated("a", "p", DRAFTED)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (generated("a", "p", [(3, 4, 5)]), "more than was proposed"),
        (generated("a", "p", [(3, 1, 3)]), "accepted + 1"),
        (generated("a", "p", [(3, 1, 0)]), "accepted + 1"),
        (generated("a", "p", [(3, -1, 0)]), "below 0"),
        (replace(SOUND, new_tokens=SOUND.new_tokens + 1), "do not add up"),
        (replace(SOUND, steps=SOUND.steps[1:], new_tokens=10, ttft_s=9.0, e2e_s=8.0), "first token"),
        (replace(SOUND, steps=(SOUND.steps[0], *SOUND.steps[2:]), new_tokens=10), "did not grow"),
        (replace(SOUND, e2e_s=SOUND.ttft_s + 0.1), "longer than the decoding"),
        (generated("a", "p", DRAFTED, parts=(-0.1, 0.6, 0.1, 0.1)), "negative time"),
        (replace(SOUND, finish="length"), "64 tokens"),
    ],
)
def test_each_violation_is_named(broken: Generated, says: str) -> None:
    assert any(says in line for line in violations([broken], 64)), violations([broken], 64)


def test_sound_records_violate_nothing() -> None:
    assert violations([SOUND, generated("a", "p", [(3, 3, 2)]), generated("a", "p", PLAIN)], 64) == ()


def test_what_columns_let_pass_is_found_step_by_step() -> None:
    rng = random.Random(3)
    let_pass = 0
    for _ in range(2000):
        steps: list[list[float]] = [list(step) for step in SOUND.steps]
        for _ in range(rng.randrange(3)):
            rng.choice(steps)[rng.randrange(8)] += rng.choice((-4, -1, 1, 1e-4, 0))
        rows = tuple(map(StepRow._make, steps))
        length = 1 + sum(row.emitted for row in rows) + (rng.random() < 0.1)
        one = replace(SOUND, steps=rows, new_tokens=length, finish=rng.choice(("eos", "length")))
        limit = rng.choice((None, 13))
        found = invariants._sound(one, limit)
        let_pass += found
        assert not found or not list(invariants._of_one(one, limit))
    assert 300 < let_pass < 1700, "both are seen"
    assert invariants._sound(SOUND, 13)


def test_prompts_and_outputs_are_compared_by_hash() -> None:
    other = replace(SOUND, prompt_sha256="another", output_sha256="another")
    assert prompts_that_differ([other], [SOUND]) == ("p",)
    assert prompts_that_differ([SOUND], [SOUND]) == ()
    assert share_with_same_output([other], [SOUND]) == (0, 1)
    assert share_with_same_output([SOUND, replace(SOUND, repeat=5)], [SOUND]) == (1, 1)


def test_later_answers_are_held_against_the_one_that_was_audited() -> None:
    answers = [replace(SOUND, repeat=1), replace(SOUND, process=1, output_sha256="another")]
    assert later_answers([SOUND, *answers], ["p"]) == (1, 2)
    assert later_answers(answers, ["p"]) == (0, 0), "nothing was audited"
    assert later_answers([SOUND, *answers], []) == (0, 0)
