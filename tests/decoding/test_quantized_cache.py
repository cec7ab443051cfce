"""The 8- and 4-bit cache against known blocks, against fresh prefills after rollbacks, and under every draft."""

from __future__ import annotations

import random

import gguf
import numpy as np
import pytest
import torch
import transformers

import tiny_models as tiny
from specq.core.errors import RunFailed, Unsupported
from specq.core.types import CACHE_BLOCK_BYTES, Sampling
from specq.decoding.drafters.chain import EarlyExitDrafter, ModelDrafter
from specq.decoding.drafters.lookup import LookupDrafter, NgramIndex
from specq.decoding.loop import decode
from specq.decoding.quantized_cache import FORMATS, QuantizedCache, QuantizedLayer, check_config, check_folder
from specq.decoding.ragged import RaggedSession
from specq.decoding.request import Request
from specq.decoding.session import Session

pytestmark = pytest.mark.usefixtures("one_thread")
KINDS = ("q8", "q4")
WIDE = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
"""Heads of 32 values: one block."""


class Quantized(Session):
    """A session on a quantized cache."""

    def __init__(self, model, kind, *, keep="window"):
        self.kind = kind
        super().__init__(model, keep=keep)

    def restart(self):
        self.cache = QuantizedCache(self.model.config, self.kind, windowed=self.keep == "window")
        self.cache.activate_past_recording()
        self.length = 0


def unpacked(kind, x):
    return FORMATS[kind].unpack(FORMATS[kind].pack(x), torch.float32)


def test_a_block_of_8_bits_has_other_codes_than_computed_by_hand():
    """d = 127 / 127 = 1; halves go to the even neighbour."""
    x = torch.zeros(32)
    x[:6] = torch.tensor([127.0, -127.0, 2.4, -2.6, 0.5, 1.5])
    packed = FORMATS["q8"].pack(x)
    assert packed.codes[:7].tolist() == [127, -127, 2, -3, 0, 2, 0]
    assert packed.scales.tolist() == [1.0]
    assert unpacked("q8", x)[:4].tolist() == [127.0, -127.0, 2.0, -3.0]


def test_a_block_of_4_bits_has_other_codes_than_computed_by_hand():
    """The value of largest magnitude is -4, so d = 0.5; it gets code 0, its opposite would need 16 and gets 15."""
    x = torch.zeros(32)
    x[:5] = torch.tensor([-4.0, 4.0, 0.2, 0.3, -1.3])
    x[16:18] = torch.tensor([1.0, 3.5])
    packed = FORMATS["q4"].pack(x)
    # Low half of a byte: value j; high half: value j + 16.
    assert packed.codes[:5].tolist() == [0 | 10 << 4, 15 | 15 << 4, 8 | 8 << 4, 9 | 8 << 4, 5 | 8 << 4]
    assert packed.scales.tolist() == [0.5]
    assert unpacked("q4", x)[:5].tolist() == [-4.0, 3.5, 0.0, 0.5, -1.5]


@pytest.mark.parametrize(("kind", "theirs"), [("q8", "Q8_0"), ("q4", "Q4_0")])
def test_bytes_differ_from_those_of_a_gguf_writer(kind, theirs):
    x = torch.randn(40, 96, generator=torch.Generator().manual_seed(3)) * 5
    x[0] = 0.0
    x[1, 40:] *= 1e-6
    raw = gguf.quants.quantize(x.numpy(), gguf.GGMLQuantizationType[theirs]).reshape(40, 3, -1)
    packed = FORMATS[kind].pack(x)
    assert np.array_equal(packed.scales.numpy().view(np.uint8).reshape(40, 3, 2), raw[..., :2])
    assert np.array_equal(packed.codes.numpy().view(np.uint8).reshape(40, 3, -1), raw[..., 2:])
    back = gguf.quants.dequantize(raw.reshape(40, -1), gguf.GGMLQuantizationType[theirs])
    assert np.array_equal(unpacked(kind, x).numpy(), back)
    assert raw.shape[-1] == CACHE_BLOCK_BYTES[kind]


def test_a_scale_beyond_float16_becomes_a_finite_lie():
    x = torch.full((32,), 1e9)
    assert not torch.isfinite(unpacked("q8", x)).all()
    assert not torch.isfinite(unpacked("q4", torch.full((32,), torch.nan))).any()


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_a_rollback_leaves_a_trace_in_the_packed_bytes(kind, window):
    """Random blocks, random parts refused, against a fresh layer that got only what was kept: bit for bit."""
    chance, draw = random.Random(1), torch.Generator().manual_seed(1)
    layer, fresh = QuantizedLayer(FORMATS[kind], window), QuantizedLayer(FORMATS[kind], window)
    layer.activate_past_recording()
    for _ in range(40):
        block = chance.randint(1, 6)
        keys, values = torch.randn(2, 1, 2, block, 64, generator=draw)
        before = layer.get_mask_sizes(block)
        read = layer.update(keys, values)
        assert before == (read[0].shape[-2], layer.get_seq_length() - read[0].shape[-2])
        kept = chance.randint(0, block)
        layer.crop(kept - block)
        fresh.update(keys[..., :kept, :], values[..., :kept, :])
        for mine, other in zip(layer.packed, fresh.packed, strict=True):
            assert torch.equal(mine.codes, other.codes)
            assert torch.equal(mine.scales, other.scales)
        assert layer.seen == fresh.seen
        if window is not None:
            assert layer.held == min(layer.seen, window - 1)


@pytest.mark.parametrize(("name", "keep"), [("llama", "window"), ("window", "window"), ("window", "everything")])
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_logits_after_rollbacks_differ_from_a_fresh_prefill(kind, name, keep):
    """In float64, where one pass and many give the same codes: a rounding apart cannot flip one."""
    model = tiny.make(name, **WIDE).double()
    chance = random.Random(2)
    session = Quantized(model, kind, keep=keep)
    text = [chance.randrange(tiny.V) for _ in range(10)]
    session.forward(text, last_only=True)
    session.rollback(0)
    for _ in range(12):
        block = [chance.randrange(tiny.V) for _ in range(chance.randint(1, 6))]
        got = session.forward(block)
        want = Quantized(model, kind, keep=keep).forward([*text, *block])[-len(block) :]
        assert torch.allclose(got, want, atol=1e-6)
        kept = chance.randint(0, len(block))
        session.rollback(len(block) - kept)
        text += block[:kept]
        assert session.length == session.cache.get_seq_length() == len(text)
    assert session.cache.quantized_share == 1.0
    # It is a quantized cache that was read: float ones give other logits.
    assert not torch.allclose(
        got, Session(model).forward([*text[: len(text) - kept], *block])[-len(block) :], atol=1e-3
    )


def greedy(session, drafter, k, tokenizer):
    sampling = Sampling(max_new_tokens=40, ignore_eos=True)
    request = Request(
        prompt=tiny.prompt("the cat and the cat and "),
        sampling=sampling,
        eos_ids=(),
        tokenizer=tokenizer,
        rule="greedy_draft",
    )
    decode(request, session, drafter, k)
    return request.new_ids


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draft", ["lookup", "model", "early_exit"])
def test_speculation_changes_the_greedy_text_of_a_quantized_cache(draft, kind):
    model, tokenizer = tiny.make("llama", **WIDE), tiny.tokenizer()
    plain = greedy(Quantized(model, kind), None, 0, tokenizer)
    session = Quantized(model, kind, keep="everything" if draft == "early_exit" else "window")
    if draft == "lookup":
        drafter = LookupDrafter(NgramIndex(3, 1))
    elif draft == "model":
        near = Quantized(tiny.make("llama", noise=0.05, **WIDE), kind, keep="everything")
        drafter = ModelDrafter(near, sampled=False, vocabulary=tiny.V)
    else:
        drafter = EarlyExitDrafter(session, 2, sampled=False)
    assert greedy(session, drafter, 3, tokenizer) == plain
    assert session.cache.quantized_share == 1.0


def test_a_crop_that_forgets_a_token_goes_unseen(monkeypatch):
    """The planted bug that the texts above must catch."""
    model, tokenizer = tiny.make("llama", **WIDE), tiny.tokenizer()
    plain = greedy(Quantized(model, "q8"), None, 0, tokenizer)
    honest = QuantizedLayer.crop
    monkeypatch.setattr(QuantizedLayer, "crop", lambda self, n: honest(self, min(0, n + 1)))
    drafter = ModelDrafter(
        Session(tiny.make("llama", noise=0.05, **WIDE), keep="everything"), sampled=False, vocabulary=tiny.V
    )
    session = Quantized(model, "q8")
    assert greedy(session, drafter, 3, tokenizer) != plain


@torch.inference_mode()
def test_states_that_are_handed_over_as_computed_count_as_quantized(monkeypatch):
    """The planted change: a pass reads its own keys and values before they are rounded."""
    honest = QuantizedLayer._unpacked
    states = {}

    def update(self, key_states, value_states, *args, **kwargs):
        states["now"] = key_states, value_states
        return real(self, key_states, value_states, *args, **kwargs)

    def unpacked(self, *dtypes):
        read = honest(self, *dtypes)
        pairs = zip(read, states["now"], strict=True)
        return tuple(torch.cat([got[..., : -own.shape[-2], :], own], dim=-2) for got, own in pairs)

    real = QuantizedLayer.update
    monkeypatch.setattr(QuantizedLayer, "update", update)
    monkeypatch.setattr(QuantizedLayer, "_unpacked", unpacked)
    session = Quantized(tiny.make("llama", **WIDE), "q8")
    session.forward(list(range(4, 14)))
    assert session.cache.quantized_share == 0.0
    session.rollback(0)
    session.forward([20, 21])
    # 10 tokens of 10 as computed, then 2 of 12.
    assert session.cache.quantized_share == 10 / 22


@pytest.mark.parametrize(("kind", "per_token"), [("q8", 272), ("q4", 144)])
@torch.inference_mode()
def test_a_token_takes_other_bytes_than_its_blocks(kind, per_token):
    """2 layers, keys and values, 2 heads of 32: 8 blocks a token, of 34 or 18 bytes."""
    model = tiny.make("llama", num_hidden_layers=2, **WIDE)
    session = Quantized(model, kind)
    session.forward(list(range(4, 20)))
    session.rollback(3)
    assert session.cache.bytes_held == 13 * per_token
    assert session.cache.bytes_held == 13 * 2 * 2 * 2 * CACHE_BLOCK_BYTES[kind]


@torch.inference_mode()
def test_rows_of_a_batch_read_each_other():
    model = tiny.make("llama", **WIDE).double()
    batch = RaggedSession(model)
    batch.restart(3)
    batch.cache = QuantizedCache(model.config, "q4", windowed=False)
    texts = [[5, 6, 7, 8], [9, 10], [11, 12, 13]]
    batch.forward(texts)
    batch.rollback([2, 0, 1])
    batch.select([0, 2])
    got = batch.forward([[20], [21, 22]])
    for rows, text, more in zip(got, (texts[0][:2], texts[2][:2]), ([20], [21, 22]), strict=True):
        alone = Quantized(model, "q4", keep="everything").forward([*text, *more])[-len(more) :]
        assert torch.allclose(rows, alone, atol=1e-6)


def test_a_window_is_rolled_back_further_than_it_kept():
    layer = QuantizedLayer(FORMATS["q8"], 4)
    layer.activate_past_recording()
    layer.update(*torch.zeros(2, 1, 1, 9, 32))
    layer.crop(0)
    with pytest.raises(RunFailed, match=r"a cache of 3 tokens \(window 4\) cannot be cropped by -1"):
        layer.crop(-1)
    with pytest.raises(RunFailed, match="give a negative count"):
        layer.crop(2)


def test_odd_heads_unknown_kinds_and_states_are_found_only_while_running(tmp_path):
    tiny.make("llama").config.save_pretrained(tmp_path)
    with pytest.raises(Unsupported, match=r"LlamaConfig has heads of 8 values, which its blocks of 32 do not divide"):
        check_folder(tmp_path, "q8")
    with pytest.raises(Unsupported, match=r'kv_cache = "q6", did you mean .* allowed is q8, q4'):
        check_config(tiny.make("llama", **WIDE).config, "q6")
    hybrid = transformers.Qwen3NextConfig(head_dim=64, num_hidden_layers=4)
    with pytest.raises(Unsupported, match=r"Qwen3NextConfig has layers that keep more than keys and values"):
        check_config(hybrid, "q8")
    latent = transformers.DeepseekV3Config(qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=120)
    with pytest.raises(Unsupported, match="heads of 192 and 120 values"):
        check_config(latent, "q8")
    with pytest.raises(Unsupported, match="MambaConfig has no attention heads"):
        check_config(transformers.MambaConfig(), "q8")
