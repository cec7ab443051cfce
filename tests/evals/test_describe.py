"""What a set holds and can prove: counts, duplicates, clusters, and floors that it cannot decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from eval_items import write

from specq.core.errors import ConfigError, PromptError
from specq.evals import checking, describe, items
from specq.evals.describe import Description, Provable
from specq.stats.floor import against_floor

LINES: list[dict[str, Any]] = [
    {"id": "a", "prompt": "How much?", "reference": "4 EUR", "tags": ["en", "sum"], "cluster": "doc", "critical": True},
    {"id": "b", "prompt": "How much?", "reference": "5 EUR", "tags": ["en"], "cluster": "doc"},
    {"id": "c", "prompt": "how  much", "reference": "4 EUR", "tags": ["tr", "tr"]},
    {"id": "d", "prompt": "Who?", "reference": ["Ada", "Bo 2"]},
    {"id": "e", "messages": [{"role": "user", "content": "Who?"}], "reference": 5},
    {"id": "f", "prompt": "Which?", "reference": 0, "choices": ["Oslo", "Rome"]},
]


def checked(folder: Path, lines: list[dict[str, Any]], *args: Any, **how: Any) -> Description:
    return checking.check(write(folder, *lines), *args, **how)


def many(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": i, "prompt": f"Question {i}?", "reference": "x", **more} for i in range(count)]


def test_a_count_is_that_of_something_else(tmp_path: Path) -> None:
    found = checked(tmp_path, LINES)
    assert found.items == 6
    assert (found.clusters, found.largest_cluster) == (5, 2)
    assert (found.tags, found.untagged, found.critical) == ({"en": 2, "sum": 1, "tr": 1}, 3, 1)
    assert found.references == {"text": 3, "texts": 1, "number": 1, "choice": 1}
    assert (found.characters.minimum, found.characters.maximum, found.characters.median) == (4, 9, 7.5)
    assert found.tokens is None
    assert found.fits == ()
    assert found.partly == {
        **dict.fromkeys(("exact_match", "contains", "regex", "token_f1", "rouge_l"), 5),
        # One of the five is critical, and a log-likelihood has no full score to fall from.
        **{"loglikelihood": 4, "number_match": 4, "choice": 1},
    }
    critical = "it is critical, and a log-probability has no full score to fall from: take critical off, or use choice"
    number = "the reference is a number, allowed is a text or a list of texts; number_match takes numbers"
    assert found.misfits["loglikelihood"] == {critical: ("a",), number: ("e",)}
    assert {name: len(items) for name, items in found.misfits["choice"].items()} == {"there are no choices": 5}
    assert found.proposed is None
    assert json.loads(json.dumps(found.to_json()))["characters"]["maximum"] == 9


def test_duplicates_are_missed_or_made_up(tmp_path: Path) -> None:
    found = checked(tmp_path, LINES)
    assert found.duplicates == (("a", "b"),)
    assert found.contradictions == (("a", "b"),)
    # A text that goes as it stands is another prompt than a message with the same words, but nearly the same.
    assert found.near_duplicates == (("a", "b", "c"), ("d", "e"))
    same = [{"id": i, "prompt": "Same?", "reference": "x"} for i in range(3)]
    found = checked(tmp_path, same)
    assert (found.duplicates, found.near_duplicates, found.contradictions) == ((("0", "1", "2"),), (), ())
    assert checked(tmp_path, many(20)).near_duplicates == (), "digits tell prompts apart"


def test_tokens_are_counted_without_the_template(tmp_path: Path) -> None:
    path = write(tmp_path, *LINES)
    found = describe.describe(path, items.load(path), count_tokens=lambda item: len(item.asked[0]))
    assert found.tokens is not None
    assert found.tokens.maximum >= found.tokens.minimum >= 1


def test_a_metric_that_does_not_fit_is_described(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="does not fit item"):
        checked(tmp_path, LINES, "exact_match")
    with pytest.raises(ConfigError, match="no metric"):
        checked(tmp_path, LINES, "exakt")
    found = checked(tmp_path, LINES[:2], "number_match", {"units": "require"})
    assert (found.metric, found.binary) == ("number_match", True)
    assert "number_match" in found.fits
    with pytest.raises(ConfigError, match="no metric; name one"):
        checked(tmp_path, LINES, None, {"units": "require"})


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.01, 2.0, float("nan")])
def test_a_margin_that_is_no_share_passes(tmp_path: Path, margin: float) -> None:
    with pytest.raises(ConfigError, match="allowed is a share above 0 and below 1"):
        checked(tmp_path, LINES, margin=margin)


def test_a_set_of_one_item_has_nouns_of_many(tmp_path: Path) -> None:
    (note,) = checked(tmp_path, many(1), "exact_match", margin=0.3).notes
    assert note.startswith("1 item cannot decide a margin of 30 points: even with not one flip it proves at most ")


def test_a_margin_of_half_of_all_answers_needs_no_word(tmp_path: Path) -> None:
    assert any("lets half of all answers and more go wrong" in n for n in checked(tmp_path, LINES, margin=0.5).notes)
    assert not any("go wrong" in note for note in checked(tmp_path, LINES, margin=0.4).notes)


def margins(found: Description) -> list[float]:
    return [round(100 * one.margin, 1) for one in found.provable]


def test_the_margin_of_200_items_is_not_that_of_the_table(tmp_path: Path) -> None:
    found = checked(tmp_path, many(200), "exact_match", margin=0.02)
    assert [one.flip_rate for one in found.provable] == [0.02, 0.05, 0.1, 0.2]
    assert margins(found) == [2.5, 3.9, 5.6, 7.9]
    assert [one.items_needed for one in found.provable] == pytest.approx([310, 773, 1546, 3092], abs=1)
    assert found.notes == ()


def test_items_of_a_cluster_count_as_independent(tmp_path: Path) -> None:
    lines = [{**line, "cluster": f"d{i // 10}"} for i, line in enumerate(many(200))]
    found = checked(tmp_path, lines, "exact_match")
    assert margins(found) == margins(checked(tmp_path, many(200)))
    for one, alone in zip(found.provable, checked(tmp_path, many(20)).provable, strict=True):
        assert one.margin_clustered == pytest.approx(alone.margin)
        assert one.margin_clustered > one.margin
    assert found.notes == ("items of a cluster are no independent evidence: between 20 and 200 items count",)


def test_three_items_decide_a_margin_of_one_point(tmp_path: Path) -> None:
    found = checked(tmp_path, many(3), "exact_match", margin=0.01)
    (note,) = found.notes
    enough = describe.least_items(0.01)
    assert note.startswith("3 items cannot decide a margin of 1 point: even with not one flip they prove at most ")
    assert note.endswith(f" worse; {enough} items or more can")
    assert min(margins(found)) >= 30, "the formula alone would say 20 points"
    assert [one.items_needed for one in found.provable] == pytest.approx([1237, 3092, 6183, 12366], abs=1)
    assert checked(tmp_path, many(3), margin=0.3).provable[0].items_needed == describe.least_items(0.3) > 1


@pytest.mark.parametrize("margin", [0.001, 0.01, 0.02, 0.05, 0.3, 0.7, 0.99])
def test_the_check_and_the_verdict_disagree_on_what_can_be_decided(margin: float) -> None:
    enough = describe.least_items(margin)
    assert against_floor(0, 0, enough, margin).outcome == "keep"
    assert enough == 1 or against_floor(0, 0, enough - 1, margin).outcome == "undecided"
    assert describe.least_margin(enough) < margin
    assert describe.undecidable(enough, margin) is None
    assert enough == 1 or describe.undecidable(enough - 1, margin) is not None


def test_no_flips_prove_more_than_statistics_allow() -> None:
    # About 3 / n is the exact bound (Clopper and Pearson); the verdict's may be a little below it.
    assert 2 / 1000 < describe.least_margin(1000) < 3.1 / 1000


def test_a_metric_that_is_no_0_or_1_is_told_by_flips(tmp_path: Path) -> None:
    found = checked(tmp_path, many(3), "token_f1", margin=0.01)
    assert found.provable == ()
    assert "depends on how far scores differ" in found.notes[0]
    assert len(found.notes) == 1
    assert isinstance(checked(tmp_path, many(3)).provable[0], Provable)
