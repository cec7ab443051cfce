"""Another model in the target's place, as the plan sees it: sizes, what it reads, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from plan_models import TEMPLATE, WORDS, MakeModel

from specq.cli import views
from specq.core.errors import ConfigError, ModelError, PromptError, TokenizerMismatch
from specq.engines.base import Capabilities
from specq.experiment import config, plan
from specq.run import artifacts, inputs

EVERYTHING = Capabilities(
    rules=("rejection", "greedy_draft", "match", "block"),
    methods=("model", "lookup", "early_exit"),
    devices=("cpu",),
    step_traces=True,
    logprobs=True,
    batches=True,
)
LOOKUP = {"kind": "draft", "method": "lookup", "k": 4}
OTHER_WORDS = ("<unk>", "<eos>", "one", "two", "three", "user", "assistant", "say", "more")
WHOLE: dict[str, Any] = {"objective": {"minimise": "e2e_s"}, "lengths": "natural"}


def model(folder: Path) -> dict[str, Any]:
    return {"kind": "model", "model": str(folder)}


def draft(name: Path | str, **keys: Any) -> dict[str, Any]:
    return {"kind": "draft", "method": "model", "model": str(name), "k": 2, **keys}


def make(target: Path, levers: dict[str, Any], *run: str, lengths: str = "equal", **tables: Any) -> plan.Plan:
    """The plan of levers on a chat prompt and a raw one, and of an eval of two items where `evals` names a metric."""
    where = target.parent
    chat = {"id": "chat", "messages": [{"role": "user", "content": "say one two"}]}
    (where / "prompts.jsonl").write_text(json.dumps(chat) + "\n" + json.dumps({"id": "raw", "prompt": "one two"}))
    items = [{"id": f"i{n}", "messages": chat["messages"], "reference": "one", "tags": [str(n)]} for n in range(2)]
    (where / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    values = {
        "name": "x",
        "target": {"model": str(target)},
        "engine": {"device": "cpu"},
        "workload": {"prompts": str(where / "prompts.jsonl"), "max_new_tokens": 10, "lengths": lengths},
        "levers": levers,
        "arms": {"run": list(run) or ["each"]},
        "evals": [{"name": "set", "items": str(where / "items.jsonl"), "metric": "contains", "max_new_tokens": 4}],
        **tables,
    }
    return plan.make(config.from_resolved(values), capabilities=EVERYTHING, available_bytes=1 << 30)


def told(made: plan.Plan) -> list[tuple[str | None, type[Exception]]]:
    return [(refusal.arm, refusal.error) for refusal in made.refusals]


def test_a_smaller_target_is_counted_or_quantized_as_the_large_one(make_model: MakeModel, tmp_path: Path) -> None:
    target, small = make_model(), make_model("small", layers=1)
    recipe = tmp_path / "w4.toml"
    recipe.write_text('method = "rtn"\nbits = 4\ngroup_size = 4\n')
    levers = {
        "small": model(small),
        "w4": {"kind": "quantize", "recipe": str(recipe)},
        "lookup": LOOKUP,
        "again": draft("self", recipe=str(recipe)),
    }
    made = make(target, levers, "small", "small + lookup", "small + w4 + lookup", "small + again")
    made.check()
    arms = {arm.id: arm for arm in made.arms}
    assert list(arms)[2:] == ["small#1", "lookup+small#1", "small+w4#1", "lookup+small+w4#1", "again+small#1"]
    plain, own = arms["baseline#1"], arms["small#1"]
    sizes = {m.resolved.name: m.weight_bytes for m in made.models if m.how is None}
    assert (plain.model_bytes, own.model_bytes) == (sizes[str(target)], sizes[str(small)])
    assert sizes[str(small)] < sizes[str(target)]
    assert plain.cache_bytes == 3 * (own.cache_bytes or 0)
    assert arms["lookup+small#1"].plain == "small#1"
    assert arms["lookup+small+w4#1"].plain == "small+w4#1"
    # What a recipe makes is made of the model that stands there, "self" too.
    assert {one.model for one in artifacts.wanted(made.experiment)} == {str(small)}
    assert f"{recipe} of {small}" in {m.name for m in made.models if m.role == "target"}
    assert any("stands in the place of" in note and "larger" not in note for note in made.notes)
    # It reads as the target does, so that nothing is kept twice.
    assert inputs.readings(made) == {}
    assert str(small) in str(views._target(made.to_json()["arms"][2]["target"]))


def test_the_target_itself_passes_for_another_model(make_model: MakeModel, tmp_path: Path) -> None:
    target = make_model()
    copy = Path(shutil.copytree(target, tmp_path / "copy"))
    for same in (target, copy):
        made = make(target, {"small": model(same), "lookup": LOOKUP}, "small", "lookup", "small + lookup")
        assert told(made) == [("small#1", ModelError), ("lookup+small#1", ModelError)]
        assert f"levers.small: {same} is the target {target} itself (the same weights)" in made.refusals[0].reason


def test_a_larger_model_is_refused_or_not_called_so(make_model: MakeModel) -> None:
    made = make(make_model(layers=1), {"big": model(make_model("big", layers=3))})
    made.check()
    assert any(note.startswith("levers.big: ") and note.endswith("it is larger, not smaller") for note in made.notes)


def test_a_missing_model_or_one_whose_template_refuses_stops_other_arms(make_model: MakeModel) -> None:
    broken = make_model("broken", layers=1, template="{{ raise_exception('no roles here') }}")
    levers = {"gone": model(Path("no-such-model")), "bad": model(broken), "lookup": LOOKUP}
    made = make(make_model(), levers)
    assert told(made) == [("gone#1", ModelError), ("bad#1", PromptError)]
    assert "levers.bad: " in made.refusals[1].reason
    assert not next(arm for arm in made.arms if arm.id == "lookup#1").refused


def test_seconds_a_token_of_other_tokens_are_compared(make_model: MakeModel) -> None:
    target, small = make_model(), make_model("small", layers=1, words=OTHER_WORDS)
    made = make(target, {"small": model(small), "lookup": LOOKUP}, "small", "small + lookup")
    assert told(made) == [("small#1", ConfigError), ("lookup+small#1", ConfigError)]
    assert "--set objective.minimise=e2e_s --set workload.lengths=natural" in made.refusals[0].reason
    assert f"id 2 is 'user' in the target and 'one' in {small}" in made.refusals[0].reason
    floored = make(target, {"small": model(small)}, **WHOLE, floor={"tpot_s_p95": 1.0}, smoke=True)
    assert "take floor.tpot_s_p95 out (floor.e2e_s_p95 holds of whole answers)" in floored.refusals[0].reason
    make(target, {"small": model(small)}, **WHOLE).check()


def test_prompts_and_items_reach_a_model_as_the_tokens_of_another(make_model: MakeModel) -> None:
    small = make_model("small", layers=1, words=OTHER_WORDS, template=TEMPLATE + " more")
    made = make(make_model(), {"small": model(small)}, **WHOLE)
    (own,) = made.stand_ins
    assert [OTHER_WORDS[i] for i in own.prompts[0].ids] == ["user", "say", "one", "two", "assistant", "more"]
    assert [prompt.id for prompt in own.prompts] == [prompt.id for prompt in made.prompts]
    assert own.prompts[0].messages == made.prompts[0].messages
    assert made.prompts_of(str(small)) == own.prompts
    assert made.prompts_of(None) == made.prompts
    assert (own.evals[0].tokens, made.evals[0].tokens) == ((6, 6), (5, 5))
    # Its cache holds its own tokens: one more, of one layer of three.
    arms = {arm.id: arm for arm in made.arms}
    assert (arms["small#1"].cache_bytes or 0) * 3 * 15 == (arms["baseline#1"].cache_bytes or 0) * 16
    (reading,) = inputs.readings(made).values()
    assert reading["other_tokens"].startswith("id 2 is 'user'")
    assert reading["prompts"][0]["ids"] == list(own.prompts[0].ids)
    assert reading["evals"]["set"]["i0"]["prompt_sha256"] == own.evals[0].prompts[0]


def test_another_template_alone_is_refused_or_goes_unsaid(make_model: MakeModel) -> None:
    small = make_model("small", layers=1, template="say {{ messages[0]['content'] }}")
    made = make(make_model(), {"small": model(small)})
    made.check()
    (own,) = made.stand_ins
    assert (own.other_tokens, own.reads_alike) == ("", False)
    assert any("reads the same messages as other tokens" in note for note in made.notes)
    assert inputs.readings(made)[str(small)]["other_tokens"] == ""


def test_what_does_not_fit_its_context_is_counted_in_the_targets_tokens(make_model: MakeModel) -> None:
    long = TEMPLATE + " more" * 60
    small = make_model("small", layers=1, context=70, words=OTHER_WORDS, template=long)
    made = make(make_model(context=64), {"small": model(small)}, **WHOLE)
    assert told(made) == [("small#1", PromptError)]
    assert 'prompt "chat" has 65 tokens, and 10 new ones make 75: the context' in made.refusals[0].reason


def test_a_draft_is_held_against_the_tokens_of_the_wrong_target(make_model: MakeModel) -> None:
    target, small = make_model(), make_model("small", layers=2, words=OTHER_WORDS)
    levers = {
        "small": model(small),
        "mine": draft(make_model("mine", layers=1)),
        "its": draft(make_model("its", layers=1, words=OTHER_WORDS)),
    }
    run = ("mine", "its", "small + mine", "small + its")
    made = make(target, levers, *run, **WHOLE)
    assert told(made) == [("its#1", TokenizerMismatch), ("mine+small#1", TokenizerMismatch)]
    # A draft that serves two targets is one model all the same.
    names = [m.resolved.name for m in made.models]
    assert len(names) == len(set(names))


def test_the_words_of_the_target_count_as_those_of_the_model_in_its_place(make_model: MakeModel) -> None:
    """Rows of padding beyond the last token make no other tokens."""
    small = make_model("small", layers=1)
    settings = json.loads((small / "config.json").read_text())
    assert settings["vocab_size"] == len(WORDS)
    made = make(make_model(), {"small": model(small)})
    assert made.stand_ins[0].other_tokens == ""
    assert made.stand_ins[0].prompts == made.prompts


@pytest.mark.parametrize(
    ("levers", "entry", "says"),
    [
        ({"a": "m1", "b": "m2"}, "a + b", "has two levers of kind model"),
        ({"a": "m1", "w": None}, "a + w", "names two sets of weights, w-folder (w) and m1 (a); give w a recipe"),
    ],
)
def test_an_arm_has_two_models(levers: dict[str, str | None], entry: str, says: str) -> None:
    tables = {
        name: {"kind": "quantize", "model": "w-folder"} if own is None else {"kind": "model", "model": own}
        for name, own in levers.items()
    }
    values = {"name": "x", "target": {"model": "m"}, "workload": {"prompts": "p"}, "levers": tables}
    with pytest.raises(ConfigError) as caught:
        config.from_resolved({**values, "arms": {"run": [entry]}})
    assert says in str(caught.value)
