"""Recipes: what to quantize how, as data; read from TOML and checked before anything heavy is imported."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from specq.core.errors import ConfigError, nearest

Treatment = Literal["keep", "quantize"]
TREATMENTS: tuple[Treatment, ...] = ("keep", "quantize")
ROW = 0
"""group_size of one scale a row (an output channel) instead of one for every few columns."""
SELF = "self"
"""Calibration on text that the model itself writes."""
MIXES = ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6")
GRID = ("bits", "group_size", "symmetric")
"""The keys that a folder tells by itself once it is quantized."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodFacts:
    """What a method takes; the first of `bits`, `groups` and `symmetric` is its default.

    `groups` None: any positive size that divides a layer's columns. `by_bits` gives another default
    group for some bits.
    """

    tool: Literal["llmcompressor", "mlx-lm", "specq"]
    bits: tuple[int, ...]
    groups: tuple[int, ...] | None
    symmetric: tuple[bool, ...]
    calibrates: bool
    by_bits: Mapping[int, int] | None = None


# llmcompressor packs 2, 3, 4 and 8 bits; eight bits take one scale a row by default, the only layout that torch's
# int8 kernel has. What mlx-lm's modes hold: mlx.nn.quantize, "affine". Blocks of nvfp4 and mxfp4: OCP MX 1.0, NVFP4.
def _packed(*, calibrates: bool) -> MethodFacts:
    return MethodFacts(
        tool="llmcompressor",
        calibrates=calibrates,
        bits=(4, 2, 3, 8),
        groups=None,
        symmetric=(True, False),
        by_bits={8: ROW},
    )


METHODS: dict[str, MethodFacts] = {
    "rtn": _packed(calibrates=False),
    "gptq": _packed(calibrates=True),
    "awq": _packed(calibrates=True),
    "w8a8": MethodFacts(tool="llmcompressor", calibrates=True, bits=(8,), groups=(ROW,), symmetric=(True,)),
    "fp8": MethodFacts(tool="llmcompressor", calibrates=False, bits=(8,), groups=(ROW,), symmetric=(True,)),
    "nvfp4": MethodFacts(tool="llmcompressor", calibrates=True, bits=(4,), groups=(16,), symmetric=(True,)),
    "mxfp4": MethodFacts(tool="llmcompressor", calibrates=False, bits=(4,), groups=(32,), symmetric=(True,)),
    "mlx-rtn": MethodFacts(
        tool="mlx-lm", calibrates=False, bits=(4, 2, 3, 5, 6, 8), groups=(64, 32, 128), symmetric=(False,)
    ),
    "mlx-gptq": MethodFacts(tool="mlx-lm", calibrates=True, bits=(4, 2, 8), groups=(64, 32, 128), symmetric=(False,)),
    "mlx-awq": MethodFacts(tool="mlx-lm", calibrates=True, bits=(4, 2, 3, 8), groups=(64, 32, 128), symmetric=(False,)),
    "mlx-mixed": MethodFacts(tool="mlx-lm", calibrates=False, bits=(4, 2, 3), groups=(64, 32, 128), symmetric=(False,)),
    # Bits, group and symmetry are those of the folder that is turned over.
    "mlx-from-ct": MethodFacts(
        tool="specq", calibrates=False, bits=(4, 2, 8), groups=None, symmetric=(True, False), by_bits={8: ROW}
    ),
}
DEFAULT_GROUP = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One way to quantize a model's linear layers.

    `group_size` counts the columns that share a scale; 0 (ROW) is one scale a row. Symmetric grids have
    no zero point. `embeddings` and `head` say what happens to the input embedding and the output head; a
    head that shares the embedding's weights is kept with it. `mix` names mlx-lm's mixture of two bit widths.
    `calibration` is a file of texts (JSONL or plain), "self", or None; `samples` texts of up to `tokens`
    tokens are used; `seed` orders them and seeds whatever the method draws. `untold` are keys of GRID that nobody
    gave to a method that takes them from the folder which it turns over: their values here mean nothing.
    """

    method: str
    bits: int
    group_size: int
    symmetric: bool
    embeddings: Treatment = "keep"
    head: Treatment = "keep"
    mix: str | None = None
    calibration: str | None = None
    samples: int = 32
    tokens: int = 512
    seed: int = 0
    untold: tuple[str, ...] = field(default=(), repr=False)

    @property
    def facts(self) -> MethodFacts:
        """What this recipe's method takes."""
        return METHODS[self.method]

    def to_json(self) -> dict[str, Any]:
        """Every key that has a value; `make` reads it back."""
        return {key: value for key, value in asdict(self).items() if key not in ("untold", *self.untold)}

    def with_calibration(self, calibration: str | None) -> Recipe:
        """The same recipe on other text.

        Raises:
            ConfigError: the method reads no text.
        """
        return make({**replace(self, calibration=None).to_json(), "calibration": calibration})

    def words(self, *, tied: bool = False) -> str:
        """A short name for tables: "gptq 4-bit, groups of 64, symmetric, head too".

        `tied`: the head is the embedding and goes the embedding's way, whatever `head` says.
        """
        if self.untold:
            return f"{self.method}, as the folder is"
        group = "one scale a row" if self.group_size == ROW else f"groups of {self.group_size}"
        kind = "symmetric" if self.symmetric else "asymmetric"
        embeddings = self.embeddings == "quantize"
        head = embeddings if tied else self.head == "quantize"
        parts = [*(["embeddings"] if embeddings else []), *(["head"] if head else [])]
        more = f", {' and '.join(parts)} too" if parts else ""
        return f"{self.method} {self.mix or f'{self.bits}-bit'}, {group}, {kind}{more}"


_TYPES: dict[str, tuple[type, ...]] = {
    "method": (str,),
    "bits": (int,),
    "group_size": (int,),
    "symmetric": (bool,),
    "embeddings": (str,),
    "head": (str,),
    "mix": (str, type(None)),
    "calibration": (str, type(None)),
    "samples": (int,),
    "tokens": (int,),
    "seed": (int,),
}


def load(path: Path, **keys: Any) -> Recipe:
    """Read a recipe file; a relative calibration path counts from the current folder, then from the file's.

    `keys` replace the file's own, before defaults are filled in.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or is no recipe; in one line that starts with the file.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; recipes lie in configs/quantize/") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML ({error}); name a recipe file") from error
    if isinstance(text := values.get("calibration"), str) and text != SELF and not Path(text).exists():
        beside = [base / text for base in (path.parent, *list(path.absolute().parents)[1:3])]
        values["calibration"] = str(next((found for found in beside if found.exists()), text))
    try:
        return make({**values, **keys})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def make(values: Mapping[str, Any]) -> Recipe:
    """A recipe from plain values, defaults of its method filled in; bits, group_size and symmetric may be left out.

    Raises:
        ConfigError: a key or the method is unknown, a value has the wrong type or is out of range, or the
            values are impossible together; says what is allowed.
    """
    known = [f.name for f in fields(Recipe) if f.name != "untold"]
    for key in values:
        if key not in known:
            raise ConfigError(f'unknown key "{key}"{nearest(str(key), known)} allowed: {", ".join(known)}')
    method = values.get("method")
    if not isinstance(method, str) or method not in METHODS:
        given = "method is missing:" if method is None else f"method = {method!r}{nearest(str(method), METHODS) or ':'}"
        raise ConfigError(f"{given} allowed is {', '.join(METHODS)}")
    for key, value in values.items():
        if not isinstance(value, _TYPES[key]) or (isinstance(value, bool) and bool not in _TYPES[key]):
            raise ConfigError(f"{key} = {value!r}: allowed is {' or '.join(_word(t) for t in _TYPES[key])}")
    filled = _with_defaults(method, values)
    _check(filled)
    return filled


def _word(kind: type) -> str:
    return {str: "a text", int: "a whole number", bool: "true or false"}.get(kind, "nothing")


def _with_defaults(method: str, values: Mapping[str, Any]) -> Recipe:
    facts = METHODS[method]
    mix = values.get("mix")
    if method == "mlx-mixed" and mix is None:
        # The one with the bits that were given, the widest of them.
        fits = [one for one in MIXES if values.get("bits", _narrow(one)) == _narrow(one)]
        mix = (fits or MIXES)[-1]
    bits = values.get("bits", _narrow(mix) if mix in MIXES else facts.bits[0])
    group = (facts.by_bits or {}).get(bits, (facts.groups or (DEFAULT_GROUP,))[0])
    defaults = {f.name: f.default for f in fields(Recipe) if f.default is not MISSING}
    chosen = {"bits": bits, "group_size": group, "symmetric": facts.symmetric[0]}
    untold = tuple(key for key in GRID if key not in values) if facts.tool == "specq" else ()
    return Recipe(**{**defaults, **chosen, **values, "mix": mix, "untold": untold})


def _narrow(mix: str) -> int:
    """The smaller of a mixture's two bit widths."""
    return int(mix.split("_")[1])


def _check(recipe: Recipe) -> None:
    facts, name = recipe.facts, f'method = "{recipe.method}"'
    if recipe.bits not in facts.bits:
        raise ConfigError(f"bits = {recipe.bits}: {name} allows {_list(sorted(facts.bits))}")
    if facts.groups is not None and recipe.group_size not in facts.groups:
        raise ConfigError(
            f"group_size = {recipe.group_size}: {name} allows {_list(sorted(facts.groups))}: "
            f"type --group-size {facts.groups[0]}"
        )
    if recipe.group_size < 0 or recipe.group_size == 1:
        raise ConfigError(
            f"group_size = {recipe.group_size}: allowed is 2 or more columns, or 0 for one scale a row: "
            f"type --group-size {DEFAULT_GROUP}"
        )
    if recipe.symmetric not in facts.symmetric:
        raise ConfigError(
            f"symmetric = {str(recipe.symmetric).lower()}: {name} allows {str(facts.symmetric[0]).lower()}"
        )
    for key in ("embeddings", "head"):
        if getattr(recipe, key) not in TREATMENTS:
            raise ConfigError(f'{key} = "{getattr(recipe, key)}": allowed is {_list(TREATMENTS)}')
        if facts.tool == "specq" and getattr(recipe, key) != "keep":
            raise ConfigError(f'{key} = "quantize": {name} keeps what a folder has; leave {key} out')
    if (recipe.mix is not None) != (recipe.method == "mlx-mixed"):
        raise ConfigError(f'mix: {name} does not read it, allowed is method = "mlx-mixed"')
    if recipe.mix is not None and recipe.mix not in MIXES:
        raise ConfigError(f'mix = "{recipe.mix}"{nearest(recipe.mix, MIXES) or ":"} allowed is {_list(MIXES)}')
    if recipe.mix is not None and recipe.bits != _narrow(recipe.mix):
        fits = [f'mix = "{mix}"' for mix in MIXES if _narrow(mix) == recipe.bits]
        raise ConfigError(
            f'bits = {recipe.bits}: mix = "{recipe.mix}" has {" and ".join(recipe.mix.split("_")[1:])} bits; '
            f"leave bits out, or give {_list(fits)}"
        )
    if recipe.calibration == "":
        raise ConfigError('calibration is empty: allowed is a file of texts, or "self"')
    if recipe.calibration is not None and not facts.calibrates:
        raise ConfigError(f"calibration: {name} reads no text; leave it out")
    for key, least in (("samples", 1), ("tokens", 16), ("seed", 0)):
        if getattr(recipe, key) < least:
            raise ConfigError(f"{key} = {getattr(recipe, key)}: allowed is {least} or more")


def _list(values: Any) -> str:
    return ", ".join(str(value) for value in values)


def need_calibration(recipe: Recipe) -> None:
    """Refuse a recipe whose method reads text and that names none.

    Raises:
        ConfigError: says what to type.
    """
    if recipe.facts.calibrates and recipe.calibration is None:
        raise ConfigError(
            f'method = "{recipe.method}" needs calibration text: give --calibration FILE (texts like those the model '
            "will serve), or --calibration self for text that the model writes itself"
        )
