"""Other models among the targets of a joint grid: which cells there are, and which prompts each target reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tiny_models
from specq.core.errors import Unsupported
from specq.core.types import DraftSpec, Generation, Prompt, Step, TargetSpec
from specq.experiment.config import from_resolved
from specq.experiment.schema import Experiment
from specq.forecast import joint, joint_plan, making, of_file, scale
from specq.forecast.scale import Plain
from specq.report.forecast_grid import BASELINE
from specq.report.interplay import ONE

LOOKUP = {"kind": "draft", "method": "lookup"}


def smaller(where: Path, *, pieces: tuple[str, ...] = tiny_models.PIECES, template: str | None = None) -> Path:
    made = tiny_models.save(where, tiny_models.make("llama", seed=5, num_hidden_layers=1), pieces=pieces)
    if template is not None:
        (made / "chat_template.jinja").write_text(template)
    return made


@pytest.fixture
def asked(folder_of: Callable[..., Path], tmp_path: Path) -> Callable[..., Experiment]:
    """An experiment whose target has three layers, with a chat prompt and levers."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"id": "p", "messages": [{"role": "user", "content": "ab ab ab"}]}) + "\n")

    def make(**levers: Any) -> Experiment:
        return from_resolved(
            {
                "name": "grid",
                "target": {"model": str(folder_of("llama"))},
                "engine": {"device": "cpu", "dtype": "float32"},
                "workload": {"prompts": str(prompts), "max_new_tokens": 6, "memory": False},
                "levers": levers,
            }
        )

    return make


def laid(experiment: Experiment) -> joint_plan.Laid:
    return joint_plan.lay(of_file.ask(experiment, targets=True), free=None)


def test_a_smaller_target_lacks_cells_or_stops_the_grid(asked: Callable[..., Experiment], tmp_path: Path) -> None:
    small = str(smaller(tmp_path / "small"))
    found = laid(
        asked(
            small={"kind": "model", "model": small},
            lookup=LOOKUP,
            early={"kind": "draft", "method": "early_exit", "layers": 2},
            self8={"kind": "draft", "method": "model", "model": "self", "bits": 8},
            mine={"kind": "draft", "method": "model", "model": f"{small}/."},
        )
    )
    assert found.targets == (BASELINE, "small")
    assert found.drafts(BASELINE) == ("lookup", "early", "self8", "mine")
    # Two layers are more than it has, and itself as its own draft saves nothing; its own 8 bits are another matter.
    assert found.drafts("small") == ("lookup", "self8")
    assert set(found.why_not) == {("small", "early"), ("small", "mine")}
    assert "layers = 2" in found.why_not["small", "early"]
    assert found.why_not["small", "mine"].startswith("mine is small itself")
    assert found.bytes["small", "lookup"] == found.bytes["small", None] < found.bytes["small", "self8"]
    assert found.bytes["small", "self8"] < found.bytes[BASELINE, None]


def test_other_tokens_get_a_place_on_the_scale(asked: Callable[..., Experiment], tmp_path: Path) -> None:
    other = smaller(tmp_path / "other", pieces=(*tiny_models.PIECES[:4], *tiny_models.PIECES[:3:-1]))
    with pytest.raises(Unsupported, match=r"levers\.other: the tokens of .* are not the target's .*take the lever out"):
        laid(asked(other={"kind": "model", "model": str(other)}, lookup=LOOKUP))


def test_a_target_is_studied_on_the_prompts_or_with_the_drafts_of_another(
    asked: Callable[..., Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, recipe = smaller(tmp_path / "small", template="{{ messages[0]['content'] }}!"), tmp_path / "r8.toml"
    recipe.write_text('method = "rtn"\nbits = 8\ngroup_size = 0\n')
    experiment = asked(
        small={"kind": "model", "model": str(small)},
        near={"kind": "draft", "method": "model", "model": "self", "recipe": str(recipe)},
    )
    target = experiment.target.model
    folders = {f"{recipe} of {target}": Path("large8"), f"{recipe} of {small}": Path("small8")}
    monkeypatch.setattr(making, "folders", lambda *_: folders)
    seen: dict[str | None, Any] = {}

    def measured(engine: Any, asked: Any, specs: Any, prompts: Any, *, together: bool) -> dict[str, Plain]:
        seen["scale"] = prompts
        return {name: Plain(step_s=0.1, speedup=ONE, turns=8) for name in specs}

    def studied(asked: Any, **given: Any) -> Any:
        on = given["on"]
        seen[on.target.source] = (on.plan.prompts, on.drafts["near"].model)
        return SimpleNamespace(ranking=SimpleNamespace(forecasts=()))

    monkeypatch.setattr(scale, "measure", measured)
    monkeypatch.setattr(joint.studies, "study", studied)
    joint.study(experiment, ks=(1,), say=lambda line: None, ceilings=lambda name, curves: None)
    (theirs, large8), (own, small8) = seen[None], seen[str(small)]
    assert (large8, small8) == ("large8", "small8")
    assert len(own[0].ids) == len(theirs[0].ids) + 1
    assert seen["scale"] == {BASELINE: theirs, "small": own}


def test_what_a_recipe_makes_of_another_model_is_taken_from_the_targets(asked: Callable[..., Experiment]) -> None:
    experiment = asked(lookup=LOOKUP)
    made = {"r of x": Path("x8"), f"r of {experiment.target.model}": Path("t8")}
    assert making.of_folder(TargetSpec(source="x", recipe="r"), made, experiment).model == "x8"
    assert making.of_folder(TargetSpec(recipe="r"), made, experiment).model == "t8"
    assert making.of_folder(DraftSpec(method="model", k=1, model="x", recipe="r"), made, experiment).model == "x8"


def test_plain_steps_of_a_target_are_timed_on_the_tokens_of_another(asked: Callable[..., Experiment]) -> None:
    read: list[tuple[str, str]] = []

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> Fake:
            return self

        def __exit__(self, *error: Any) -> None: ...

        def decoder(self, draft: None) -> Fake:
            return self

        def generate(self, prompts: Any, sampling: Any) -> list[Generation]:
            (prompt,) = prompts
            read.append((self.name, prompt.id))
            step = Step(context=1, proposed=0, accepted=0, emitted=1, draft_s=0, verify_s=0.1, sample_s=0.0, rest_s=0.0)
            whole = {"text": "", "finish": "length", "ttft_s": 0.1, "e2e_s": 0.2}
            return [Generation(prompt_id=prompt.id, ids=(1, 2), steps=(step,), **whole)]

    engine: Any = SimpleNamespace(open=lambda model, prefill: Fake(str(model)))
    experiment = asked(lookup=LOOKUP)
    names = {BASELINE: experiment.target.model, "small": "small"}
    prompts = {name: [Prompt(id=f"{own} {n}", ids=(1,)) for n in range(2)] for name, own in names.items()}
    for together in (True, False):
        read.clear()
        targets = {BASELINE: TargetSpec(), "small": TargetSpec(source="small")}
        scale.measure(engine, experiment, targets, prompts, together=together)
        assert {(name, prompt.rpartition(" ")[0]) for name, prompt in read} == {(own, own) for own in names.values()}
        assert len(set(read)) == 4
