"""compressed-tensors folders of tiny models, written with that library's own rounding and packing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file

import tiny_models as tiny

WIDE: dict[str, Any] = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}
SMALL: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}


def quantized_parts(weight: torch.Tensor, scheme: QuantizationScheme) -> dict[str, torch.Tensor]:
    """The tensors of one layer [N, K], rounded to nearest by compressed-tensors."""
    args = scheme.weights
    grouped = weight.view(len(weight), -1, args.group_size or weight.shape[1])
    scale, zero = calculate_qparams(grouped.amin(-1), grouped.amax(-1), args)
    state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero.to(torch.int8)}
    return PackedQuantizationCompressor.compress(state, scheme)


def write(
    folder: Path,
    *,
    bits: int,
    group: int = 0,
    symmetric: bool = True,
    dtype: torch.dtype = torch.bfloat16,
    kind: str = "llama",
    ignore: tuple[str, ...] = ("lm_head",),
    **sizes: Any,
) -> Path:
    """A tiny model whose linear layers are packed; `group` 0 is one scale a row."""
    model = tiny.make(kind, **{**(SMALL if group in (0, 32) else WIDE), **sizes}).to(dtype)
    args = QuantizationArgs(
        num_bits=bits, symmetric=symmetric, strategy="group" if group else "channel", group_size=group or None
    )
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    config = QuantizationConfig(
        config_groups={"group_0": scheme},
        ignore=list(ignore),
        format="pack-quantized",
        quantization_status="compressed",
    )
    tensors = {name: value.contiguous() for name, value in model.state_dict().items()}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name not in ignore:
            parts = quantized_parts(tensors.pop(f"{name}.weight"), scheme)
            tensors |= {f"{name}.{part}": value.contiguous() for part, value in parts.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    values = {
        **model.config.to_dict(),
        "quantization_config": config.to_dict(),
        "architectures": [type(model).__name__],
    }
    values["dtype"] = str(dtype).removeprefix("torch.")
    (folder / "config.json").write_text(json.dumps(values, default=str))
    tiny.tokenizer().save_pretrained(folder)
    return folder
