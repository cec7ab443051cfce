"""Texts that the target did not write: told from its own, and never said to be its own where nothing tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from replayed_texts import GREEDY, PROMPT, V, laws, line, text, warped, written

from specq.core.errors import PromptError
from specq.core.types import Sampling
from specq.forecast import origin, pairing
from specq.forecast.imported import Text
from specq.forecast.origin import Evidence

TOTAL = 80
WARM = Sampling(temperature=1.0)
CUTS = [
    WARM,
    Sampling(temperature=0.7),
    Sampling(temperature=0.8, top_k=5),
    Sampling(temperature=0.7, top_p=0.9),
    Sampling(temperature=1.3, top_k=8, min_p=0.02),
]


def asked(found: Text, sampling: Sampling) -> Evidence:
    return pairing.written(found, pairing.law(found, sampling), sampling)


def a_text(tmp_path: Path, seed: int, drawn: Sampling, top: int = V) -> Text:
    law = laws(seed, TOTAL)
    return text(tmp_path, "x", line("a", law, written(law, 1000 + seed, drawn), top))


@pytest.mark.parametrize("sampling", CUTS, ids=str)
@pytest.mark.parametrize("top", [1, 3, 9, 16, V])
def test_the_true_mass_of_the_likeliest_lies_outside_its_bounds(tmp_path: Path, sampling: Sampling, top: int) -> None:
    """Of the tokens that are asked for, which are some of the likeliest; so do their entropy and its variance."""
    for seed in range(2):
        found = a_text(tmp_path, seed, sampling, top)
        law = -np.sort(-warped(laws(seed, TOTAL), sampling)[PROMPT:], axis=1)
        for at, one in enumerate(found.positions):
            # One by one, so that a wide position hides no fault of another.
            own = origin.of_file([one], [False], sampling)
            low, high = own.mass
            within = [n for n in range(1, min(top + 1, V) + 1) if low - 1e-5 <= law[at, :n].sum() <= high + 1e-5]
            assert within or not own.asked
            if own.among == (1, 1):
                p = [law[at, :n] / law[at, :n].sum() for n in within]
                variances = [float(q @ np.log(q) ** 2 - (q @ np.log(q)) ** 2) for q in p if (q > 0).all()]
                assert any(own.surprise_variance == pytest.approx(one, rel=1e-3, abs=1e-6) for one in variances)
        assert origin.of_file(found.positions, [False] * TOTAL, sampling).asked > TOTAL // 2


@pytest.mark.parametrize("sampling", CUTS, ids=str)
def test_the_targets_own_text_is_refused(tmp_path: Path, sampling: Sampling) -> None:
    found = [asked(a_text(tmp_path, seed, sampling), sampling) for seed in range(8)]
    assert all(one.checked for one in found)
    assert not sum(found, Evidence()).why_not
    assert max(abs(one.surprise_z) for one in found) > 0.5


@pytest.mark.parametrize(
    ("drawn", "claimed"),
    [
        (GREEDY, WARM),
        (GREEDY, Sampling(temperature=0.7)),
        (WARM, Sampling(temperature=0.3)),
        (Sampling(temperature=4.0), WARM),
        (WARM, Sampling(temperature=1.0, top_k=2)),
        (WARM, Sampling(temperature=1.0, top_p=0.5)),
        (WARM, Sampling(temperature=1.0, min_p=0.5)),
        (WARM, GREEDY),
    ],
    ids=str,
)
@pytest.mark.parametrize("top", [27, V])
def test_a_text_drawn_at_other_settings_is_replayed(
    tmp_path: Path, drawn: Sampling, claimed: Sampling, top: int
) -> None:
    with pytest.raises(PromptError, match=r'x\.jsonl:1: text "a": .* did not write|x\.jsonl:1: .* does not write'):
        asked(a_text(tmp_path, 3, drawn, top), claimed)


@pytest.mark.parametrize(
    ("sampling", "top"), [(WARM, 0), (Sampling(temperature=0.7, top_p=0.9), 1), (Sampling(temperature=1.5), 3)]
)
def test_a_file_that_tells_too_little_counts_as_checked(tmp_path: Path, sampling: Sampling, top: int) -> None:
    found = asked(a_text(tmp_path, 2, sampling, top), sampling)
    assert not found.checked
    assert not found.why_not
    assert asked(a_text(tmp_path, 2, WARM, 1), WARM).checked


def test_the_token_that_was_drawn_chooses_which_positions_are_asked(tmp_path: Path) -> None:
    sampling, rng, law = Sampling(temperature=0.8), np.random.default_rng(1), laws(5, TOTAL)
    # The law at each position stands on its own here, so that other tokens leave it alone.
    for top in (1, 9):
        told = [
            origin.of_file(text(tmp_path, "x", line("a", law, ids, top)).positions, [False] * TOTAL, sampling)
            for ids in ([int(one) for one in rng.integers(V, size=len(law))] for _ in range(12))
        ]
        assert len({(one.asked, one.mass, one.mass_variance) for one in told}) == 1
        assert len({one.among for one in told}) > 1
    # A row of the own token alone tells the likeliest where that was drawn, and nothing elsewhere.
    alone = text(tmp_path, "x", line("a", law, written(law, 1, sampling), 0)).positions
    assert {one.inside for one in alone} == {True, False}
    assert origin.of_file(alone, [False] * TOTAL, Sampling(temperature=1.0, top_p=0.3)).asked == 0


@pytest.mark.parametrize(("missed", "refused"), [(2, False), (4, False), (5, True)])
def test_more_tokens_than_rounding_explains_may_be_outside(tmp_path: Path, missed: int, refused: bool) -> None:
    sampling, law = Sampling(temperature=1.0, top_k=4), laws(7, TOTAL)
    ids = written(law, 9, sampling)
    for at in range(PROMPT, PROMPT + missed):
        ids[at] = int(law[at].argmin())
    found = text(tmp_path, "x", line("a", law, ids, 10))
    laws_of = pairing.law(found, sampling)
    assert [one.member for one in laws_of].count("out") == missed
    if refused:
        with pytest.raises(PromptError, match=rf"x\.jsonl:1: .*{missed} of {TOTAL} tokens have no probability"):
            pairing.written(found, laws_of, sampling)
    else:
        assert pairing.written(found, laws_of, sampling).asked == TOTAL - missed
        paired = pairing.pair(found, laws_of, found, sampling)
        assert paired.outside == missed
        assert paired.exact == TOTAL - missed
        assert (paired.between.ratio[1][:missed] == -np.inf).all()
        assert (paired.between.q[1][:missed] == 0).all()
        assert (paired.between.hit[1][:missed] == 0).all()
        # A draft that does have them is taken at its word: the target chose them, by a rounding of its own.
        sure = np.full_like(law, -20.0)
        sure[range(len(ids)), ids] = 0.0
        sure -= np.log(np.exp(sure).sum(axis=1, keepdims=True))
        drafted = pairing.pair(found, laws_of, text(tmp_path, "d", line("a", sure, ids, 10)), sampling).between
        assert (drafted.ratio[0][:missed] > 0).all()
        assert (drafted.q[0][:missed] > 0.9).all()


def test_a_greedy_text_of_another_model_is_replayed(tmp_path: Path) -> None:
    found = text(tmp_path, "x", line("a", laws(1), written(laws(2), 3, GREEDY), 2))
    with pytest.raises(PromptError, match=r"x\.jsonl:1: .* tokens are not its likeliest"):
        asked(found, GREEDY)
