from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from prefix_logs import asked

from specq.lab import prefix_cache, prefix_parts, prefix_points, prefix_tokens, prefix_values
from specq.lab.prefix_points import Point, Points
from specq.workloads.request import Request

RULES = "You answer customers of a harbour.\nBe short.\nBe kind.\n"
OTHER = "You sort mail into four boxes and nothing else.\nBoxes: in, out, later, never.\n"


def points(requests: Sequence[Request]) -> Points:
    encoding = prefix_tokens.Encoding()
    parts = prefix_tokens.parts_of(requests, encoding)
    tokens = prefix_parts.encode(parts.texts, encoding.ids_of_all)
    prompts, _ = prefix_tokens.prompts_of(requests, parts, tokens, encoding)
    return prefix_points.points(prefix_cache.sort(prompts), requests, encoding.text)


def only(requests: Sequence[Request]) -> Point:
    (point,) = points(requests).found
    return point


QUESTIONS = [f"{word} is it?" for word in ("When", "Where", "Which", "Why", "What", "Whose", "How", "Who")]
UUIDS = [f"{n:08x}-0000-4000-8000-{n:012x}" for n in (11, 12, 11, 13, 14, 15, 16, 17)]
VALUES = {
    "a date and a time": [f"2026-05-01T10:33:{n:02d}Z" for n in (1, 2, 3, 5, 8, 13, 21, 34)],
    "a date": ["2026-05-01"] * 5 + ["2026-05-02"] * 3,
    "a time of day": [f"10:{n}" for n in (10, 11, 11, 12, 13, 14, 15, 16)],
    "a UUID": UUIDS,
    "a time stamp": [f"17171717{n}" for n in (10, 12, 15, 15, 19, 22, 30, 31)],
    "a random id": [
        "sess9x8c7v",
        "sess1q2w3e",
        "b7t5r4e3w",
        "x1y2z3a4b",
        "q9w8e7r6t",
        "m1n2b3v4c",
        "k4j5h6g7",
        "p0o9i8u7",
    ],
    "a counter": [str(n) for n in (998, 999, 1000, 1001, 1003, 1004, 1007, 1010)],
    "a number": [str(n) for n in (41, 7, 93, 22, 1, 88, 14, 3)],
    "personal data": [f"[EMAIL_{n}]" for n in (1, 2, 1, 3, 10, 11, 4, 5)],
    "a day of the week": ["Monday", "Tuesday", "Monday", "Friday", "Sunday", "Monday", "Sunday", "Friday"],
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_is_taken_for_another_kind_or_stands_elsewhere(kind: str) -> None:
    values = VALUES[kind]
    log = [
        asked(question, f"{RULES}Now: {value}. Go on.\nThen more of the same.", ident=f"r{n}")
        for n, (question, value) in enumerate(zip(QUESTIONS, values, strict=True))
    ]
    point = only(log)
    assert point.kind == kind
    assert point.where == "message 1 (system), line 4"
    assert point.before.endswith("Be kind.\nNow: ")
    assert point.after.startswith(". Go on.\nThen more")
    assert set(point.values) <= set(values)
    assert point.prompts == 8
    assert point.branches == len(set(values))
    # The role, three lines of rules and "Now:".
    assert point.equal == 1 + len(RULES.split()) + 1


@pytest.mark.parametrize("greeting", ["Hello ", "User: ", "customer name = "])
def test_a_name_is_called_text(greeting: str) -> None:
    names = ("Anna", "Bo", "Cem", "Dora", "Eli", "Finn", "Gül", "Hal")
    assert only([asked("x", f"{RULES}{greeting}{name}!\nMore.", ident=name) for name in names]).kind == "a name"


def test_what_users_ask_is_called_a_value() -> None:
    log = [asked(question, RULES) for question in QUESTIONS]
    point = only(log)
    assert (point.kind, point.where) == ("free text", "message 2 (user), line 1")
    assert point.branches == 8


def test_two_services_are_one_group_that_parts_at_its_first_word() -> None:
    log = []
    for n, question in enumerate(QUESTIONS * 2):
        support = f"{RULES}Request {UUIDS[n % 8]}\n"
        log.append(asked(question, support, ident=f"s{n}", tags=["support"]))
        log.append(asked(f"Letter {n}", OTHER, ident=f"m{n}", tags=["mail"]))
    found = points(log)
    assert {(one.kind, one.tags, one.prompts) for one in found.found} == {
        ("a UUID", ("support",), 16),
        ("a counter", ("mail",), 16),
    }
    assert found.rest == 0


def test_prompts_that_are_the_same_part_somewhere() -> None:
    point = only([asked("same", RULES, ident=str(n)) for n in range(5)])
    assert (point.kind, point.prompts, point.branches) == (None, 5, 1)
    # Some of them the same, the others longer.
    mixed = [asked("same", RULES, ident=str(n)) for n in range(5)]
    mixed += [asked(f"same but {word}", RULES, ident=word) for word in ("red", "blue", "green", "grey", "white")]
    assert sum(one.prompts for one in points(mixed).found) + points(mixed).rest == 10


def test_small_groups_are_lost() -> None:
    log = [asked(f"Letter {n}", OTHER, ident=f"m{n}") for n in range(300)]
    log += [asked("x", f"Of a kind of its own {n}", ident=f"x{n}") for n in range(2)]
    found = points(log)
    assert sum(one.prompts for one in found.found) + found.rest == 302
    assert found.found[0].prompts == 300


@pytest.mark.parametrize("seed", range(20))
def test_a_prompt_is_in_two_groups_or_in_none(seed: int) -> None:
    rng = random.Random(seed)
    words = ["red", "blue", "7", "8", "2026-05-01", "2026-05-02", "id-4711x", "Anna"]
    log = [
        asked(
            " ".join(rng.choice(words) for _ in range(rng.randrange(1, 5))),
            rng.choice(("", RULES, OTHER)),
            ident=str(n),
        )
        for n in range(rng.randrange(1, 60))
    ]
    found = points(log)
    assert sum(one.prompts for one in found.found) + found.rest == len(log)


def test_a_prompt_is_said_to_part_where_it_does_not() -> None:
    # One number is the other's beginning: the values are whole numbers, not what is left of them.
    assert prefix_values.name(["see 12 now", "see 123 now", "see 129 now"], 6).values == ("12", "123", "129")
    assert prefix_values.name(["abc", "abc def"], 3).kind == "free text"
    assert prefix_values.name(["abc", "abc"], 3).kind == "the end of a prompt"


def test_a_place_in_the_tools_or_between_messages_is_put_into_a_message() -> None:
    log = [
        Request(id=str(n), line=1, tools=f'[{{"name":"f{n}"}}]', messages=({"role": "user", "content": "x"},))
        for n in range(4)
    ]
    assert only(log).where == "the tool definitions"
    raw = [Request(id=str(n), line=1, prompt=f"first line\nat {n}:00") for n in range(10, 14)]
    assert only(raw).where == "line 2"
