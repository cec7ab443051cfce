"""The replay of steps, held to its slow twin, to lookups followed by hand and to early stops enumerated."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from specq.core.types import EXACT_RULES, Rule
from specq.decoding import law
from specq.forecast import replay
from specq.forecast.replay import Copied, Traced


def text(rng: np.random.Generator, total: int, *, stops: float | None = None) -> Traced:
    p, q = rng.uniform(0.05, 1, total), rng.uniform(0, 1, total) * (rng.random(total) > 0.1)
    hit = rng.choice([0.0, 0.5, 1.0], total)
    return Traced(p=p, q=q, hit=hit, stops=None if stops is None else rng.random(total) < stops)


def test_every_rule_and_k_of_ragged_texts_equals_the_recursion_one_by_one() -> None:
    rng = np.random.default_rng(1)
    texts = [text(rng, total) for total in (23, 1, 7, 2, 0, 40)]
    found = replay.steps(texts, 8)
    assert found.mean.shape == (6, len(EXACT_RULES), 8)
    for place, one in enumerate(texts):
        for row, rule in enumerate(EXACT_RULES):
            for k in (1, 2, 5, 8):
                mean, variance = law.steps(rule, one.p, one.q, one.hit, k) if len(one.p) else (0.0, 0.0)
                assert found.mean[place, row, k - 1] == pytest.approx(mean, abs=1e-9)
                assert found.variance[place, row, k - 1] == pytest.approx(variance, abs=1e-7)


def test_survival_equals_the_closed_form_at_every_start() -> None:
    one = text(np.random.default_rng(2), 12)
    found = replay.survival(one, 5)
    for row, rule in enumerate(EXACT_RULES):
        for start in range(12):
            reach = min(5, 12 - start)
            twin = law.survival(rule, one.p, one.q, one.hit, start, reach)
            assert found[row, start, : reach + 1] == pytest.approx(twin, abs=1e-12)
            assert (found[row, start, reach + 1 :] == 0).all()


def stopped(rule_share: np.ndarray, stops: np.ndarray, k: int, t: int, total: int) -> float:
    """Expected steps from position t on, by going through each outcome of each step."""
    if t >= total:
        return 0.0
    size = 0
    while size < min(k, total - t - 1):
        size += 1
        if stops[t + size - 1]:
            break
    expected, alive = 1.0, 1.0
    for n in range(size):
        share = rule_share[t + n]
        expected += alive * (1 - share) * stopped(rule_share, stops, k, t + n + 1, total)
        alive *= share
    return expected + alive * stopped(rule_share, stops, k, t + size + 1, total)


@pytest.mark.parametrize("rule", ["rejection", "greedy_draft", "match"])
def test_an_early_stop_by_the_drafts_own_law_ends_the_block_and_gives_the_bonus_token(rule: str) -> None:
    one = text(np.random.default_rng(3), 9, stops=0.3)
    shares = {"rejection": np.minimum(1, one.q / one.p), "greedy_draft": one.hit, "match": one.q}
    assert one.stops is not None
    for k in (1, 3, 6):
        found = replay.steps([one], 6).mean[0, EXACT_RULES.index(rule), k - 1]  # type: ignore[arg-type]
        assert found == pytest.approx(stopped(shares[rule], one.stops, k, 1, 9), abs=1e-9)


def test_a_draft_that_stops_by_its_own_law_equals_the_recursion_one_by_one() -> None:
    rng = np.random.default_rng(4)
    texts = [text(rng, total, stops=0.3) for total in (23, 1, 7, 2, 40)]
    found = replay.steps(texts, 8)
    for place, one in enumerate(texts):
        for row, rule in enumerate(EXACT_RULES):
            for k in (1, 2, 5, 8):
                mean, variance = law.steps(rule, one.p, one.q, one.hit, k, stops=one.stops)
                assert found.mean[place, row, k - 1] == pytest.approx(mean, abs=1e-9)
                assert found.variance[place, row, k - 1] == pytest.approx(variance, abs=1e-7)


def test_a_draft_that_is_never_sure_proposes_one_token_a_step() -> None:
    rng = np.random.default_rng(9)
    free = text(rng, 9)
    one = dataclasses.replace(free, stops=np.ones(9, dtype=bool))
    assert replay.steps([one], 4).mean == pytest.approx(np.repeat(replay.steps([free], 1).mean, 4, axis=2))
    assert replay.summed([one], np.arange(5.0)).mean == pytest.approx(
        np.repeat(replay.summed([free], np.arange(2.0)).mean, 4, axis=2)
    )


def test_what_is_proposed_off_the_text_is_taken_from_tokens_that_the_text_has() -> None:
    # The text's token 3 is one that the draft would stop at; what it says there itself, it is sure of.
    stops, unsure = np.zeros((2, 9), dtype=bool)
    stops[3] = stops[5] = unsure[5] = True
    one = Traced(p=np.full(9, 0.5), q=np.full(9, 1e-12), hit=np.zeros(9), stops=stops, unsure=unsure)
    found = replay.starts(one, "rejection", 4)
    assert found.proposed.tolist() == [4, 4, 4, 3, 2, 1, 2, 1, 0]
    assert replay.starts(dataclasses.replace(one, unsure=None), "rejection", 4).proposed[:4].tolist() == [4, 3, 2, 1]


def test_a_lookup_is_followed_along_its_own_starts() -> None:
    # Steps begin at position 1: 3 proposed and 2 taken, then at 4 nothing is known, at 5 all of 4 are taken.
    proposed, matched = np.array([0, 3, 9, 9, 0, 9, 9, 9, 9, 9]), np.array([0, 2, 9, 9, 0, 4, 0, 0, 0, 0])
    found = replay.steps([Copied(matched=matched, proposed=proposed)], 6)
    assert found.mean[0, :, 5].tolist() == [3.0] * 4
    assert (found.variance[0] == 0).all()
    # With k = 1 the steps begin at 1, 3, 5, 7, 8 and 9.
    assert found.mean[0, 0, 0] == 6.0


def test_costs_follow_what_each_step_proposes() -> None:
    # A perfect draft of 3 on 8 tokens: steps of 3 proposals emit 4, then 2 proposals end the text at token 7.
    one = Traced(p=np.full(8, 0.5), q=np.full(8, 0.5), hit=np.ones(8))
    cost = np.array([1.0, 10.0, 100.0, 1000.0])
    found = replay.summed([one], cost)
    assert found.mean[0, EXACT_RULES.index("rejection"), 2] == pytest.approx(1100.0)


def test_a_text_that_the_target_did_not_write_is_refused() -> None:
    with pytest.raises(ValueError, match="did not write"):
        Traced(p=np.array([0.5, 0.0]), q=np.ones(2), hit=np.ones(2))
    with pytest.raises(ValueError, match=r"q \(3,\)"):
        Traced(p=np.ones(2), q=np.ones(3), hit=np.ones(2))
    with pytest.raises(ValueError, match="q must lie"):
        Traced(p=np.ones(2), q=np.array([0.5, 1.5]), hit=np.ones(2))


def begun(alive: np.ndarray, k: int, t: int, total: int, chance: float, found: np.ndarray) -> None:
    """Adds the chance of a step at t, and of all that follow it, by going through each outcome of each step."""
    if t >= total:
        return
    found[t] += chance
    reach = min(k, total - t - 1)
    for n in range(reach + 1):
        share = alive[t, n] - (alive[t, n + 1] if n < reach else 0.0)
        begun(alive, k, t + n + 1, total, chance * share, found)


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_steps_start_where_an_enumeration_of_all_outcomes_has_them(rule: Rule) -> None:
    one, k = text(np.random.default_rng(5), 9), 3
    found, twin = replay.starts(one, rule, k), np.zeros(9)
    begun(replay.survival(one, k)[EXACT_RULES.index(rule)], k, 1, 9, 1.0, twin)
    assert found.chance == pytest.approx(twin, abs=1e-12)


@pytest.mark.parametrize("stops", [None, 0.3])
def test_starts_add_up_to_the_steps_their_cost_and_the_tokens_of_the_text(stops: float | None) -> None:
    rng, k = np.random.default_rng(6), 5
    several: list[Traced | Copied] = [
        dataclasses.replace(text(rng, total, stops=stops), room=room)
        for total, room in ((23, 0), (23, 3), (1, 9), (7, 9), (2, 0), (2, 1), (0, 4))
    ]
    proposed, matched = np.array([0, 3, 1, 2, 4, 0, 9, 9]), np.array([0, 2, 0, 1, 4, 0, 0, 0])
    several.append(Copied(matched=matched, proposed=proposed))
    several.append(Copied(matched=matched, proposed=proposed, elsewhere=text(rng, 8, stops=stops), room=2))
    costs = [rng.uniform(1, 2, (len(one), k + 1)) for one in several]
    counts, sums = replay.steps(several, k).mean, replay.summed(several, costs).mean
    for row, rule in enumerate(EXACT_RULES):
        for place, (one, cost) in enumerate(zip(several, costs, strict=True)):
            found = replay.starts(one, rule, k)
            spent = found.chance * cost[np.arange(len(one)), found.proposed]
            assert found.chance.sum() == pytest.approx(counts[place, row, k - 1], abs=1e-9)
            assert spent.sum() == pytest.approx(sums[place, row, k - 1], abs=1e-9)
            assert (found.chance * found.emitted).sum() == pytest.approx(max(0, len(one) - 1), abs=1e-9)


def test_a_cost_by_position_is_taken_where_the_step_starts_and_not_where_it_ends() -> None:
    # A perfect draft of 3 on 8 tokens: steps at 1 and 5, with 3 and 2 proposals.
    one = Traced(p=np.full(8, 0.5), q=np.full(8, 0.5), hit=np.ones(8))
    cost = np.arange(8.0)[:, None] * 10 + np.arange(4.0)
    assert replay.summed([one], [cost]).mean[0, 0, 2] == pytest.approx((10 + 3) + (50 + 2))


def test_a_lookup_before_a_draft_has_its_law_where_it_copies_and_the_drafts_elsewhere() -> None:
    rng = np.random.default_rng(8)
    several = []
    for total in (23, 1, 6, 40):
        proposed = np.where(rng.random(total) < 0.4, 32, 0)
        matched = np.where(proposed > 0, rng.integers(0, 6, total), 0)
        several.append(Copied(matched=matched, proposed=proposed, elsewhere=text(rng, total)))
    found = replay.steps(several, 6)
    for place, one in enumerate(several):
        other = one.elsewhere
        assert other is not None
        for row, rule in enumerate(EXACT_RULES):
            for k in (1, 3, 6):
                twin = law.steps(rule, other.p, other.q, other.hit, k, (one.proposed, one.matched))
                assert found.mean[place, row, k - 1] == pytest.approx(twin[0], abs=1e-9)
                assert found.variance[place, row, k - 1] == pytest.approx(twin[1], abs=1e-7)


def test_a_lookup_and_a_draft_of_two_texts_are_joined() -> None:
    with pytest.raises(ValueError, match=r"elsewhere 4: all must be of one text"):
        Copied(matched=np.zeros(5), proposed=np.zeros(5), elsewhere=text(np.random.default_rng(1), 4))
