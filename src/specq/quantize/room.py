"""What a source must be, and what must be free, before a model is quantized; and what it took at its peak."""

from __future__ import annotations

import re
import resource
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from specq.core.errors import DiskFull, ModelError
from specq.models import headers
from specq.quantize.layers import Layer, asked
from specq.quantize.recipes import ROW, Recipe

_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
# torch, transformers and llmcompressor once they are imported.
_LIBRARIES = 700_000_000
# Scores and their sums that a method keeps while it works on one layer: copies of one layer's inputs.
_COPIES = {"awq": 8, "mlx-awq": 8}


def check_source(name: str, folder: Path) -> None:
    """Refuse a source that is quantized already, or whose weights are not all finite; reads every weight once.

    Raises:
        ModelError: names what was found.
    """
    refuse_quantized(name, folder)
    import torch
    from safetensors import safe_open

    for path in headers.weight_files(folder):
        with safe_open(path, framework="pt") as file:
            for tensor in file.keys():  # noqa: SIM118  the file is no mapping
                value = file.get_tensor(tensor)
                if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                    raise ModelError(
                        f"{name}: the tensor {tensor} has NaN or infinite weights, which no method can round: "
                        "get the checkpoint again, or give another one"
                    )


def refuse_quantized(name: str, folder: Path) -> None:
    """Refuse a folder whose config.json says that its weights are quantized.

    Raises:
        ModelError: says how they are.
    """
    config = headers.read_json(folder / "config.json")
    given = config.get("quantization_config") or config.get("quantization")
    if given:
        how = (
            given.get("quant_method") or given.get("mode") or "an unnamed method" if isinstance(given, dict) else given
        )
        raise ModelError(f"{name} is quantized already ({how}): give the model with its float weights")


def stored_bytes(recipe: Recipe, layers: Sequence[Layer], folder: Path) -> int:
    """About how many bytes of weights a quantized folder will hold: integers, scales and what stays in floats."""
    wanted = asked(recipe, layers)
    tensors = headers.tensors(folder)
    widths = Counter(info.dtype for info in tensors.values())
    width = _FLOATS.get(widths.most_common(1)[0][0], 2)
    group = [layer.columns if recipe.group_size == ROW else recipe.group_size for layer in wanted]
    scale = 16 if recipe.symmetric else 16 + recipe.bits
    packed = sum(
        layer.elements * recipe.bits + layer.elements // size * scale for layer, size in zip(wanted, group, strict=True)
    )
    # A tied head that is quantized comes on top: the embedding stays as it was.
    own = [layer for layer in wanted if layer.role != "head" or f"{layer.name}.weight" in tensors]
    kept = sum(info.size for info in tensors.values()) - width * sum(layer.elements for layer in own)
    return max(0, kept) + packed // 8


def check_room(recipe: Recipe, layers: Sequence[Layer], folder: Path, *, tokens: int, out: Path, name: str) -> None:
    """Check memory and disk from sizes: one copy of the weights, one layer's work, and the folder to be written.

    Raises:
        ModelError: too little memory is free. DiskFull: too little disk is.
    """
    import psutil

    need = sum(info.size for info in headers.tensors(folder).values()) + working_bytes(recipe, layers, tokens)
    free = psutil.virtual_memory().available
    if need > free:
        raise ModelError(
            f"{name} needs about {need / 1e9:.1f} GB of memory to be quantized by {recipe.method} and "
            f"{free / 1e9:.1f} GB are free: close other programs, take fewer or shorter texts (samples, tokens), "
            "or give a smaller model"
        )
    size = stored_bytes(recipe, layers, folder)
    disk = shutil.disk_usage(next(parent for parent in out.absolute().parents if parent.exists())).free
    if size > disk:
        raise DiskFull(
            f"{out} needs about {size / 1e6:.0f} MB and its disk has {disk / 1e6:.0f} MB free: free some space, or "
            "give --out on another disk"
        )


def working_bytes(recipe: Recipe, layers: Sequence[Layer], tokens: int) -> int:
    """About how many bytes a method works with beside the weights.

    The libraries; one decoder layer's Hessians (columns squared, float32, thrice while one is inverted) and one
    float32 copy of its largest weight; the activations of `tokens` tokens between two layers, float32.
    """
    wanted = asked(recipe, layers)
    widest = max((layer.columns for layer in wanted), default=0)
    largest = max((layer.elements for layer in wanted), default=0)
    if not recipe.facts.calibrates:
        return _LIBRARIES + 8 * largest
    blocks: Counter[str] = Counter()
    for layer in wanted:
        place = re.search(r"\.\d+\.", layer.name)
        blocks[layer.name[: place.end()] if place else layer.name] += layer.columns**2
    hessians = 4 * (max(blocks.values(), default=0) + 2 * widest**2)
    return _LIBRARIES + hessians + 12 * largest + 4 * tokens * widest * _COPIES.get(recipe.method, 3)


def peak_bytes() -> int:
    """The most resident memory that this process had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
