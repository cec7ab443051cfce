"""What a run of `specq drafts` keeps of its study: replayed without a model it counts what the forecast counted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import specq
from specq import cli
from specq.core.errors import ConfigError
from specq.forecast.files_check import Seconds
from specq.forecast.kept import FILE
from specq.forecast.study import Study

WORDS = ("lookup", "early_exit:2", "early_exit:2+lookup", "early_exit:2+stop:0.3")
MOST = 3


@dataclass(frozen=True)
class Ran:
    study: Study
    folder: Path


@pytest.fixture(scope="module")
def ran(folder_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A sampled study of a tiny target, and the run that validated it."""
    scratch = tmp_path_factory.mktemp("kept")
    rows = [{"id": str(i), "prompt": f"{c}{c}ab {i} ab {i} {c}"} for i, c in enumerate("bcde")]
    (scratch / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    asked = specq.ask_drafts(
        str(folder_of("llama")),
        WORDS,
        scratch / "p.jsonl",
        workload={"max_new_tokens": 14, "temperature": 0.8, "limit": 3, "memory": False},
    )
    study = specq.study_drafts(asked, most=MOST, ceilings=lambda _: None)
    folder, _ = specq.validate_drafts(study, out=scratch / "runs", repeats=1)
    return Ran(study=study, folder=folder)


def changed(ran: Ran, to: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A copy of the run with another traces.json."""
    shutil.copytree(ran.folder, to)
    value = json.loads((to / FILE).read_text(encoding="utf-8"))
    change(value)
    (to / FILE).write_text(json.dumps(value), encoding="utf-8")
    return to


def test_the_folder_counts_the_steps_that_the_forecast_counted(ran: Ran) -> None:
    names = list(ran.study.texts)
    assert len(names) == len(WORDS)
    found = specq.replay_files(ran.folder, {name: name for name in names}, most=MOST)
    assert (found.studied, found.texts, found.left_out, found.sampling.temperature) == (True, 3, 0, 0.8)
    assert len(found.cells) == len(names) * MOST * 4
    for one in found.cells:
        assert one.tokens_per_step.least == one.tokens_per_step.greatest
        # Texts and steps are those of the forecast, to the last bit that JSON keeps.
        assert one.tokens_per_step.least == pytest.approx(ran.study.ranking.of(one.cell).tokens_per_step, rel=1e-12)
    stopped = {one.cell: one.tokens_per_step.least for one in found.cells}
    differ = [cell for cell in stopped if cell.draft == "early_exit2_stop" and cell.k == MOST]
    free = [one for one in stopped if one.draft == "early_exit2" and one.k == MOST]
    assert [stopped[one] for one in differ] != [stopped[one] for one in free], "the stops were lost"


def test_copies_before_a_draft_are_billed_as_its_tokens(ran: Ran) -> None:
    (both,) = (name for name in ran.study.texts if name.endswith("_lookup"))
    seconds = [Seconds(plain=1.0, draft={both: taken}) for taken in (1e-9, 0.5)]
    free, dear = (specq.replay_files(ran.folder, {both: both}, most=1, seconds=one) for one in seconds)
    one = next(each for each in dear.cells if each.cell.rule == "match")
    steps = sum(len(text) - 1 for text in ran.study.texts[both]) / one.tokens_per_step.least
    by_copies = next(each for each in free.cells if each.cell.rule == "match").speedup
    assert by_copies is not None
    assert one.speedup is not None
    assert by_copies.least == pytest.approx(one.tokens_per_step.least, rel=1e-6)
    # Half a step more for each step that the draft, and not the lookup, proposes in.
    billed = (by_copies.least / one.speedup.least - 1) * steps / 0.5
    assert 0 < billed < steps - 0.5


def test_a_run_of_drafts_prints_all_that_it_studied(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", str(ran.folder), "--k", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["counts"]) == set(ran.study.texts)
    assert told["studied"] is True
    assert cli.main(["replay", str(ran.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["k"] == MOST
    assert cli.main(["replay", str(ran.folder), "--draft", "early_exit2", "--k", "2"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "kept there, so that nothing is bounded" in shown
    assert "first answers of the baseline" not in shown
    words = ["--plain-s", "0.05", "--draft-s", "early_exit2=0.01", "--verify-s", "3=0.06"]
    assert cli.main(["replay", str(ran.folder), "--draft", "early_exit2", "--draft", "lookup", "--k", "8"]) == 2
    assert "--k 3" in capsys.readouterr().err, "a lookup is not followed further than it was"
    assert cli.main(["replay", str(ran.folder), "--draft", "early_exit2", "--draft", "lookup", *words]) == 0
    assert cli.main(["replay", str(ran.folder), "--draft", "early_exit2", *words[:2]]) == 2
    assert "--draft-s NAME=SECONDS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("drafts", "says"),
    [
        ({"early_exit2": "early_exit2", "suffix": "lookup:suffix"}, "ask for it alone"),
        ({"small": "small.jsonl"}, "or name a draft of its study: lookup, early_exit2"),
    ],
)
def test_other_drafts_than_those_of_the_study_are_refused(ran: Ran, drafts: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        specq.replay_files(ran.folder, drafts)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda value: value.update(schema=2), "its schema is 2"),
        (lambda value: value.update(config_sha256="0"), "belongs to another run"),
        (lambda value: value.pop("most"), "it lacks 'most'"),
        (lambda value: value["drafts"]["early_exit2"].pop(), "not of the same texts"),
        (lambda value: value["drafts"]["early_exit2"][0]["q"].append(1.0), r"all must be \[T\]"),
        (lambda value: value["drafts"]["early_exit2"][0]["q"].__setitem__(0, 1.5), "between 0 and 1"),
        (lambda value: value["drafts"]["early_exit2"][0]["q"].__setitem__(0, None), "something else than float"),
        (lambda value: value["drafts"]["lookup"][0]["matched"].__setitem__(0, 40), "more tokens than it proposed"),
    ],
)
def test_what_is_damaged_is_refused(ran: Ran, tmp_path: Path, change: Callable[..., Any], says: str) -> None:
    folder = changed(ran, tmp_path / "run", change)
    with pytest.raises(ConfigError, match=says):
        specq.replay_files(folder, {"early_exit2": "early_exit2"}, most=MOST)


def test_a_folder_without_it_replays_lookups_as_any_run(ran: Ran, tmp_path: Path) -> None:
    shutil.copytree(ran.folder, tmp_path / "run")
    (tmp_path / "run" / FILE).unlink()
    found = specq.replay_files(tmp_path / "run", {"lookup": "lookup"}, most=MOST)
    assert not found.studied
    assert found.texts == 3
