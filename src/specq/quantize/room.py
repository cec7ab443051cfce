"""What a source must be, and what must be free, before a model is quantized."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from specq.core.errors import DiskFull, ModelError
from specq.models import headers
from specq.quantize import contents, sizes
from specq.quantize.contents import Contents
from specq.quantize.layers import Layer, asked
from specq.quantize.recipes import Recipe
from specq.quantize.schemes import Scheme

# As config.json names what a method writes; the others write pack-quantized or mlx affine.
_FORMATS = {
    "w8a8": "int-quantized",
    "fp8": "float-quantized",
    "nvfp4": "nvfp4-pack-quantized",
    "mxfp4": "mxfp4-pack-quantized",
}
_WIDER = ("v_proj", "v_a_proj", "v_b_proj", "down_proj")
_PLACE = re.compile(r"\.(\d+)\.")
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
    """How many bytes of weight files a quantized folder should have: integers, scales, floats that stay, headers."""
    source = contents.read(folder)
    return sizes.predicted_bytes(source, schemes(recipe, layers, source))


def schemes(recipe: Recipe, layers: Sequence[Layer], source: Contents) -> dict[str, Scheme]:
    """How each layer that a recipe quantizes will be stored, by canonical name; `layers` are all of the source."""
    known = {contents.canonical(layer.name) for layer in source.layers.values()}
    places = [int(found[1]) for layer in layers if (found := _PLACE.search(layer.name))]
    chosen: dict[str, Scheme] = {}
    for layer in asked(recipe, layers):
        name = contents.canonical(layer.name)
        # Some files hold both halves of what all experts read in one tensor.
        name = name if name in known else name.replace(".experts.gate_proj", ".experts.gate_up_proj")
        # llmcompressor gives a head that is the embedding weights of its own, mlx-lm keeps the two one.
        if name in known or (layer.role == "head" and recipe.facts.tool == "llmcompressor"):
            chosen[name] = _scheme(recipe, layer.name, max(places, default=0) + 1)
    if recipe.embeddings == "quantize":
        chosen |= {contents.canonical(layer.name): _scheme(recipe, layer.name, 1) for layer in source.of("embedding")}
    return chosen


def _scheme(recipe: Recipe, name: str, blocks: int) -> Scheme:
    """How a method stores a layer of that name, in a model of so many decoder layers."""
    bits = recipe.bits
    if recipe.mix is not None and _is_wide(name, blocks):
        bits = int(recipe.mix.rpartition("_")[2])
    plain = "pack-quantized" if recipe.facts.tool == "llmcompressor" else "mlx affine"
    return Scheme(
        format=_FORMATS.get(recipe.method, plain),
        bits=bits,
        group_size=recipe.group_size,
        symmetric=recipe.symmetric,
        activations=recipe.method in _FORMATS,
    )


def _is_wide(name: str, blocks: int) -> bool:
    """Whether mlx-lm's mixtures give a layer the wider bits (mixed_quant_predicate_builder)."""
    place, eighth = _PLACE.search(name), blocks // 8
    at = int(place[1]) if place else 0
    outer = at < eighth or at >= 7 * blocks // 8 or (at - eighth) % 3 == 2
    return "lm_head" in name or (outer and any(part in name for part in _WIDER))


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
            "give --out on another disk (without --out: set SPECQ_CACHE to a folder there)"
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
        place = _PLACE.search(layer.name)
        blocks[layer.name[: place.end()] if place else layer.name] += layer.columns**2
    hessians = 4 * (max(blocks.values(), default=0) + 2 * widest**2)
    return _LIBRARIES + hessians + 12 * largest + 4 * tokens * widest * _COPIES.get(recipe.method, 3)
