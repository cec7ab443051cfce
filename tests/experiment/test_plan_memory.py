"""What the plan says of targets that do not fit memory together, with sizes known by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plan_models import HIDDEN, INNER, WORDS, MakeModel

from specq.core.errors import Unsupported
from specq.engines.base import Capabilities
from specq.experiment import config, plan

EVERYTHING = Capabilities(
    rules=("rejection", "greedy_draft", "match", "block"),
    methods=("model", "lookup", "early_exit"),
    devices=("cpu",),
    step_traces=True,
    logprobs=True,
    batches=True,
)
LAYER = 2 * HIDDEN + 2 * HIDDEN * HIDDEN + 2 * (HIDDEN // 2) * HIDDEN + 3 * HIDDEN * INNER
TARGET, SMALL = ((len(WORDS) * HIDDEN + HIDDEN + layers * LAYER) * 4 for layers in (3, 1))
NEW_TOKENS, PROMPTS = 10, 2


@pytest.fixture
def levers(make_model: MakeModel, tmp_path: Path) -> dict[str, Any]:
    """Two quantized targets, a draft by a second model and one by the target itself."""
    small = make_model("small", layers=1)
    found: dict[str, Any] = {
        "small": {"kind": "draft", "method": "model", "model": str(small), "k": 2},
        "block": {"kind": "draft", "method": "model", "model": str(small), "k": 3, "rule": "block"},
        "lookup": {"kind": "draft", "method": "lookup"},
        "q8": {"kind": "kv_cache", "type": "q8"},
    }
    for name, bits in (("w4", 4), ("w3", 3)):
        recipe = tmp_path / f"{name}.toml"
        recipe.write_text(f'method = "rtn"\nbits = {bits}\ngroup_size = 4\n')
        found[name] = {"kind": "quantize", "recipe": str(recipe), "prefill": "packed"}
    return found


@pytest.fixture
def target(make_model: MakeModel) -> Path:
    return make_model()


def make(target: Path, levers: dict[str, Any], run: list[str], free: int | None = None, **more: Any) -> plan.Plan:
    prompts = target.parent / "prompts.jsonl"
    lines = [{"id": f"p{n}", "prompt": "one two three"} for n in range(PROMPTS)]
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    workload = {"prompts": str(prompts), "max_new_tokens": NEW_TOKENS, **more.pop("workload", {})}
    asked = config.from_resolved(
        {
            "name": "x",
            "target": {"model": str(target)},
            "engine": {"device": "cpu", **more.pop("engine", {})},
            "workload": workload,
            "levers": {name: value for name, value in levers.items() if any(name in entry.split() for entry in run)},
            "arms": {"run": run},
            **more,
        }
    )
    return plan.make(asked, capabilities=EVERYTHING, available_bytes=1 << 30 if free is None else free)


def told(made: plan.Plan) -> list[str]:
    return [note for note in made.notes if note.startswith("arms go in blocks")]


@pytest.fixture(autouse=True)
def _one_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """No head is laid out beside its embedding, as some processors want it in float32."""
    monkeypatch.setattr("specq.quantize.dense.repacks", lambda dtype, device: False)


def test_a_second_model_is_counted_once_though_each_target_loads_it(target: Path, levers: dict[str, Any]) -> None:
    alone = make(target, levers, ["small"])
    cache = max(arm.cache_bytes for arm in alone.arms)
    assert alone.needed_bytes == TARGET + SMALL + cache
    # Another k or rule shares the model, another target does not.
    assert make(target, levers, ["small", "block"]).needed_bytes == alone.needed_bytes
    both = make(target, levers, ["small", "block", "w4 + small", "w4 + block"])
    w4 = next(arm for arm in both.arms if arm.id == "w4#1").model_bytes
    assert both.needed_bytes == TARGET + w4 + 2 * SMALL + cache
    assert (both.blocks, both.refusals, told(both)) == ((), (), [])


def test_a_self_draft_that_an_engine_loads_again_is_not_counted(target: Path) -> None:
    """An engine asked for "auto" loads a draft asked for in the very dtype that this means once more."""

    def needed(draft: str | None, engine: str) -> int:
        me = {"kind": "draft", "method": "model", "model": "self", **({} if draft is None else {"dtype": draft})}
        made = make(target, {"me": me}, ["me"], engine={"dtype": engine})
        return made.needed_bytes - max(arm.cache_bytes for arm in made.arms)

    assert needed("float32", "auto") == 2 * TARGET
    assert needed("float32", "float32") == needed(None, "float32") == needed(None, "auto") == TARGET


def test_targets_that_fit_one_by_one_are_refused_or_loaded_together(target: Path, levers: dict[str, Any]) -> None:
    run = ["lookup", "w4", "w4 + small", "w3"]
    whole = make(target, levers, run)
    assert whole.blocks == ()
    just = make(target, levers, run, whole.needed_bytes)
    assert (just.blocks, just.needed_bytes, told(just)) == ((), whole.needed_bytes, [])
    less = make(target, levers, run, whole.needed_bytes - 1)
    less.check()
    assert less.blocks == (("baseline#1", "baseline#2", "lookup#1"), ("w4#1", "small+w4#1"), ("w3#1",))
    assert less.to_json()["blocks"] == [list(block) for block in less.blocks]
    arms = {arm.id: arm for arm in less.arms}
    alone = [arms[name].model_bytes + arms[name].cache_bytes for name in ("baseline#1", "small+w4#1", "w3#1")]
    assert less.needed_bytes == max(alone) < whole.needed_bytes
    assert less.logits_bytes == PROMPTS * NEW_TOKENS * len(WORDS) * 4
    (note,) = told(less)
    assert "\n" not in note
    assert "all models together need 0.00 GiB and 0.00 GiB are free" in note
    assert "(baseline#1, baseline#2, lookup#1 | w4#1, small+w4#1 | w3#1)" in note
    assert "(ABBA)" in note
    assert "do not take turns on a prompt" in note
    assert "of the baseline's logits in the run's folder" in note
    assert "odd number" not in note


def test_one_block_alone_that_does_not_fit_is_let_through(target: Path, levers: dict[str, Any]) -> None:
    run = ["w4", "w4 + small"]
    blocks = make(target, levers, run, workload={"order": "blocks"})
    make(target, levers, run, blocks.needed_bytes).check()
    over = make(target, levers, run, blocks.needed_bytes - 1)
    with pytest.raises(Unsupported, match=r"even one target at a time, w4#1, small\+w4#1: its weights and caches"):
        over.check()
    assert f"need {blocks.needed_bytes / 2**30:.2f} GiB" in over.refusals[0].reason


def test_blocks_that_are_asked_for_are_not_made(target: Path, levers: dict[str, Any]) -> None:
    made = make(target, levers, ["w4"], workload={"order": "blocks", "repeats": 3}, audit={"enabled": False})
    assert made.blocks == (("baseline#1", "baseline#2"), ("w4#1",))
    (note,) = told(made)
    assert "as workload.order asks" in note
    assert "an odd number of turns not even that: give an even workload.repeats" in note
    assert (made.logits_bytes, "logits" in note) == (0, False)


def test_blocks_of_one_target_are_said_to_change_something(target: Path, levers: dict[str, Any]) -> None:
    made = make(target, levers, ["q8", "small"], workload={"order": "blocks"})
    assert made.blocks == ()
    assert 'order = "blocks" changes nothing here: all arms share one target' in made.notes
