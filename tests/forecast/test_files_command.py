"""The command `specq replay`: what it prints, in words and as JSON, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from replayed_texts import GREEDY, T, V, files

from specq import cli
from specq.core.types import EXACT_RULES, Sampling

WARM = Sampling(temperature=1.0)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")


def words(paths: tuple[Path, Path], *more: str) -> list[str]:
    return ["replay", "--target", str(paths[0]), "--draft", f"d={paths[1]}", *more]


def rows(shown: str) -> list[list[str]]:
    return [line.split() for line in shown.splitlines() if line.split()[:1] == ["d"]]


def test_what_is_known_is_printed_as_bounds_and_bounds_as_what_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words(files(tmp_path, WARM, top=V), "--temperature", "1", "--k", "2")) == 0
    shown = capsys.readouterr().out
    assert "Replayed 3 texts at temperature 1." in shown
    assert rows(shown)[0] == ["d", str(3 * T), str(3 * T), "0", "0"]
    # Draft, rule, k, one number, and an interval.
    assert {len(row) for row in rows(shown)[1:]} == {7}
    assert "3 texts are checked: " in shown
    assert "not checked" not in shown
    assert "do not fix it" not in shown
    sampling = Sampling(temperature=0.7, top_p=0.99)
    asked = words(files(tmp_path, sampling, top=4), "--temperature", "0.7", "--top-p", "0.99", "--k", "2")
    assert cli.main(asked) == 0
    shown = capsys.readouterr().out
    assert "Replayed 3 texts at temperature 0.7, top-p 0.99." in shown
    assert "3 texts are not checked: whether the target wrote them at these settings, the files do not fix" in shown
    assert "texts are checked" not in shown
    assert "do not fix it" in shown
    assert {len(row) for row in rows(shown)[1:] if row[1] == "match"} == {9}


def test_a_row_of_each_rule_stands_there_at_temperature_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = files(tmp_path, GREEDY, top=1)
    assert cli.main(words(paths, "--k", "3")) == 0
    shown = capsys.readouterr().out
    assert sorted(row[1:3] for row in rows(shown)[1:]) == [["all", "1"], ["all", "2"], ["all", "3"]]
    assert cli.main(words(paths, "--plain-s", "0.02", "--draft-s", "d=0.001")) == 0
    shown = capsys.readouterr().out
    assert len(rows(shown)[1:]) == 1
    assert "without --max-new-tokens speed-ups are bounded" in shown
    assert cli.main(words(paths, "--plain-s", "0.02", "--draft-s", "d=0.001", "--max-new-tokens", str(T))) == 0
    shown = capsys.readouterr().out
    assert "--max-new-tokens" not in shown
    # Draft, rule, k, and twice one number and an interval.
    assert len(rows(shown)[1]) == 3 + 2 * 4


def test_json_leaves_out_what_was_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files(tmp_path, WARM, top=V)
    options = ("--temperature", "1", "--k", "2", "--plain-s", "0.02", "--draft-s", "d=0.001", "--verify-s", "3=0.03")
    assert cli.main(words(paths, *options, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"] == {
        "temperature": 1.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "k": 2,
        "max_new_tokens": None,
        "seconds": {"plain": 0.02, "draft": {"d": 0.001}, "verify": {"3": 0.03}},
    }
    assert (found["texts"], found["checked"]) == (3, 3)
    assert found["counts"] == {"d": {"tokens": 3 * T, "exact": 3 * T, "bounded": 0, "outside": 0}}
    assert {(one["rule"], one["k"]) for one in found["cells"]} == {(rule, k) for rule in EXACT_RULES for k in (1, 2)}
    assert found["cells"] == sorted(found["cells"], key=lambda one: -one["speedup"]["least"])


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--draft", "e"], '--draft "e": allowed is'),
        (["--draft", "d=t"], "--draft d is given twice"),
        (["--draft", "e=none.jsonl"], "none.jsonl: cannot be read"),
        (["--draft-s", "d=0.1"], "need --plain-s"),
        (["--plain-s", "0", "--draft-s", "d=1"], "of a plain step (--plain-s) are 0.0"),
        (["--plain-s", "1", "--draft-s", "d=x"], "--draft-s d=x: allowed are seconds"),
        (["--plain-s", "1", "--draft-s", "d=1", "--verify-s", "1=2"], "allowed are 2 tokens or more"),
        (["--plain-s", "1", "--draft-s", "d=1", "--verify-s", "x=2"], "--verify-s x=...: allowed is a number"),
        (["--plain-s", "1", "--draft-s", "d=1", "--verify-s", "4=2", "--verify-s", "04=2"], "is given twice"),
        (["--plain-s", "1", "--draft-s", "d=1", "--verify-s", "4=2", "--verify-s", "8=1"], "over 8 tokens"),
        (["--top-p", "0"], "top_p = 0.0"),
        (["--min-p", "-1"], "min_p = -1.0"),
        (["--k", "33"], "k up to 33"),
    ],
)
def test_words_that_do_not_fit_end_in_more_than_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], says: str
) -> None:
    paths = files(tmp_path, WARM, texts=1)
    assert cli.main(words(paths, "--temperature", "1", *more)) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1
