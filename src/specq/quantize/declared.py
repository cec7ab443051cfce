"""How config.json says a folder's weights are quantized: compressed-tensors, MLX, gptq, awq or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.models import headers
from specq.models.layers import first
from specq.quantize.recipes import ROW
from specq.quantize.schemes import FIX, LINEAR, Declared, Scheme

COMPRESSED = (
    "pack-quantized",
    "int-quantized",
    "float-quantized",
    "naive-quantized",
    "nvfp4-pack-quantized",
    "mxfp4-pack-quantized",
    "mxfp8-quantized",
)
# What formats hold that other versions of compressed-tensors write.
_FOREIGN = {
    "sparse-bitmask": "sparse floats with a bitmask",
    "sparse-24-bitmask": "2:4 sparse floats with a bitmask",
    "marlin-24": "2:4 sparse integers in the order of the Marlin kernel",
    "dense": "floats that are rounded as they run",
    "mixed-precision": "formats that each group names for itself",
}
# These may stand above groups that have formats of their own, or none.
_OVER_ALL = ("mixed-precision", "dense")
_MLX_BITS = {"mxfp4": (4, 32), "nvfp4": (4, 16), "mxfp8": (8, 32)}
_MLX_MODES = ("affine", *_MLX_BITS)
# Versions of a layout that are read here, and the widths that they hold.
_LAYOUTS = {"gptq": ("gptq", "gptq_v2"), "awq": ("gemm",)}
_WIDTHS = {"gptq": (2, 3, 4, 8), "awq": (4,)}
ALLOWED = "allowed are compressed-tensors, gptq, awq, MLX folders and plain floats"
ANEW = "get the model in floats and type: specq quantize MODEL"
_LONGEST = 80


def is_quantized(folder: Path) -> bool:
    """Whether config.json says that the weights are quantized, in whatever format."""
    config = headers.read_json(folder / "config.json")
    return bool(config.get("quantization_config") or config.get("quantization"))


def declared(folder: Path, config: Mapping[str, Any]) -> Declared:
    """Read quantization_config (or MLX's quantization) of config.json.

    Raises:
        ModelError: it is broken, or of a kind that cannot be read here; names the kind.
    """
    file = f"{folder}/config.json"
    place = f"{file}: quantization_config"
    check_objects(folder, config)
    given = first(config, "quantization_config", "compression_config")
    mlx = config.get("quantization")
    if given is None and mlx is None:
        return Declared(format="", place=file)
    try:
        if mlx is not None and (given is None or "quant_method" not in given):
            return replace(_mlx(f"{file}: quantization", mlx), place=file)
        method = str(given.get("quant_method") or "no quant_method")
        if method == "compressed-tensors":
            return replace(_compressed(place, given), place=file)
        if method in _LAYOUTS:
            return replace(_autogptq(place, method, given), place=file)
        if "quant_method" not in given and {"bits", "group_size"} <= set(given):
            return replace(_mlx(place, given), place=file)
    except re.error as error:
        raise ModelError(f"{place} has a pattern that is no regular expression ({error}); {ALLOWED}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{place} is not readable ({type(error).__name__}: {error}); {ALLOWED}") from error
    raise ModelError(f"{place} has quant_method {method!r}, which cannot be read here; {ALLOWED}")


def check_objects(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse a config.json that speaks of quantization in anything but an object.

    Raises:
        ModelError: names the key and what it is.
    """
    for key in ("quantization_config", "compression_config", "quantization"):
        if (value := config.get(key)) is not None and not isinstance(value, dict):
            raise ModelError(f"{folder}/config.json: {key} is {_shown(value)}, expected an object; {ALLOWED}")


def _mlx(place: str, given: Mapping[str, Any]) -> Declared:
    def scheme(entry: Mapping[str, Any]) -> Scheme:
        mode = str(entry.get("mode") or given.get("mode") or "affine")
        if mode not in _MLX_MODES:
            raise ModelError(f"{place} has mode {mode!r}, which nothing here reads; allowed: {', '.join(_MLX_MODES)}")
        bits, group = _MLX_BITS.get(mode, (4, 64))
        bits = _whole(place, "bits", entry.get("bits"), bits)
        group = _whole(place, "group_size", entry.get("group_size"), given.get("group_size") or group)
        return Scheme(format=f"mlx {mode}", bits=bits, group_size=group, symmetric=mode != "affine")

    rules: list[tuple[str, Scheme | None]] = []
    for name, entry in given.items():
        if isinstance(entry, dict):
            rules.append((name, scheme(entry)))
        elif entry is False:
            rules.append((name, None))
    base = scheme(given)
    ignore = tuple(name for name, one in rules if one is None)
    return Declared(format=base.format, rules=(*rules, ("*", base)), ignore=ignore)


def _autogptq(place: str, method: str, given: Mapping[str, Any]) -> Declared:
    key = "version" if method == "awq" else "checkpoint_format"
    if "bits" not in given and "w_bit" not in given:
        other = "config_groups" in given
        raise ModelError(
            f"{place} has quant_method {_shown(method)} and no bits: allowed are {_allowed(_WIDTHS[method])}"
            + ('; config_groups belong to quant_method "compressed-tensors"' if other else "")
            + f": {FIX}"
        )
    layout = "marlin" if given.get("is_marlin_format") else str(given.get(key) or _LAYOUTS[method][0]).lower()
    if layout not in _LAYOUTS[method]:
        raise ModelError(
            f"{place} has {key} {layout!r}, and nothing here reads it; allowed: {', '.join(_LAYOUTS[method])}; {ANEW}"
        )

    def scheme(entry: Mapping[str, Any]) -> Scheme:
        told = {**given, **entry}
        bits = _whole(place, "bits", first(told, "bits", "w_bit"))
        group = _whole(place, "group_size", first(told, "group_size", "q_group_size"))
        if bits not in _WIDTHS[method]:
            raise ModelError(
                f"{place} has {bits}-bit {method} weights, which nothing here reads; "
                f"allowed: {_allowed(_WIDTHS[method])}"
            )
        return Scheme(
            format=method,
            bits=bits,
            group_size=ROW if group < 0 else group,
            symmetric=not told.get("zero_point", True) if method == "awq" else bool(told.get("sym", True)),
            act_order=bool(told.get("desc_act")),
            less_one=layout == "gptq",
        )

    kept = tuple(f"re:.*{re.escape(str(part))}" for part in given.get("modules_to_not_convert") or ())
    named: list[tuple[str, Scheme | None]] = []
    # GPTQModel's own settings for single layers: "-:" keeps what matches, "+:" or nothing before it changes it.
    for given_pattern, entry in (given.get("dynamic") or {}).items():
        pattern = given_pattern.removeprefix("-:").removeprefix("+:")
        re.compile(pattern)
        keeps = given_pattern.startswith("-:")
        kept = (*kept, f"re:{pattern}") if keeps else kept
        named.append((f"re:{pattern}", None if keeps else scheme(entry)))
    return Declared(format=method, rules=(*named, ("*", scheme({}))), ignore=kept)


def _compressed(place: str, given: Mapping[str, Any]) -> Declared:
    whole = given.get("format")
    if whole is not None and whole not in _OVER_ALL:
        _known(place, whole)
    sparse = (given.get("sparsity_config") or {}).get("format")
    if sparse not in (None, "dense"):
        _known(f"{place}.sparsity_config", sparse)
    named: list[tuple[str, Scheme | None]] = []
    classes: list[tuple[str, Scheme | None]] = []
    groups = given.get("config_groups")
    if not isinstance(groups, dict):
        raise ModelError(f"{place}.config_groups is {_shown(groups)}: allowed is an object of groups by name: {FIX}")
    for name, group in groups.items():
        here = f"{place}.config_groups.{name}"
        for key, value, kind, what in (
            ("", group, dict, "an object with targets and weights"),
            (".targets", group.get("targets") if isinstance(group, dict) else [], list, "a list of names or patterns"),
            (".weights", (isinstance(group, dict) and group.get("weights")) or {}, dict, "an object, or null"),
        ):
            if not isinstance(value, kind):
                raise ModelError(f"{here}{key} is {_shown(value)}: allowed is {what}: {FIX}")
        scheme = _compressed_scheme(here, group.get("format") or whole, group)
        for target in map(str, group["targets"]):
            if target == LINEAR:
                classes.append(("*", scheme))
            elif target == "Embedding":
                classes.insert(0, (r"re:.*(embed_tokens|wte)$", scheme))
            else:
                named.append((target, scheme))
    ignore = tuple(map(str, given.get("ignore") or ()))
    for pattern in (*(target for target, _ in named), *ignore):
        re.compile(pattern.removeprefix("re:"))
    # compressed-tensors orders them so (match_targets): names, then patterns by their letters, then classes.
    rules = (*sorted(named, key=lambda rule: (rule[0].startswith("re:"), rule[0])), *classes)
    return Declared(format=str(whole), rules=rules, ignore=ignore)


def _shown(value: Any) -> str:
    """A value as JSON writes it, cut to a line."""
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _allowed(widths: Iterable[int]) -> str:
    return ", ".join(map(str, widths))


def _whole(place: str, key: str, value: Any, default: int | None = None) -> int:
    """A whole number of the config; `default` stands for null."""
    value = default if value is None else value
    if type(value) is not int:
        raise ModelError(f"{place}: {key} is {_shown(value)}: allowed is a whole number: {FIX}")
    return value


def _known(place: str, kind: Any) -> str:
    """A format that is read here, by its name."""
    if kind not in COMPRESSED:
        what = _FOREIGN.get(str(kind), "unknown here")
        raise ModelError(
            f"{place} has the format {kind!r} ({what}), and nothing here reads it; allowed: {', '.join(COMPRESSED)}; "
            f"{ANEW}"
        )
    return str(kind)


def _compressed_scheme(place: str, kind: Any, group: Mapping[str, Any]) -> Scheme | None:
    weights = group.get("weights")
    if group.get("format") is not None or weights is not None:
        kind = _known(place, kind)
    if weights is None:
        return None
    if kind == "pack-quantized" and weights.get("type", "int") != "int":
        raise ModelError(f"{place} packs {weights['num_bits']}-bit {weights['type']} weights; allowed are integers")
    # Where no strategy is named, the group tells it: none is the whole tensor, -1 a row.
    given = weights.get("group_size")
    if given is not None:
        _whole(place, "weights.group_size", given)
    strategy = weights.get("strategy") or ("tensor" if given is None else "channel" if given < 0 else "group")
    block: tuple[int, int] | None = None
    if strategy in ("group", "tensor_group"):
        size: int | None = _whole(place, "weights.group_size", given)
    elif strategy == "channel":
        size = ROW
    elif strategy == "block":
        blocks = weights.get("block_structure")
        if (
            not isinstance(blocks, list)
            or len(blocks) != 2
            or not all(type(side) is int and side > 0 for side in blocks)
        ):
            raise ModelError(
                f"{place}: weights.block_structure is {_shown(blocks)}: allowed is a list of two whole numbers: {FIX}"
            )
        size, block = None, (blocks[0], blocks[1])
    else:
        size, block = None, (0, 0)
    return Scheme(
        format=kind,
        bits=_whole(place, "weights.num_bits", weights.get("num_bits")),
        group_size=size,
        symmetric=bool(weights.get("symmetric", True)),
        block=block,
        activations=group.get("input_activations") is not None,
        act_order=weights.get("actorder") not in (None, False, "static", "weight"),
    )
