"""A key that was typed where it does not belong stands in no file of a run, and in nothing that is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from load_runs import prompts

from specq import cli
from specq.engines.served import stub

KEY = "sk-Planted7Abc123Planted7Abc123"
SHORT = "Planted7"
BODIES = [
    {"api_key": SHORT},
    {"extra": [{"X-Api-Key": SHORT}]},
    {"Authorization": SHORT},
    {"metadata": {"token": SHORT}},
    {"clientSecret": SHORT},
    {"user": KEY},
]
PLACES: dict[str, list[str]] = {
    "query": ["http://127.0.0.1:9?api_key=" + KEY],
    "user": ["http://u:" + SHORT + "@127.0.0.1:9"],
    "path": ["http://127.0.0.1:9/" + KEY + "/v1"],
    "no prompts": ["http://u:" + SHORT + "@127.0.0.1:9", "--arm", "x"],
    "against": ["http://127.0.0.1:9", "--against", "http://u:" + SHORT + "@h"],
    "other scheme": ["ftp://u:" + SHORT + "@h"],
    "no scheme": ["u:" + SHORT + "@127.0.0.1:9"],
    "variable": ["http://127.0.0.1:9", "--key-env", KEY],
    "no JSON": ["http://127.0.0.1:9", "--body", "{" + KEY],
}


def nowhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = capsys.readouterr()
    assert "Planted7" not in told.out + told.err
    assert not [file for file in folder.rglob("*") if file.is_file() and b"Planted7" in file.read_bytes()]


@pytest.mark.parametrize("given", PLACES.values(), ids=PLACES)
def test_a_key_in_a_wrong_place_is_repeated(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["load", *given, "--requests", "2", "--out", str(tmp_path / "out")]
    # An address is looked at before anything that would repeat it.
    more = [] if "--arm" in given else ["--prompts", str(prompts(tmp_path))]
    assert cli.main([*words, *more]) == 2
    nowhere(tmp_path, capsys)


@pytest.mark.parametrize("body", BODIES)
def test_a_key_in_a_body_is_taken(body: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["load", "http://127.0.0.1:9", "--prompts", str(prompts(tmp_path)), "--out", str(tmp_path / "out")]
    assert cli.main([*words, "--body", json.dumps(body)]) == 2
    nowhere(tmp_path, capsys)


def test_a_key_of_the_environment_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOAD_TEST_KEY", KEY)
    monkeypatch.setattr("specq.load.charts.pictures", lambda found: ())
    monkeypatch.setattr("specq.run.provenance.collect", dict)
    # A body of ordinary fields is taken.
    body = json.dumps({"stub": {"tokens": 3}, "user": "me", "max_tokens": 4, "stop_token_ids": [1], "logit_bias": {}})
    words = ["--prompts", str(prompts(tmp_path)), "--requests", "2", "--model", "m", "--out", str(tmp_path / "out")]
    with stub.started() as (url, _):
        assert cli.main(["load", url, *words, "--key-env", "LOAD_TEST_KEY", "--body", body]) == 0
    assert len(list((tmp_path / "out").rglob("report.*"))) == 3
    nowhere(tmp_path, capsys)
