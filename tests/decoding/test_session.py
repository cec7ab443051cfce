"""A session against whole passes without a cache, and the view of the first layers."""

from __future__ import annotations

import random

import accelerate
import pytest
import torch
import transformers

import tiny_models as tiny
from specq.core.errors import Unsupported
from specq.decoding.runnable import check_class
from specq.decoding.session import Session, shallow

pytestmark = pytest.mark.usefixtures("one_thread")
KINDS = (*tiny.DENSE, "window")


def fresh(model, ids):
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


@pytest.mark.parametrize("keep", ["window", "everything"])
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_cached_logits_differ_from_uncached_ones_after_rollbacks(kind, keep):
    """Blocks of random lengths, random parts of them refused, past the window: every row is compared."""
    model, chance = tiny.make(kind), random.Random(2)
    session = Session(model, keep=keep)
    text = [chance.randrange(tiny.V) for _ in range(10)]
    assert torch.allclose(session.forward(text, last_only=True)[-1], fresh(model, text)[-1], atol=1e-4)
    session.rollback(0)
    for _ in range(30):
        block = [chance.randrange(tiny.V) for _ in range(chance.randint(1, 6))]
        got = session.forward(block)
        assert torch.allclose(got, fresh(model, [*text, *block])[-len(block) :], atol=1e-4)
        kept = chance.randint(0, len(block))
        session.rollback(len(block) - kept)
        text += block[:kept]
        assert session.length == session.cache.get_seq_length() == len(text)
        if len(text) > 100:
            break


@torch.inference_mode()
def test_several_forwards_before_one_rollback_lose_the_window():
    """What a draft does: token by token, then several tokens back at once."""
    model, chance = tiny.make("window"), random.Random(4)
    session = Session(model, keep="everything")
    text = [chance.randrange(tiny.V) for _ in range(12)]
    session.forward(text)
    for _ in range(12):
        for _ in range(5):
            session.forward([chance.randrange(tiny.V)])
        session.rollback(5)
        token = chance.randrange(tiny.V)
        text.append(token)
        assert torch.allclose(session.forward([token])[-1], fresh(model, text)[-1], atol=1e-4)


@torch.inference_mode()
def test_restart_keeps_a_token():
    model = tiny.make("llama")
    session = Session(model)
    session.forward([5, 6, 7])
    session.rollback(0)
    session.restart()
    assert session.length == 0
    assert torch.allclose(session.forward([8, 9]), fresh(model, [8, 9]), atol=1e-4)


@torch.inference_mode()
def test_a_token_beyond_the_rows_of_a_draft_crashes_it():
    session = Session(tiny.make("llama"))
    assert torch.equal(session.forward([4, tiny.V + 9])[-1], Session(session.model).forward([4, tiny.V - 1])[-1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2])
@torch.inference_mode()
def test_the_view_is_not_the_first_layers_with_norm_and_head(kind, layers):
    model = tiny.make(kind)
    inner = model.transformer if kind == "gpt2" else model.model
    states = model(input_ids=torch.tensor([[5, 9, 7]]), output_hidden_states=True, use_cache=False).hidden_states
    norm = inner.ln_f if kind == "gpt2" else inner.norm
    want = model.lm_head(norm(states[layers]))[0]
    view = shallow(model, layers)
    assert torch.allclose(fresh(view, [5, 9, 7]), want, atol=1e-5)
    assert {p.data_ptr() for p in view.parameters()} <= {p.data_ptr() for p in model.parameters()}
    assert model.config.num_hidden_layers == tiny.LAYERS
    assert view.config.num_hidden_layers == layers


def test_a_model_without_one_list_of_layers_is_cut_anyway():
    model = tiny.make("llama")
    model.model.twin = torch.nn.ModuleList(torch.nn.Identity() for _ in range(tiny.LAYERS))
    with pytest.raises(Unsupported, match=r"LlamaForCausalLM has 2 lists of 3 layers, expected one; use a draft of"):
        shallow(model, 1)


@pytest.mark.parametrize(
    "config",
    [
        transformers.RwkvConfig(vocab_size=16, hidden_size=16, num_hidden_layers=2, attention_hidden_size=16),
        transformers.MambaConfig(vocab_size=16, hidden_size=16, num_hidden_layers=2),
    ],
    ids=["rwkv", "mamba"],
)
def test_a_model_without_a_key_value_cache_forgets_its_context_or_is_rolled_back(config, tmp_path):
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    text, more = [3, 5, 7, 11], [2, 9, 4]
    one_by_one = Session(model, keep="nothing")
    with torch.inference_mode():
        one_by_one.forward(text, last_only=True)
        got = torch.cat([one_by_one.forward([token]) for token in more])
        whole = model(input_ids=torch.tensor([[*text, *more]])).logits[0, len(text) :]
    assert torch.allclose(got, whole, atol=1e-5)
    config.save_pretrained(tmp_path)
    check_class(tmp_path, "sdpa")
    with pytest.raises(Unsupported, match=rf"{type(model).__name__} keeps no key-value cache"):
        Session(model)


def test_a_session_that_keeps_nothing_is_rolled_back():
    session = Session(tiny.make("window"), keep="nothing")
    session.forward([4, 5, 6])
    session.rollback(0)
    assert session.length == 3
    with pytest.raises(ValueError, match="keeps nothing for it"):
        session.rollback(1)


def test_a_model_without_memory_between_passes_is_run(tmp_path):
    config = transformers.OpenAIGPTConfig(vocab_size=16, n_embd=16, n_layer=1, n_head=2)
    config.save_pretrained(tmp_path)
    with pytest.raises(Unsupported, match="OpenAIGPTLMHeadModel keeps no key-value cache"):
        check_class(tmp_path)


def test_accelerate_hooks_make_an_early_exit_run_the_whole_model():
    model = tiny.make("llama")
    ids = torch.tensor([[1, 2, 3]])
    want = shallow(model, 1)(input_ids=ids).logits
    hooked = accelerate.dispatch_model(tiny.make("llama"), {"": "cpu"}, force_hooks=True)
    assert torch.equal(shallow(hooked, 1)(input_ids=ids).logits, want)
    assert not torch.equal(hooked(input_ids=ids).logits, want)
