"""Names with their passwords are replaced, and what only looks like them is left."""

from __future__ import annotations

import pytest

from specq.workloads.content import compact
from specq.workloads.personal import Scrubber

BASIC = "dXNlcjpwYXNzd29yZDEyMw=="


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Authorization: Basic {BASIC}", "Authorization: Basic [API_KEY_1]"),
        (
            f"proxy-authorization: basic {BASIC.rstrip('=')}\r\nHost: a",
            "proxy-authorization: basic [API_KEY_1]\r\nHost: a",
        ),
        (f'{{"Authorization": "Basic {BASIC}"}}', '{"Authorization": "Basic [API_KEY_1]"}'),
        (f"curl -H 'Authorization: Basic {BASIC}' x", "curl -H 'Authorization: Basic [API_KEY_1]' x"),
        ("Authorization: Token 9f8e7d6c5b4a", "Authorization: Token [API_KEY_1]"),
        ("Authorization: ApiKey abc123def456", "Authorization: ApiKey [API_KEY_1]"),
        ("curl -u bob:s3cret99 https://a.example", "curl -u [API_KEY_1] https://a.example"),
        ("curl -sS https://a.example -ubob:hunter", "curl -sS https://a.example -u[API_KEY_1]"),
        ("curl --user name:secret x", "curl --user [API_KEY_1] x"),
        ("--user name:secret", "--user [API_KEY_1]"),
        ("curl -U 'bob:123456' x", "curl -U '[API_KEY_1]' x"),
        ("curl --proxy-user=bob:geheim x", "curl --proxy-user=[API_KEY_1] x"),
        ("run it with -u bob:s3cret99", "run it with -u [API_KEY_1]"),
        ('["curl", "-u", "bob:s3cret99"]', '["curl", "-u", "[API_KEY_1]"]'),
        ("http --auth bob:geheim x", "http --auth [API_KEY_1] x"),
        ("requests.get(u, auth=('bob', 's3cret99'))", "requests.get(u, auth=('bob', '[API_KEY_1]'))"),
        ('HTTPBasicAuth("bob", "geheim")', 'HTTPBasicAuth("bob", "[API_KEY_1]")'),
    ],
)
def test_a_name_with_its_password_stays(text: str, left: str) -> None:
    assert Scrubber().scrub(text) == left
    # The same in the arguments of a tool call, which are JSON text.
    assert Scrubber().scrub(compact({"a": f"x\n{text}\n"})) == compact({"a": f"x\n{left}\n"})


@pytest.mark.parametrize(
    "text",
    [
        *("basic understanding of authorization", "the basic idea: none", "WWW-Authenticate: Basic realm=a"),
        *("Authorization: Basic <credentials>", "Authorization: Token required", "Basic authentication: required"),
        *("docker run -u 1000:1000 x", "docker run --user app:staff x", "--user root:root", "curl -u $USER:$PASS x"),
        *("curl -u <name>:<password> x", "sort -u a", "diff -u a:b", "python -u http://a.example/", "log-u 1:2"),
        *("git push -u origin HEAD:main", "auth(request, 'x')", "curl -u bob x", "push -u origin main:main"),
    ],
)
def test_what_is_no_pair_is_replaced(text: str) -> None:
    assert Scrubber().scrub(text) == text
