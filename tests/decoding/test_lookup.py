"""Lookup indexes against rescans of the whole text, and what they cost."""

from __future__ import annotations

import random

import numpy as np
import pytest

from specq.core.types import Sampling
from specq.decoding.drafters.lookup import LookupDrafter, NgramIndex, SuffixIndex
from specq.decoding.sampling import Warper


def scan_ngram(ids, longest, shortest):
    """The slow twin: the most recent earlier place of the longest n-gram that ends the text."""
    for n in range(longest, shortest - 1, -1):
        if len(ids) < n:
            continue
        for start in range(len(ids) - n - 1, -1, -1):
            if ids[start : start + n] == ids[len(ids) - n :]:
                return start + n
    return None


def scan_suffix(ids, shortest):
    """The slow twin: the first place of the longest suffix that ends earlier too."""
    for n in range(len(ids) - 1, shortest - 1, -1):
        for start in range(len(ids) - n):
            if ids[start : start + n] == ids[len(ids) - n :]:
                return start + n
    return None


def texts():
    chance = random.Random(7)
    for alphabet in (1, 2, 3, 5):
        for _ in range(12):
            yield [chance.randrange(alphabet) for _ in range(chance.randint(1, 60))]
    for period in (1, 2, 3, 7):
        yield (list(range(period)) * 60)[:50]


@pytest.mark.parametrize(("longest", "shortest"), [(3, 1), (3, 3), (1, 1), (5, 2)])
def test_an_ngram_is_found_where_a_rescan_finds_none_or_another(longest, shortest):
    for text in texts():
        index = NgramIndex(longest, shortest)
        for at, token in enumerate(text, start=1):
            index.extend([token])
            assert index.follow() == scan_ngram(text[:at], longest, shortest)


@pytest.mark.parametrize("shortest", [1, 2, 4])
def test_a_suffix_is_found_where_a_rescan_finds_none_or_another(shortest):
    for text in texts():
        index = SuffixIndex(shortest)
        for at, token in enumerate(text, start=1):
            index.extend([token])
            assert index.follow() == scan_suffix(text[:at], shortest)


def test_a_planted_suffix_index_that_never_splits_passes(monkeypatch):
    """The comparison above must see an automaton that skips its clones."""
    monkeypatch.setattr(SuffixIndex, "_split", lambda self, state, token, target: target)
    with pytest.raises(AssertionError):
        test_a_suffix_is_found_where_a_rescan_finds_none_or_another(1)


@pytest.mark.parametrize("index", [NgramIndex(3, 1), SuffixIndex(1)], ids=["ngram", "suffix"])
def test_the_end_of_the_text_matches_itself(index):
    index.extend([1, 2, 3, 4, 5, 6])
    assert index.follow() is None
    index.clear()
    assert index.follow() is None
    for text in texts():
        index.clear()
        index.extend(text)
        assert (at := index.follow()) is None or 0 < at < len(text)


@pytest.mark.parametrize("make", [lambda: NgramIndex(3, 1), lambda: SuffixIndex(1)], ids=["ngram", "suffix"])
def test_growing_by_one_or_by_many_tokens_gives_another_index(make):
    for text in texts():
        whole, bits = make(), make()
        whole.extend(text)
        for n in range(0, len(text), 4):
            bits.extend(text[n : n + 4])
        assert whole.follow() == bits.follow()
        assert whole.ids == bits.ids == text


class Counted(dict):
    """A dictionary that counts how often any of its kind is touched."""

    touched = 0

    def __contains__(self, key):
        Counted.touched += 1
        return super().__contains__(key)

    def __getitem__(self, key):
        Counted.touched += 1
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        Counted.touched += 1
        super().__setitem__(key, value)

    def get(self, key, default=None):
        Counted.touched += 1
        return super().get(key, default)


class CountedSuffix(SuffixIndex):
    """A suffix index whose edges are counted; copying a state costs its edges."""

    def clear(self):
        super().clear()
        self._edges = [Counted()]

    def _state(self, edges, length, first_end):
        Counted.touched += len(edges)
        return super()._state(Counted(edges), length, first_end)


class CountedNgram(NgramIndex):
    def clear(self):
        super().clear()
        self._next = {n: Counted() for n in self._sizes}


def work(index, text):
    """How many dictionary operations it takes to index a text and to look once a token."""
    Counted.touched = 0
    index.clear()
    for token in text:
        index.extend([token])
        index.follow()
    return Counted.touched


@pytest.mark.parametrize("index", [CountedNgram(3, 1), CountedSuffix(1)], ids=["ngram", "suffix"])
def test_a_token_costs_more_the_longer_the_text(index):
    chance = random.Random(3)
    for alphabet in (1, 2, 4, 50, 4000):
        text = [chance.randrange(alphabet) for _ in range(4000)]
        assert work(index, text) <= 12 * len(text)
    periodic = list(range(9)) * 500
    assert work(index, periodic) <= 12 * len(periodic)
    # The text that makes an automaton split most often.
    splits = [0, *[1, 1] * 1500, *[0, 1] * 600]
    assert work(index, splits) <= 12 * len(splits)


def test_the_automaton_grows_faster_than_the_text():
    """At most 2 T states and 3 T edges (Blumer et al. 1985)."""
    for text in texts():
        index = SuffixIndex(1)
        index.extend(text)
        assert len(index._edges) <= max(2, 2 * len(text))
        assert sum(map(len, index._edges)) <= max(2, 3 * len(text))


def started(index, ids):
    drafter = LookupDrafter(index)
    sampling = Sampling()
    drafter.start(ids, Warper(sampling, prompt_tokens=len(ids), eos_ids=()), np.random.default_rng(0))
    return drafter


@pytest.mark.parametrize("index", [NgramIndex(3, 1), SuffixIndex(1)], ids=["ngram", "suffix"])
def test_a_proposal_is_not_what_followed(index):
    drafter = started(index, [5, 6, 7, 8, 9, 5, 6])
    assert drafter.propose([5, 6, 7, 8, 9, 5, 6], 3) == ([7, 8, 9], None, True)
    assert drafter.propose([5, 6, 7, 8, 9, 5, 6], 1).ids == [7]
    drafter.commit([5, 6, 7, 8, 9, 5, 6, 7, 1])
    assert drafter.propose([5, 6, 7, 8, 9, 5, 6, 7, 1], 4).ids == []
    assert drafter.propose([5, 6, 7, 8, 9, 5, 6, 7, 1, 6, 7], 4).ids[:1] in ([1], [8])


@pytest.mark.parametrize("index", [NgramIndex(3, 1), SuffixIndex(1)], ids=["ngram", "suffix"])
def test_a_new_request_copies_from_the_last_one(index):
    started(index, [1, 2, 3, 1, 2])
    drafter = started(index, [9, 8, 1, 2])
    assert drafter.propose([9, 8, 1, 2], 4).ids == []


def test_a_refused_proposal_is_indexed():
    drafter = started(NgramIndex(2, 1), [1, 2, 3, 1])
    assert drafter.propose([1, 2, 3, 1], 2).ids == [2, 3]
    # The target said 4 instead: 1 is now followed by 4.
    drafter.commit([1, 2, 3, 1, 4])
    assert drafter.propose([1, 2, 3, 1, 4, 1], 2).ids == [4, 1]


@pytest.mark.parametrize("index", [NgramIndex(3, 1), SuffixIndex(1)], ids=["ngram", "suffix"])
def test_a_periodic_text_is_not_continued(index):
    for period in (1, 2, 5):
        text = list(range(period)) * 8
        proposed = started(index, text).propose(text, 12).ids
        assert proposed == [(len(text) + n) % period for n in range(12)]
