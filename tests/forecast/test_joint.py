"""The joint grid on tiny models: what can be planned, the studies of both targets, and the scale that they share."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specq
from specq import cli
from specq.core.errors import ModelError, Unsupported
from specq.core.types import DraftSpec
from specq.experiment.config import from_resolved
from specq.experiment.schema import Experiment
from specq.forecast import joint, joint_live, joint_plan, making, of_file
from specq.forecast.scale import Plain
from specq.report.forecast_grid import BASELINE
from specq.report.interplay import Rate

sys.path.insert(0, str(Path(__file__).parents[1] / "quantize"))
import packed_folders


@pytest.fixture(scope="module")
def files(folder_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A plain tiny model, the same in 8 packed bits, and prompts."""
    here = tmp_path_factory.mktemp("grid")
    prompts = here / "prompts.jsonl"
    rows = [{"id": str(i), "prompt": f"{c}{c}ab {i} ab {i} {c}"} for i, c in enumerate("bcd")]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    packed = packed_folders.write(here / "w8", bits=8)
    return {"model": str(folder_of("llama", **packed_folders.SMALL)), "w8": str(packed), "prompts": str(prompts)}


LEVERS: dict[str, dict[str, Any]] = {
    "lookup": {"kind": "draft", "method": "lookup"},
    "early": {"kind": "draft", "method": "early_exit", "layers": 1},
    "self8": {"kind": "draft", "method": "model", "model": "self", "bits": 8},
}


def asked(files: dict[str, str], **levers: Any) -> Experiment:
    return from_resolved(
        {
            "name": "grid",
            "target": {"model": files["model"]},
            "engine": {"device": "cpu", "dtype": "bfloat16"},
            "workload": {"prompts": files["prompts"], "max_new_tokens": 6, "memory": False},
            "levers": {"w8": {"kind": "quantize", "model": files["w8"], "prefill": "packed"}} | (levers or LEVERS),
        }
    )


def laid(experiment: Experiment, free: int | None = None) -> joint_plan.Laid:
    return joint_plan.lay(of_file.ask(experiment, targets=True), free=free)


def test_a_draft_that_makes_no_sense_on_a_target_is_a_cell_or_stops_the_grid(files: dict[str, str]) -> None:
    found = laid(asked(files))
    assert found.targets == (BASELINE, "w8")
    assert (found.drafts(BASELINE), found.drafts("w8")) == (("lookup", "early", "self8"), ("lookup", "early"))
    assert list(found.why_not) == [("w8", "self8")]
    assert "w8 is quantized already" in found.why_not["w8", "self8"]
    assert found.bytes["w8", None] < found.bytes[BASELINE, None] < found.bytes[BASELINE, "self8"]
    assert found.bytes["w8", "lookup"] == found.bytes["w8", None]


def test_a_mistake_in_a_lever_passes_for_a_cell_that_cannot_be(files: dict[str, str]) -> None:
    with pytest.raises(Unsupported, match="layers = 9"):
        laid(asked(files, early=LEVERS["early"] | {"layers": 9}))
    with pytest.raises(ModelError, match="is not quantized"):
        laid(asked(files | {"w8": files["model"]}))


def test_memory_that_holds_no_baseline_is_found_after_loading_and_a_large_target_stops_all(
    files: dict[str, str],
) -> None:
    plain = laid(asked(files))
    with pytest.raises(Unsupported, match="held against the plain target, and with its drafts it needs"):
        laid(asked(files), free=plain.bytes[BASELINE, None])
    alone = asked(files, lookup=LEVERS["lookup"])
    most = laid(alone).plan.needed_bytes
    found = laid(alone, free=most)
    assert (found.targets, found.together) == ((BASELINE, "w8"), False)
    assert laid(alone, free=2 * most).together
    # A dense copy beside the packed weights makes the quantized target the larger one.
    dense = {"lookup": LEVERS["lookup"], "w8": {"kind": "quantize", "model": files["w8"]}}
    whole = laid(asked(files, **dense))
    assert whole.bytes["w8", None] > whole.bytes[BASELINE, None]
    found = laid(asked(files, **dense), free=whole.plan.needed_bytes - 1)
    assert (found.targets, found.drafts(BASELINE)) == ((BASELINE,), ("lookup",))
    assert "memory will not hold it" in found.why_not["w8", None]
    assert ("w8", "lookup") in found.why_not


TOLD: list[str] = []
CURVES: dict[str, set[str]] = {}


@pytest.fixture(scope="module")
def grid(files: dict[str, str]) -> joint.Grid:
    """Both targets, an early exit of each, and the plain one's own 8 bits."""
    return specq.study_grid(
        asked(files, early=LEVERS["early"], self8=LEVERS["self8"]),
        most=1,
        say=TOLD.append,
        ceilings=lambda name, own: CURVES.update({name: set(own)}),
    )


def test_targets_are_studied_with_the_plain_ones_weights_or_on_scales_of_their_own(grid: joint.Grid) -> None:
    assert {BASELINE: {"early", "self8"}, "w8": {"early"}} == CURVES
    assert [line for line in TOLD if line.startswith("w8 with self8 is left out")]
    assert {(one.target, one.draft) for one in grid.cells if not one.why_not} == set(grid.laid.bytes)
    assert grid.cells[-1].why_not
    for one in grid.cells[:-1]:
        own = grid.plain[one.target]
        assert one.speedup == pytest.approx(own.speedup.value * (one.over_target or 0))
        assert one.tpot_s == pytest.approx(grid.plain[BASELINE].step_s / (one.speedup or 0))
    weights = {name: study.described["target"]["weight_bytes"] for name, study in grid.studies.items()}
    assert weights["w8"] < weights[BASELINE]
    assert set(grid.pairs) == {("w8", "early")}
    assert grid.cell("w8", "early").interplay == grid.pairs["w8", "early"].kind
    assert grid.cell("w8", None).interplay is None


def test_a_cells_interval_forgets_its_targets(files: dict[str, str]) -> None:
    where = laid(asked(files, lookup=LEVERS["lookup"]))
    plain = {
        BASELINE: Plain(step_s=0.1, speedup=Rate.of(1.0, 1.0, 1.0), turns=8),
        "w8": Plain(step_s=0.05, speedup=Rate(value=2.0, low=1.6, high=2.5), turns=8),
    }
    alone, _ = joint.forecast_cells(where, {}, plain)
    assert (alone.target, alone.speedup, alone.low, alone.high, alone.tpot_s) == ("w8", 2.0, 1.6, 2.5, 0.05)
    assert (alone.over_target, alone.tokens_per_step) == (1.0, 1.0)


def test_a_recipe_of_a_draft_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    experiment = from_resolved(
        {"name": "x", "target": {"model": "m"}, "workload": {"prompts": "p"}, "levers": {"lookup": LEVERS["lookup"]}}
    )
    spec = DraftSpec(method="model", k=2, model="self", recipe="r.toml")
    made = {"r.toml of m": tmp_path / "made"}
    assert making.of_folder(spec, made, experiment).model == str(tmp_path / "made")
    assert making.of_folder(spec, made, experiment).recipe is None
    own = DraftSpec(method="lookup", k=2)
    assert making.of_folder(own, made, experiment) is own


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lookup"], "is an experiment, whose levers are the drafts, and lookup is given beside it"),
        (["--limit", "3"], "--limit 3: FILE says it in workload.limit; type --set workload.limit=3"),
        (["--top-p", "0.9"], "type --set workload.top_p=0.9"),
        (["--measure", "3", "--no-live"], "--measure 3 beside --no-live"),
        (["--set", "levers.lookup.k=0"], "levers.lookup.k"),
    ],
)
def test_what_a_file_says_is_given_beside_it(
    files: dict[str, str], words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "e.toml"
    lever = f'[levers.w8]\nkind = "quantize"\nmodel = "{files["w8"]}"\n'
    file.write_text(
        f'[target]\nmodel = "{files["model"]}"\n[workload]\nprompts = "{files["prompts"]}"\n{lever}'
        '[levers.lookup]\nkind = "draft"\nmethod = "lookup"\n'
    )
    assert cli.main(["drafts", str(file), *words]) == 2
    assert says.replace("FILE", str(file)) in capsys.readouterr().err


def test_words_of_a_model_lack_prompts_or_have_what_only_a_file_has(capsys: pytest.CaptureFixture[str]) -> None:
    for words, says in (
        (["m", "lookup"], "--prompts FILE is missing"),
        (["m", "lookup", "--prompts", "p.jsonl", "--set", "a.b=1"], "--set and --smoke change an experiment"),
        (["m", "lookup", "--prompts", "p.jsonl", "--measure", "2"], "no lever of kind quantize"),
        (["m", "--prompts", "p.jsonl"], "no DRAFT is given"),
    ):
        assert cli.main(["drafts", *words]) == 2
        assert says in capsys.readouterr().err


def test_arms_are_tied_to_cells_of_another_target(
    grid: joint.Grid, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[str, Any] = {}

    def ran(experiment: Experiment, **kwargs: Any) -> Path:
        seen.update(kwargs["beside"]["forecast.json"], experiment=experiment)
        raise InterruptedError

    monkeypatch.setattr(joint_live.runner, "run", ran)
    with pytest.raises(InterruptedError):
        specq.measure_grid(grid, out=tmp_path)
    tied = {(row["target"], row["draft"]): row["arm"] for row in seen["grid"] if row["arm"]}
    assert (tied.pop((BASELINE, None)), tied.pop(("w8", None))) == ("baseline#1", "w8#1")
    # Which cells are run, and with which k, hangs on what the machine measured; the best draft of each target is.
    assert {target for target, _ in tied} == {BASELINE, "w8"}
    for (target, draft), arm in tied.items():
        beside = "" if target == BASELINE else "[+]w8"
        assert re.fullmatch(rf"{draft}_k\d+{beside}#1", arm), (target, draft, arm)
    # Against the baseline's own steps a pair on another target cannot be split.
    assert sorted(one["arm"] for one in seen["arms"]) == sorted(a for (t, _), a in tied.items() if t == BASELINE)
    assert seen["config_sha256"] == seen["experiment"].config_sha256


def test_a_study_tells_of_the_folder_that_a_recipe_made_and_not_of_the_recipe(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Path(files["prompts"]).parent / "r8.toml"
    recipe.write_text('method = "rtn"\nbits = 8\ngroup_size = 0\n')
    lever = {"kind": "draft", "method": "model", "model": "self", "recipe": str(recipe)}
    experiment = asked(files, near=lever)
    monkeypatch.setattr(making, "folders", lambda *_: {f"{recipe} of {files['model']}": Path(files["w8"])})
    found = specq.study_drafts(experiment, most=1)
    assert (found.drafts["near"].recipe, found.drafts["near"].model) == (str(recipe), "self")
    # The folder was read, and not the plain target itself.
    assert found.described["near"]["name"] == files["w8"]
