"""Probabilities after warping, from the likeliest tokens alone: bounds that hold, and that meet where they can."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replayed_texts import PROMPT, V, laws, line, normalised, text, warped, written

from specq.core.types import Sampling
from specq.forecast.imported import Position
from specq.forecast.warped import Reach, reach

CUTS: list[dict[str, Any]] = [
    {"temperature": 0.7},
    {"temperature": 1.6},
    {"temperature": 0.7, "top_k": 5},
    {"temperature": 1.3, "top_k": 8},
    {"temperature": 1.0, "top_p": 0.9},
    {"temperature": 0.6, "top_p": 0.8},
    {"temperature": 1.5, "top_p": 0.7},
    {"temperature": 0.8, "min_p": 0.1},
    {"temperature": 1.0, "top_k": 6, "top_p": 0.9, "min_p": 0.05},
    {"temperature": 1.4, "top_k": 12, "top_p": 0.95, "min_p": 0.02},
]


def reached(tmp_path: Path, law: np.ndarray, ids: list[int], top: int, sampling: Sampling, **how: Any) -> list[Reach]:
    return [reach(one, sampling) for one in text(tmp_path, "x", line("a", law, ids, top, **how)).positions]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize(("top", "rank"), [(0, True), (1, True), (4, True), (12, True), (V, True), (4, False)])
@pytest.mark.parametrize("own", [True, False])
def test_a_true_probability_lies_outside_its_bounds(
    tmp_path: Path, cut: dict[str, Any], top: int, rank: bool, own: bool
) -> None:
    sampling, law, rng = Sampling(**cut), laws(11, 80), np.random.default_rng(4)
    ids = written(law, 3, sampling) if own else [int(one) for one in rng.integers(V, size=len(law))]
    true = warped(law, sampling)[np.arange(len(law)), ids][PROMPT:]
    found = reached(tmp_path, law, ids, top, sampling, rank=rank)
    for p, one in zip(true, found, strict=True):
        if p == 0:
            assert one.member != "in"
        else:
            assert one.member != "out"
            assert one.low - 1e-4 <= math.log(p) <= one.high + 1e-4
    if top == V:
        assert all(one.member == ("in" if p else "out") for p, one in zip(true, found, strict=True))
        assert all(one.high - one.low < 1e-3 or cut["temperature"] > 1 for one in found if one.member == "in")


# Above temperature 1 a tail of which only the mass is known may weigh a lot, unless top-k cuts it off first.
@pytest.mark.parametrize("cut", [cut for cut in CUTS[2:] if cut["temperature"] <= 1 or "top_k" in cut], ids=str)
def test_ends_stay_apart_though_the_likeliest_hold_all_that_is_kept(tmp_path: Path, cut: dict[str, Any]) -> None:
    sampling, law = Sampling(**cut), laws(12, 80)
    ids = written(law, 3, sampling)
    kept = (warped(law, sampling) > 0).sum(axis=1)[PROMPT:]
    sure = np.exp(np.sort(law, axis=1)[:, :-14:-1]).sum(axis=1)[PROMPT:] > 0.98
    found = reached(tmp_path, law, ids, 13, sampling)
    held = [one for one, count, most in zip(found, kept, sure, strict=True) if count < 13 and most]
    assert len(held) > 10
    assert all(one.high - one.low < 1e-6 and one.member == "in" for one in held)


def test_a_token_that_ties_at_the_edge_is_called_in_or_out() -> None:
    third, tenth = math.log(0.3), math.log(0.1)
    tied = Position(own=third, rank=3, head=(third, third, third, tenth), inside=True, hit=(0.0, 1.0))
    # The Warper keeps the first two of them, whichever these are; top-k keeps what ties with the k-th.
    assert reach(tied, Sampling(temperature=1.0, top_p=0.5)).member == "open"
    assert reach(tied, Sampling(temperature=1.0, top_p=0.5)).high == pytest.approx(math.log(0.5))
    assert reach(tied, Sampling(temperature=1.0, top_p=0.7)).member == "in"
    found = reach(tied, Sampling(temperature=1.0, top_k=1))
    assert (found.member, found.low, found.high) == ("in", pytest.approx(math.log(1 / 3)), pytest.approx(found.low))


def test_ties_with_the_last_of_the_likeliest_are_taken_for_none() -> None:
    # Two tokens of a fifth are known of a top-k of 2; one or two more may be as likely, and would be kept too.
    fifth = math.log(0.2)
    one = Position(own=fifth, rank=1, head=(fifth, fifth), inside=True, hit=(0.0, 1.0))
    found = reach(one, Sampling(temperature=1.0, top_k=2))
    assert math.exp(found.low) == pytest.approx(0.2, rel=1e-4)
    assert math.exp(found.high) == pytest.approx(0.5)


@pytest.mark.parametrize("temperature", [0.01, 0.001, 1.0, 5.0])
@pytest.mark.parametrize("own", [-30.0, math.log(1e-308), -745.2, -5000.0])
def test_tiny_probabilities_end_as_nothing_over_nothing(temperature: float, own: float) -> None:
    for head, rank in (((-0.1, -5.0), 9), ((), 9), ((), None)):
        one = Position(own=own, rank=rank, head=head, inside=False, hit=(0.0, 0.0))
        for cut in ({}, {"top_p": 0.999999}, {"top_k": 50}, {"min_p": 1e-300}):
            found = reach(one, Sampling(temperature=temperature, **cut))  # type: ignore[arg-type]
            assert not math.isnan(found.low)
            assert found.low <= found.high <= 0
            assert found.member == "out" or found.high > -math.inf
            if not cut and temperature == 1:
                assert found.low == pytest.approx(own)
            if not cut and head and temperature < 1:
                # The best token has all but nothing of the law.
                assert found.high == pytest.approx((own + 0.1) / temperature, rel=1e-3, abs=1e-6)


def test_a_cold_law_over_two_tokens_loses_its_odds() -> None:
    law = normalised(np.array([[0.0, -0.3, -20.0]]))[0].tolist()
    one = Position(own=law[1], rank=2, head=tuple(law), inside=True, hit=(0.0, 0.0))
    assert reach(one, Sampling(temperature=0.01)).low == pytest.approx(-30.0, abs=1e-3)
