"""The margin that is proposed for a floor: one that the items can decide, or none."""

from __future__ import annotations

import tomllib

import pytest

from specq.evals import describe, margins


@pytest.mark.parametrize("items", [*range(1, 40), 58, 59, 60, 99, 134, 135, 136, 500])
def test_a_margin_is_proposed_that_a_plan_would_refuse(items: int) -> None:
    found = margins.proposed("mine", items, binary=True)
    (given,) = tomllib.loads(found.line)["quality"].values()
    decided = [margin for margin in margins.MARGINS if describe.undecidable(items, margin) is None]
    assert found.margin == (min(decided) if decided else None)
    assert given == (min(decided) if decided else margins.MARGINS[-1])
    assert found.words.startswith("for example: quality = " if decided else "no margin can be given, for ")


def test_a_proposal_hides_how_many_items_it_takes() -> None:
    assert margins.proposed("mine", 1, binary=True).about == "1 item cannot decide even 20 points; 13 or more can"
    said = "6 items in 3 clusters, which count once each, cannot decide even 20 points; 13 clusters or more can"
    assert margins.proposed("mine", 3, binary=True, items=6).about == said
    assert margins.proposed("mine", 6, binary=True, items=6).about.startswith("6 items cannot decide")


def test_a_score_that_is_no_share_is_held_to_the_law_of_flips() -> None:
    found = margins.proposed("mine", 3, binary=False)
    assert (found.margin, "score's own unit" in found.about) == (0.2, True)
    assert margins.proposed("mine", 400, binary=False).margin == 0.02


def test_a_tag_makes_a_line_that_is_no_toml() -> None:
    assert tomllib.loads(margins.proposed("mine:de", 40, binary=True).line) == {"quality": {"mine:de": 0.1}}
