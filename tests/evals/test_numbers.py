"""Numbers as people write them, in English, German and Turkish; dates in their styles."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from eval_items import misfit, score, value

from specq.evals import dates, numbers


def found(text: str, **how: Any) -> list[tuple[Decimal, str]]:
    return [(number.value, number.unit) for number in numbers.read(text, **how)]


@pytest.mark.parametrize(
    ("text", "wanted", "unit"),
    [
        ("1,234.56", "1234.56", ""),
        ("1.234,56", "1234.56", ""),
        ("1 234,56", "1234.56", ""),
        ("1\u202f234\u00a0567,8", "1234567.8", ""),
        ("1'234.56", "1234.56", ""),
        ("1\u2019234.56", "1234.56", ""),
        ("3,000,000", "3000000", ""),
        ("3.000.000", "3000000", ""),
        ("1,234,567.8", "1234567.8", ""),
        ("1.234.567,8", "1234567.8", ""),
        ("12,5", "12.5", ""),
        ("0,500", "0.5", ""),
        ("1234,567", "1234.567", ""),
        (".5", "0.5", ""),
        ("-5", "-5", ""),
        ("\u22125,5", "-5.5", ""),
        ("+5", "5", ""),
        ("-$5", "-5", "USD"),
        ("EUR -5", "-5", "EUR"),
        ("1e6", "1000000", ""),
        ("2.5E-3", "0.0025", ""),
        ("1.5 x 10^6", "1500000", ""),
        ("1.5 million", "1500000", ""),
        ("1,5 Mio.", "1500000", ""),
        ("1,5 milyon", "1500000", ""),
        ("2 Mrd. \u20ac", "2000000000", "EUR"),
        ("3 milyar TL", "3000000000", "TRY"),
        ("3 billion", "3000000000", ""),
        ("12 Tsd.", "12000", ""),
        ("5k", "5000", ""),
        ("$5m", "5000000", "USD"),
        ("5m USD", "5000000", "USD"),
        ("5m", "5", "m"),
        ("5M", "5000000", ""),
        ("5 M", "5", ""),
        ("20 %", "20", "%"),
        ("%20", "20", "%"),
        ("20 percent", "20", "%"),
        ("20 Prozent", "20", "%"),
        ("\u20ac 1.234,56", "1234.56", "EUR"),
        ("1.234,56\u20ac", "1234.56", "EUR"),
        ("USD 1,234.50", "1234.5", "USD"),
        ("US$ 3", "3", "USD"),
        ("\u20ba1.250,00", "1250", "TRY"),
        ("1.250,00 TL'dir", "1250", "TRY"),
        ("TL 40", "40", "TRY"),
        ("40 lira", "40", "TRY"),
        ("12 kg", "12", "kg"),
        ("12 Kilogramm", "12", "kg"),
        ("5 m\u00b2", "5", "m2"),
        ("21 \u00b0C", "21", "\u00b0C"),
        ("30 g\u00fcn", "30", "d"),
        ("45.", "45", ""),
        ("(45)", "45", ""),
        ("5'i", "5", ""),
        ("12 apples", "12", ""),
    ],
)
def test_a_number_is_read_as_another(text: str, wanted: str, unit: str) -> None:
    assert found(text) == [(Decimal(wanted), unit)]
    assert found(f"so {text}")[0] == (Decimal(wanted), unit)


@pytest.mark.parametrize(
    ("text", "point", "comma", "auto"),
    [
        ("1.234", "1.234", "1234", "1.234"),
        ("1,234", "1234", "1.234", "1234"),
        ("12,500", "12500", "12.5", "12500"),
        ("1,5", "1.5", "1.5", "1.5"),
        ("1.234,5", "1234.5", "1234.5", "1234.5"),
    ],
)
def test_marks_with_two_readings_are_not_decided_by_the_option(text: str, point: str, comma: str, auto: str) -> None:
    for decimal, wanted in ((".", point), (",", comma), ("auto", auto)):
        assert found(text, decimal=decimal) == [(Decimal(wanted), "")]


def test_auto_does_not_go_by_the_rest_of_the_text_or_by_the_language() -> None:
    assert [one for one, _ in found("1.234 and 2,5")] == [Decimal("1234"), Decimal("2.5")]
    assert [one for one, _ in found("1,234 and 2.5")] == [Decimal("1234"), Decimal("2.5")]
    assert [one for one, _ in found("1.234 and 3.000.000")] == [Decimal("1234"), Decimal("3000000")]
    assert [one for one, _ in found("1.234 and 3,000,000")] == [Decimal("1.234"), Decimal("3000000")]
    # Texts that contradict themselves, and those that say nothing, are read as the language writes.
    assert found("1.234, 2,5 and 2.5")[0][0] == Decimal("1.234")
    assert found("1.000 TL", language="tr") == [(Decimal(1000), "TRY")]
    assert found("1,250 kg", language="de") == [(Decimal("1.25"), "kg")]


def test_a_word_means_the_number_of_another_language() -> None:
    assert found("2 Billionen", language="de") == [(Decimal(2 * 10**12), "")]
    assert found("2 billion", language="en") == [(Decimal(2 * 10**9), "")]
    assert found("2,5 bin TL", language="tr") == [(Decimal(2500), "TRY")]
    assert found("2 bin") == [(Decimal(2), "")]


@pytest.mark.parametrize(
    "text",
    ["", "none", "v1.2.3", "1.2.3", "12,34,567", "10.000,5.2", "01.02.2024", "2024-01-05", "12:30", "A12", "1" * 99],
)
def test_digits_that_are_no_number_are_read_as_one(text: str) -> None:
    assert found(text) == []


def test_numbers_beside_each_other_run_together() -> None:
    assert [one for one, _ in found("5-10, 3 x 4; 2023 150 people")] == [Decimal(n) for n in (5, 10, 3, 4, 2023, 150)]
    assert [one for one, _ in found("1, 2, 3")] == [Decimal(1), Decimal(2), Decimal(3)]


@pytest.mark.parametrize(
    ("options", "reference", "answer", "right"),
    [
        ({}, 1234.5, "1.234,50 EUR", 1),
        ({}, 1234.5, "1234.51", 0),
        ({}, "1.234,50 \u20ac", "EUR 1,234.50", 1),
        ({}, "12 kg", "12 g", 0),
        ({}, "12 kg", "12", 1),
        ({}, 12, "12 g", 1),
        ({"units": "require"}, "12 kg", "12", 0),
        ({"units": "require"}, "12 kg", "12 kg", 1),
        ({"units": "require"}, 12, "12", 1),
        ({"units": "ignore"}, "12 kg", "12 g", 1),
        ({}, 20, "20 %", 1),
        ({}, 0.2, "20 %", 0),
        ({}, 7, "3 of 7", 0),
        ({"which": "last"}, 7, "3 of 7", 1),
        ({"which": "last"}, 3, "3 of 7", 0),
        ({"which": "any"}, 3, "3 of 7", 1),
        ({"which": "any"}, 7, "3 of 7", 1),
        ({}, 100, "101", 0),
        ({"absolute": 1.0}, 100, "101", 1),
        ({"absolute": 1.0}, 100, "101.01", 0),
        ({"relative": 0.01}, 100, "99", 1),
        ({"relative": 0.01}, 100, "98.9", 0),
        ({"relative": 0.01}, -100, "-99", 1),
        ({"relative": 0.01, "absolute": 5.0}, 100, "104", 1),
        ({"decimal": ","}, 1234, "1.234", 1),
        ({"decimal": "."}, 1234, "1.234", 0),
        ({}, ["4", "5 EUR"], "5", 1),
        ({}, 0.1, "0,1", 1),
        ({}, 10**20 + 1, "100000000000000000000", 0),
        ({}, 5, "five", 0),
    ],
)
def test_number_match_takes_another_number(options: Any, reference: Any, answer: str, right: int) -> None:
    assert value("number_match", reference, answer, options) == right


def test_number_match_takes_references_that_are_no_number() -> None:
    assert "holds no numbers, allowed is one" in misfit("number_match", ["4", "four"])
    assert "holds 2 numbers" in misfit("number_match", "4 of 5")
    assert "of kind object" in misfit("number_match", {"a": 1})
    assert misfit("number_match", 0) == ""
    assert misfit("number_match", "4", choices=["4", "5"]) == ""
    assert score("number_match", 5, "6 EUR").why == '"6 EUR" for "5"'
    assert score("number_match", 5, "none").why == 'no number in "none"'


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2024-03-05",
            "2024/3/5",
            "2024-03-05T10:00:00",
            "20240305",
            "05.03.2024",
            "5.3.24",
            "05/03/2024",
            "05-03-2024",
        ),
        *("5 March 2024", "March 5, 2024", "the 5th of March 2024", "Tuesday, 5 March 2024", "5 Mar 2024"),
        *(
            "5. M\u00e4rz 2024",
            "5. MAERZ 2024",
            "Dienstag, den 5. M\u00e4rz 2024",
            "5 Mart 2024",
            "5 MART 2024 tarihinde",
        ),
    ],
)
def test_a_date_is_not_read(text: str) -> None:
    assert dates.read(text) == datetime.date(2024, 3, 5)


@pytest.mark.parametrize(
    ("text", "month"),
    [
        ("1 A\u011fustos 2024", 8),
        ("1 ARALIK 2024", 12),
        ("1 Aral\u0131k 2024", 12),
        ("1 \u015eubat 2024", 2),
        ("1. Okt. 2024", 10),
    ],
)
def test_a_month_is_read_as_another(text: str, month: int) -> None:
    assert dates.read(text) == datetime.date(2024, month, 1)


@pytest.mark.parametrize(
    "text",
    ["", "10", "2024", "March 2024", "5 March", "31.02.2024", "2024-13-01", "2024-03-05 or so", "today", "1.2.3.4"],
)
def test_a_date_is_made_up_from_what_is_none(text: str) -> None:
    assert dates.read(text) is None


def test_day_and_month_change_places() -> None:
    assert dates.read("05/03/2024", day_first=False) == datetime.date(2024, 5, 3)
    assert dates.read("15/03/2024", day_first=False) == datetime.date(2024, 3, 15)
    assert dates.read("2024-03-05", day_first=False) == datetime.date(2024, 3, 5)
    # A short year does not depend on the day that the test runs.
    assert dates.read("5.3.69") == datetime.date(2069, 3, 5)
    assert dates.read("5.3.70") == datetime.date(1970, 3, 5)
