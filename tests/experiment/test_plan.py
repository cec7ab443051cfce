"""The plan: sizes known by hand, and every refusal before any weight is loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_models import HIDDEN, INNER, WORDS, MakeModel
from safetensors.numpy import load_file, save_file

from specq.core.errors import ModelError, PromptError, TokenizerMismatch, Unsupported
from specq.engines.base import Capabilities
from specq.experiment import config, plan
from specq.experiment.schema import Experiment

EVERYTHING = Capabilities(
    rules=("rejection", "greedy_draft", "match", "block"),
    methods=("model", "lookup", "early_exit"),
    devices=("cpu",),
    step_traces=True,
    logprobs=True,
    batches=True,
)
LAYER = 2 * HIDDEN + 2 * HIDDEN * HIDDEN + 2 * (HIDDEN // 2) * HIDDEN + 3 * HIDDEN * INNER
HEAD = len(WORDS) * HIDDEN
BYTES = 4
TARGET = (HEAD + HIDDEN + 3 * LAYER) * BYTES
CACHE_PER_TOKEN = 3 * 2 * (HIDDEN // 2) * BYTES
LOOKUP = {"kind": "draft", "method": "lookup", "k": 4}


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    lines = [
        {"id": "chat", "messages": [{"role": "user", "content": "say one two"}], "tags": ["kind"]},
        {"id": "raw", "prompt": "one two three"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def experiment(target: Path, prompts: Path, levers: dict[str, Any], **tables: Any) -> Experiment:
    workload = {"prompts": str(prompts), "max_new_tokens": 10, **tables.pop("workload", {})}
    values = {"name": "x", "target": {"model": str(target)}, "workload": workload, "levers": levers, **tables}
    return config.from_resolved({"engine": {"device": "cpu"}, **values})


@pytest.fixture(autouse=True)
def _as_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """No processor here lays a tied head out beside its embedding, so that sizes are those of the weights."""
    monkeypatch.setattr("specq.quantize.dense.repacks", lambda dtype, device: False)


def make(asked: Experiment, **given: Any) -> plan.Plan:
    return plan.make(asked, **{"capabilities": EVERYTHING, "available_bytes": 1 << 30, **given})


def model_draft(folder: Path, **keys: Any) -> dict[str, Any]:
    return {"kind": "draft", "method": "model", "model": str(folder), "k": 2, **keys}


def test_prompts_are_rendered_through_the_template_or_taken_as_they_stand(make_model: MakeModel, prompts: Path) -> None:
    made = make(experiment(make_model(), prompts, {}))
    chat, raw = made.prompts
    assert [WORDS[i] for i in chat.ids] == ["user", "say", "one", "two", "assistant"]
    assert [WORDS[i] for i in raw.ids] == ["one", "two", "three"]
    assert (chat.tags, chat.messages[0]["content"]) == (("kind",), "say one two")
    made.check()


def test_sizes_and_ceilings_are_those_counted_by_hand(make_model: MakeModel, prompts: Path) -> None:
    small = make_model("small", layers=1)
    levers = {
        "lookup": LOOKUP,
        "small": model_draft(small),
        "early": {"kind": "draft", "method": "early_exit", "layers": 2, "k": 3},
    }
    made = make(experiment(make_model(), prompts, levers), bandwidth_bytes_per_s=1e6)
    arms = {arm.id: arm for arm in made.arms}
    tokens = 5 + 10
    small_bytes = (HEAD + HIDDEN + LAYER) * BYTES
    exit_bytes = HEAD * BYTES + round((TARGET - HEAD * BYTES) * 2 / 3)
    assert [arm.id for arm in made.arms] == ["baseline#1", "baseline#2", "lookup#1", "small#1", "early#1"]
    assert arms["baseline#1"].model_bytes == TARGET
    assert arms["baseline#1"].cache_bytes == tokens * CACHE_PER_TOKEN
    assert arms["baseline#1"].ceiling_tokens_per_s == pytest.approx(1e6 / TARGET)
    assert arms["lookup#1"].bytes_per_step == TARGET
    assert arms["lookup#1"].ceiling_tokens_per_s == pytest.approx(5e6 / TARGET)
    assert arms["small#1"].model_bytes == TARGET + small_bytes
    assert arms["small#1"].cache_bytes == tokens * (CACHE_PER_TOKEN + CACHE_PER_TOKEN // 3)
    assert arms["small#1"].ceiling_tokens_per_s == pytest.approx(3e6 / (TARGET + 2 * small_bytes))
    assert arms["early#1"].model_bytes == TARGET
    assert arms["early#1"].bytes_per_step == TARGET + 3 * exit_bytes
    assert made.needed_bytes == TARGET + small_bytes + arms["small#1"].cache_bytes


def test_dtype_of_the_engine_sets_the_sizes(make_model: MakeModel, prompts: Path) -> None:
    half = make(experiment(make_model(), prompts, {}, engine={"dtype": "bfloat16", "device": "cpu"}))
    assert half.arms[0].model_bytes == TARGET // 2
    assert half.arms[0].cache_bytes == 15 * CACHE_PER_TOKEN // 2
    assert half.arms[0].ceiling_tokens_per_s is None


def test_draft_that_two_arms_share_is_counted_once_and_self_is_not_counted(
    make_model: MakeModel, prompts: Path
) -> None:
    small = make_model("small", layers=1)
    levers = {"a": model_draft(small), "b": model_draft(small, rule="match"), "me": model_draft(Path("self"))}
    made = make(experiment(make_model(), prompts, levers))
    assert [model.role for model in made.models] == ["target", "draft"]
    assert {arm.id: arm.model_bytes for arm in made.arms}["me#1"] == TARGET


def test_self_in_another_dtype_is_a_second_copy(make_model: MakeModel, prompts: Path) -> None:
    made = make(experiment(make_model(), prompts, {"me": model_draft(Path("self"), dtype="bfloat16")}))
    assert made.arms[-1].model_bytes == TARGET + TARGET // 2
    assert [model.dtype for model in made.models] == ["float32", "bfloat16"]


@pytest.mark.parametrize(("layers", "refused"), [(1, False), (2, False), (3, True), (30, True)])
def test_exit_layer_out_of_range_is_refused_with_the_range(
    make_model: MakeModel, prompts: Path, layers: int, refused: bool
) -> None:
    early = {"kind": "draft", "method": "early_exit", "layers": layers}
    reasons = [refusal.reason for refusal in make(experiment(make_model(), prompts, {"e": early})).refusals]
    assert bool(reasons) == refused
    if refused:
        assert f"layers = {layers}: allowed is 1 to 2" in reasons[0]


def test_prompt_that_just_fits_runs_and_one_token_more_is_refused(make_model: MakeModel, prompts: Path) -> None:
    target = make_model(context=15)
    make(experiment(target, prompts, {})).check()
    over = make(experiment(target, prompts, {}, workload={"max_new_tokens": 11}))
    with pytest.raises(PromptError, match=r'prompt "chat" has 5 tokens, and 11 new ones make 16: .* holds 15'):
        over.check()


def test_context_of_the_draft_counts_too(make_model: MakeModel, prompts: Path) -> None:
    small = make_model("small", layers=1, context=14)
    made = make(experiment(make_model(), prompts, {"small": model_draft(small)}))
    assert [(refusal.arm, refusal.error) for refusal in made.refusals] == [("small#1", PromptError)]
    assert "draft context" in made.refusals[0].reason


def test_draft_with_other_tokens_is_refused_by_arm(make_model: MakeModel, prompts: Path) -> None:
    other = make_model("other", words=(*WORDS[:-2], "three", "two"))
    made = make(experiment(make_model(), prompts, {"other": model_draft(other), "lookup": LOOKUP}))
    assert [refusal.arm for refusal in made.refusals] == ["other#1"]
    with pytest.raises(TokenizerMismatch, match=r"other#1: .*id 6"):
        made.check()


def test_all_refusals_are_told_at_once_and_a_shared_one_once(make_model: MakeModel, prompts: Path) -> None:
    none = prompts.parent / "none"
    early = {"kind": "draft", "method": "early_exit", "layers": 9}
    levers = {"a": model_draft(none), "b": model_draft(none, rule="match"), "early": early}
    with pytest.raises(ModelError) as caught:
        make(experiment(make_model(), prompts, levers)).check()
    message = str(caught.value)
    assert message.startswith("2 things stop this run: a#1, b#1: no such file or folder")
    assert "early#1: layers = 9" in message
    assert "\n" not in message


def test_memory_that_will_not_hold_is_refused(make_model: MakeModel, prompts: Path) -> None:
    asked = experiment(make_model(), prompts, {})
    needed = make(asked).needed_bytes
    assert make(asked, available_bytes=needed).refusals == ()
    with pytest.raises(Unsupported, match="memory will not hold it"):
        make(asked, available_bytes=needed - 1).check()


def test_engine_without_the_rule_or_the_method_is_refused(make_model: MakeModel, prompts: Path) -> None:
    asked = experiment(make_model(), prompts, {"lookup": LOOKUP})
    without_rule = replace(EVERYTHING, rules=("rejection",))
    with pytest.raises(
        Unsupported, match=r'rule = "greedy_draft": .* allows rejection; type --set levers\.lookup\.rule='
    ):
        make(asked, capabilities=without_rule).check()
    with pytest.raises(Unsupported, match='method = "lookup": engine kind "hf" allows none; change levers'):
        make(asked, capabilities=replace(EVERYTHING, methods=())).check()


def test_cache_that_cannot_roll_back_is_refused_for_drafts_only(
    make_model: MakeModel, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def refuse(folder: Path, use: str) -> None:
        asked.append((folder.name, use))
        if use == "draft":
            raise Unsupported("its cache cannot be rolled back")

    monkeypatch.setattr("specq.decoding.probe.check_rollback", refuse)
    small = make_model("small", layers=1)
    made = make(experiment(make_model(), prompts, {"lookup": LOOKUP, "small": model_draft(small)}))
    assert [refusal.arm for refusal in made.refusals] == ["small#1"]
    assert asked == [("target", "target"), ("target", "target"), ("small", "draft")]


def rewrite(folder: Path, change: Any) -> Path:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_a_missing_tensor_or_a_wrong_shape_is_found_after_loading(make_model: MakeModel, prompts: Path) -> None:
    name = "model.layers.1.mlp.down_proj.weight"
    lacking = rewrite(make_model("lacking"), lambda tensors: tensors.pop(name))
    with pytest.raises(ModelError, match=rf"lacks 1 of the weights its config asks for \(first: {name}\)"):
        make(experiment(lacking, prompts, {})).check()
    wrong = rewrite(make_model("wrong"), lambda tensors: tensors.update({name: np.ones((3, 3), np.float32)}))
    for target, levers in ((wrong, {}), (make_model(), {"d": model_draft(wrong)})):
        with pytest.raises(ModelError, match=rf"{name} is \[3, 3\] on disk and \[{HIDDEN}, {INNER}\] by config"):
            make(experiment(target, prompts, levers)).check()


def test_tensors_that_transformers_renames_are_called_missing(make_model: MakeModel, prompts: Path) -> None:
    def rename(tensors: dict[str, np.ndarray]) -> None:
        tensors["model.layers.0.mlp.of_old"] = tensors.pop("model.layers.0.mlp.up_proj.weight")

    make(experiment(rewrite(make_model(), rename), prompts, {})).check()


def test_a_token_without_a_row_is_found_after_loading(make_model: MakeModel, prompts: Path) -> None:
    target = make_model()
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, "vocab_size": 6}))
    rewrite(target, lambda t: t.update({"model.embed_tokens.weight": t["model.embed_tokens.weight"][:6].copy()}))
    said = r'prompt "chat" has the token id 6, but .* has only 6 rows'
    with pytest.raises(ModelError, match=said):
        make(experiment(target, prompts, {})).check()


def test_a_class_without_sdpa_passes_the_plan(make_model: MakeModel, prompts: Path) -> None:
    import transformers

    from specq.decoding import runnable

    assert not transformers.BloomForCausalLM._supports_sdpa
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runnable, "model_class", lambda config: transformers.BloomForCausalLM)
        patch.setattr("specq.models.tensors.check_tensors", lambda *_: None)
        asked = experiment(make_model(), prompts, {})
        with pytest.raises(Unsupported, match=r"type --set engine\.attention=eager"):
            make(asked).check()


def test_sampling_defaults_of_the_model_are_said(make_model: MakeModel, prompts: Path) -> None:
    target = make_model(generation={"temperature": 0.6, "top_p": 0.9, "do_sample": True})
    notes = make(experiment(target, prompts, {})).notes
    said = "asks for temperature 0.6, top_p 0.9; specq uses the workload's temperature 0.0, top_p 1.0"
    assert any(said in note for note in notes)


def test_missing_chat_template_is_said_for_the_prompts_it_concerns(make_model: MakeModel, prompts: Path) -> None:
    notes = make(experiment(make_model(template=None), prompts, {})).notes
    assert any("no chat template" in note and "(1 of 2 prompts)" in note for note in notes)


def test_a_template_that_refuses_prompts_is_told_once_for_each(make_model: MakeModel, tmp_path: Path) -> None:
    lines = [{"id": f"q{i}", "messages": [{"role": "system", "content": "x"}]} for i in range(5)]
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    strict = make_model(template="{{ raise_exception('no system message') }}")
    (refusal,) = [it for it in make(experiment(strict, path, {})).refusals if it.error is PromptError]
    assert refusal.reason.startswith('prompt "q0" (and 4 more prompts): ')
    assert "no system message" in refusal.reason


def test_limit_beyond_the_file_and_dropped_turns_are_said(make_model: MakeModel, tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    path.write_text('{"question_id": 1, "category": "c", "turns": ["one", "two", "three"]}\n')
    notes = make(experiment(make_model(), path, {}, workload={"limit": 5})).notes
    assert f"limit = 5, but {path} holds 1 prompt: all of them run" in notes
    assert "2 later turns of 1 prompt are not asked: only first turns are" in notes


def test_broken_inputs_stop_the_plan_itself(make_model: MakeModel, prompts: Path, tmp_path: Path) -> None:
    target = make_model()
    with pytest.raises(PromptError, match="no such file"):
        make(experiment(target, tmp_path / "none.jsonl", {}))
    with pytest.raises(ModelError, match="no such file or folder"):
        make(experiment(tmp_path / "none", prompts, {}))


def test_plan_is_plain_json(make_model: MakeModel, prompts: Path) -> None:
    made = make(experiment(make_model(), prompts, {"lookup": LOOKUP}), bandwidth_bytes_per_s=1e9)
    text = json.dumps(made.to_json(), allow_nan=False)
    assert json.loads(text)["prompts"][0] == {"id": "chat", "tags": ["kind"], "tokens": 5}
