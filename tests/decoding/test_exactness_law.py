"""Exact enumeration: what every rule writes has the target's law, to the last digits."""

from __future__ import annotations

import numpy as np
import pytest
import toy
from toy_enumeration import by_code, by_definition, text_law

from specq.core.types import EXACT_RULES, Rule

one_thread = pytest.fixture(autouse=True, scope="module")(toy.one_thread)

PAIR = toy.toy(4)
ORDER_1 = toy.toy(5, order=1)


def repeats(node: int) -> int:
    """A draft that copies: a fixed proposal for each text."""
    return (5 * node + 2) % 4


@pytest.mark.parametrize("name", toy.SAMPLINGS)
@pytest.mark.parametrize("rule", EXACT_RULES)
def test_law_of_three_tokens_is_the_targets(rule: Rule, name: str) -> None:
    at = toy.tree(PAIR, toy.SAMPLINGS[name], 3)
    for outcomes in (by_definition(at, rule), by_code(at, rule)):
        assert text_law(at, outcomes, 2, 3) == pytest.approx(at.law(3), abs=1e-6)


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_law_holds_for_an_order_1_pair_of_five_words(rule: Rule) -> None:
    at = toy.tree(ORDER_1, toy.SAMPLINGS["T=1.5 top-p"], 3)
    for outcomes in (by_definition(at, rule), by_code(at, rule)):
        assert text_law(at, outcomes, 2, 3) == pytest.approx(at.law(3), abs=1e-6)


@pytest.mark.parametrize("name", ["T=0.5 top-k", "T=1.0 penalty", "T=1.5 none"])
@pytest.mark.parametrize("rule", EXACT_RULES)
def test_law_of_fixed_proposals_is_the_targets(rule: Rule, name: str) -> None:
    at = toy.tree(PAIR, toy.SAMPLINGS[name], 3)
    for outcomes in (by_definition(at, rule, fixed=repeats), by_code(at, rule, fixed=repeats)):
        assert text_law(at, outcomes, 2, 3) == pytest.approx(at.law(3), abs=1e-6)


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_code_and_definition_agree_outcome_by_outcome(rule: Rule) -> None:
    # Two wrong laws could still add up to the right one.
    at = toy.tree(PAIR, toy.SAMPLINGS["T=1.0 none"], 4)
    wanted, found = np.zeros((4, 400)), np.zeros((4, 400))
    for table, outcomes in ((wanted, by_definition(at, rule)), (found, by_code(at, rule))):
        for accepted, after, mass in outcomes(0, 3):
            table[accepted, after] += mass
    assert wanted.sum() == pytest.approx(1.0, abs=1e-6)
    assert found == pytest.approx(wanted, abs=1e-6)


def test_block_accepts_more_than_rejection() -> None:
    at = toy.tree(PAIR, toy.SAMPLINGS["T=1.0 none"], 4)
    mean = {
        rule: sum(accepted * mass for accepted, _, mass in by_code(at, rule)(0, 3)) for rule in ("rejection", "block")
    }
    assert mean["block"] > mean["rejection"] + 0.01
