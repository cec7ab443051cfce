from __future__ import annotations

import json

import pytest
from model_files import LLAMA, TEMPLATE, llama_folder, llama_shapes, write_folder

from specq.core import hashes
from specq.core.errors import ModelError
from specq.models import layers
from specq.models.facts import facts
from specq.models.refs import resolve

EMBEDDING = 40 * 32
LAYER = 32 * 32 * 2 + 16 * 32 * 2 + 3 * 64 * 32 + 2 * 32
BODY = 2 * LAYER + 32


def _facts(folder):
    return facts(resolve(str(folder)))


def test_llama_sizes_are_counted_by_hand(tmp_path):
    f = _facts(llama_folder(tmp_path / "m"))
    assert (f.architecture, f.layers, f.hidden, f.heads, f.kv_heads, f.head_dim) == ("LlamaForCausalLM", 2, 32, 4, 2, 8)
    assert (f.vocab, f.context, f.dtype, f.tied) == (40, 128, "float32", False)
    assert f.parameters == BODY + 2 * EMBEDDING
    assert f.weight_bytes == 4 * f.parameters
    assert f.cache_bytes_per_token("bfloat16") == 2 * 2 * 2 * 8 * 2
    assert f.layer_kinds == ("attention", "attention")
    assert f.sliding_window is None


def test_untied_input_embedding_is_not_read_a_token_and_the_head_is(tmp_path):
    f = _facts(llama_folder(tmp_path / "m"))
    assert f.bytes_per_token("bfloat16") == 2 * (BODY + EMBEDDING)
    assert f.bytes_per_token() == 4 * (BODY + EMBEDDING)


def test_tied_embedding_is_read_once(tmp_path):
    f = _facts(llama_folder(tmp_path / "m", tie_word_embeddings=True))
    assert f.tied
    assert f.parameters == BODY + EMBEDDING
    assert f.bytes_per_token("bfloat16") == 2 * (BODY + EMBEDDING)


def test_second_copy_of_a_tied_head_is_not_counted_twice(tmp_path):
    config = {**LLAMA, "tie_word_embeddings": True}
    folder = write_folder(tmp_path / "m", config, {**llama_shapes(config), "lm_head.weight": (40, 32)})
    f = _facts(folder)
    assert f.parameters == BODY + EMBEDDING
    assert f.weight_bytes == 4 * (BODY + 2 * EMBEDDING)
    assert f.bytes_per_token("float32") == 4 * (BODY + EMBEDDING)


def test_gpt2_names_are_understood_and_its_masks_are_no_weights(tmp_path):
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2}
    config |= {"vocab_size": 10, "n_positions": 16, "eos_token_id": 9}
    shapes = {"wte.weight": (10, 8), "wpe.weight": (16, 8), "h.0.attn.c_attn.weight": (8, 24)}
    shapes |= {"h.0.attn.c_attn.bias": (24,), "h.0.attn.bias": (1, 1, 16, 16), "h.0.attn.masked_bias": ()}
    f = _facts(write_folder(tmp_path / "m", config, shapes))
    assert (f.layers, f.hidden, f.heads, f.kv_heads, f.head_dim, f.context) == (1, 8, 2, 2, 4, 16)
    assert f.tied
    assert f.parameters == 80 + 128 + 192 + 24
    assert f.bytes_per_token("float32") == 4 * (80 + 192 + 24)
    assert f.eos_ids == (9,)


def test_only_the_active_experts_are_read(tmp_path):
    config = {**LLAMA, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral"}
    config |= {"num_local_experts": 8, "num_experts_per_tok": 2}
    shapes = {"model.embed_tokens.weight": (40, 32), "lm_head.weight": (40, 32)}
    shapes |= {f"model.layers.0.block_sparse_moe.experts.{n}.w1.weight": (64, 32) for n in range(8)}
    shapes["model.layers.0.block_sparse_moe.gate.weight"] = (8, 32)
    f = _facts(write_folder(tmp_path / "m", config, shapes))
    assert f.parameters == 2 * EMBEDDING + 8 * 64 * 32 + 8 * 32
    assert f.bytes_per_token("bfloat16") == 2 * (EMBEDDING + 2 * 64 * 32 + 8 * 32)
    assert any("2 of 8 experts" in note for note in f.notes)


def test_sliding_window_is_noted(tmp_path):
    f = _facts(
        llama_folder(tmp_path / "m", model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=16)
    )
    assert f.sliding_window == 16
    assert f.layer_kinds == ("sliding", "sliding")
    assert "2 of 2 layers see a window of 16 tokens" in f.notes


def test_recurrent_layers_keep_no_growing_cache_and_say_they_cannot_roll_back(tmp_path):
    changes = {"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"]}
    f = _facts(llama_folder(tmp_path / "m", layer_types=["linear_attention", "full_attention"], **changes))
    assert f.layer_kinds == ("linear", "attention")
    assert f.cache_bytes_per_token("bfloat16") == 2 * 2 * 8 * 2
    assert any("cannot be rolled back" in note for note in f.notes)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "qwen3_next"}, ["linear"] * 3 + ["attention"]),
        ({"model_type": "x", "full_attention_interval": 2}, ["linear", "attention"] * 2),
        ({"model_type": "mamba"}, ["recurrent"] * 4),
        (
            {"model_type": "jamba", "attn_layer_period": 4, "attn_layer_offset": 1},
            ["recurrent", "attention"] + ["recurrent"] * 2,
        ),
        ({"model_type": "bamba", "attn_layer_indices": [3]}, ["recurrent"] * 3 + ["attention"]),
        ({"model_type": "recurrent_gemma", "block_types": ["recurrent", "attention"]}, ["recurrent", "attention"] * 2),
        ({"model_type": "qwen2", "sliding_window": 9, "use_sliding_window": False}, ["attention"] * 4),
        (
            {"model_type": "qwen2", "sliding_window": 9, "use_sliding_window": True, "max_window_layers": 3},
            ["attention"] * 3 + ["sliding"],
        ),
        ({"model_type": "gemma2", "sliding_window": 9}, ["sliding", "attention"] * 2),
        ({"model_type": "mistral", "sliding_window": None}, ["attention"] * 4),
        ({"model_type": "phi3", "sliding_window": 9}, ["sliding"] * 4),
    ],
)
def test_layer_kinds_of_each_family(config, expected):
    assert list(layers.kinds({"num_hidden_layers": 4, **config})) == expected


def test_window_that_no_layer_uses_is_none():
    config = {"num_hidden_layers": 2, "model_type": "qwen2", "sliding_window": 9, "use_sliding_window": False}
    assert layers.window(config) is None


def test_generation_config_decides_where_it_stops_and_a_difference_is_said(tmp_path):
    folder = llama_folder(tmp_path / "m")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 8], "bos_token_id": 3}))
    f = _facts(folder)
    assert f.eos_ids == (7, 8)
    assert f.bos_id == 3
    assert any("stops at [7, 8], config.json at [2]" in note for note in f.notes)


def test_eos_id_zero_is_an_eos(tmp_path):
    assert _facts(llama_folder(tmp_path / "m", eos_token_id=0)).eos_ids == (0,)


def test_sampling_defaults_of_the_model_are_reported_and_neutral_ones_are_not(tmp_path):
    folder = llama_folder(tmp_path / "m")
    given = {
        "do_sample": True,
        "temperature": 0.6,
        "top_p": 1.0,
        "top_k": 20,
        "repetition_penalty": 1.0,
        "max_length": 9,
    }
    (folder / "generation_config.json").write_text(json.dumps(given))
    assert _facts(folder).generation_defaults == {"do_sample": True, "temperature": 0.6, "top_k": 20}


@pytest.mark.parametrize("place", ["jinja", "config", "list"])
def test_chat_template_is_found_wherever_it_lies(tmp_path, place):
    folder = llama_folder(tmp_path / "m")
    if place == "jinja":
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    else:
        value = (
            TEMPLATE
            if place == "config"
            else [{"name": "tool", "template": "x"}, {"name": "default", "template": TEMPLATE}]
        )
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))
    f = _facts(folder)
    assert f.has_chat_template
    assert f.template_sha256 == hashes.of_bytes(TEMPLATE.encode())


def test_bos_policy_comes_from_the_files(tmp_path):
    folder = llama_folder(tmp_path / "m")
    assert _facts(folder).adds_bos is None
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": True}))
    assert _facts(folder).adds_bos is True
    single = [{"Sequence": {"id": "A", "type_id": 0}}]
    processor = {
        "type": "Sequence",
        "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": single}],
    }
    (folder / "tokenizer.json").write_text(json.dumps({"post_processor": processor}))
    assert _facts(folder).adds_bos is False


def test_weights_hash_is_not_computed_twice_and_follows_a_change(tmp_path, monkeypatch):
    folder = llama_folder(tmp_path / "m")
    f = _facts(folder)
    before = f.weights_sha256
    weights = folder / "model.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(hashes, "of_file", lambda path: pytest.fail("hashed again"))
        assert f.weights_sha256 == before
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert f.weights_sha256 != before


def test_weights_hash_works_without_a_cache_that_can_be_written(tmp_path, monkeypatch):
    folder = llama_folder(tmp_path / "m")
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SPECQ_CACHE", str(blocked))
    assert len(_facts(folder).weights_sha256) == 64


def test_unknown_dtype_is_refused(tmp_path):
    with pytest.raises(ModelError, match="allowed is float32"):
        _facts(llama_folder(tmp_path / "m")).bytes_per_token("int3")


def test_facts_of_a_real_class_agree_with_transformers(tmp_path):
    from transformers import AutoModelForCausalLM, Qwen2Config

    config = Qwen2Config(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=50,
        tie_word_embeddings=True,
    )
    model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(tmp_path / "m")
    f = _facts(tmp_path / "m")
    assert f.parameters == sum(p.numel() for p in model.parameters())
    assert f.tied
    assert f.layer_kinds == ("attention", "attention")


@pytest.mark.parametrize("wrong", [-1, 0, "four", 2.5, True])
@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size"])
def test_an_impossible_size_ends_in_a_traceback(tmp_path, key, wrong):
    folder = llama_folder(tmp_path / "m")
    (folder / "config.json").write_text(json.dumps({**LLAMA, key: wrong}))
    with pytest.raises(ModelError, match=rf"config\.json: {key} = .*: allowed is a whole number above 0"):
        _facts(folder)


def test_a_short_convolution_is_said_to_keep_a_recurrent_state(tmp_path):
    folder = llama_folder(tmp_path / "m", layer_types=["conv", "full_attention"])
    f = _facts(folder)
    assert f.layer_kinds == ("conv", "attention")
    assert f.cache_elements == 2 * 2 * 8
    assert not any("rolled back" in note for note in f.notes)
    assert "1 of 2 layers are short convolutions, which keep a few tokens each" in f.notes


def test_attention_of_a_new_name_is_called_a_recurrent_state():
    config = {"num_hidden_layers": 3, "layer_types": ["latent_attention", "hybrid_sliding", "mamba"]}
    assert layers.kinds(config) == ("attention", "sliding", "recurrent")
