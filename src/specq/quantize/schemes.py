"""How the layers of a folder are stored, as data: each layer's scheme, and what config.json declares of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specq.core.errors import ModelError
from specq.quantize.recipes import ROW

PACKED = ("pack-quantized", "gptq", "awq")
"""Formats of integers that are read here; packed kernels run them where they can."""
FIX = "get the config.json that belongs to the weights"
LINEAR = "Linear"
"""The class that stands for every linear layer in the lists of compressed-tensors."""
OLDER = ("gptq", "awq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How one layer is stored. `group_size` 0 is one scale a row; None where scales have another shape.

    `block` gives rows and columns that share a scale, where blocks or the whole tensor ((0, 0)) do. `act_order`:
    an index says which group each column belongs to. `less_one`: zero points are stored minus one.
    """

    format: str
    bits: int
    group_size: int | None
    symmetric: bool
    block: tuple[int, int] | None = None
    activations: bool = False
    act_order: bool = False
    less_one: bool = False

    def words(self) -> str:
        """For example "4-bit, groups of 64, symmetric"."""
        group = {ROW: "one scale a row", None: "blocks"}.get(self.group_size, f"groups of {self.group_size}")
        return f"{self.bits}-bit, {group}, {'symmetric' if self.symmetric else 'asymmetric'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What config.json declares. `format` is "" for a plain folder.

    `rules` are (target, scheme) in order of precedence: "*" is every layer, "re:" a pattern, else a name;
    None means kept. `ignore` are patterns of layers that are kept. `place` is the file, for errors.
    """

    format: str
    place: str = "config.json"
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

    def keeps(self, name: str) -> str | None:
        """What of the config keeps this layer in floats beyond doubt, as it stands there, or None.

        Writers of gptq and awq folders differ in whether part of a last name ("gate" of gate_proj) counts: it does not.
        """
        if self.format not in OLDER:
            return LINEAR if LINEAR in self.ignore else self.ignored_by(name)
        found = next((p for p in self.ignore if re.match(f"(?:{p.removeprefix('re:')})(?:\\.|$)", name)), None)
        return None if found is None else re.sub(r"\\(.)", r"\1", found.removeprefix("re:").removeprefix(".*"))

    @property
    def kept_by(self) -> str:
        """The key of config.json that names layers to keep in floats."""
        if self.format.startswith("mlx"):
            return "quantization"
        older = "dynamic or modules_to_not_convert" if self.format == "gptq" else "modules_to_not_convert"
        return f"quantization_config.{older if self.format in OLDER else 'ignore'}"

    def scheme(self, name: str) -> Scheme:
        """The scheme of a layer that is stored quantized.

        Raises:
            ModelError: the config does not say how it is stored.
        """
        found = self.rule(name)
        if found is None:
            raise ModelError(
                f"the layer {name} is stored quantized and {self.place} does not say how: expected a rule for it in "
                "quantization_config (compressed-tensors, gptq, awq) or quantization (MLX)"
            )
        return found
