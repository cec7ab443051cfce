"""What a model's weights take in memory and as a token reads them, by bytes and by nominal bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specq.core.errors import ConfigError, nearest
from specq.lab import size_units
from specq.lab.size_parameters import Count

NOMINAL = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "w8": 8, "w6": 6, "w5": 5, "w4": 4, "w3": 3, "w2": 2}
Origin = Literal["stored", "given", "counted", "nominal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model's weights in bytes.

    `parameters` are the model's own weights, packed or not; None where they are not known. `looked_up` are bytes of
    the input table, of which a token reads one row; `aside` those of parts that see or hear; `expert` those of all
    experts, of which a token reads `active` of `experts`. `used` are the weights that one token multiplies with.
    Counted bytes are those that quantization_config says of the config's shapes, scales and what is left unpacked
    included. Nominal bytes are weights times bits: no scales, and nothing that stays in more bits.
    """

    bytes: int
    precision: str
    origin: Origin
    parameters: int | None
    used: int | None
    looked_up: float = 0.0
    aside: float = 0.0
    expert: float = 0.0
    experts: int = 1
    active: int = 1

    @property
    def bits(self) -> float | None:
        """Bits a weight: where the bytes are real, scales and tensors that were not quantized count."""
        return 8 * self.bytes / self.parameters if self.parameters else None

    def read(self, batch: int = 1) -> float:
        """Bytes that one step over a batch reads; of experts those that at least one row picks, evenly spread."""
        missed = (1 - self.active / self.experts) ** batch
        return self.bytes - self.looked_up - self.aside - self.expert * missed

    @property
    def read_whole(self) -> float:
        """Bytes that a step reads when its batch is so large that every expert is picked."""
        return self.bytes - self.looked_up - self.aside


def check_precision(asked: str) -> str:
    """A precision's name, checked.

    Raises:
        ConfigError: there is none of that name.
    """
    if asked not in NOMINAL:
        raise ConfigError(
            f'--weights "{asked}"{nearest(asked, NOMINAL) or ";"} allowed: {", ".join(NOMINAL)}; for real bytes give '
            "--weights-bytes N, a quantized folder or a GGUF file"
        )
    return asked


def nominal(counted: Count, asked: str) -> Weights:
    """Weights times the bits of a name of NOMINAL."""
    return spread(-(-counted.total * NOMINAL[asked] // 8), counted, "nominal", asked)


def spread(size: int, counted: Count | None, origin: Origin, precision: str = "") -> Weights:
    """So many bytes, spread evenly over the weights."""
    if counted is None:
        return Weights(bytes=size, precision=in_bits(size, None), origin=origin, parameters=None, used=None)
    each = size / counted.total
    return Weights(
        bytes=size,
        precision=precision or in_bits(size, counted.total),
        origin=origin,
        parameters=counted.total,
        used=counted.read,
        looked_up=each * counted.embedding,
        expert=each * counted.expert,
        experts=counted.experts,
        active=counted.active,
    )


def in_bits(size: int, parameters: int | None) -> str:
    """Bytes as bits a weight: "4.98-bit"; as GB where the number of weights is not known."""
    return f"{8 * size / parameters:.2f}-bit" if parameters else f"{size_units.gb(size)} GB of"
