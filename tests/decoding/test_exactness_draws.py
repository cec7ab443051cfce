"""Draws: 100,000 texts of the batched rules a cell, and 500 or 1,000 runs of the real loop a cell."""

from __future__ import annotations

import pytest
import toy
from toy_checks import alarms, drawn_law, loop_law, separate

from specq.core.types import EXACT_RULES, Rule, Sampling
from specq.decoding.drafters.lookup import LookupDrafter, NgramIndex, SuffixIndex

one_thread = pytest.fixture(autouse=True, scope="module")(toy.one_thread)

PAIR = toy.toy(4)


def test_batched_rules_write_the_targets_law() -> None:
    p_values = {
        f"{rule} {name}": drawn_law(toy.tree(PAIR, toy.SAMPLINGS[name], 3), rule, uniforms=separate(number))
        for number, (rule, name) in enumerate(toy.CELLS)
    }
    assert alarms(p_values) == []


def test_the_loop_writes_the_targets_law() -> None:
    # About the chance that some cell of its rule alarms, from the exact law of what it writes: a skipped residual and a
    # block rule that weighs its inner places wrongly, 1.000 at 300 runs a cell; acceptance that goes on after a
    # refusal, 1.000 at 300 under block and match, and under rejection 0.98 at 1,000, 0.25 at 500.
    p_values = {
        f"{rule} {name}": loop_law(
            PAIR,
            rule,
            toy.SAMPLINGS[name],
            count=1000 if rule == "rejection" else 500,
            drafter=toy.model_drafter(PAIR, rule),
        )
        for rule, name in toy.CELLS
    }
    assert alarms(p_values) == []


def test_the_loop_writes_the_targets_law_with_lookup_and_without_a_draft() -> None:
    # Proposals without probabilities, at temperatures above 0, under every rule.
    indexes: list[tuple[Rule, str, NgramIndex | SuffixIndex]] = [
        ("rejection", "T=1.0 none", NgramIndex(3, 1)),
        ("greedy_draft", "T=1.5 top-k", SuffixIndex(1)),
        ("match", "T=1.0 penalty", NgramIndex(2, 1)),
        ("block", "T=0.5 top-p", NgramIndex(3, 1)),
        ("block", "T=1.5 penalty", SuffixIndex(1)),
    ]
    p_values = {
        f"lookup {rule} {name}": loop_law(PAIR, rule, toy.SAMPLINGS[name], count=1500, drafter=LookupDrafter(index))
        for rule, name, index in indexes
    }
    p_values |= {
        f"plain {name}": loop_law(PAIR, "match", toy.SAMPLINGS[name], count=1500, drafter=None)
        for name in ("T=1.0 none", "T=0.5 penalty")
    }
    assert alarms(p_values) == []


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_same_seed_same_tokens_whatever_ran_before(rule: Rule) -> None:
    def text(seeds: list[int]) -> dict[int, list[int]]:
        out = {}
        for seed in seeds:
            one = toy.request(Sampling(temperature=1.0, max_new_tokens=12, seed=seed), rule)
            toy.run(PAIR, one, 3)
            out[seed] = one.new_ids
        return out

    assert text([1, 2, 3]) == text([3, 1, 2])
    assert len({tuple(ids) for ids in text([1, 2, 3]).values()}) == 3


def test_runs_with_streams_of_their_own_write_the_targets_law() -> None:
    # As requests are made in earnest: consecutive seeds, and each run its own three streams.
    p_values: dict[str, float] = {
        rule: loop_law(
            PAIR, rule, toy.SAMPLINGS["T=1.0 none"], count=1000, drafter=toy.model_drafter(PAIR, rule), fresh=True
        )
        for rule in EXACT_RULES
    }
    assert alarms(p_values) == []
