"""Texts of a law are not called another's, and others' texts are: from the likeliest tokens, and from the whole law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from specq.core.types import Sampling
from specq.decoding.law import Law
from specq.forecast import origin, warped
from specq.forecast.imported import Position
from specq.forecast.origin import Evidence

V, TOTAL = 400, 64
GREEDY, WARM = Sampling(), Sampling(temperature=1.0)
SETTINGS = [
    Sampling(temperature=0.5),
    WARM,
    Sampling(temperature=1.5),
    Sampling(temperature=1.0, top_p=0.9),
    Sampling(temperature=0.7, top_p=0.9),
    Sampling(temperature=0.8, top_k=10),
]


def raw(rng: np.random.Generator) -> np.ndarray:
    """Log-probabilities [TOTAL, V], falling: some positions sure of one token, the others with long tails."""
    sharp = rng.choice([0.8, 1.2, 1.8, 2.6], size=(TOTAL, 1))
    logits = sharp * (0.7 * rng.normal(size=(TOTAL, V)) - np.log(np.arange(1, V + 1)))
    logits[:, 0] += rng.choice([0, 2, 5, 9], size=TOTAL)
    logits = -np.sort(-logits, axis=1)
    found: np.ndarray = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return found


def law(logs: np.ndarray, sampling: Sampling) -> np.ndarray:
    """The law after warping, [TOTAL, V]."""
    if sampling.temperature == 0:
        return np.broadcast_to(np.eye(1, V), logs.shape)
    found = np.exp((logs - logs[:, :1]) / sampling.temperature)
    if sampling.top_k:
        found[:, sampling.top_k :] = 0
    found /= found.sum(axis=1, keepdims=True)
    found[np.cumsum(found, axis=1) - found >= sampling.top_p] = 0
    whole: np.ndarray = found / found.sum(axis=1, keepdims=True)
    return whole


def drawn(rng: np.random.Generator, of: np.ndarray) -> np.ndarray:
    running = np.cumsum(of, axis=1)
    found: np.ndarray = (running < rng.random((len(of), 1)) * running[:, -1:]).sum(axis=1)
    return found


def told(logs: np.ndarray, tokens: Sequence[int] | np.ndarray, top: int, sampling: Sampling) -> Evidence:
    """What a file with the likeliest `top` would tell."""
    positions = [
        Position(
            own=float(row[token]),
            rank=int(token) + 1,
            head=tuple(map(float, row[:top])),
            inside=bool(token < top),
            hit=(float(token == 0),) * 2,
        )
        for row, token in zip(logs, tokens, strict=True)
    ]
    outside = [
        warped.reach(one, sampling).member == "out" if sampling.temperature else one.hit == (0.0, 0.0)
        for one in positions
    ]
    return origin.of_file(positions, outside, sampling)


def whole(logs: np.ndarray, tokens: np.ndarray, sampling: Sampling) -> Evidence:
    """What the reference engine knows of its own text."""
    of = law(logs, sampling)
    surprise = -np.log(np.where(of > 0, of, 1.0))
    entropy = (of * surprise).sum(axis=1)
    at = np.arange(TOTAL)
    return origin.of_law(
        Law(
            p=of[at, tokens],
            entropy=entropy,
            variance=(of * surprise**2).sum(axis=1) - entropy**2,
            hit=(tokens == 0).astype(float),
            gap=logs[:, 0] - logs[at, tokens],
            confidence=of.max(axis=1),
        ),
        sampling,
    )


def texts(count: int, seed: int, sampling: Sampling | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Laws and texts drawn at these settings; None: answers at random."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        logs = raw(rng)
        yield logs, rng.integers(V, size=TOTAL) if sampling is None else drawn(rng, law(logs, sampling))


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
@pytest.mark.parametrize("top", [1, 5, 20])
def test_a_target_is_told_that_it_did_not_write_its_own_texts(sampling: Sampling, top: int) -> None:
    found = [told(*one, top, sampling) for one in texts(40, 1, sampling)]
    assert [one.why_not for one in found] == [""] * 40
    assert sum(found, Evidence()).why_not == ""
    # Each z is bounded by a normal law's and is not all zero.
    assert max(abs(one.surprise_z) + abs(one.best_z) + abs(one.count_z) for one in found) > (0.5 if top > 1 else -1)
    if sampling == WARM:
        # The mass is told, and so is its variance.
        assert 0.2 < np.mean([one.count_z**2 for one in found]) < 1.3
    if top == 20:
        # Above temperature 1 the tail may hold most of the mass, and 20 tokens do not tell how much.
        assert sum(one.checked for one in found) >= (0 if sampling.temperature > 1 else 36)
        assert sum(found, Evidence()).checked is (sampling.temperature <= 1)


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_a_target_that_is_known_whole_is_told_so_too(sampling: Sampling) -> None:
    found = [whole(*one, sampling) for one in texts(120, 2, sampling)]
    assert all(one.checked for one in found)
    together = sum(found, Evidence())
    assert together.checked
    assert together.asked == 120 * TOTAL
    # The sums have the mean 0 and the variance that is told: over 120 texts z^2 is about 1, less where tails count.
    for z in ([one.best_z for one in found], [one.surprise_z for one in found]):
        assert 0.4 < np.mean(np.square(z)) < 1.2


WRONG = [
    (None, WARM),
    (Sampling(temperature=2.0), WARM),
    (GREEDY, WARM),
    (Sampling(temperature=0.7), WARM),
    (Sampling(temperature=1.3), WARM),
    (WARM, Sampling(temperature=0.7)),
    (WARM, Sampling(temperature=1.5)),
    (GREEDY, Sampling(temperature=0.7, top_p=0.9)),
    (WARM, GREEDY),
    (None, GREEDY),
]


@pytest.mark.parametrize(("drawn_at", "claimed"), WRONG, ids=str)
@pytest.mark.parametrize("top", [5, 20, None])
def test_texts_of_other_settings_pass(drawn_at: Sampling | None, claimed: Sampling, top: int | None) -> None:
    found = [whole(*one, claimed) if top is None else told(*one, top, claimed) for one in texts(24, 3, drawn_at)]
    assert sum(found, Evidence()).why_not
    if drawn_at is None or drawn_at.temperature == 2:
        assert all(one.why_not for one in found)


def test_each_sum_finds_what_the_others_leave() -> None:
    """Answers at random are not among the likeliest; greedy ones always are the likeliest; both are said."""
    at_random = sum((told(*one, 20, WARM) for one in texts(4, 4, None)), Evidence())
    assert at_random.count_z < -20
    assert "of 256 tokens are among the likeliest, where" in at_random.why_not
    greedy = [told(*one, 20, WARM) for one in texts(24, 4, GREEDY)]
    assert sum(greedy, Evidence()).best_z > 10
    assert sum(bool(one.why_not) for one in greedy) > 8
    assert any(abs(one.count_z) < 4 and "tokens are the likeliest" in one.why_not for one in greedy)
    # Where all that is kept is told, all tokens are among the likeliest.
    cut = Sampling(temperature=1.0, top_k=10)
    hot = sum((told(*one, 20, cut) for one in texts(24, 4, Sampling(temperature=1.6, top_k=10))), Evidence())
    assert hot.count_z == 0
    assert hot.surprise_z > 4
    # Even where temperature leaves the mass open, what is among the likeliest has a law of its own.
    open_ = sum((told(*one, 20, Sampling(temperature=1.5)) for one in texts(24, 4, GREEDY)), Evidence())
    assert open_.mass[1] - open_.mass[0] > 0.3 * open_.asked
    assert open_.best_z > 10


def test_one_rare_token_refuses_a_text_of_sure_ones() -> None:
    logs = np.full((TOTAL, V), -20.0)
    logs[:, :2] = np.log1p(-np.exp(-7.0)), -7.0
    rare = np.zeros(TOTAL, dtype=int)
    for place, refused in ((0, False), (1, False), (2, True)):
        rare[place] = 1
        for found in (told(logs, rare, 5, WARM), whole(logs, rare, WARM)):
            assert bool(found.why_not) is refused


def test_a_greedy_text_may_have_tokens_far_from_the_likeliest() -> None:
    """Rounding moves near ties, few of them; a token that lies well below the likeliest is no near tie."""
    logs = np.full((TOTAL, V), -20.0)
    logs[:, :3] = np.log([0.45, 0.4, 0.15])
    for token, missed, refused in ((1, 3, False), (1, 4, True), (2, 2, False), (2, 3, True)):
        tokens = np.where(np.arange(TOTAL) < missed, token, 0)
        for found in (told(logs, tokens, 5, GREEDY), whole(logs, tokens, GREEDY)):
            assert bool(found.why_not) is refused
            assert found.missed == missed
    assert "3 of 64 tokens are not its likeliest, nor near it" in found.why_not
    # What no single text shows, all of them may.
    two = told(logs, np.where(np.arange(TOTAL) < 2, 1, 0)[:20].tolist() + [0] * (TOTAL - 20), 5, GREEDY)
    short = Evidence(tokens=20, missed=2)
    assert two.why_not == short.why_not == ""
    assert sum([short] * 12, Evidence()).why_not == "24 of 240 tokens are not its likeliest"


def test_the_variance_of_an_open_mass_is_less_than_it_can_be() -> None:
    """Between two ends m (1 - m) is greatest where m is nearest to one half."""
    for head, temperature in (((-1.5, -2.0), 1.1), ((-0.5, -1.2), 1.1), ((-0.5, -1.2), 1.2), ((-0.5, -1.2), 0.7)):
        one = Position(own=head[0], rank=1, head=head, inside=True, hit=(1.0, 1.0))
        found = origin.of_file([one], [False], Sampling(temperature=temperature))
        assert found.mass[0] + 0.04 < found.mass[1]
        m = np.linspace(*found.mass, 1001)
        assert found.mass_variance == pytest.approx((m * (1 - m)).max(), rel=1e-3)


def test_tokens_that_tie_with_the_last_of_the_likeliest_count_for_either() -> None:
    tied = Position(own=-3.0, rank=6, head=(-1.0, -2.0, -3.0), inside=False, hit=(0.0, 0.0))
    assert origin.of_file([tied], [False], WARM).among == (0, 1)
    inside = Position(own=-3.0, rank=3, head=(-1.0, -2.0, -3.0), inside=True, hit=(0.0, 0.0))
    assert origin.of_file([inside], [False], WARM).among == (1, 1)
    # Of three that tie at the end the file lists two: all of them are left out.
    pair = Position(own=-2.0, rank=4, head=(-1.0, -2.0, -2.0), inside=False, hit=(0.0, 0.0))
    found = origin.of_file([pair], [False], WARM)
    assert found.among == (0, 0)
    assert found.mass[0] == pytest.approx(np.exp(-1.0), rel=1e-5)
