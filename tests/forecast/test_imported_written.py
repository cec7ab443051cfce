"""Texts that the target did not write: told from its own, and never said to be its own where nothing tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replayed_texts import GREEDY, PROMPT, V, laws, line, text, warped, written

from specq.core.errors import PromptError
from specq.core.types import Sampling
from specq.forecast import origin, pairing
from specq.forecast.imported import Position, Text
from specq.forecast.origin import Surprise

TOTAL = 80
WARM = Sampling(temperature=1.0)
CUTS = [
    WARM,
    Sampling(temperature=0.7),
    Sampling(temperature=0.8, top_k=5),
    Sampling(temperature=0.7, top_p=0.9),
    Sampling(temperature=1.3, top_k=8, min_p=0.02),
]


def asked(found: Text, sampling: Sampling) -> Surprise:
    return pairing.written(found, pairing.law(found, sampling), sampling)


def a_text(tmp_path: Path, seed: int, drawn: Sampling, top: int = V) -> Text:
    law = laws(seed, TOTAL)
    return text(tmp_path, "x", line("a", law, written(law, 1000 + seed, drawn), top))


@pytest.mark.parametrize("sampling", CUTS, ids=str)
@pytest.mark.parametrize("top", [3, 9, 16, V])
def test_the_true_surprise_lies_outside_its_bounds(tmp_path: Path, sampling: Sampling, top: int) -> None:
    narrow = 0
    for seed in range(2):
        found = a_text(tmp_path, seed, sampling, top)
        law = warped(laws(seed, TOTAL), sampling)[PROMPT:]
        logs = np.log(np.where(law > 0, law, 1.0))
        entropy = -(law * logs).sum(axis=1)
        variance = (law * logs**2).sum(axis=1) - entropy**2
        for at, one in enumerate(found.positions):
            # One by one, so that a wide position hides no fault of another.
            own = origin.surprise([one], sampling)
            narrow += own.positions
            if own.positions:
                true = -logs[at, found.ids[PROMPT + at]] - entropy[at]
                assert own.least - 1e-4 <= true <= own.greatest + 1e-4
                assert own.least_variance - 1e-4 <= variance[at] <= own.greatest_variance + 1e-4
    assert narrow > TOTAL // 2 or top == 3


@pytest.mark.parametrize("sampling", CUTS, ids=str)
def test_the_targets_own_text_is_refused(tmp_path: Path, sampling: Sampling) -> None:
    found = [asked(a_text(tmp_path, seed, sampling), sampling) for seed in range(8)]
    assert all(one.checked for one in found)
    assert not sum(found, Surprise()).refused
    assert max(abs(one.least_z) for one in found) > 0.5


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


@pytest.mark.parametrize("top", [0, 1])
def test_a_file_that_tells_too_little_counts_as_checked(tmp_path: Path, top: int) -> None:
    for sampling in (WARM, Sampling(temperature=0.7, top_p=0.9)):
        found = asked(a_text(tmp_path, 2, sampling, top), sampling)
        assert not found.checked
        assert not found.refused


def test_the_token_that_was_drawn_chooses_which_positions_are_asked(tmp_path: Path) -> None:
    sampling, rng, law = Sampling(temperature=0.8), np.random.default_rng(1), laws(5, TOTAL)
    # The law at each position stands on its own here, so that other tokens leave it alone.
    counts = {
        origin.surprise(text(tmp_path, "x", line("a", law, ids, 9)).positions, sampling).positions
        for ids in ([int(one) for one in rng.integers(V, size=len(law))] for _ in range(12))
    }
    assert len(counts) == 1
    assert 0 < counts.pop() < TOTAL
    # A row of the own token alone tells the likeliest where that was drawn, and nothing elsewhere.
    alone = text(tmp_path, "x", line("a", law, written(law, 1, sampling), 0)).positions
    assert {one.inside for one in alone} == {True, False}
    assert origin.surprise(alone, Sampling(temperature=1.0, top_p=0.3)).positions == 0


def test_one_rare_token_refuses_a_text_of_sure_ones() -> None:
    sure: dict[str, Any] = {"head": (float(np.log1p(-np.exp(-7.0))), -7.0), "inside": True}
    many = [Position(own=sure["head"][0], rank=1, hit=(1.0, 1.0), **sure) for _ in range(40)]
    rare = Position(own=-7.0, rank=2, hit=(0.0, 0.0), **sure)
    found = origin.surprise([*many, rare], WARM)
    assert found.greatest_z > 4
    assert not found.refused
    assert origin.surprise([*many, rare, rare, rare], WARM).refused


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
        assert pairing.written(found, laws_of, sampling).positions == TOTAL - missed
        paired = pairing.pair(found, laws_of, found, sampling)
        assert paired.outside == missed
        assert paired.exact == TOTAL - missed
        assert (paired.between.ratio[1][:missed] == -np.inf).all()
        assert (paired.between.q[1][:missed] == 0).all()
        assert (paired.between.hit[1][:missed] == 0).all()


def test_a_greedy_text_of_another_model_is_replayed(tmp_path: Path) -> None:
    found = text(tmp_path, "x", line("a", laws(1), written(laws(2), 3, GREEDY), 2))
    with pytest.raises(PromptError, match=r"x\.jsonl:1: .* tokens are not its likeliest"):
        asked(found, GREEDY)
