"""Experts of a mixture on disk: the names that a checkpoint gives them, and which folders can be put together again.

transformers keeps the experts of a layer as one tensor in memory. Some families store them one by one, and it joins
them as it loads (transformers.conversion_mapping); others store the joined tensor, and nothing joins what was
quantized one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError, Unsupported
from specq.models import headers
from specq.quantize.declared import declared
from specq.quantize.recipes import Recipe

PARTS = ("gate_proj", "up_proj", "down_proj")
_JOINED = {"gate_up_proj": PARTS[:2], "up_proj": PARTS[1:2], "down_proj": PARTS[2:]}
_ONE = re.compile(r"\.experts\.\*\.(\w+)\.weight$")
_STORED = re.compile(r"\.experts\.\d+\.(\w+)\.(weight_packed|weight_scale|qweight)$")
# Joined without their scales, or not at all (transformers' DecompressExperts): numbers of another model, or an error.
_LOST = ("int-quantized", "nvfp4-pack-quantized", "mxfp8-quantized")
_METHODS = ("rtn", "gptq", "awq", "fp8", "mxfp4")


def names(kind: str) -> dict[str, str]:
    """On disk, the name of each of an expert's parts in a family (model_type): {"gate_proj": "w1", ...}.

    Empty where the family stores all experts of a layer as one tensor, or has none.
    """
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping
    from transformers.core_model_loading import WeightConverter

    found: dict[str, str] = {}
    for one in get_checkpoint_conversion_mapping(kind) or ():
        if not isinstance(one, WeightConverter):
            continue
        parts = _JOINED.get(one.target_patterns[0].rpartition(".experts.")[2], ())
        stored = [match[1] for pattern in one.source_patterns if (match := _ONE.search(pattern))]
        if len(parts) == len(stored):
            found |= dict(zip(parts, stored, strict=True))
    return found


def check(recipe: Recipe, config: Mapping[str, Any]) -> None:
    """Refuse to quantize experts one by one where nothing could load the folder again; reads no weights.

    Raises:
        Unsupported: says which methods do.
    """
    kind, architecture = str(config.get("model_type")), config["architectures"][0]
    others = "allowed is an mlx-* method where mlx-lm has the model, or a model without experts"
    if not names(kind):
        raise Unsupported(
            f'method = "{recipe.method}" would store the experts of {architecture} one by one, and transformers knows '
            f"them as one tensor only, so nothing here could load the folder: {others}"
        )
    if recipe.method not in _METHODS:
        raise Unsupported(
            f'method = "{recipe.method}" stores the experts of {architecture} in a format that transformers cannot '
            f"put together again, so nothing here could load the folder: allowed is {', '.join(_METHODS)}"
        )


def check_folder(folder: Path) -> None:
    """Refuse a quantized folder whose experts transformers cannot put together; reads headers, no weights.

    Raises:
        ModelError: says how they are stored, and what to do.
    """
    config = headers.read_json(folder / "config.json")
    stored = {name: match for name in headers.tensors(folder) if (match := _STORED.search(name))}
    if not stored or config.get("quantization"):
        return
    kind = str(config.get("model_type"))
    known = names(kind)
    advice = "quantize its source anew with specq quantize, or serve it with an engine that reads it, such as vLLM"
    first, match = next(iter(stored.items()))
    if not known:
        raise ModelError(
            f"{folder} stores its experts one by one (first: {first}), and transformers knows those of a {kind} model "
            f"as one tensor only: {advice}"
        )
    if other := next((name for name, one in stored.items() if one[1] not in known.values()), None):
        raise ModelError(
            f"{folder} names its experts otherwise than transformers reads them (first: {other}; a {kind} model has "
            f"{', '.join(sorted(known.values()))}): {advice}"
        )
    form = declared(folder, config).scheme(first.removesuffix(f".{match[2]}")).format
    if form in _LOST:
        raise ModelError(f"{folder} holds experts as {form}, which transformers cannot put together again: {advice}")


def keep_names(model: Any) -> None:
    """Let a model whose experts were taken apart be saved under the names that its family has on disk."""
    from transformers.core_model_loading import WeightConverter, WeightRenaming

    found = names(model.config.model_type)
    kept = [one for one in getattr(model, "_weight_conversions", None) or () if not isinstance(one, WeightConverter)]
    # Saving reads them backwards.
    model._weight_conversions = kept + [
        WeightRenaming(rf"\.experts\.(\d+)\.{stored}\.", rf".experts.\1.{part}.") for part, stored in found.items()
    ]
