"""Whether two levers add or replace each other, from rates whose answer is known."""

from __future__ import annotations

import math

import pytest

from specq.report.interplay import ONE, Interplay, Rate, interplay, over, overall, times


def rate(value: float, width: float = 0.02) -> Rate:
    """A rate whose interval is so wide on either side, as a share."""
    return Rate(value=value, low=value / (1 + width), high=value * (1 + width))


def judged(target: float, draft: float, both: float, width: float = 0.02) -> Interplay:
    """From the speed-ups of each alone and of both."""
    return interplay(rate(target, width), rate(draft, width), rate(both / target, width))


@pytest.mark.parametrize(
    ("target", "draft", "both", "kind"),
    [
        (1.6, 1.5, 2.4, "add"),
        (1.6, 1.5, 2.8, "add"),
        (1.6, 1.5, 2.0, "partly replace"),
        (1.2, 1.8, 2.0, "partly replace"),
        (1.6, 1.5, 1.6, "replace"),
        (1.2, 1.8, 1.8, "replace"),
        # Less than the better one, but not clearly.
        (1.6, 1.5, 1.57, "replace"),
        (1.6, 1.5, 1.3, "hinder"),
        (1.2, 1.8, 1.5, "hinder"),
        # A draft that loses alone takes its share along: what counts is that the lever is better without it.
        (1.6, 0.8, 1.28, "hinder"),
        (0.9, 1.5, 1.35, "hinder"),
    ],
)
def test_each_answer_is_given_for_another(target: float, draft: float, both: float, kind: str) -> None:
    found = judged(target, draft, both)
    assert found.kind == kind
    assert found.both.value == pytest.approx(both)
    assert found.product.value == pytest.approx(target * draft)
    assert (found.alone, found.better.value) == (("target", target) if target >= draft else ("draft", draft))


def test_wide_intervals_or_none_pass_for_an_answer() -> None:
    assert judged(1.6, 1.5, 2.4, width=0.6).kind == "undecided"
    assert judged(1.6, 1.5, 2.0, width=0.4).kind == "undecided"
    bare = Rate(value=1.5, low=None, high=None)
    assert interplay(rate(1.6), bare, rate(1.5)).kind == "undecided"
    assert interplay(rate(1.6), rate(1.5), bare).kind == "undecided"


def test_a_target_measured_badly_hides_what_its_draft_gains_on_it() -> None:
    # Its own rate is on both sides of the comparison: 1.2 on it against 1.5 on the plain one is less, whatever it is.
    vague = Rate(value=1.8, low=1.0, high=3.2)
    assert interplay(vague, rate(1.5), rate(1.2)).kind == "partly replace"
    assert interplay(vague, rate(1.5), rate(1.5)).kind == "add"


def test_products_and_ratios_lose_the_width_of_one_side() -> None:
    product = times(rate(2.0, 0.3), rate(1.5, 0.4))
    assert product.value == pytest.approx(3.0)
    assert product.high == pytest.approx(3.0 * math.exp(math.hypot(math.log(1.3), math.log(1.4))))
    assert product.low == pytest.approx(3.0 / math.exp(math.hypot(math.log(1.3), math.log(1.4))))
    lopsided = over(ONE, Rate(value=2.0, low=1.9, high=4.0))
    assert (lopsided.low, lopsided.value, lopsided.high) == pytest.approx((1 / 4.0, 0.5, 1 / 1.9))
    assert times(ONE, Rate(value=2.0, low=None, high=None)).low is None


def test_a_rate_with_half_an_interval_or_none_above_zero_is_taken() -> None:
    for wrong in ({"value": 0.0, "low": None, "high": None}, {"value": 1.0, "low": 0.9, "high": None}):
        with pytest.raises(ValueError, match="allowed is"):
            Rate(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not hold"):
        Rate(value=1.0, low=1.1, high=1.2)
    assert Rate.of(1.0, 1.1, 1.2) == Rate(value=1.0, low=1.0, high=1.2)
    assert Rate.of(1.0, 0.9, None) == Rate(value=1.0, low=None, high=None)


@pytest.mark.parametrize(
    ("both", "says"),
    [
        (2.4, "w4 and lookup add: alone 1.60 and 1.50, together 2.40 (2.33 to 2.47), and their product is 2.40"),
        (2.0, "partly replace each other: alone 1.60 and 1.50, together 2.00"),
        (1.6, "no better than w4 alone (1.60 (1.57 to 1.63))"),
        (1.3, "worse than w4 alone"),
    ],
)
def test_a_sentence_names_another_lever_or_number(both: float, says: str) -> None:
    assert says in judged(1.6, 1.5, both).sentence("w4", "lookup")


def test_a_draft_that_is_better_alone_is_not_named() -> None:
    assert "than lookup alone" in judged(1.2, 1.8, 1.5).sentence("w4", "lookup")
    assert "cannot be told" in judged(1.6, 1.5, 2.4, width=0.6).sentence("w4", "lookup")


def test_the_sentence_over_all_pairs_counts_wrong_or_promises_what_no_pair_shows() -> None:
    assert overall([]) == ""
    assert overall(["add", "add", "undecided"]).startswith(
        "Of 3 pairs of a target's lever and a draft: 2 add, 1 cannot"
    )
    assert "each keeps its worth" in overall(["add", "undecided"])
    assert "do not multiply" in overall(["partly replace", "hinder", "undecided"])
    assert "for some pairs and not for others" in overall(["add", "replace"])
    assert overall(["undecided"]) == "The one pair: 1 cannot be told. More prompts would tell."
