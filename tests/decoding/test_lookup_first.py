"""A lookup before another draft: the target's law, the law of its steps, and a cache in step after copied blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import toy
import toy_planted as planted
from toy_checks import ALARM, CONTROL, alarms, loop_law, scored, two_sided

from specq.core.types import EXACT_RULES, Rule, Sampling
from specq.decoding import audit, law
from specq.decoding.drafters import Drafter, Proposal
from specq.decoding.drafters.chain import ModelDrafter
from specq.decoding.drafters.lookup import LookupDrafter, LookupFirstDrafter, NgramIndex, SuffixIndex

one_thread = pytest.fixture(autouse=True, scope="module")(toy.one_thread)

PAIR = toy.toy(4)
SHARP = toy.toy(4, spread=2.5, apart=0.8)
PLAIN = toy.SAMPLINGS["T=1.0 none"]


def index() -> NgramIndex:
    """Long enough that the texts of toys have no place for it about as often as they have one."""
    return NgramIndex(3, 2)


def after_lookup(pair: toy.Toy, rule: Rule, kind: type[LookupFirstDrafter] = LookupFirstDrafter) -> LookupFirstDrafter:
    return kind(LookupDrafter(index()), toy.model_drafter(pair, rule))


class ScoredByTheDraft(LookupFirstDrafter):
    """Copied tokens come with the q that the draft would have had, as if it had drawn them."""

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        copied = self._lookup.propose(ids, k)
        drafted = self._other.propose(ids, k)
        return Proposal(copied.ids, drafted.q) if copied.ids else drafted


class MixedBlocks(LookupFirstDrafter):
    """The first token of a block is copied, what follows is drafted, and all of it has the draft's q."""

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        copied = self._lookup.propose(ids, k)
        drafted = self._other.propose(ids, k)
        return Proposal([*copied.ids[:1], *drafted.ids[1:]], drafted.q) if copied.ids else drafted


class SkipsCopied(LookupFirstDrafter):
    """The draft goes on after copied blocks as if they had not been: it is fed the last token alone."""

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        copied = self._lookup.propose(ids, k)
        if copied.ids:
            return copied
        session = cast(ModelDrafter, self._other)._session
        gap = len(ids) - 1 - session.length
        if gap > 1:
            cast(Any, session).held.extend([0] * gap)
        return self._other.propose(ids, k)


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_the_loop_writes_the_targets_law_whoever_proposes(rule: Rule) -> None:
    names = ("T=1.0 none", "T=1.5 top-k", "T=0.5 top-p", "T=1.0 penalty")
    p_values = {
        name: loop_law(PAIR, rule, toy.SAMPLINGS[name], count=700, k=2, drafter=after_lookup(PAIR, rule))
        for name in names
    }
    assert alarms(p_values) == []


@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize("wrong", [ScoredByTheDraft, MixedBlocks])
def test_planted_q_of_the_draft_for_copied_tokens_is_caught(rule: Rule, wrong: type[LookupFirstDrafter]) -> None:
    # A text of four tokens after a prompt that repeats itself: almost every step may copy.
    drafter = wrong(LookupDrafter(NgramIndex(2, 1)), toy.model_drafter(PAIR, rule))
    assert loop_law(PAIR, rule, PLAIN, count=3000, drafter=drafter) < CONTROL


def steps_p(rule: Rule, sampling: Sampling, k: int, drafter: Drafter, *, count: int = 60) -> tuple[float, set[bool]]:
    """The steps of the real loop against law.steps given the texts: a p-value, and who proposed."""
    done = toy.runs(SHARP, rule, replace(sampling, max_new_tokens=20), k, count, drafter=drafter)
    warper = toy.MemoWarper(sampling, prompt_tokens=len(toy.PROMPT), eos_ids=())
    over = variance = 0.0
    for one in done:
        copies = audit.lookup_copies(LookupDrafter(index()), warper, toy.PROMPT, one.new_ids, k)
        mean, spread = law.steps(rule, *scored(SHARP, warper, one), k, copies)
        over, variance = over + len(one.steps) - mean, variance + spread
    seen = {step.copied > 0 for one in done for step in one.steps if step.proposed}
    assert all(step.copied in (0, step.proposed) for one in done for step in one.steps)
    return two_sided(over, variance), seen


@pytest.mark.parametrize("name", ["T=1.0 penalty", "T=1.5 top-p"])
@pytest.mark.parametrize("rule", EXACT_RULES)
def test_steps_are_those_of_the_lookup_where_it_copies_and_of_the_draft_elsewhere(rule: Rule, name: str) -> None:
    for k in (1, 3):
        p_value, seen = steps_p(rule, toy.SAMPLINGS[name], k, after_lookup(SHARP, rule))
        assert seen == {True, False}
        assert p_value > ALARM / 16


def trims_too_few() -> LookupFirstDrafter:
    session: Any = planted.TrimsTooFew(SHARP.draft)
    other = ModelDrafter(session, sampled=True, vocabulary=SHARP.words)
    return LookupFirstDrafter(LookupDrafter(index()), other)


def skips_copied() -> LookupFirstDrafter:
    return after_lookup(SHARP, "rejection", SkipsCopied)


@pytest.mark.parametrize("wrong", [trims_too_few, skips_copied])
def test_planted_cache_out_of_step_after_copied_blocks_is_caught(wrong: Callable[[], LookupFirstDrafter]) -> None:
    # What is written stays right, whatever the draft's cache holds: the steps do not.
    assert steps_p("rejection", PLAIN, 3, wrong(), count=400)[0] < CONTROL


def test_planted_law_of_the_draft_alone_is_caught() -> None:
    done = toy.runs(SHARP, "rejection", replace(PLAIN, max_new_tokens=20), 3, 300, drafter=after_lookup(SHARP, "match"))
    warper = toy.MemoWarper(PLAIN, prompt_tokens=len(toy.PROMPT), eos_ids=())
    over = variance = 0.0
    for one in done:
        mean, spread = law.steps("rejection", *scored(SHARP, warper, one), 3)
        over, variance = over + len(one.steps) - mean, variance + spread
    assert two_sided(over, variance) < CONTROL


@pytest.mark.parametrize("make", [lambda: NgramIndex(3, 2), lambda: SuffixIndex(2)], ids=["ngram", "suffix"])
def test_a_match_that_is_too_short_is_copied_or_a_long_one_is_not(make: Any) -> None:
    said = []

    class Other:
        def start(self, ids: Sequence[int], warper: Any, stream: Any) -> None:
            said.append(("start", list(ids)))

        def propose(self, ids: Sequence[int], k: int) -> Proposal:
            return Proposal([99] * k, None)

        def commit(self, ids: Sequence[int]) -> None:
            said.append(("commit", list(ids)))

    drafter = LookupFirstDrafter(LookupDrafter(make()), Other())
    drafter.start([5, 6, 7, 8, 1, 6], cast(Any, None), np.random.default_rng(0))
    # One token alone was seen before, then two of them.
    assert drafter.propose([5, 6, 7, 8, 1, 6], 3) == ([99, 99, 99], None, False)
    drafter.commit([5, 6, 7, 8, 1, 6, 7])
    assert drafter.propose([5, 6, 7, 8, 1, 6, 7], 3) == ([8, 1, 6], None, True)
    assert said == [("start", [5, 6, 7, 8, 1, 6]), ("commit", [5, 6, 7, 8, 1, 6, 7])]
