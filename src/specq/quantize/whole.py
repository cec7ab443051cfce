"""Does a folder hold every tensor that its model needs, and what does it hold that nothing reads? By names alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from specq.core.errors import ModelError
from specq.models.layers import first
from specq.quantize.audit_rows import fold
from specq.quantize.contents import Contents, canonical, is_expert, is_head, module
from specq.quantize.schemes import FIX

AGAIN = "get the whole checkpoint"
_EXPERT = re.compile(r"\.(?:experts|switch_mlp)(?:\.|$)")
_ONE_EXPERT = re.compile(r"\.experts\.(\d+)\.(.+)$")
# A scale or a zero point of a layer, of its inputs or of the cache.
_BESIDE = re.compile(r"_(?:scale|scale_inv|zero_point|global_scale|g_idx|shape)$")
# The scales of a quantized cache lie at the attention, or at what gives the keys and values.
_CACHE = {"k_scale": ("k_scale", "k_proj.output_scale"), "v_scale": ("v_scale", "v_proj.output_scale")}
_MOST = 6


def check(found: Contents, model: Any) -> list[str]:
    """Refuse a folder that lacks a tensor of its model, and say what it holds beside these.

    `model` is the skeleton that config.json makes. Names on disk are turned into the model's as transformers turns
    them. Experts are counted by their numbers. Names of MLX folders may be others than the model's: there, nothing
    counts as missing while a tensor is left over that it could be.

    Raises:
        ModelError: names the first tensor that is missing.
    """
    wanted = {str(name): tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    read = _read(found, model, wanted)
    extra = [name for name in found.tensors if not read.get(name) and not _ignored(name, model)]
    _experts(found)
    _cache(found, model)
    tied = {str(name): str(other) for name, other in model.all_tied_weights_keys.items()}
    missing = list(_missing(found, model, wanted, set(read.values()), tied))
    if missing and not (extra and found.declared.format.startswith("mlx")):
        raise ModelError(
            f"{found.folder} lacks {len(missing)} of the tensors that config.json asks for (first: {missing[0]}): "
            f"other readers would make them up at random; {AGAIN}"
        )
    notes = []
    if extra:
        named = fold(extra)
        more = f" and {len(named) - _MOST} more" if len(named) > _MOST else ""
        notes.append(
            f"{len(extra)} tensors are stored that the model of config.json has no place for, so that nothing reads "
            f"them: {', '.join(named[:_MOST])}{more}"
        )
    return notes + list(_second_head(found))


def _read(found: Contents, model: Any, wanted: dict[str, tuple[int, ...]]) -> dict[str, str]:
    """For each tensor on disk the name of the model's that it is read as, or a part of; "" or none where it is not."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    mapping = get_model_conversion_mapping(model)
    renamed = [one for one in mapping if isinstance(one, WeightRenaming)]
    joined = [one for one in mapping if isinstance(one, WeightConverter)]
    prefix, read = model.base_model_prefix, {}
    for name in found.tensors:
        if (plain := _plain(found, name)) is None:
            continue
        spelled = [rename_source_key(plain, *how, prefix, wanted)[0] for how in ((renamed, joined), ([], []))]
        read[name] = next((one for one in spelled if one in wanted), "")
        if not read[name] and (_EXPERT.search(name) or _is_beside(found, name)):
            read[name] = plain
    return read


def _plain(found: Contents, name: str) -> str | None:
    """The name that a tensor would have in floats: packed weights, scales and zero points are their layer's weight.

    None for floats beside these.
    """
    owner = module(name)
    layer = found.layers.get(owner)
    if layer is None or layer.scheme is None or name.endswith(".bias"):
        return name
    return None if name.endswith(".weight") and layer.tensor != name else f"{owner}.weight"


def _is_beside(found: Contents, name: str) -> bool:
    if not found.declared.format or not _BESIDE.search(name):
        return False
    return not name.endswith(("k_scale", "v_scale")) or _quantized_cache(found) is not None


def _missing(
    found: Contents, model: Any, wanted: Collection[str], read: Collection[str], tied: Mapping[str, str]
) -> Iterator[str]:
    optional = tuple(model._keys_to_ignore_on_load_missing or ())
    experts = any(is_expert(layer) for layer in found.layers.values())
    for name in wanted:
        # Any of those that are one may be the one that is stored.
        same = (name, *(one for one, other in tied.items() if other == name))
        if name in tied or any(one in read for one in same) or any(re.search(one, name) for one in optional):
            continue
        # Those of other names are told of where they are read.
        if not (experts and _EXPERT.search(name)):
            yield name


def _ignored(name: str, model: Any) -> bool:
    """Whether transformers passes over a tensor on purpose: buffers of older versions, heads for further tokens."""
    patterns = (*(model._keys_to_ignore_on_load_unexpected or ()), r"rotary_emb\.inv_freq", r"(^|\.)position_ids$")
    return any(re.search(one, name) for one in patterns)


def _experts(found: Contents) -> None:
    """Refuse experts stored one by one of which some are missing.

    Raises:
        ModelError: names the first.
    """
    said = first(found.config, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
    held: dict[str, set[int]] = {}
    for name in found.layers:
        if at := _ONE_EXPERT.search(name):
            held.setdefault(canonical(name), set()).add(int(at[1]))
    for name, places in held.items():
        count = said if isinstance(said, int) else max(places) + 1
        if absent := sorted(set(range(count)) - places):
            raise ModelError(
                f"{found.folder} lacks {len(absent)} of the {count} experts of {name} that config.json asks for "
                f"(first: number {absent[0]}): {AGAIN}"
            )


def _quantized_cache(found: Contents) -> Mapping[str, Any] | None:
    given = found.config.get("quantization_config")
    scheme = given.get("kv_cache_scheme") if isinstance(given, dict) else None
    return scheme if isinstance(scheme, dict) else None


def _cache(found: Contents, model: Any) -> None:
    """Refuse a folder whose config.json says that keys and values are quantized, and that has no scale for them.

    Raises:
        ModelError: names the first that is missing.
    """
    scheme = _quantized_cache(found)
    if scheme is None or scheme.get("dynamic"):
        return
    missing = [
        f"{name}.{part}"
        for name, layer in model.named_modules()
        if type(layer).__name__.endswith("Attention")
        for part, spelled in _CACHE.items()
        if not any(f"{name}.{one}" in found.tensors for one in spelled)
    ]
    if missing:
        raise ModelError(
            f"{found.folder} lacks {len(missing)} of the scales that kv_cache_scheme of config.json asks for (first: "
            f"{missing[0]}): {FIX}, or {AGAIN}"
        )


def _second_head(found: Contents) -> Iterator[str]:
    """Tells of a head in floats that is stored although the embedding is the head, and whether it is the same."""
    heads = [name for name in found.tensors if is_head(module(name)) and name.endswith(".weight")]
    embeddings = found.of("embedding")
    if not (found.tied and found.config.get("tie_word_embeddings") is True and heads and embeddings):
        return
    same = embeddings[0].scheme is None and _equal(found, heads[0], embeddings[0].tensor)
    yield (
        f"config.json says that the head is the embedding, and {heads[0]} is stored beside it, "
        + ("with the same numbers" if same else "with OTHER numbers: readers differ in which of the two they take")
    )


def _equal(found: Contents, one: str, other: str) -> bool:
    import torch
    from safetensors import safe_open

    from specq.models import headers

    if found.tensors[one].shape != found.tensors[other].shape:
        return False
    tensors = []
    for name in (one, other):
        path = next(path for path in headers.weight_files(found.folder) if name in headers.read_header(path))
        with safe_open(path, "pt") as file:
            tensors.append(file.get_tensor(name))
    return torch.equal(*tensors)
