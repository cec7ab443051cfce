"""How config.json says a folder's weights are quantized: compressed-tensors, MLX, gptq, awq or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.quantize.recipes import ROW

COMPRESSED = (
    "pack-quantized",
    "int-quantized",
    "float-quantized",
    "naive-quantized",
    "nvfp4-pack-quantized",
    "mxfp4-pack-quantized",
    "mxfp8-quantized",
)
_MLX_BITS = {"mxfp4": (4, 32), "nvfp4": (4, 16), "mxfp8": (8, 32)}
ALLOWED = "allowed are compressed-tensors, gptq, awq, MLX folders and plain floats"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How one layer is stored. `group_size` 0 is one scale a row; None where scales have another shape.

    `block` gives rows and columns that share a scale, where blocks or the whole tensor ((0, 0)) do.
    """

    format: str
    bits: int
    group_size: int | None
    symmetric: bool
    block: tuple[int, int] | None = None
    activations: bool = False
    act_order: bool = False

    def words(self) -> str:
        """For example "4-bit, groups of 64, symmetric"."""
        group = {ROW: "one scale a row", None: "blocks"}.get(self.group_size, f"groups of {self.group_size}")
        return f"{self.bits}-bit, {group}, {'symmetric' if self.symmetric else 'asymmetric'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What config.json declares. `format` is "" for a plain folder.

    `rules` are (target, scheme) in order of precedence: "*" is every layer, "re:" a pattern, else a name;
    None means kept. `ignore` are patterns of layers that are kept.
    """

    format: str
    rules: tuple[tuple[str, Scheme | None], ...] = ()
    ignore: tuple[str, ...] = ()

    def rule(self, name: str) -> Scheme | None:
        """The scheme that the config gives this layer; None when it is kept or no rule speaks of it."""
        for target, scheme in self.rules:
            if target in ("*", name) or (target.startswith("re:") and re.match(target[3:], name)):
                return scheme
        return None

    def ignored_by(self, name: str) -> str | None:
        """The pattern of `ignore` that keeps this layer, or None."""
        return next((p for p in self.ignore if p == name or (p.startswith("re:") and re.match(p[3:], name))), None)

    def scheme(self, name: str) -> Scheme:
        """The scheme of a layer that is stored quantized.

        Raises:
            ModelError: the config does not say how it is stored.
        """
        found = self.rule(name)
        if found is None:
            raise ModelError(
                f"the layer {name} is stored quantized and config.json does not say how: expected a rule for it in "
                "quantization_config (compressed-tensors, gptq, awq) or quantization (MLX)"
            )
        return found


def declared(folder: Path, config: Mapping[str, Any]) -> Declared:
    """Read quantization_config (or MLX's quantization) of config.json.

    Raises:
        ModelError: it is broken, or of a kind that cannot be read here; names the kind.
    """
    place = f"{folder}/config.json: quantization_config"
    given = config.get("quantization_config")
    if given is None:
        given = config.get("compression_config")
    mlx = config.get("quantization")
    if given is None and mlx is None:
        return Declared(format="")
    try:
        if isinstance(mlx, dict) and (given is None or "quant_method" not in given):
            return _mlx(mlx)
        if not isinstance(given, dict):
            raise ModelError(f"{place} is a {type(given).__name__}, expected an object; {ALLOWED}")
        method = str(given.get("quant_method") or "no quant_method")
        if method == "compressed-tensors":
            return _compressed(place, given)
        if method in ("gptq", "awq"):
            return _autogptq(method, given)
        if "quant_method" not in given and {"bits", "group_size"} <= set(given):
            return _mlx(given)
    except (KeyError, TypeError, ValueError, AttributeError, re.error) as error:
        raise ModelError(f"{place} is not readable ({type(error).__name__}: {error}); {ALLOWED}") from error
    raise ModelError(f"{place} has quant_method {method!r}, which cannot be read here; {ALLOWED}")


def _mlx(given: Mapping[str, Any]) -> Declared:
    def scheme(entry: Mapping[str, Any]) -> Scheme:
        mode = str(entry.get("mode") or given.get("mode") or "affine")
        bits, group = _MLX_BITS.get(mode, (4, 64))
        bits, group = int(entry.get("bits") or bits), int(entry.get("group_size") or given.get("group_size") or group)
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


def _autogptq(method: str, given: Mapping[str, Any]) -> Declared:
    group = int(given["group_size"])
    symmetric = not given.get("zero_point", True) if method == "awq" else bool(given.get("sym", True))
    scheme = Scheme(
        format=method,
        bits=int(given.get("bits") or given["w_bit"]),
        group_size=ROW if group < 0 else group,
        symmetric=symmetric,
        act_order=bool(given.get("desc_act")),
    )
    kept = given.get("modules_to_not_convert") or ()
    return Declared(
        format=method, rules=(("*", scheme),), ignore=tuple(f"re:.*{re.escape(str(part))}" for part in kept)
    )


def _compressed(place: str, given: Mapping[str, Any]) -> Declared:
    whole = str(given.get("format"))
    named: list[tuple[str, Scheme | None]] = []
    classes: list[tuple[str, Scheme | None]] = []
    for group in given["config_groups"].values():
        scheme = _compressed_scheme(place, str(group.get("format") or whole), group)
        for target in map(str, group["targets"]):
            if target == "Linear":
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
    return Declared(format=whole, rules=rules, ignore=ignore)


def _compressed_scheme(place: str, kind: str, group: Mapping[str, Any]) -> Scheme | None:
    weights = group.get("weights")
    if weights is None:
        return None
    if kind not in COMPRESSED:
        raise ModelError(
            f"{place} has the format {kind!r}, which cannot be read here; allowed: {', '.join(COMPRESSED)}"
        )
    if kind == "pack-quantized" and weights.get("type", "int") != "int":
        raise ModelError(f"{place} packs {weights['num_bits']}-bit {weights['type']} weights; allowed are integers")
    # Where no strategy is named, the group tells it: none is the whole tensor, -1 a row.
    given = weights.get("group_size")
    strategy = weights.get("strategy") or ("tensor" if given is None else "channel" if given < 0 else "group")
    block: tuple[int, int] | None = None
    if strategy in ("group", "tensor_group"):
        size: int | None = int(weights["group_size"])
    elif strategy == "channel":
        size = ROW
    elif strategy == "block":
        rows, columns = weights["block_structure"]
        size, block = None, (int(rows), int(columns))
    else:
        size, block = None, (0, 0)
    return Scheme(
        format=kind,
        bits=int(weights["num_bits"]),
        group_size=size,
        symmetric=bool(weights.get("symmetric", True)),
        block=block,
        activations=group.get("input_activations") is not None,
        act_order=weights.get("actorder") not in (None, "static", "weight"),
    )
