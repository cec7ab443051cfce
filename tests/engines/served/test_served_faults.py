"""Which faults are asked again, after how long, and in which words they are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specq.core.errors import UserError
from specq.engines.served.faults import (
    MOST_WORDS,
    Fault,
    Kind,
    Retry,
    again,
    of_event,
    of_status,
    one_line,
    retry_after_s,
)


@pytest.mark.parametrize(
    ("kind", "status", "asked_again"),
    [
        ("refused", None, True),
        ("reset", None, True),
        ("http_429", 429, True),
        ("http_5xx", 500, True),
        ("http_5xx", 503, True),
        ("http_5xx", 501, False),
        # An event told of it, after a part of an answer.
        ("http_5xx", None, False),
        ("cut", None, False),
        ("hung", None, False),
        ("tls", None, False),
        ("malformed", None, False),
        ("wrong_model", 404, False),
        ("http_4xx", 400, False),
        ("http_3xx", 302, False),
    ],
)
def test_a_fault_is_asked_again_that_brought_something_or_will_not_pass(
    kind: Kind, status: int | None, asked_again: bool
) -> None:
    fault = Fault(kind=kind, said="", status=status)
    assert again(fault) is asked_again
    assert (Retry().wait_s(fault, 1, "r") is not None) is asked_again
    assert Retry(tries=1).wait_s(fault, 1, "r") is None


def test_waits_do_not_grow_or_are_the_same_for_all() -> None:
    fault = Fault(kind="refused", said="")
    retry = Retry(tries=9, first_s=1.0, most_s=8.0)
    for tried, most in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 8.0)):
        waits = [retry.wait_s(fault, tried, f"r{number}") for number in range(50)]
        assert all(wait is not None and most / 2 <= wait <= most for wait in waits)
        assert len(set(waits)) == 50
    assert retry.wait_s(fault, 8, "r") is not None
    assert retry.wait_s(fault, 9, "r") is None
    assert retry.wait_s(fault, 3, "r") == retry.wait_s(fault, 3, "r")


def test_a_servers_own_wait_is_cut_short_or_drawn_out() -> None:
    def fault(after_s: float) -> Fault:
        return Fault(kind="http_429", said="", status=429, retry_after_s=after_s)

    assert Retry().wait_s(fault(7.0), 1, "r") == 7.0
    assert Retry().wait_s(fault(0.0), 3, "r") == 0.0
    assert Retry(most_s=5.0).wait_s(fault(7.0), 1, "r") is None


@pytest.mark.parametrize("wrong", [{"tries": 0}, {"first_s": -1.0}, {"first_s": 9.0, "most_s": 1.0}])
def test_a_retry_without_a_first_try_is_taken(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"write Retry\(tries=1\) for no second try"):
        Retry(**wrong)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        # Without the server's own time, a date says nothing: this machine's clock may be wrong.
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, None),
        ({"retry-after": "soon", "date": "now"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_wrong_or_off_this_machines_clock(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


def told(status: int, body: Any) -> Fault:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return of_status(status, {}, raw, str)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, {"object": "error", "message": "The model `m` does not exist.", "code": 404}, "The model `m` does not"),
        (404, {"error": {"message": "The model `m` does not exist.", "code": 404}}, "The model `m` does not exist."),
        (404, {"error": "model 'm' not found"}, "model 'm' not found"),
        (404, {"error": {"message": "No access", "code": "model_not_found"}}, None),
        (400, {"error": {"message": "Invalid model name passed in model=m"}}, "Invalid model name passed"),
    ],
)
def test_a_wrong_model_is_not_told_from_a_wrong_path(status: int, body: Any, words: str | None) -> None:
    fault = told(status, body)
    if words is None:
        assert fault.kind == "http_4xx"
        return
    assert fault.kind == "wrong_model"
    assert fault.said.startswith(f"HTTP {status}: {words}")


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (404, {"detail": "Not Found"}, "http_4xx", "HTTP 404: Not Found"),
        (401, {"error": {"message": "no\nkey"}}, "http_4xx", "HTTP 401: no key"),
        (400, {"error": {"message": "the model's context is 4096 tokens"}}, "http_4xx", None),
        (429, "slow down", "http_429", "HTTP 429: slow down"),
        (503, "", "http_5xx", "HTTP 503"),
        (500, {"error": {"code": 7}}, "http_5xx", 'HTTP 500: {"code": 7}'),
        (502, "<html>\n<b>Bad\tGateway</b>", "http_5xx", "HTTP 502: <html> <b>Bad Gateway</b>"),
        (500, "\x1b[31mred\u202e", "http_5xx", "HTTP 500: \\x1b[31mred\\u202e"),
        (500, {"detail": [{"msg": "x"}]}, "http_5xx", 'HTTP 500: [{"msg": "x"}]'),
        (422, "null", "http_4xx", "HTTP 422"),
    ],
)
def test_the_servers_words_are_lost_or_take_over_the_terminal(
    status: int, body: Any, kind: str, said: str | None
) -> None:
    fault = told(status, body)
    assert fault.kind == kind
    assert said is None or fault.said == said


def test_a_failed_event_is_of_another_kind_than_its_code() -> None:
    def kind(error: Any) -> tuple[str, str]:
        fault = of_event({"error": error}, str)
        return fault.kind, fault.said

    assert kind({"message": "no memory", "code": 500}) == ("http_5xx", "the server broke off: no memory")
    assert kind({"message": "wait", "code": "429"})[0] == "http_429"
    assert kind({"message": "too long", "code": 400})[0] == "http_4xx"
    assert kind({"message": "no such model", "code": 404})[0] == "wrong_model"
    assert kind("runner stopped") == ("http_5xx", "the server broke off: runner stopped")
    assert of_event({"message": None, "code": None}, str).kind == "http_5xx"


def test_a_long_word_fills_the_screen() -> None:
    line = one_line("x" * 10_000)
    assert len(line) == MOST_WORDS
    assert line.endswith("...")
    assert one_line("x" * MOST_WORDS) == "x" * MOST_WORDS


def test_a_line_is_cut_inside_a_key_before_that_is_hidden() -> None:
    secret = "k" * 40
    line = one_line("x" * (MOST_WORDS - 20) + secret, lambda text: text.replace(secret, "[KEY]"))
    assert "k" not in line
    assert line.endswith("[KEY]")
