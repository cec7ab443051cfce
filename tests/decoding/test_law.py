"""The closed form of the accepted length, held to enumeration, to draws and to the real loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import toy
from toy_checks import alarms, along, drawn_accepted, loop_accepted, separate
from toy_enumeration import by_code, by_definition, steps_law

from specq.core.types import EXACT_RULES, Rule
from specq.decoding import law

one_thread = pytest.fixture(autouse=True, scope="module")(toy.one_thread)

PAIR = toy.toy(3, spread=0.8)
NAMES = ("T=1.0 penalty", "T=1.5 top-p")
GRID = list(itertools.product(EXACT_RULES, (1, 3, 6), NAMES))


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_survival_is_the_share_of_each_text_that_the_rule_writes_this_way(rule: Rule) -> None:
    at = toy.tree(PAIR, toy.SAMPLINGS["T=1.5 top-p"], 4)
    joint: dict[tuple[int, int], float] = {}
    for accepted, after, mass in by_code(at, rule)(0, 3):
        joint[accepted, after] = joint.get((accepted, after), 0.0) + mass
    seen = 0
    for text, chance in zip(itertools.product(range(3), repeat=4), at.law(4), strict=True):
        if chance < 1e-6:
            continue
        p, q, hit = along(at, text)
        nodes = list(itertools.accumulate(text, at.child, initial=0))
        # What the step leaves of the text is the target's own.
        shares = np.array([joint.get((n, nodes[n + 1]), 0.0) / p[: n + 1].prod() for n in range(4)])
        assert law.survival(rule, p, q, hit, 0, 3) == pytest.approx(shares[::-1].cumsum()[::-1], abs=1e-5)
        seen += 1
    assert seen > 10


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("rule", EXACT_RULES)
def test_mean_and_variance_of_steps_are_those_of_the_enumeration(rule: Rule, k: int) -> None:
    at = toy.tree(PAIR, toy.SAMPLINGS["T=1.0 penalty"], 5)
    joint = steps_law(at, by_definition(at, rule), k, 5, start=1)
    counts = np.array(list(joint))
    for number, text in enumerate(itertools.product(range(3), repeat=5)):
        mass = np.array([joint[steps][number] for steps in counts])
        mass /= mass.sum()
        mean = mass @ counts
        found = law.steps(rule, *along(at, text), k)
        assert found == pytest.approx((mean, mass @ (counts - mean) ** 2), abs=1e-6)


def test_steps_of_one_token_are_none_and_of_two_are_one() -> None:
    p, hit = np.array([0.5, 0.5]), np.array([True, True])
    assert law.steps("rejection", p[:1], p[:1], hit[:1], 4) == (0.0, 0.0)
    assert law.steps("rejection", p, p, hit, 4) == (1.0, 0.0)


def test_a_perfect_draft_takes_the_fewest_steps_under_every_rule_that_sees_it() -> None:
    p, hit = np.full(13, 0.25), np.full(13, True)
    for rule in ("rejection", "greedy_draft", "block"):
        assert law.steps(rule, p, p, hit, 3) == pytest.approx((3.0, 0.0))
    assert law.steps("match", p, p, hit, 3)[0] > 8


def test_survival_does_not_drown_in_products_of_tiny_numbers() -> None:
    p, hit = np.full(8, 1e-60), np.full(8, True)
    assert law.survival("block", p, np.ones(8), hit, 0, 8).tolist() == [1.0] * 9
    assert law.survival("block", np.ones(8), p, hit, 0, 8)[-1] == 0.0
    assert law.survival("block", p, np.array([0.5, 0.0, *[0.5] * 6]), hit, 0, 8).tolist() == [1, 1, *[0] * 7]


def test_block_never_accepts_less_than_rejection() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        p, q = rng.random((2, 6))
        hit = np.zeros(6, dtype=bool)
        block, rejection = (law.survival(rule, p, q, hit, 0, 6) for rule in ("block", "rejection"))
        assert (block >= rejection - 1e-12).all()


def test_batched_rules_accept_as_the_closed_form_says() -> None:
    p_values = {
        f"{rule} k={k} {name}": drawn_accepted(
            toy.tree(PAIR, toy.SAMPLINGS[name], k + 1), rule, k, uniforms=separate(number)
        )
        for number, (rule, k, name) in enumerate(GRID)
    }
    assert alarms(p_values) == []


@pytest.mark.parametrize("eos", [(), (2,)], ids=["to-the-limit", "eos-inside-a-block"])
def test_the_loop_accepts_as_the_closed_form_says(eos: tuple[int, ...]) -> None:
    p_values: dict[str, float] = {}
    for rule, k, name in GRID:
        accepted, steps = loop_accepted(PAIR, rule, toy.SAMPLINGS[name], k, count=60 if eos else 25, eos=eos)
        p_values |= {f"accepted {rule} k={k} {name}": accepted, f"steps {rule} k={k} {name}": steps}
    assert alarms(p_values) == []
