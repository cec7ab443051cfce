"""Compiled passes against eager ones: tokens, rollbacks, padding rows, growth, refusals."""

from __future__ import annotations

import random

import pytest
import torch
import transformers

import tiny_models as tiny
from specq.core.errors import Unsupported
from specq.core.types import Sampling
from specq.decoding.compiled import BUCKET, CompiledSession, check_compilable
from specq.decoding.drafters.chain import ModelDrafter
from specq.decoding.drafters.lookup import LookupDrafter, NgramIndex
from specq.decoding.fixed import Held, attend, twin
from specq.decoding.loop import decode
from specq.decoding.request import Request
from specq.decoding.session import Session
from specq.quantize.dense import pack

pytestmark = pytest.mark.usefixtures("one_thread")
# Each layer is traced anew, which takes longer than all its passes.
ONE_LAYER = {"llama": {"num_hidden_layers": 1}, "gpt2": {"n_layer": 1}}


def fresh(model, ids):
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def text(session, drafter=None, k=0, new=30):
    request = Request(
        prompt=tiny.prompt("the cat and the cat and "),
        sampling=Sampling(max_new_tokens=new, ignore_eos=True),
        eos_ids=(),
        tokenizer=tiny.tokenizer(),
        rule="greedy_draft",
    )
    decode(request, session, drafter, k)
    if isinstance(drafter, ModelDrafter):
        # Some proposals are accepted and some refused, else no rollback was seen.
        assert 0 < sum(s.accepted for s in request.steps) < sum(s.proposed for s in request.steps)
    return request.new_ids


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@torch.inference_mode()
def test_logits_after_rollbacks_differ_from_a_fresh_prefill(kind):
    """Blocks longer than the largest graph too, which run in pieces; and shorter ones, which are filled up."""
    model, chance = tiny.make(kind, **ONE_LAYER[kind]), random.Random(2)
    session = CompiledSession(model, (1, 4), backend="eager")
    ids = [chance.randrange(tiny.V) for _ in range(10)]
    assert torch.allclose(session.forward(ids, last_only=True)[-1], fresh(model, ids)[-1], atol=1e-4)
    for _ in range(20):
        block = [chance.randrange(tiny.V) for _ in range(chance.randint(1, 6))]
        got = session.forward(block)
        assert torch.allclose(got, fresh(model, [*ids, *block])[-len(block) :], atol=1e-4)
        kept = chance.randint(0, len(block))
        session.rollback(len(block) - kept)
        ids += block[:kept]
        assert session.length == len(ids)


def test_the_compiler_changes_the_tokens():
    """With the real compiler: plain, and under a draft that is right some of the time."""
    model = tiny.make("llama", num_hidden_layers=1)
    session = CompiledSession(model, (4,))
    session.warm_up(64)
    warm = session.compile_s
    assert warm > 0
    plain = text(Session(model))
    assert text(session) == plain
    near = Session(tiny.make("llama", num_hidden_layers=1, noise=0.3), keep="everything")
    assert text(session, ModelDrafter(near, sampled=False, vocabulary=tiny.V), 3) == plain
    assert session.compile_s == warm


def test_speculation_on_compiled_passes_changes_the_greedy_text():
    """The draft's own passes compiled too: one row, or two after full acceptance."""
    model, near = (tiny.make("llama", num_hidden_layers=1, noise=noise) for noise in (0.0, 0.3))
    plain = text(Session(model))
    session = CompiledSession(model, (1, 4), backend="eager")
    assert text(session) == plain
    draft = ModelDrafter(CompiledSession(near, (1, 2), backend="eager"), sampled=False, vocabulary=tiny.V)
    assert text(session, draft, 3) == plain
    assert text(session, LookupDrafter(NgramIndex(3, 1)), 3) == plain


@pytest.mark.parametrize("wrong", [1, -1])
def test_a_wrong_rollback_goes_unseen(monkeypatch, wrong):
    """Planted bugs that the texts above must catch."""
    model, other = (tiny.make("llama", num_hidden_layers=1, noise=noise) for noise in (0.0, 0.3))
    near = Session(other, keep="everything")
    plain = text(Session(model))

    def rollback(self, tokens):
        self.length -= tokens + (wrong if tokens else 0)

    monkeypatch.setattr(CompiledSession, "rollback", rollback)
    session = CompiledSession(model, (1, 4), backend="eager")
    assert text(session, ModelDrafter(near, sampled=False, vocabulary=tiny.V), 3) != plain


@torch.inference_mode()
def test_a_text_that_outgrows_the_cache_loses_its_start():
    model = tiny.make("llama", num_hidden_layers=1, max_position_embeddings=2 * BUCKET)
    session = CompiledSession(model, (1, 4), backend="eager")
    ids = [random.Random(5).randrange(tiny.V) for _ in range(BUCKET - 6)]
    session.forward(ids)
    assert session.capacity == BUCKET
    session.forward([4, 5, 6])
    assert torch.allclose(session.forward([7])[-1], fresh(model, [*ids, 4, 5, 6, 7])[-1], atol=1e-4)
    assert session.capacity == 2 * BUCKET


@torch.inference_mode()
def test_rows_too_many_at_the_end_of_the_context_read_beyond_the_positions():
    """gpt2 has a table of positions, which the filled-up rows must not leave."""
    model = tiny.make("gpt2", **ONE_LAYER["gpt2"])
    session = CompiledSession(model, (4,), backend="eager")
    ids = [random.Random(6).randrange(tiny.V) for _ in range(tiny.CONTEXT - 1)]
    session.forward(ids)
    assert torch.allclose(session.forward([9])[-1], fresh(model, [*ids, 9])[-1], atol=1e-4)


@torch.inference_mode()
def test_many_graphs_reach_the_limit_of_recompilations():
    model = tiny.make("llama", num_hidden_layers=1)
    with torch._dynamo.config.patch(recompile_limit=1):
        session = CompiledSession(model, (1, 2, 3), backend="eager")
        session.warm_up(8)
    assert session.length == 0
    assert torch.allclose(session.forward([4, 5]), fresh(model, [4, 5]), atol=1e-5)


def test_the_twin_changes_the_model():
    model = tiny.make("llama")
    before = model.config._attn_implementation
    view = twin(model)
    assert {p.data_ptr() for p in view.parameters()} == {p.data_ptr() for p in model.parameters()}
    assert model.config._attn_implementation == before != view.config._attn_implementation
    assert "forward" not in vars(model.model.layers[0])


@torch.inference_mode()
def test_packed_layers_break_the_graph():
    model = tiny.make("llama", num_hidden_layers=1).bfloat16()
    if not pack(model):
        pytest.skip("no oneDNN packing here")
    plain = Session(model)
    session = CompiledSession(model, (1,), backend="eager")
    for each in (plain, session):
        each.forward([4, 5, 6])
    assert sum(isinstance(m, Held) for m in twin(model).modules()) > 0
    assert torch.allclose(session.forward([7]).float(), plain.forward([7]).float(), atol=0.1)


@torch.inference_mode()
def test_attention_as_sums_differs_from_matrix_products(monkeypatch):
    """Grouped heads, several rows, a mask that hides slots: both ways against torch's own attention."""
    generator = torch.Generator().manual_seed(3)
    query, key, value = (torch.randn(1, h, n, 8, generator=generator) for h, n in ((6, 3), (2, 16), (2, 16)))
    mask = torch.where(torch.arange(16) <= torch.tensor([9, 10, 11])[:, None], 0.0, -torch.inf)[None, None]
    right = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True).transpose(1, 2)
    found = []
    for most in (0, 6 * 3 * 16 * 8):
        monkeypatch.setattr("specq.decoding.fixed.SUMMED", most)
        found.append(attend(torch.nn.Identity(), query, key, value, mask)[0])
        assert torch.allclose(found[-1], right, atol=1e-6)
    # Else one of the two was never taken.
    assert not torch.equal(*found)


@pytest.mark.parametrize("kind", ["window", "conv", "hybrid"])
def test_windows_and_states_are_compiled(kind):
    with pytest.raises(Unsupported, match=r"compile = true: \w+ has layers with windows or states of their own"):
        CompiledSession(tiny.make(kind), (1,))


def test_an_attention_with_more_parts_is_compiled_without_them():
    config = transformers.Gemma2Config(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        layer_types=["full_attention"],
        attn_logit_softcapping=5.0,
    )
    check_compilable(config)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    session = CompiledSession(model, (1,), backend="eager")
    with pytest.raises(Unsupported, match="softcap"), torch.inference_mode():
        session.warm_up(8)
