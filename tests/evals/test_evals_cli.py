"""The command on evaluation sets: what it prints, its JSON, and one line for a mistake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from eval_items import write

import specq
from specq import cli
from specq.cli import eval_views

FOLDER = Path(specq.__file__).parent / "evals"
# Those that speak with lm-eval need it.
HEAVY = {path.stem for path in FOLDER.glob("*.py") if "lm_eval" in path.read_text(encoding="utf-8")}
LIGHT = sorted(f"specq.evals.{path.stem}" for path in FOLDER.glob("[a-z]*.py") if path.stem not in HEAVY)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "200")
    lines = [{"id": i, "prompt": f"Question {i}?", "reference": "x", "tags": ["en"]} for i in range(3)]
    return str(write(tmp_path, *lines, {"id": "c", "prompt": "Question 2?", "reference": "\x1b[31my", "cluster": "d"}))


def test_the_table_hides_what_the_set_is(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evals", "check", small, "--metric", "contains", "--margin", "0.01"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    rows = {line.split("  ")[0]: line for line in out.splitlines() if line}
    assert "4" in rows["items"].split()
    assert "en 3, none 1" in rows["tags"]
    assert "contains, 0 or 1; fits all items" in rows["metric"]
    assert "exact_match, contains" in rows["metrics that fit"]
    assert "2 = c" in rows["same prompt, other reference"]
    assert "Of a lever that in truth costs nothing, 4 items can prove, in 4 runs of 5:" in out
    assert "items for 1 point" in out
    assert "note: 4 items cannot decide a margin of 1 point" in out


def test_the_last_line_is_no_json(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evals", "check", small, "--metric", "rouge_l", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["items"], found["metric"], found["binary"], found["provable"]) == (4, "rouge_l", False, [])


def test_a_metric_that_fits_in_part_gives_no_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{"id": f"q{n}", "prompt": f"Q {n}?", "reference": "a", "critical": n < 7} for n in range(8)]
    assert cli.main(["evals", "check", str(write(tmp_path, *lines))]) == 0
    out = " ".join(capsys.readouterr().out.split())
    reason = "it is critical, and a log-probability has no full score to fall from: take critical off, or use choice"
    assert f"loglikelihood fits in part 1 of 8 items; not q0, q1, q2, q3, q4 and 2 more: {reason}" in out


def test_more_reasons_than_fit_are_left_out_without_a_word() -> None:
    misfits = {f"why {n}": (f"a{n}", f"b{n}") for n in range(5)}
    assert eval_views._reasons(misfits) == "a0, b0: why 0; a1, b1: why 1; a2, b2: why 2; nor 4 more items"


def test_one_item_has_a_noun_of_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = {"id": "a", "prompt": "Q?", "reference": "x"}
    assert cli.main(["evals", "check", str(write(tmp_path, line)), "--margin", "0.3"]) == 0
    out = capsys.readouterr().out
    assert "costs nothing, 1 item can prove, in" in out
    assert not re.search(r"\b1 (items|tags|groups|clusters)\b", out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.jsonl"], "specq: none.jsonl: no such file"),
        (["SET", "--metric", "number_match"], 'set.jsonl:1: metric "number_match" does not fit item "0"'),
        (["SET", "--metric", "roug_l"], "did you mean 'rouge_l'?"),
        (["SET", "--margin", "2"], "margin = 2.0: allowed is a share above 0 and below 1; 0.02 is 2 points"),
        (["SET", "--metric", "none.py:f"], "no such file as none.py"),
        (["SET", "--marginn", "2"], "no option --marginn, did you mean '--margin'?"),
    ],
)
def test_a_mistake_is_more_than_a_line_or_another_exit_code(
    small: str, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert cli.main(["evals", "check", *(small if word == "SET" else word for word in words)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err


def test_a_file_can_write_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[31m\u202e"
    lines = [{"id": f"{i}{hostile}", "prompt": "Q?", "reference": "x", "tags": [hostile]} for i in range(2)]
    assert cli.main(["evals", "check", str(write(tmp_path, *lines))]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_tokens_of_a_model_are_not_counted(
    small: str, folder_of: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["evals", "check", small, "--model", str(folder_of("llama")), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["tokens"]["maximum"] >= found["tokens"]["minimum"] > 0
    assert cli.main(["evals", "check", small, "--model", "nowhere/at/all/none"]) == 2


def test_reading_and_judging_sets_needs_torch() -> None:
    code = (
        "import importlib, sys\n"
        f"for name in {LIGHT!r}: importlib.import_module(name)\n"
        "from specq.evals import metrics\n"
        "for name in metrics.NAMES: metrics.make(name)\n"
        "print(*[m for m in ('torch', 'transformers', 'lm_eval', 'nltk') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(LIGHT) > 15
    assert done.stdout.strip() == ""
