"""Bounds of replayed steps: they hold for every law within the bounds of its probabilities, and are reached."""

from __future__ import annotations

import numpy as np
import pytest

from specq.core.types import EXACT_RULES
from specq.forecast import between, replay
from specq.forecast.between import Between
from specq.forecast.replay import Traced

T, K = 14, 6
BLOCK = EXACT_RULES.index("block")
Ends = tuple[np.ndarray, np.ndarray, np.ndarray]


def drawn(rng: np.random.Generator) -> Ends:
    """Least and greatest p, q and hit of a text, [2, T] each."""
    p, q = (np.sort(np.exp(-rng.exponential(1.5, (2, T)) * rng.choice([0.2, 2], T)), axis=0) for _ in range(2))
    return p, q, np.sort(rng.integers(0, 2, (2, T)).astype(float), axis=0)


def bounded(ends: Ends, size: int = T) -> Between:
    p, q, hit = (each[:, :size] for each in ends)
    return Between(
        ratio=(np.log(q[0] / p[1]), np.log(q[1] / p[0])),
        q=(q[0], q[1]),
        hit=(hit[0], hit[1]),
    )


def inside(ends: Ends, rng: np.random.Generator, count: int) -> list[Traced]:
    """Texts whose probabilities lie between the ends, half of them at ends."""
    found = []
    for number in range(count):
        p, q, hit = (
            least + (greatest - least) * (rng.integers(0, 2, T) if number % 2 or place == 2 else rng.random(T))
            for place, (least, greatest) in enumerate(ends)
        )
        found.append(Traced(p=p, q=q, hit=hit))
    return found


def outside(ends: Ends, least: np.ndarray, greatest: np.ndarray, cost: np.ndarray, seed: int) -> np.ndarray:
    """How many texts between the ends cost less or more than the bounds, by rule."""
    found = replay.summed(inside(ends, np.random.default_rng(seed), 20), cost).mean
    faults: np.ndarray = ((found < least - 1e-9) | (found > greatest + 1e-9)).sum(axis=(0, 2))
    return faults


COSTS = {"steps": np.ones(K + 1), "seconds": 1 + 0.3 * np.arange(K + 1), "jumps": 1 + np.array([0, 3, 1, 4, 0, 5, 9])}


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_a_law_within_the_bounds_costs_less_or_more_than_they_say(cost: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    for seed in range(40):
        ends = drawn(rng)
        least, greatest = between.summed([bounded(ends)], cost)
        assert (least > 0).all()
        assert (outside(ends, least, greatest, cost, seed) == 0).all()


def test_the_ends_of_the_probabilities_would_be_bounds_under_block() -> None:
    """The planted fault: replay with all p low and all q high, and the other way round."""
    rng, cost, faults = np.random.default_rng(0), COSTS["steps"], np.zeros(len(EXACT_RULES))
    for seed in range(40):
        ends = drawn(rng)
        p, q, hit = ends
        fast, slow = Traced(p=p[0], q=q[1], hit=hit[1]), Traced(p=p[1], q=q[0], hit=hit[0])
        least, greatest = replay.summed([fast], cost).mean, replay.summed([slow], cost).mean
        faults += outside(ends, least, greatest, cost, seed)
        # Under the other rules they are, and the bounds are as narrow as that.
        found = between.summed([bounded(ends)], cost)
        for row in set(range(len(EXACT_RULES))) - {BLOCK}:
            assert found[0][:, row] == pytest.approx(least[:, row])
            assert found[1][:, row] == pytest.approx(greatest[:, row])
    assert faults[BLOCK] > 5
    assert (np.delete(faults, BLOCK) == 0).all()


def test_known_probabilities_are_replayed_otherwise_than_by_the_recursion() -> None:
    rng = np.random.default_rng(3)
    texts, twins = [], []
    for size in (14, 2, 9):
        p, q, hit = drawn(rng)
        texts.append(bounded((p[[0, 0]], q[[1, 1]], hit[[0, 0]]), size))
        twins.append(Traced(p=p[0, :size], q=q[1, :size], hit=hit[0, :size]))
    cost = COSTS["jumps"]
    least, greatest = between.summed(texts, cost)
    assert least == pytest.approx(greatest)
    assert least == pytest.approx(replay.summed(twins, cost).mean)
    for text, twin in zip(texts, twins, strict=True):
        assert between.survival(text, K)[0] == pytest.approx(replay.survival(twin, K))


def test_a_token_that_is_never_accepted_is() -> None:
    p, q, hit = np.full((2, T), 0.5), np.full((2, T), 0.9), np.ones((2, T))
    text = bounded((p, q, hit))
    for pair, nothing in ((text.ratio, -np.inf), (text.q, 0.0), (text.hit, 0.0)):
        for end in pair:
            end[4] = nothing
    alive = between.survival(text, K)[1]
    assert (alive[:, 1:4, 4:] == 0).all()
    assert (alive[:, 4, 1:] == 0).all()
    assert (alive[:, 5, 1] > 0).all()


def test_probabilities_too_small_for_a_quotient_end_as_nan() -> None:
    tiny = np.full(T, -2000.0)
    text = Between(ratio=(tiny, -tiny), q=(np.zeros(T), np.full(T, 5e-324)), hit=(np.zeros(T), np.ones(T)))
    least, greatest = between.summed([text], COSTS["steps"])
    assert (least <= greatest).all()
    assert greatest == pytest.approx(T - 1)
    assert least[0, BLOCK] == pytest.approx(least[0, EXACT_RULES.index("rejection")])
