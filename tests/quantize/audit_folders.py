"""Tiny quantized folders of every format that the audit reads, written by the tools that own the formats."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import older_folders
import torch
import transformers
from safetensors.torch import load_file, save_file

import tiny_models

SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
# Preset, group (0: one scale a row, None: the preset's own) and ignored layers.
PRESETS: dict[str, tuple[str, int | None, tuple[str, ...]]] = {
    "w4": ("W4A16", 32, ("lm_head",)),
    "w4-asym": ("W4A16_ASYM", 32, ("lm_head",)),
    "w3": ("W3A16", 32, ("lm_head",)),
    "w8": ("W8A16", 0, ("lm_head",)),
    "w8-groups": ("W8A16", 32, ("lm_head",)),
    "w8a8": ("W8A8", None, ("lm_head",)),
    "fp8": ("FP8_DYNAMIC", None, ("lm_head",)),
    "nvfp4": ("NVFP4A16", None, ("lm_head",)),
    "mxfp4": ("MXFP4A16", None, ("lm_head",)),
    "head": ("W4A16", 32, ()),
    "ignored": ("W4A16", 32, ("lm_head", "re:.*down_proj")),
}
MLX: dict[str, dict[str, Any]] = {
    "mlx": {"q_bits": 4, "q_group_size": 32, "keep": True},
    "mlx-embeddings": {"q_bits": 4, "q_group_size": 32, "keep": False},
    "mlx-g128": {"q_bits": 4, "q_group_size": 128, "keep": True},
    "mlx-mixed": {"q_bits": 4, "q_group_size": 32, "quant_predicate": "mixed_2_6"},
    "mlx-mxfp4": {"q_bits": 4, "q_group_size": 32, "q_mode": "mxfp4", "keep": True},
}


def source(folder: Path) -> Path:
    """A tied bfloat16 Llama with a chat template."""
    tiny_models.save(folder, tiny_models.make("llama", tie_word_embeddings=True, **SIZES), dtype=torch.bfloat16)
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return folder


def compressed(plain: Path, out: Path, name: str) -> Path:
    """The source through llmcompressor, rounded to nearest."""
    from compressed_tensors.quantization import preset_name_to_scheme
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from transformers import AutoModelForCausalLM, AutoTokenizer

    preset, group, ignore = PRESETS[name]
    scheme = preset_name_to_scheme(preset, ["Linear"])
    if group is not None:
        scheme.weights.group_size = group or None
        scheme.weights.strategy = "group" if group else "channel"
    oneshot(
        model=AutoModelForCausalLM.from_pretrained(plain, dtype=torch.bfloat16),
        processor=AutoTokenizer.from_pretrained(plain),
        recipe=[QuantizationModifier(config_groups={"group_0": scheme}, ignore=list(ignore))],
        output_dir=str(out),
    )
    return out


def mlx(plain: Path, out: Path, name: str) -> Path:
    """The source through mlx-lm, rounded to nearest."""
    from mlx_lm import convert

    how = dict(MLX[name])
    if how.pop("keep", False):
        how["quant_predicate"] = lambda path, module: not path.endswith(("embed_tokens", "lm_head"))
    convert(str(plain), mlx_path=str(out), quantize=True, **how)
    return out


def changed(
    folder: Path,
    out: Path,
    *,
    tensors: Callable[[dict[str, torch.Tensor]], None] | None = None,
    config: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """A copy of a folder with some tensors or settings changed in place."""
    shutil.copytree(folder, out)
    if tensors is not None:
        (path,) = out.glob("*.safetensors")
        held = load_file(path)
        tensors(held)
        save_file(held, path, metadata={"format": "pt"})
    if config is not None:
        edit(out / "config.json", config)
    return out


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a JSON file in place."""
    values = json.loads(path.read_text(encoding="utf-8"))
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")


def older(plain: Path, out: Path, method: str, *, bits: int = 4, group: int = 32, **how: Any) -> Path:
    """The source as a gptq or awq folder, rounded to nearest; `how` goes to older_folders.

    "shuffled": columns are grouped in an order of their own; "version" 2: zero points are stored as they are.
    """
    symmetric, version = bool(how.get("symmetric", method == "gptq")), int(how.get("version", 1))

    def pack(held: dict[str, torch.Tensor]) -> None:
        for name in [name for name in held if name.endswith("proj.weight")]:
            weight = held.pop(name)
            order = None
            if how.get("shuffled"):
                order = np.random.default_rng(0).permutation(np.arange(weight.shape[1]) // group)
            layer = older_folders.rounded(weight, bits, group, symmetric=symmetric, order=order)
            made = older_folders.gptq(layer, bits, version=version) if method == "gptq" else older_folders.awq(layer)
            held |= {name.replace("weight", part): value.contiguous() for part, value in made.items()}

    told: dict[str, Any] = {"quant_method": method, "bits": bits, "group_size": group}
    told |= {"zero_point": not symmetric, "version": "gemm"} if method == "awq" else {"sym": symmetric}
    told |= {"desc_act": bool(how.get("shuffled"))} if method == "gptq" else {}
    told |= {"checkpoint_format": "gptq_v2"} if version == 2 else {}
    return changed(plain, out, tensors=pack, config=lambda values: values.update(quantization_config=told))


def mixture(folder: Path) -> Path:
    """A plain Mixtral of one layer and four experts."""
    sizes = {**tiny_models._ROPE, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
    config = transformers.MixtralConfig(**sizes, num_local_experts=4, num_experts_per_tok=2)
    torch.manual_seed(0)
    return tiny_models.save(folder, transformers.AutoModelForCausalLM.from_config(config))
