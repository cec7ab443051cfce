"""From a study to forecast.json: cells, arms and shares that belong together, and a file that a resumed run has."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from specq.core.errors import Interrupted
from specq.core.types import Prompt
from specq.experiment.arms import arms
from specq.forecast import predict, record, strata, validate
from specq.forecast.asked import experiment as ask
from specq.forecast.cost import Curve, Point
from specq.forecast.predict import Cell
from specq.forecast.replay import Copied, Traced
from specq.forecast.study import Spent, Study
from specq.report import forecast_file
from specq.report.forecast_gaps import draft_sha256
from specq.run import runner

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))
import run_fakes

PROMPTS = tuple(Prompt(id=f"p{n}", ids=tuple(range(4 + n))) for n in range(4))


def point(proposed: int, draft_s: float, verify_s: float) -> Point:
    return Point(proposed=proposed, draft_s=draft_s, verify_s=verify_s, rest_s=0.1, n=20, spread=0.01)


def study(tmp_path: Path, *, prompts: int = 4, temperature: float = 0.8) -> Study:
    """A study of a lookup and an early exit whose every second token is right."""
    asked = ask("m", ["lookup", "early_exit:2"], tmp_path / "p.jsonl", workload={"temperature": temperature})
    hits = np.arange(13) % 2.0
    texts: dict[str, Any] = {
        "lookup": (Copied(matched=np.full(13, 1), proposed=np.full(13, 32)),) * prompts,
        "early_exit2": (Traced(p=np.ones(13), q=0.1 + 0.8 * hits, hit=hits),) * prompts,
    }
    plain = point(0, 0.0, 0.9)
    curves = {
        "lookup": Curve(plain=plain, points=(point(1, 0.0, 1.0), point(3, 0.0, 1.2)), context=9, measured_s=1.0),
        "early_exit2": Curve(plain=plain, points=(point(1, 0.2, 1.0), point(3, 0.6, 1.2)), context=9, measured_s=1.0),
    }
    drafts = {name: draft for name, lever in asked.levers.items() if (draft := lever.draft()) is not None}
    ranking = predict.rank(texts, curves, ks=(1, 2, 3), asked={name: draft.rule for name, draft in drafts.items()})
    return Study(
        experiment=asked,
        plan=SimpleNamespace(prompts=PROMPTS[:prompts]),  # type: ignore[arg-type]
        drafts=drafts,
        rules=("rejection", "greedy_draft", "match", "block"),
        curves=curves,
        texts=texts,
        ranking=ranking,
        spent=Spent(curves_s=1.0, texts_s=2.0, reading_s=3.0),
        described={},
        strata=tuple(
            strata.strata(one, texts[one.cell.draft], curves[one.cell.draft], PROMPTS[:prompts], [0.1] * prompts)
            for one in predict.one_a_draft(ranking.forecasts)
        ),
    )


def written(found: Study, folder: Path) -> tuple[forecast_file.Forecasts, dict[str, Any]]:
    """The forecast of the live run as a report reads it, and run.json's arms."""
    cells = validate.chosen(found)
    asked = validate.experiment(found, cells, repeats=1)
    made = validate.of_cells(found, cells, asked)
    folder.mkdir()
    for name, value in record.beside(made).items():
        (folder / name).write_text(json.dumps(value, allow_nan=False))
    info = {"config_sha256": asked.config_sha256, "arms": [dataclasses.asdict(arm) for arm in arms(asked)]}
    read, fault = forecast_file.read(folder, info)
    assert fault == ""
    assert read is not None
    assert read == made
    return read, {arm["id"]: arm for arm in info["arms"]}


def test_an_arm_gets_the_forecast_of_another_cell(tmp_path: Path) -> None:
    found = study(tmp_path)
    read, asked = written(found, tmp_path / "run")
    assert [one.key[0] for one in read.arms] == [one.draft for one in validate.chosen(found)]
    for one in read.arms:
        draft = asked[one.arm]["draft"]
        assert (draft["k"], draft["rule"]) == (one.k, one.rule)
        assert (draft["method"] == "lookup") == (one.draft == "lookup")
        assert one.draft_sha256 == draft_sha256(json.loads(json.dumps(draft)))
    assert len({one.draft_sha256 for one in read.arms}) == 2


def test_the_parts_of_a_step_are_not_those_of_its_forecast(tmp_path: Path) -> None:
    read, _ = written(study(tmp_path), tmp_path / "run")
    for one in read.arms:
        cell = read.cell(one.key)
        whole = one.draft_share + one.verify_share + one.rest_share
        assert whole == pytest.approx(cell.tokens_per_step / cell.speedup)
        assert (one.draft_share == 0) == (one.draft == "lookup")
        # A plain step takes a second: at most so long as a step with 3 proposals.
        assert 0.9 <= one.verify_share <= 1.2


def test_a_share_of_one_prompt_is_no_number_and_the_file_is_not_json(tmp_path: Path) -> None:
    read, _ = written(study(tmp_path, prompts=1), tmp_path / "run")
    assert {(one.p_faster, one.low, one.high) for one in read.cells} == {(None, None, None)}
    assert read.prompts == 1


def test_rules_that_do_the_same_stand_several_times_or_hide_what_was_run(tmp_path: Path) -> None:
    found = study(tmp_path)
    read, _ = written(found, tmp_path / "run")
    keys = [one.key for one in read.cells]
    assert len(keys) == len(set(keys))
    assert sum(draft == "lookup" for draft, _, _ in keys) == 3, "a lookup's rules do the same at any temperature"
    assert sum(draft == "early_exit2" for draft, _, _ in keys) == 3 * 4
    assert [one.speedup for one in read.cells] == sorted((one.speedup for one in read.cells), reverse=True)
    greedy = study(tmp_path, temperature=0.0)
    assert len(record.told_apart(greedy, {})) == 2 * 3
    wanted = Cell(draft="early_exit2", k=2, rule="match")
    assert wanted in [one.cell for one in record.told_apart(greedy, {wanted: "x"})]
    assert len(record.told_apart(greedy, {wanted: "x"})) == 2 * 3


def test_a_part_is_written_under_another_draft(tmp_path: Path) -> None:
    found = study(tmp_path)
    read, _ = written(found, tmp_path / "run")
    assert {one.draft for one in read.strata} == {"lookup", "early_exit2"}
    for own in found.strata:
        parts = [
            one for one in read.strata if (one.draft, one.k, one.rule) == (own.cell.draft, own.cell.k, own.cell.rule)
        ]
        assert [(one.by, one.name, one.speedup) for one in parts] == [(p.by, p.name, p.speedup) for p in own.parts]


def test_a_home_path_of_a_model_is_in_the_file(tmp_path: Path) -> None:
    found = study(tmp_path)
    target = found.experiment.target.model_copy(update={"model": str(Path.home() / "m")})
    found = dataclasses.replace(found, experiment=found.experiment.model_copy(update={"target": target}))
    made = record.of_study(found, validate.experiment(found, [], repeats=1), {})
    assert record.beside(made)[forecast_file.FILE]["target"] == "~/m"


def test_a_lossy_lever_cannot_be_run_under_the_rule_that_was_forecast(tmp_path: Path) -> None:
    found = study(tmp_path)
    lossy = found.experiment.levers["early_exit2"].model_copy(update={"rule": "lossy_threshold", "threshold": 0.5})
    changed = found.experiment.model_copy(update={"levers": {**found.experiment.levers, "early_exit2": lossy}})
    found = dataclasses.replace(found, experiment=changed)
    read, asked = written(found, tmp_path / "run")
    (one,) = (one for one in read.arms if one.draft == "early_exit2")
    assert asked[one.arm]["draft"]["threshold"] is None
    assert one.draft_sha256 == draft_sha256(asked[one.arm]["draft"])


def test_a_run_that_was_stopped_and_resumed_has_lost_its_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_fakes.patch_parent(monkeypatch.setattr)
    monkeypatch.delenv("FAKE", raising=False)
    asked = run_fakes.write_experiment(tmp_path, prompts=1, levers=("lookup",), repeats=1)
    real = runner.run_worker

    def stop(store: Any, *_: Any) -> None:
        seen.append(json.loads((store.run_dir / "forecast.json").read_text()))
        raise KeyboardInterrupt

    seen: list[Any] = []
    monkeypatch.setattr(runner, "run_worker", stop)
    with pytest.raises(Interrupted):
        runner.run(asked, out=tmp_path / "out", beside={"forecast.json": {"of": "the first"}})
    (folder,) = (tmp_path / "out").glob("*/*")
    monkeypatch.setattr(runner, "run_worker", real)
    runner.run(None, resume=folder, beside={"forecast.json": {"of": "another"}})
    assert seen == [json.loads((folder / "forecast.json").read_text())] == [{"of": "the first"}]
    assert not list(folder.glob("*.part"))
