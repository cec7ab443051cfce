"""Extraction, field by field: each compared by its type, missing and surplus ones counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eval_items import misfit, score, value

INVOICE = {"total": 1234.5, "due": "2024-03-05", "seller": "Northfield Tools Ltd", "note": None}


def answered(**changed: Any) -> str:
    return json.dumps({key: value for key, value in {**INVOICE, **changed}.items() if value != "left out"})


@pytest.mark.parametrize(
    ("changed", "share", "says"),
    [
        ({}, 1.0, ""),
        ({"total": "1.234,50 EUR"}, 1.0, ""),
        ({"due": "5 March 2024"}, 1.0, ""),
        ({"due": "05.03.2024"}, 1.0, ""),
        ({"seller": "NORTHFIELD  TOOLS LTD."}, 1.0, ""),
        ({"note": ""}, 1.0, ""),
        ({"note": "left out"}, 1.0, ""),
        ({"extra": None}, 1.0, ""),
        ({"total": 1234.6}, 0.75, '3 of 4 right; wrong: total ("1234.6" for "1234.5")'),
        ({"total": "2 of 1234.5"}, 0.75, "wrong: total"),
        ({"total": True}, 0.75, "wrong: total"),
        ({"due": "2024-05-03"}, 0.75, "wrong: due"),
        ({"due": "March 2024"}, 0.75, "wrong: due"),
        ({"due": 20240305}, 0.75, "wrong: due"),
        ({"seller": "Northfield Tool Ltd"}, 0.75, "wrong: seller"),
        ({"seller": ["Northfield Tools Ltd"]}, 0.75, "wrong: seller"),
        ({"note": "paid"}, 0.75, "wrong: note"),
        ({"total": "left out"}, 0.75, "3 of 4 right; missing: total"),
        ({"total": None}, 0.75, "missing: total"),
        ({"seller": " "}, 0.75, "missing: seller"),
        ({"extra": 1}, 4 / 5, "4 of 4 right; surplus: extra"),
        ({"total": 1, "due": "left out", "extra": 1}, 2 / 5, "wrong: total"),
    ],
)
def test_a_field_is_right_where_it_is_not(changed: dict[str, Any], share: float, says: str) -> None:
    found = score("fields", INVOICE, answered(**changed))
    assert found.value == pytest.approx(share)
    assert says in found.why
    whole = value("fields", INVOICE, answered(**changed), {"all": True})
    assert whole == (1.0 if share == 1 else 0.0)


def test_surplus_fields_count_although_they_are_ignored() -> None:
    assert value("fields", INVOICE, answered(extra=1), {"surplus": "ignore"}) == 1
    assert value("fields", INVOICE, answered(extra=1, total=2), {"surplus": "ignore"}) == 0.75


@pytest.mark.parametrize("answer", ["", "no idea", "[1]", '"x"', '{"total": 1234.5', "{}"])
def test_an_answer_without_fields_is_worth_something(answer: str) -> None:
    reference = {"total": 1234.5, "due": "2024-03-05"}
    assert value("fields", reference, answer) == 0


def test_fences_around_the_object_make_it_wrong() -> None:
    fenced = f"Here it is:\n```json\n{answered()}\n```"
    assert value("fields", INVOICE, fenced) == 1
    assert value("fields", INVOICE, fenced, {"where": "whole"}) == 0
    assert value("fields", INVOICE, f"So {answered()}!", {"where": "anywhere"}) == 1


@pytest.mark.parametrize(
    ("types", "given", "right"),
    [
        ({}, "no. 7", 0),
        ({}, "No: 7a", 0),
        ({"x": "number"}, "No: 7", 1),
        ({"x": "text"}, "no 7", 1),
        ({"x": "exact"}, "no 7", 0),
        ({"x": "exact"}, "No. 7", 1),
    ],
)
def test_a_field_is_not_compared_by_the_type_that_is_asked_for(types: Any, given: str, right: int) -> None:
    expected = right if types else int(given == "no. 7")
    assert value("fields", {"x": "No. 7"}, json.dumps({"x": given}), {"types": types}) == expected


def test_options_of_numbers_dates_and_texts_do_not_reach_the_fields() -> None:
    assert value("fields", {"x": 1234}, '{"x": "1.234"}') == 0
    assert value("fields", {"x": 1234}, '{"x": "1.234"}', {"decimal": ","}) == 1
    assert value("fields", {"x": 1000}, '{"x": "1 bin"}', {"language": "tr"}) == 1
    assert value("fields", {"x": 100}, '{"x": 101}', {"relative": 0.01}) == 1
    assert value("fields", {"x": 100}, '{"x": 101}', {"absolute": 0.5}) == 0
    assert value("fields", {"x": "12 kg"}, '{"x": "12"}', {"types": {"x": "number"}}) == 1
    assert value("fields", {"x": "12 kg"}, '{"x": "12"}', {"types": {"x": "number"}, "units": "require"}) == 0
    assert value("fields", {"x": "2024-05-03"}, '{"x": "05/03/2024"}') == 0
    assert value("fields", {"x": "2024-05-03"}, '{"x": "05/03/2024"}', {"day_first": False}) == 1
    assert value("fields", {"x": "ISPARTA"}, '{"x": "\u0131sparta"}') == 0
    assert value("fields", {"x": "ISPARTA"}, '{"x": "\u0131sparta"}', {"language": "tr"}) == 1


def test_nested_fields_lists_and_truth_are_compared_loosely() -> None:
    reference = {"buyer": {"name": "A", "id": 7}, "items": [3, 4, 4], "paid": True, "zero": 0}
    right = {"zero": 0, "paid": True, "items": ["4", 3, 4], "buyer": {"id": "7", "name": "a"}}
    assert value("fields", reference, json.dumps(right)) == 1
    for changed in (
        {"buyer": {"id": "8", "name": "a"}},
        {"items": [3, 3, 4]},
        {"items": [3, 4]},
        {"items": 3},
        {"paid": 1},
        {"paid": "true"},
        {"zero": False},
    ):
        assert value("fields", reference, json.dumps({**right, **changed})) == 0.8, changed
    assert (
        score("fields", reference, json.dumps({**right, "buyer": {"name": "A"}})).why
        == "4 of 5 right; missing: buyer.id"
    )
    assert value("fields", {"a": {"b": 1}}, '{"a": 1}') == 0


def test_texts_of_signs_alone_are_all_the_same() -> None:
    assert value("fields", {"x": "+-"}, '{"x": "**"}') == 0
    assert value("fields", {"x": "--"}, '{"x": "--"}') == 1


def test_a_reference_that_cannot_be_compared_so_fits() -> None:
    assert "the reference is of kind text, allowed is an object" in misfit("fields", "x")
    assert 'field "x" = "seven" is no number' in misfit("fields", {"x": "seven"}, {"types": {"x": "number"}})
    assert 'field "x" = "soon" is no date' in misfit("fields", {"x": "soon"}, {"types": {"x": "date"}})
    assert 'field "x" = "2024-13-01" is no date' in misfit("fields", {"x": "2024-13-01"})
    assert 'field "x" = "b" is no number' in misfit("fields", {"x": ["1", "b"]}, {"types": {"x": "number"}})
    assert misfit("fields", {"x": ["1", "2"]}, {"types": {"x": "number"}}) == ""
    assert misfit("fields", {"x": [1, "b", None, True], "y": None}) == ""
    assert misfit("fields", {"x": None, "y": None}, {"types": {"x": "number", "y": "date"}}) == ""
