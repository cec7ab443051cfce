"""Lookups along the answers of a run: the steps that its own lookup arm took, and what a folder cannot tell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import specq
from specq import cli
from specq.core.errors import ConfigError
from specq.report import runfile

(RUN,) = (Path(__file__).parents[2] / "results" / "reference" / "quickstart").iterdir()


def without(folder: Path, prompts: set[str], key: str | None = None) -> Path:
    """A copy of the run whose run.json tells these prompts alone, or lacks a key of them."""
    shutil.copytree(RUN, folder)
    info = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    kept = [one for one in info["prompts"] if one["id"] in prompts]
    info["prompts"] = [{name: value for name, value in one.items() if name != key} for one in kept]
    (folder / "run.json").write_text(json.dumps(info), encoding="utf-8")
    return folder


def test_a_lookup_along_the_baselines_answers_takes_other_steps_than_it_took(tmp_path: Path) -> None:
    run = runfile.load(RUN)
    assert run.setting("levers", "lookup", "max_ngram", default=None) == 3
    baseline, live = run.generated["baseline#1"], run.generated["lookup#1"]
    turns = {turn[1]: turn for turn in reversed(live)}
    # In bfloat16 some answers part where two tokens tie; along those the steps are others.
    same = {name for name, turn in turns.items() if live[turn].output_sha256 == baseline[turn].output_sha256}
    assert len(same) > 6
    found = specq.replay_files(without(tmp_path / "run", same), {"lookup": "lookup"}, most=4)
    one = next(each.tokens_per_step for each in found.cells if each.cell.k == 4)
    steps = sum(len(live[turns[name]].steps) for name in same)
    tokens = sum(live[turns[name]].new_tokens - 1 for name in same)
    assert one.least == one.greatest == pytest.approx(tokens / steps)
    assert (found.texts, found.left_out) == (len(same), 0)


def test_a_run_prints_both_lookups_and_its_own_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", str(RUN), "--k", "2", "--plain-s", "0.05", "--verify-s", "3=0.06", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["counts"]) == {"lookup", "lookup_suffix"}
    assert (told["run"], told["left_out"], told["settings"]["temperature"]) == (str(RUN), 0, 0.0)
    assert cli.main(["replay", str(RUN), "--draft", "lookup", "--k", "2"]) == 0
    shown = capsys.readouterr().out
    assert f"the baseline in {RUN}" in " ".join(shown.split())
    assert "log-probabilities" not in shown
    assert "--draft-s" not in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "RUN --draft small=small.jsonl",
            "which only lookups do without; type: specq drafts builtin:smollm2-135m DRAFT",
        ),
        ("RUN --temperature 0", "--temperature 0.0: the run RUN has its own; leave --temperature out"),
        ("RUN --target t.jsonl", "the texts are of one of them"),
        ("--draft lookup", "no texts are given; type --target FILE"),
        ("nope --draft lookup", "no run 'nope' under results"),
        ("README.md", "README.md is a file, not a run's folder; type --target README.md"),
        ("results", "there is no run.json in it"),
        ("LAB", "is of specq lab measure, which keeps no ids of prompts and answers together"),
    ],
)
def test_what_a_run_lacks_is_one_line(
    words: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    lab = next((RUN.parents[1] / "lab").iterdir())
    assert cli.main(["replay", *words.replace("RUN", str(RUN)).replace("LAB", str(lab)).split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says.replace("RUN", str(RUN)) in line


def test_answers_without_ids_are_copied_along_nothing(tmp_path: Path) -> None:
    prompts = {str(one["id"]) for one in runfile.load(RUN).info["prompts"]}
    folder = without(tmp_path / "run", prompts, "ids")
    with pytest.raises(ConfigError, match=r"no ids of prompts .*--target"):
        specq.replay_files(folder, {"lookup": "lookup"})
    with pytest.raises(ConfigError, match="leave them out"):
        specq.replay_files(RUN, {"lookup": "lookup"}, temperature=0.7)
