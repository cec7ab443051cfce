from __future__ import annotations

from pathlib import Path

import pytest
import workload_files as files

from doc_pages import chapters, page, rows
from specq import cli
from specq.core.errors import ConfigError
from specq.workloads.content import compact
from specq.workloads.personal import KINDS, Scrubber

PHONES = [
    *("+49 30 901820", "+90 532 123 45 67", "0049 30 901820", "(415) 555-2671", "415-555-2671", "+1 415 555 2671"),
    *("Tel. 901 820 11", "mobile: 05321234567", "phone number: 2345678"),
]
KEYS = [
    *("sk-proj-abcdefghijklmnop0123456789", "sk-ant-api03-abcdefghijklmnopqrstuvwx", "ghp_" + "a1B2" * 9),
    *("AKIAIOSFODNN7EXAMPLE", "AIza" + "aB3dE" * 7, "hf_" + "abCD1" * 7, "xoxb-123456789012-abcdefghij"),
    *("glpat-abcdefghij0123456789", "npm_" + "a1B2" * 9, "sk_live_" + "aB3d" * 6, "github_pat_" + "a1B2_" * 6),
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
]
FOUND = {
    "email": ["anna.k@example.com", "b.c+tag@sub.example.co.uk"],
    "phone": PHONES,
    "iban": ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "TR330006100519786457841326"],
    "credit_card": ["4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005"],
    "ip_address": ["192.168.1.20", "2001:db8::1"],
    "ssn": ["123-45-6789"],
    "api_key": KEYS,
}
LEFT = [
    *("order 4155552671", "id 1234567890", "1717171717123", "4111111111111112", "DE88 3704 0044 0532 0130 00"),
    *("2024-05-06 10:33:12", "06.05.2024 07:08", "12,345.67 EUR", "100-200-3000", "0.123 0.456 0.789"),
    *("127.0.0.1", "::1", "0.0.0.0", "8:30:15", "hotel 1234567 rooms", "user@localhost", "password: required"),
    *("http://example.com:8080/a", "task-oriented-and-more-words", "passwords: at least 8", "the bearer of bad news"),
]


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in FOUND.items() for value in values])
def test_a_value_stays_in_the_text(kind: str, value: str) -> None:
    scrubber = Scrubber()
    bare = value.split(". ")[-1].split(": ")[-1]
    for text in (value, f"see {value}, then", f"({value})", f'"{value}"', f"x:\n{value}\ny"):
        assert bare not in scrubber.scrub(text), text
    assert dict(scrubber.counts) == {kind: 5}
    assert scrubber.values() == {kind: 1}


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in FOUND.items() for value in values])
def test_a_value_behind_an_escaped_newline_of_a_tool_call_stays(kind: str, value: str) -> None:
    # In JSON text the letter of the escape stands right before the value.
    bare = value.split(". ")[-1].split(": ")[-1]
    for text in (compact({"a": f"x\n{value}\n"}), compact({"arguments": compact({"b": f"\t{value}\r\n"})})):
        scrubber = Scrubber()
        said = scrubber.scrub(text)
        assert bare not in said
        assert dict(scrubber.counts) == {kind: 1}
        assert said == text.replace(bare, f"[{kind.upper()}_1]")


@pytest.mark.parametrize("text", LEFT)
def test_what_is_nobodys_is_replaced(text: str) -> None:
    assert Scrubber(("US", "DE", "TR", "GB")).scrub(f"see {text}, then") == f"see {text}, then"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("postgres://bob:s3cret@db.example.com:5432/x", "postgres://[URL_CREDENTIALS_1]@db.example.com:5432/x"),
        ("https://user:pw@example.com/", "https://[URL_CREDENTIALS_1]@example.com/"),
        ("redis://:pw@h:6379", "redis://[URL_CREDENTIALS_1]@h:6379"),
        ("API_KEY='xyz12345abc'", "API_KEY='[API_KEY_1]'"),
        ('{"password": "hunter2!!"}', '{"password": "[API_KEY_1]"}'),
        ('{"arguments":"{\\"password\\": \\"hunter2!!\\"}"}', '{"arguments":"{\\"password\\": \\"[API_KEY_1]\\"}"}'),
        ("Authorization: Bearer aB3daB3daB3daB3daB3d;", "Authorization: Bearer [API_KEY_1];"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----", "[API_KEY_1]"),
        ("GB82 WEST 1234 5698 7654 32 IS MINE", "[IBAN_1] IS MINE"),
        ("\u0130\u0130 tel 90182011", "\u0130\u0130 tel [PHONE_1]"),
        ("\U0001f600 a@example.com b", "\U0001f600 [EMAIL_1] b"),
    ],
)
def test_more_or_less_than_the_value_is_replaced(text: str, left: str) -> None:
    assert Scrubber().scrub(text) == left


def test_one_value_gets_two_placeholders_and_prompts_stop_sharing() -> None:
    scrubber = Scrubber()
    said = [scrubber.scrub(text) for text in ("To Anna@Example.com: x", "To anna@example.com: y", "To b@example.com")]
    assert said == ["To [EMAIL_1]: x", "To [EMAIL_1]: y", "To [EMAIL_2]"]
    assert scrubber.scrub("4111-1111-1111-1111 or 4111 1111 1111 1111") == "[CREDIT_CARD_1] or [CREDIT_CARD_1]"
    assert dict(scrubber.counts) == {"email": 3, "credit_card": 2}
    assert scrubber.values() == {"email": 2, "credit_card": 1}


def test_a_text_that_stands_again_is_not_counted_again() -> None:
    scrubber = Scrubber()
    for _ in range(3):
        scrubber.scrub("a@example.com")
    assert scrubber.counts["email"] == 3


def test_national_numbers_of_a_named_country_stay() -> None:
    assert Scrubber(("DE",)).scrub("ruf 030 901820 an") == "ruf [PHONE_1] an"
    assert Scrubber(("US",)).scrub("ruf 030 901820 an") == "ruf 030 901820 an"
    assert Scrubber(()).scrub("+49 30 901820 or 415-555-2671") == "[PHONE_1] or 415-555-2671"
    with pytest.raises(ConfigError, match=r"phone region XX.*two letters"):
        Scrubber(("XX",))


def test_a_run_of_signs_takes_the_square_of_its_length() -> None:
    # Not a measurement: without the cut into pieces this takes minutes and meets the limit of the test.
    for unit in ("::", "1 ", "a@", "sk-", "+49 ", "00", "GB82", "tel 1"):
        Scrubber(("US", "DE")).scrub(unit * (80_000 // len(unit)))


def test_a_log_is_imported_with_what_it_tells_of_people(tmp_path: Path) -> None:
    row = {
        "custom_id": "anna@example.com",
        "tags": ["vip:anna@example.com"],
        "body": files.body("I am anna@example.com", user="anna", tools=[{"about": "anna@example.com"}]),
    }
    broken = {"messages": [{"role": "user", "content": [{"type": "b@example.com"}]}]}
    path = files.lines(tmp_path / "a.jsonl", row, broken)
    found = files.read(path, keep_personal_data=False)
    (one,) = found.requests
    assert (one.id, one.tags, one.user) == ("[EMAIL_1]", ("vip:[EMAIL_1]",), "[USER_1]")
    assert one.messages[0]["content"] == "I am [EMAIL_1]"
    assert "anna" not in repr(found.requests)
    assert "b@example.com" not in found.dropped[0].reason
    assert found.counts.scrubbed == {"email": 5, "user": 1}
    kept = files.read(path)
    assert kept.requests[0].user == "anna"
    assert (kept.counts.scrubbed, kept.counts.kept) == ({}, True)


def test_a_planted_value_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted = {**{kind: values[0] for kind, values in FOUND.items()}, "url_credentials": "bob:s3cret", "user": "anna-k"}
    assert set(planted) == set(KINDS)
    told = " and ".join(f"http://{v}@host/" if k == "url_credentials" else v for k, v in planted.items() if k != "user")
    body = files.body(f"I am {told}", f"yes {told}", f"ask {told}", user=planted["user"], metadata={"app": told})
    called = {"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": compact({"a": told})}}]}
    log = [
        {"custom_id": f"{told} {n}", "tags": [told], "body": {**body, "tools": [{"about": told}] if n else []}}
        for n in range(3)
    ]
    calling = {"body": {"messages": [*body["messages"], called, {"role": "tool", "content": told}]}}
    broken = {"messages": [{"role": "user", "content": [{"type": told}]}]}
    path, out = files.lines(tmp_path / "a.jsonl", *log, calling, broken), tmp_path / "p.jsonl"
    asked = ["workload", str(path), "--tag", "metadata.app"], ["lab", "prefix", str(path), "--tag", "metadata.app"]
    said = []
    for words in (*asked, *([*words, "--json"] for words in asked), [*asked[0], "--out", str(out)]):
        assert cli.main(words) == 0
        said += capsys.readouterr()
    said.append(out.read_text())
    for kind, value in planted.items():
        assert not [text for text in said if value in text], kind
        assert f"[{kind.upper()}_1]" in "".join(said) or kind == "user"


def test_a_kind_is_missing_on_the_page() -> None:
    told = rows(chapters(page("docs/workloads.md"))["Personal data"])
    assert [row[0].strip("`") for row in told] == list(KINDS)
