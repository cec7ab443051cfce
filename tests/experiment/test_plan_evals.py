"""What the plan says of evals before any weight is loaded: room, batches, the probe, tokens and memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import torch
from plan_models import MakeModel
from torch import nn
from transformers import PreTrainedModel

from specq.cli import views
from specq.core.errors import ConfigError, PromptError, Unsupported
from specq.core.types import Prompt, Sampling
from specq.decoding.ragged import RaggedSession
from specq.decoding.session import Session
from specq.engines.hf import HFEngine
from specq.experiment import config, eval_checks, plan
from specq.quantize.replace import held_bytes
from specq.run import inputs

LOOKUP = {"lookup": {"kind": "draft", "method": "lookup", "k": 4}}
TEXTS: dict[str, Any] = {"name": "texts", "metric": "contains", "max_new_tokens": 6, "batch_size": 3}
WORDS = ("one two three", "one two", "one", "two three two three two", "three")


def make(folder: Path, one: dict[str, Any], levers: dict[str, Any] | None = None, **more: Any) -> plan.Plan:
    """The plan of a target with an eval of five items, whose prompts are WORDS unless `asked` has others."""
    where = folder.parent
    (where / "prompts.jsonl").write_text(json.dumps({"id": "raw", "prompt": "one"}) + "\n")
    rows = [{"id": f"i{n}", "prompt": text, "reference": "a"} for n, text in enumerate(more.pop("asked", WORDS))]
    if one.get("metric") in ("choice", "loglikelihood"):
        rows = [{**row, "reference": "one", "choices": ["one", "two three two three"]} for row in rows]
    (where / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "name": "x",
        "target": {"model": str(folder)},
        "engine": {"device": "cpu", **more.pop("engine", {})},
        "workload": {"prompts": str(where / "prompts.jsonl"), "max_new_tokens": 2},
        "levers": LOOKUP if levers is None else levers,
        "evals": [{**({} if "task" in one else {"items": str(where / "items.jsonl")}), **one}],
    }
    return plan.make(config.from_resolved({**values, **more}), available_bytes=1 << 40)


def reasons(made: plan.Plan) -> list[tuple[str | None, str]]:
    return [(refusal.arm, refusal.reason) for refusal in made.refusals]


def test_texts_to_score_that_do_not_fit_are_found_in_the_run(make_model: MakeModel) -> None:
    one = {"name": "texts", "metric": "choice"}
    assert reasons(make(make_model("fits", context=9), one)) == []
    ((arm, reason),) = reasons(make(make_model("short", context=8), one))
    assert arm is None
    assert 'eval "texts": item "i3" has 5 tokens, and 4 of the longest text that is scored make 9' in reason
    assert "context of" in reason
    assert "holds 8; nothing is truncated: shorten it" in reason


def test_the_context_of_a_draft_or_of_another_target_is_not_asked(make_model: MakeModel) -> None:
    small = make_model("small", layers=1, context=10)
    levers = {"small": {"kind": "draft", "method": "model", "model": str(small)}}
    made = make(make_model(), TEXTS, levers)
    ((arm, reason),) = reasons(made)
    assert arm == "small#1"
    assert 'eval "texts": item "i3" has 5 tokens, and 6 new ones make 11: the draft context of' in reason
    assert reasons(make(make_model("other"), {**TEXTS, "max_new_tokens": 5}, levers)) == []
    # A draft reads nothing of texts that its target scores.
    assert reasons(make(make_model("third"), {"name": "c", "metric": "choice"}, levers)) == []


def test_another_target_with_a_shorter_context_is_let_through(make_model: MakeModel, monkeypatch: Any) -> None:
    made = make(make_model(), TEXTS)
    target = made.models[0]
    other = replace(target, facts=replace(target.facts, context=10))
    (refusal,) = eval_checks.misfits("w#1", "", other, made.evals)
    assert (refusal.arm, "make 11: the context of" in refusal.reason) == ("w#1", True)


@pytest.mark.parametrize(
    ("kind", "engine", "why"),
    [
        ("window", {}, "MistralForCausalLM has layers with sliding windows"),
        ("llama", {"compile": True}, "compiled passes take one row of text"),
    ],
)
def test_batches_that_the_model_or_the_engine_cannot_take_fail_in_the_run(
    kind: str, engine: dict[str, Any], why: str, folder_of: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    folder.symlink_to(folder_of(kind))
    made = make(folder, TEXTS, {}, engine=engine)
    (one,) = made.evals
    assert one.batch_size == 1
    assert any("answered one at a time" in note and why in note for note in made.notes)
    told = inputs.evals(made)["texts"]
    assert (told["batch_size"], told["twin_batch_size"]) == (1, None)
    assert told["one_by_one"].startswith(why)
    llama = tmp_path / "l"
    llama.symlink_to(folder_of("llama"))
    assert inputs.evals(make(llama, TEXTS, {}))["texts"]["twin_batch_size"] == 1


def test_a_draft_whose_rows_cannot_differ_is_batched(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.symlink_to(folder_of("llama"))
    draft = {"kind": "draft", "method": "model", "model": str(folder_of("window"))}
    assert make(folder, TEXTS, {"d": draft}).evals[0].batch_size == 1


def test_a_probe_that_reaches_nothing_is_made_in_silence(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = nn.Module()
    bare.own = nn.Parameter(torch.ones(4, 4))
    monkeypatch.setattr(eval_checks, "skeleton", lambda folder, known: bare)
    monkeypatch.setattr("specq.decoding.ragged.refusal", lambda model: "")
    made = make(make_model(), TEXTS)
    assert (made.evals[0].probe, "no linear layers to put noise on" in made.evals[0].unprobed) == (0.0, True)
    assert any("no sensitivity probe is made" in note for note in made.notes)
    told = inputs.evals(made)["texts"]
    assert (told["probe"], bool(told["unprobed"])) == (0.0, True)
    bare.linear = nn.Linear(2, 2)
    made = make(make_model("part"), TEXTS)
    assert made.evals[0].probe == 0.2
    assert any("weaker than it says: noise reaches 20 % of the weights" in note for note in made.notes)


def test_a_margin_of_half_of_all_answers_is_passed_over(make_model: MakeModel) -> None:
    asked = ["one"] * 12
    made = make(make_model(), TEXTS, asked=asked, floor={"quality": {"texts": 0.5}})
    assert any("a lever may lose 50 points of 100" in note for note in made.notes)
    made = make(make_model("other"), TEXTS, asked=asked, floor={"quality": {"texts": 0.4}})
    assert not any("may lose" in note for note in made.notes)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """A task of lm-eval whose answers are generated; `text` is its template."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))

    def write(text: str = "{{q}}") -> dict[str, Any]:
        (tmp_path / "own.jsonl").write_text("".join(json.dumps({"q": words, "a": "one"}) + "\n" for words in WORDS))
        settings = {
            "task": "own",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(tmp_path / "own.jsonl")}},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": text,
            "doc_to_target": "a",
            "generation_kwargs": {"until": ["x"], "max_gen_toks": 7},
            "metric_list": [{"metric": "exact_match"}],
        }
        (tmp_path / "own.yaml").write_text(json.dumps(settings))
        return {"name": "texts", "task": str(tmp_path / "own.yaml")}

    return write


def test_the_tokens_of_a_task_are_not_counted(make_model: MakeModel, task: Callable[..., dict[str, Any]]) -> None:
    (one,) = make(make_model(), task()).evals
    assert one.tokens == tuple(len(words.split()) for words in WORDS)
    assert one.room == tuple(tokens + 7 for tokens in one.tokens)
    told = one.to_json()
    assert (told["items"], told["prompt_tokens"], told["max_new_tokens"]) == (5, 12, 7)
    ((_, reason),) = reasons(make(make_model("short", context=11), task()))
    assert 'item "own 3" has 5 tokens, and 7 new ones make 12' in reason
    assert "num_fewshot" in reason


def test_a_task_that_cannot_write_its_prompts_is_found_in_the_run(
    make_model: MakeModel, task: Callable[..., dict[str, Any]]
) -> None:
    made = make(make_model(), task("{{q.split(' ')[1].upper()}}"))
    (refusal,) = made.refusals
    assert refusal.error is ConfigError
    assert "its documents cannot be written as prompts" in refusal.reason
    made = make(make_model("empty"), task(" "))
    assert made.refusals[0].error is PromptError


def peak(target: Any, decoder: Any, batch_size: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The most bytes of keys and values that all sessions of a batch held at once after a pass."""
    held: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
    most = [0]

    def counted(real: Any) -> Any:
        def forward(self: Any, *args: Any, **given: Any) -> Any:
            found = real(self, *args, **given)
            held[self] = sum(part.nbytes for layer in self.cache.layers for part in (layer.keys, layer.values))
            most[0] = max(most[0], sum(held.values()))
            return found

        return forward

    for session in (RaggedSession, Session):
        monkeypatch.setattr(session, "forward", counted(session.forward))
    prompts = [
        Prompt(id=str(n), ids=tuple(5 for _ in text), text=text) for n, text in enumerate(sorted(WORDS, key=len))
    ]
    decoder.generate(prompts[::-1], Sampling(max_new_tokens=6, ignore_eos=True), batch_size=batch_size)
    monkeypatch.undo()
    return most[0]


def weights(*models: PreTrainedModel) -> int:
    return sum(one.nbytes for model in models for one in model.parameters())


def test_batches_and_float32_copies_are_left_out_of_the_memory(
    folder_of: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held against what the engine really holds: the caches of the longest batch, and the weights of a proof."""
    folder = tmp_path / "m"
    folder.symlink_to(folder_of("llama"))
    draft = {"kind": "draft", "method": "model", "model": str(folder_of("llama", noise=0.2)), "k": 2}
    made = make(folder, TEXTS, {"d": draft}, engine={"dtype": "bfloat16"}, asked=WORDS)
    spec = next(arm.draft for arm in made.arms if arm.draft is not None)

    target = HFEngine(device="cpu", dtype="bfloat16", packed=False).open(str(folder))
    plain = make(folder, TEXTS, {}, engine={"dtype": "bfloat16"}, asked=WORDS)
    last = TEXTS["batch_size"] * plain.models[0].cache_bytes(1)
    # The last token of an answer is never read back.
    caches = peak(target, target.decoder(None), TEXTS["batch_size"], monkeypatch)
    assert plain.evals_bytes - weights(target.model) == caches + last
    assert plain.proofs_bytes == 0
    caches = peak(target, target.decoder(spec), TEXTS["batch_size"], monkeypatch)
    both = weights(target.model, target.draft_model(spec))
    # The plan counts the holes that unlucky rows would have.
    assert caches <= made.evals_bytes - both <= 1.6 * caches

    target = HFEngine(device="cpu", dtype="float32").open(str(folder))
    # Packed layers are no parameters.
    both = held_bytes(target.model, target.draft_model(spec))
    caches = peak(target, target.decoder(spec), 1, monkeypatch)
    assert caches <= made.proofs_bytes - both <= 1.5 * caches
    assert made.needed_bytes == max(made.evals_bytes, made.proofs_bytes)
    assert {"evals_bytes", "proofs_bytes"} <= set(made.to_json())


def test_evals_that_memory_does_not_hold_are_let_through(make_model: MakeModel) -> None:
    made = make(make_model(), {**TEXTS, "max_new_tokens": 50})
    assert made.needed_bytes == max(made.evals_bytes, made.proofs_bytes) > made.together_bytes
    again = plan.make(made.experiment, available_bytes=made.needed_bytes)
    assert not again.refusals
    shown = "\n".join(str(getattr(part, "text", "")) for part in views.plan(made.to_json()))
    assert "5 items, 12 prompt tokens in all, answers of up to 50 new tokens, metric contains, 3 at a time" in shown
    assert "answering evals: " in shown
    assert "proving drafts in float32: " in shown
    less = plan.make(made.experiment, available_bytes=made.together_bytes)
    with pytest.raises(Unsupported, match=r"answering the evals needs .* lower batch_size or max_new_tokens"):
        less.check()
    assert make(made.models[0].resolved.folder, {**TEXTS, "through_loop": True}).proofs_bytes == 0


def test_the_plan_of_an_unreadable_config_ends_in_a_traceback(make_model: MakeModel) -> None:
    known: dict[Path, Any] = {}
    broken = make_model("broken")
    (broken / "config.json").write_text('{"model_type": "nobody"}')
    assert eval_checks.skeleton(broken, known) is None


def test_a_proof_under_a_device_map_counts_a_head_that_is_laid_out_anew(
    folder_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specq.quantize.dense.repacks", lambda dtype, device: device == "cpu")
    monkeypatch.setattr("specq.engines.devices.pick_device", lambda name: "cpu")
    folder = folder_of("llama", tie_word_embeddings=True)
    lookup = {"d": {"kind": "draft", "method": "lookup", "k": 2}}
    spread, one = (
        make(folder, TEXTS, lookup, engine=engine, asked=WORDS)
        for engine in ({"dtype": "bfloat16", "device": "auto", "device_map": "auto"}, {"dtype": "bfloat16"})
    )
    facts = one.models[0].facts
    assert one.proofs_bytes - spread.proofs_bytes == 4 * facts.vocab * facts.hidden
