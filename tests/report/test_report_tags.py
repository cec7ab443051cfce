from __future__ import annotations

import itertools

import pytest

from specq.report.measures import Measure
from specq.report.speed import Stratum
from specq.report.tags import by_tag, state


def tag(name: str, value: float | None, low: float | None = None, high: float | None = None) -> Stratum:
    speedup = Measure(name="speedup", unit="ratio", value=value, low=low, high=high, n=3)
    return Stratum(tag=name, n=3, speedup=speedup, tokens_per_step=None, draft_acceptance=None)


FASTER, SLOWER = (2.0, 1.5, 2.5), (0.5, 0.4, 0.6)
EVEN, UNCLEAR = (1.0, 0.95, 1.05), (1.0, 0.5, 2.0)
WORDS = {"faster": FASTER, "slower": SLOWER, "even": EVEN, "unclear": UNCLEAR}


@pytest.mark.parametrize("word", WORDS)
def test_a_tag_gets_the_word_that_its_interval_forbids(word: str) -> None:
    assert state(tag("t", *WORDS[word]).speedup) == word


def test_a_wide_interval_around_1_or_none_passes_for_even() -> None:
    assert state(tag("t", 1.0, 0.89, 1.05).speedup) == "unclear"
    assert state(tag("t", 1.0, 0.95, 1.11).speedup) == "unclear"
    assert state(tag("t", 3.0).speedup) == "unclear"


@pytest.mark.parametrize(("a", "b"), [*itertools.product(WORDS, repeat=2)])
def test_two_tags_in_every_pair_of_states_are_told_by_their_own_words(a: str, b: str) -> None:
    said = by_tag([tag("A", *WORDS[a]), tag("B", *WORDS[b])])
    if a == b == "unclear":
        assert said == "no tag stands out"
        return
    assert said.startswith("by tag ")
    for name, word in (("A", a), ("B", b)):
        ratio, low, high = WORDS[word]
        shown = f"{name} ({ratio:.2f}, {low:.2f} to {high:.2f}, n = 3)"
        # The last word of a state before the tag is the tag's own.
        before = said[: said.index(shown)]
        assert max(WORDS, key=lambda state: before.rfind(f"{state} on ")) == word
    assert said.count(" on ") == len({a, b})


def test_a_slower_tag_is_called_the_best_one() -> None:
    said = by_tag([tag("A", 0.9, 0.85, 0.95), tag("B", 0.5, 0.4, 0.6)])
    assert said == "by tag slower on B (0.50, 0.40 to 0.60, n = 3) and A (0.90, 0.85 to 0.95, n = 3)"


def test_many_tags_of_one_word_are_counted_after_the_strongest_two() -> None:
    said = by_tag([tag(f"t{i}", 1.5 + i, 1.2 + i, 1.8 + i) for i in range(5)])
    assert said == "by tag faster on t4 (5.50, 5.20 to 5.80, n = 3), t3 (4.50, 4.20 to 4.80, n = 3) and 3 more"


def test_one_tag_or_unmeasured_ones_say_nothing() -> None:
    assert by_tag([tag("A", *FASTER)]) == ""
    assert by_tag([tag("A", *FASTER), tag("B", None)]) == ""
