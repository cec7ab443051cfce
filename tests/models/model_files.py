"""Tiny model folders, tokenizers and GGUF files for the tests of this package."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def write_folder(folder: Path, config: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]) -> Path:
    """A model folder with zero float32 weights of the given shapes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(config)))
    save_file({name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, folder / "model.safetensors")
    return folder


def llama_shapes(config: Mapping[str, Any] = LLAMA) -> dict[str, tuple[int, ...]]:
    h, i, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = h // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (v, h), "model.norm.weight": (h,)}
    for n in range(config["num_hidden_layers"]):
        at = f"model.layers.{n}."
        shapes |= {at + "self_attn.q_proj.weight": (h, h), at + "self_attn.k_proj.weight": (kv, h)}
        shapes |= {at + "self_attn.v_proj.weight": (kv, h), at + "self_attn.o_proj.weight": (h, h)}
        shapes |= {at + "mlp.gate_proj.weight": (i, h), at + "mlp.up_proj.weight": (i, h)}
        shapes |= {at + "mlp.down_proj.weight": (h, i)}
        shapes |= {at + "input_layernorm.weight": (h,), at + "post_attention_layernorm.weight": (h,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (v, h)
    return shapes


def llama_folder(folder: Path, **changes: Any) -> Path:
    config = {**LLAMA, **changes}
    return write_folder(folder, config, llama_shapes(config))


WORDS = ("<unk>", "<s>", "</s>", "<pad>", "hello", "world", "user", "assistant", "[", "]", "a", "b")


def word_tokenizer(words: Sequence[str] = WORDS, *, add_bos: bool = False, **special: str) -> Any:
    """A word-level tokenizer whose ids are the places of the words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", **special}
    if add_bos:
        inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, **{key: name for key, name in names.items() if name})


def write_gguf(path: Path, *, kind: str = "F32", add_bos: bool | None = None, drop: str = "", **changes: Any) -> Path:
    """A tiny Llama GGUF with a byte-level BPE tokenizer; linears in `kind`, `drop` names a tensor to leave out."""
    import gguf

    config = {**LLAMA, **changes}
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        "<turn>",
        *"abcdefghijklmnopqrstuvwxyz",
        "Ġ",
        "Ċ",
        "!",
        ".",
        "[",
        "]",
        "ab",
        "abc",
    ]
    tokens += [f"<extra{n}>" for n in range(config["vocab_size"] - len(tokens))]
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(config["num_attention_heads"])
    out.add_head_count_kv(config["num_key_value_heads"])
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_freq_base(10000.0)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("gpt2")
    out.add_token_list(tokens)
    out.add_token_types([3 if token.startswith("<") else 1 for token in tokens])
    out.add_token_merges(["a b", "ab c"])
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_chat_template(TEMPLATE)
    if add_bos is not None:
        out.add_add_bos_token(add_bos)
    if "eot_id" in changes:
        out.add_eot_token_id(changes["eot_id"])
    rng = np.random.default_rng(0)
    qtype = gguf.GGMLQuantizationType[kind]
    h, i, kv = config["hidden_size"], config["intermediate_size"], 16
    linears = {"attn_q": (h, h), "attn_k": (kv, h), "attn_v": (kv, h), "attn_output": (h, h)}
    linears |= {"ffn_gate": (i, h), "ffn_up": (i, h), "ffn_down": (h, i)}
    plain = {"token_embd.weight": (len(tokens), h), "output_norm.weight": (h,)}
    for n in range(config["num_hidden_layers"]):
        for name, shape in linears.items():
            if f"blk.{n}.{name}" != drop:
                values = rng.normal(size=shape).astype(np.float32) * 0.1
                out.add_tensor(f"blk.{n}.{name}.weight", gguf.quants.quantize(values, qtype), raw_dtype=qtype)
        plain |= {f"blk.{n}.attn_norm.weight": (h,), f"blk.{n}.ffn_norm.weight": (h,)}
    for name, shape in plain.items():
        out.add_tensor(name, rng.normal(size=shape).astype(np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path
