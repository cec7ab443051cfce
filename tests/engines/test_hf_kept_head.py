"""A draft that proposes some ids alone, in the engine: plain tokens, kept ids, its folder whole for all else."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
import transformers

import tiny_models as tiny
from specq.core.errors import ModelError
from specq.core.types import EXACT_RULES, DraftSpec, Sampling
from specq.decoding.compiled import CompiledSession
from specq.decoding.drafters.chain import ModelDrafter
from specq.decoding.drafters.kept_head import KeptHead
from specq.decoding.session import Session
from specq.engines.hf import HFEngine
from specq.forecast import replay, written
from specq.models import facts, kept, refs

PROMPT = tiny.prompt("abc abc, abd abc")
NEW = 24
IDS = tuple(range(0, tiny.V, 2))
WARM = Sampling(temperature=0.8, max_new_tokens=NEW, ignore_eos=True, seed=2)


@pytest.fixture(scope="module")
def trimmed(folder_of, tmp_path_factory):
    """A folder of a kind with every second id kept; tied or not."""
    made = {}

    def folder(kind, **how):
        key = repr((kind, sorted(how.items())))
        if key not in made:
            made[key] = tmp_path_factory.mktemp("trimmed") / kind
            shutil.copytree(folder_of(kind, noise=0.2, **how), made[key])
            kept.write(made[key], IDS, tiny.V)
        return made[key]

    return folder


def spec(folder, rule="rejection", k=3, **more):
    return DraftSpec(method="model", model=str(folder), k=k, rule=rule, **more)


@pytest.mark.parametrize("rule", EXACT_RULES)
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_draft_of_some_ids_changes_the_greedy_tokens(target_of, trimmed, kind, rule):
    target = target_of(kind)
    want = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0]
    decoder = target.decoder(spec(trimmed(kind), rule))
    got = decoder.generate([PROMPT], tiny.greedy(NEW))[0]
    assert got.ids == want.ids
    assert decoder.generate([PROMPT, PROMPT], tiny.greedy(NEW), batch_size=2)[1].ids == want.ids
    assert 0 < sum(step.accepted for step in got.steps) < sum(step.proposed for step in got.steps)
    assert f"head: {len(IDS)} of {tiny.V} ids" in decoder.notes


@torch.inference_mode()
def test_another_id_is_proposed_or_the_law_is_not_the_whole_heads_given_the_kept(target_of, trimmed, folder_of):
    target = target_of("llama")
    whole, own = (target.draft_model(spec(one)) for one in (folder_of("llama", noise=0.2), trimmed("llama")))
    drafters = [
        ModelDrafter(Session(model, keep="everything"), sampled=True, vocabulary=target.vocabulary)
        for model in (whole, own)
    ]
    ids, seen = list(PROMPT.ids), set()
    for seed in range(40):
        for drafter in drafters:
            drafter.start(ids, target.warper(PROMPT, WARM), np.random.default_rng(seed))
        of_whole, of_kept = (drafter.propose(ids, 1) for drafter in drafters)
        seen |= set(of_kept.ids)
        given = torch.zeros_like(of_whole.q)
        given[:, list(IDS)] = of_whole.q[:, list(IDS)]
        assert of_kept.q[0].numpy() == pytest.approx((given / given.sum())[0].numpy(), abs=1e-6)
    assert seen <= set(IDS)
    assert len(seen) > 3


def test_steps_of_such_a_draft_are_not_those_that_its_law_expects(target_of, trimmed):
    target = target_of("llama")
    for rule in EXACT_RULES:
        got = target.decoder(spec(trimmed("llama"), rule)).generate([PROMPT], WARM)[0]
        law = target.draft_law(spec(trimmed("llama"), rule), PROMPT, got.ids, WARM, 3)
        outside = [token not in IDS for token in got.ids]
        assert any(outside)
        assert (law.p[outside] == 0).all()
        assert (law.hit[outside] == 0).all()
        record = target.audit_sampled("a#1", PROMPT, 0, got, spec(trimmed("llama"), rule), WARM)
        assert abs(record.steps - record.steps_mean) < 4 * record.steps_variance**0.5 + 1e-6


def test_a_replay_of_such_a_draft_takes_other_steps_than_it_takes_live(target_of, trimmed):
    target, prompts = target_of("llama"), [PROMPT, tiny.prompt("xyz 123", id="other")]
    for k in (1, 3):
        draft = spec(trimmed("llama"), k=k)
        live = target.decoder(draft).generate(prompts, tiny.greedy(NEW))
        texts = written.read(target, {"d": draft}, prompts, live, tiny.greedy(NEW))["d"]
        found = replay.steps(texts, k).mean[:, EXACT_RULES.index("rejection"), k - 1]
        assert found.tolist() == [len(one.steps) for one in live]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tied", [True, False])
def test_bytes_of_rows_that_are_not_kept_are_held_or_read(folder_of, tmp_path, tied, dtype):
    how = {"tie_word_embeddings": tied}
    folder = tiny.save(tmp_path / "whole", tiny.make("llama", noise=0.2, **how), dtype=dtype)
    shutil.copytree(folder, tmp_path / "kept")
    kept.write(tmp_path / "kept", IDS, tiny.V)
    size = 4 if dtype == torch.float32 else 2
    told = {}
    with HFEngine(device="cpu").open(str(folder_of("llama", **how))) as target:
        for name in ("whole", "kept"):
            draft = spec(tmp_path / name, dtype=str(dtype).removeprefix("torch."))
            told[name] = target.describe_draft(draft)
            assert isinstance(target.draft_model(draft).get_output_embeddings(), KeptHead) == (name == "kept")
    spared = (tiny.V - len(IDS)) * 32 * size
    # The table of ids, and buffers of rotary positions.
    assert told["whole"]["bytes_per_token"] - told["kept"]["bytes_per_token"] == pytest.approx(spared, abs=600)
    assert told["whole"]["sha256"] != told["kept"]["sha256"]
    if not tied:
        assert told["whole"]["weight_bytes"] - told["kept"]["weight_bytes"] == pytest.approx(spared, abs=600)


@torch.inference_mode()
def test_the_folder_is_trimmed_as_a_target_or_for_others(trimmed, folder_of):
    whole = transformers.AutoModelForCausalLM.from_pretrained(trimmed("llama"))
    logits = whole(input_ids=torch.tensor([PROMPT.ids])).logits
    assert bool(torch.isfinite(logits).all())
    with HFEngine(device="cpu").open(str(trimmed("llama"))) as target:
        assert not isinstance(target.model.get_output_embeddings(), KeptHead)
        # The target that drafts for itself is whole too.
        assert target.draft_model(spec("self")) is target.model
        assert torch.equal(target.model(input_ids=torch.tensor([PROMPT.ids])).logits, logits)


def test_a_compiled_draft_of_some_ids_says_something_else(target_of, trimmed):
    model = target_of("llama").draft_model(spec(trimmed("llama")))
    plain, compiled = Session(model, keep="everything"), CompiledSession(model, (1, 2), backend="eager")
    with torch.inference_mode():
        for session in (plain, compiled):
            session.forward(PROMPT.ids, last_only=True)
        left, right = plain.forward([5, 6]), compiled.forward([5, 6])
    assert (torch.isinf(left) == torch.isinf(right)).all()
    inside = torch.isfinite(left)
    assert left[inside].numpy() == pytest.approx(right[inside].numpy(), abs=1e-4)


def edited(trimmed, tmp_path, **values):
    folder = tmp_path / "edited"
    shutil.copytree(trimmed("llama"), folder)
    (folder / kept.FILE).write_text(json.dumps({"rows": tiny.V, "ids": list(IDS)} | values))
    return folder


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"ids": []}, "its ids must rise"),
        ({"ids": [3, 2]}, "its ids must rise"),
        ({"ids": [2, 2]}, "its ids must rise"),
        ({"ids": [-1, 2]}, "its ids must rise"),
        ({"ids": [0, tiny.V]}, f"from 0 to {tiny.V - 1}"),
        ({"ids": [0, 1.5]}, "expected whole numbers"),
        ({"ids": "all"}, "expected whole numbers"),
        ({"rows": None}, "expected whole numbers"),
        ({"rows": tiny.V + 1}, f"of a head with {tiny.V + 1} rows, and config.json says {tiny.V}"),
    ],
)
def test_a_table_of_ids_that_does_not_fit_is_used(trimmed, tmp_path, values, says):
    with pytest.raises(ModelError, match=says) as caught:
        kept.read(edited(trimmed, tmp_path, **values))
    assert "\n" not in str(caught.value)
    assert "distill the model again" in str(caught.value)


def test_a_model_without_a_table_has_one_or_two_tables_are_one_model(trimmed, folder_of, tmp_path):
    assert kept.read(folder_of("llama")) is None
    other = edited(trimmed, tmp_path, ids=[1, 2, 3])
    assert kept.read(other) == kept.Kept(ids=(1, 2, 3), rows=tiny.V)
    left, right = (facts.facts(refs.resolve(str(one))).weights_sha256 for one in (other, trimmed("llama")))
    assert left != right
