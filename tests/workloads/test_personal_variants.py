"""Ways of writing that are less usual are found too, and get the placeholder of the usual one."""

from __future__ import annotations

import pytest

from specq.workloads.personal import Scrubber

WIDE = {ord("!") + i: 0xFF01 + i for i in range(94)}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("IBAN de89 3704 0044 0532 0130 00", "IBAN [IBAN_1]"),
        ("my de89370400440532013000 is it", "my [IBAN_1] is it"),
        ("De89-3704-0044-0532-0130-00.", "[IBAN_1]."),
        ("AB12 CODE DE89 3704 0044 0532 0130 00", "AB12 CODE [IBAN_1]"),
        ("4111.1111.1111.1111", "[CREDIT_CARD_1]"),
        ("3782.822463.10005.", "[CREDIT_CARD_1]."),
        ("4111\u20111111\u20111111\u20111111", "[CREDIT_CARD_1]"),
        ("SSN 078 05 1120", "SSN [SSN_1]"),
        ('{"ssn": "078051120"}', '{"ssn": "[SSN_1]"}'),
        ("Social Security Number: 078.05.1120", "Social Security Number: [SSN_1]"),
        ("ssn_no=078-05-1120", "ssn_no=[SSN_1]"),
        ("an J\u00d6RG@m\u00fcller.de.", "an [EMAIL_1]."),
        ("j\u00f6rg@mueller.de", "[EMAIL_1]"),
        ("jo\u0308rg@mueller.de", "[EMAIL_1]"),
        ("\u0438\u0432\u0430\u043d@\u043f\u043e\u0447\u0442\u0430.\u0440\u0444", "[EMAIL_1]"),
        ("https://a.example/?e=jane%40example.com&x=1", "https://a.example/?e=[EMAIL_1]&x=1"),
        ("\u8054\u7cfbjane@example.com\u8c22\u8c22", "\u8054\u7cfb[EMAIL_1]\u8c22\u8c22"),
        ("jane@example.com".translate(WIDE), "[EMAIL_1]"),
        ("203.0.113.78".translate(WIDE), "[IP_ADDRESS_1]"),
        ("IPv4: 203.0.113.78", "IPv4: [IP_ADDRESS_1]"),
        ("in version 2 at 203.0.113.78", "in version 2 at [IP_ADDRESS_1]"),
    ],
)
def test_another_way_of_writing_stays(text: str, left: str) -> None:
    assert Scrubber().scrub(text) == left


@pytest.mark.parametrize(
    "text",
    [
        *("version 1.2.3.4", "Version: 1.2.3.4", '"version": "1.2.3.4"', "v 1.2.3.4", "versions 1.2.3.4 and 1.2.3.5"),
        *(
            "de88 3704 0044 0532 0130 00",
            "4111.1111.1111.1112",
            "lessn 078051120",
            "a %40 b",
            "100%40.5",
            "078 05 1120",
        ),
    ],
)
def test_what_is_none_is_replaced(text: str) -> None:
    assert Scrubber().scrub(text) == text


def test_ways_of_writing_get_placeholders_of_their_own() -> None:
    scrubber = Scrubber()
    for one in ("jane@example.com", "Jane%40example.com", "jane@example.com".translate(WIDE)):
        assert scrubber.scrub(one) == "[EMAIL_1]"
    for one in ("DE89370400440532013000", "de89 3704 0044 0532 0130 00"):
        assert scrubber.scrub(one) == "[IBAN_1]"
    for one in ("SSN 078 05 1120", "SSN 078-05-1120"):
        assert scrubber.scrub(one) == "SSN [SSN_1]"
