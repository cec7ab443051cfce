"""A field is compared by its whole value, and what the transform puts in is no field."""

from __future__ import annotations

import pytest

from specq.prompts import protected
from specq.prompts.transform import transform
from specq.prompts.types import Steps, content_of

FILLER = "The garden lies behind the house and is shared by all who live there."


def values(text: str) -> dict[str, str]:
    return {one.kind: one.value for one in protected.fields(text)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "It rises by two and a half percent each year.",
            {"rate": "two and a half percent each year", "threshold": "by two and a half percent each year"},
        ),
        ("Sent above 3 dozen units.", {"amount": "3 dozen units", "threshold": "above 3 dozen units"}),
        ("Signed on 5/III/2026 here.", {"date": "5/III/2026"}),
        ("Signed on 12.iv.2025 here.", {"date": "12.iv.2025"}),
        ("Signed on 5/May/2026 here.", {"date": "5/May/2026"}),
        ("pay 5 and a half percent", {"rate": "5 and a half percent"}),
        ("pay two point five percent", {"rate": "two point five percent"}),
        ("pay two to three percent", {"rate": "two to three percent"}),
        ("pay three quarters of a percent", {"rate": "three quarters of a percent"}),
        ("pay a quarter percent", {"rate": "a quarter percent"}),
        ("pay a third of a percent", {"rate": "a third of a percent"}),
        ("two thirds of the votes", {"amount": "two thirds"}),
        ("In 2024 half of them left", {"date": "2024"}),
    ],
)
def test_a_number_is_torn_off(text: str, found: dict[str, str]) -> None:
    assert values(text) == found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("nine and a half percent", "two and a half percent"),
        ("5 and a half percent", "7 and a half percent"),
        ("9 1/2 percent", "2 1/2 percent"),
        ("nine point five percent", "two point five percent"),
        ("one to three percent", "two to three percent"),
        ("8 dozen units", "3 dozen units"),
        ("a quarter percent", "a third of a percent"),
        ("nueve y medio por ciento", "dos y medio por ciento"),
    ],
)
def test_a_field_goes_whose_end_another_shares(one: str, other: str) -> None:
    facts = [f"Fee A is {one} of the sales.", f"Fee B is {other} of the sales."]
    for told in (facts, facts[::-1]):
        body = "\n\n".join([told[0], *[f"{FILLER} Row {n}." for n in "abcdef"], told[1]])
        short = transform(f"{body}\n\nQuestion: Where is the garden?", Steps(select=0.1))
        left = content_of(short.messages[0])
        assert one in left, told
        assert other in left, told
        assert short.deletions


def test_the_count_of_equal_lines_is_a_field() -> None:
    line = "worker says that the queue is empty"
    log = f"start of the log\n{line}\n{line}\n{line}\nend of the log"
    found = transform(f"{log}\n\nWhat does it say?", Steps())
    assert f"{line} (3 times)" in content_of(found.messages[0])
    assert found.protected_after == found.protected_before == ()


def test_the_count_stands_in_for_the_same_amount_of_the_prompt() -> None:
    line = "worker says that the queue is empty"
    log = f"start of the log\n{line}\n{line}\n{line}\nend of the log"
    body = "\n\n".join([log, *[f"{FILLER} Row {n}." for n in "abcdef"], "Ring the bell (3 times) at noon."])
    found = transform(f"{body}\n\nWhich worker says that the queue is empty?", Steps(select=0.1))
    assert "(3 times) at noon" in content_of(found.messages[0])
    assert [str(one) for one in found.protected_after] == ["amount 3 times"]
