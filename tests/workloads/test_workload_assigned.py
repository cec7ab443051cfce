"""Secrets that are assigned, and cards beside other numbers; prose about them stays as it is."""

from __future__ import annotations

import pytest

from specq.workloads.content import compact
from specq.workloads.personal import Scrubber

SECRETS = [
    *(
        "password: hunter2",
        "MYSQL_PASSWORD='tiger'",
        "DB_PASS=tiger99",
        "DB_PASS=tiger",
        "export DB_PASSWORD=swordfish",
    ),
    *(
        '{"password": "correcthorsebatterystaple"}',
        'secret: "opensesame"',
        "token=abc123def",
        "password: xtiger9x",
        "PASSWORD='$tiger9#'",
        "my password is hunter2",
    ),
    *(
        'client_secret = "correct horse battery"',
        "user=bob pass=tiger",
        "--password tiger",
        "<password>tiger</password>",
    ),
    *(
        "?access_token=a1b2c3d4&x=y",
        "Passwort: Sommer24!",
        "pwd:p@ssword",
        "dbPassword: 'tiger'",
        "X_API_KEY=k3yk3yk3y",
    ),
    *("user: bob\npassword: tiger\nhost: db", "auth_token: 9f8e7d6c", "password => 'tiger'", 'password := "tiger"'),
]
VALUES = ("hunter2", "tiger", "swordfish", "correcthorse", "opensesame", "abc123def", "correct horse", "a1b2c3d4")
VALUES += ("Sommer24", "p@ssword", "k3yk3yk3y", "9f8e7d6c")
PROSE = [
    *("What is a good password: a phrase or a word?", "password: required", "Forgot your password: click here."),
    *("A token: the smallest unit", "max_token=512", '{"token": "the", "logprob": -0.1}', '"eos_token": "</s>"'),
    *(
        "password: str = None",
        '{"password": {"type": "string"}}',
        '{"password": "string"}',
        "token = tokenizer.encode(x)",
    ),
    *(
        'password=os.environ["DB_PASSWORD"]',
        "password=self.password",
        "password=${DB_PASSWORD}",
        "password: <password>",
    ),
    *('"password": "must be at least 8 characters"', "The password is required.", "password:", "the secret: work hard"),
    *(
        "Is my password is safe?",
        "pass: 12 of 14",
        "password=",
        "token: 4096",
        "The secret is simple",
        "password: ****",
    ),
]
CARDS = [
    *("4111111111111111,4000000000000002", "4111 1111 1111 1111 4000 0000 0000 0002", "30569309025904"),
    *("3530111333300000", "12 4111 1111 1111 1111 34", "3782 822463 10005", "6759649826438453", "3056-930902-5904"),
]
NO_CARDS = ("4111111111111112", "1717171717123", "0.4111111111111111", "9999 9999 9999 9995", "2024 1111 2025 2222")


@pytest.mark.parametrize("text", SECRETS)
def test_an_assigned_secret_stays(text: str) -> None:
    for told in (text, f"see\n{text}\nand", compact({"arguments": compact({"said": text})})):
        scrubber = Scrubber()
        said = scrubber.scrub(told)
        assert not [value for value in VALUES if value in said], said
        assert dict(scrubber.counts) == {"api_key": 1}


@pytest.mark.parametrize("text", PROSE)
def test_prose_about_secrets_is_replaced(text: str) -> None:
    for told in (text, f"see\n{text}\nand"):
        assert Scrubber().scrub(told) == told


@pytest.mark.parametrize("text", CARDS)
def test_a_card_beside_a_number_or_of_another_scheme_stays(text: str) -> None:
    scrubber = Scrubber()
    said = scrubber.scrub(f"cards {text}; end")
    assert not [part for part in said.replace("[CREDIT_CARD_", "").split() if len(part) > 3 and part[:4].isdigit()], (
        said
    )
    assert dict(scrubber.counts) == {"credit_card": 1 + (text.count("4000") > 0)}


@pytest.mark.parametrize("text", NO_CARDS)
def test_a_number_that_is_no_card_is_replaced(text: str) -> None:
    assert Scrubber(()).scrub(f"see {text}, then") == f"see {text}, then"
