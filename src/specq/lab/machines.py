"""Machines as vendors' data sheets describe them: memory, bandwidth and peak FLOP/s, with source and date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError, nearest
from specq.lab import dated, size_units

FOLDER = Path("configs/machines")
DTYPES = ("float32", "tf32", "bfloat16", "float16", "float8", "int8", "int4")
_TEXTS = {"name": 'name = "H100 SXM 80 GB"', "source": 'source = "the data sheet, and where it is"'}
KEYS = ("name", "memory", "bandwidth", "flops", "source", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One device. `memory` is in bytes, None where it is sold with several; `bandwidth` in bytes a second.

    `flops` are peak FLOP (or integer operations) a second by dtype, dense: the data sheets' figures with sparsity are
    twice as large, and no dense model reaches them.
    """

    file: Path
    name: str
    memory: int | None
    bandwidth: float
    flops: Mapping[str, float]
    source: str
    date: date

    @property
    def peak(self) -> float | None:
        """FLOP/s that 16-bit activations run at, whatever bits the weights have; None where none is stated."""
        return self.flops.get("bfloat16", self.flops.get("float16"))

    def to_json(self) -> dict[str, Any]:
        """Every key, as JSON values."""
        return {
            "file": str(self.file),
            "name": self.name,
            "memory_bytes": self.memory,
            "bandwidth_bytes_per_s": self.bandwidth,
            "flops_per_s": dict(self.flops),
            "source": self.source,
            "date": self.date.isoformat(),
        }


def load(given: Path | str) -> Machine:
    """Read a machine, by the name of its file or as a file.

    Raises:
        ConfigError: there is none, it is no TOML, or a key is wrong; in one line that names the file.
    """
    typed = "--machine NAME, name a file, or give --card, --bandwidth and --flops"
    path = dated.find(given, FOLDER, noun="machine", many="machines", typed=typed)
    return dated.read(path, _machine, noun="machine file", keys=KEYS)


def _machine(path: Path, values: Mapping[str, Any]) -> Machine:
    texts = dated.texts(values, _TEXTS)
    noted = dated.day(values, "the figures were noted")
    if "bandwidth" not in values:
        raise ConfigError('bandwidth is missing; type bandwidth = "3.35 TB/s"')
    flops = values.get("flops", {})
    if not isinstance(flops, dict):
        raise ConfigError(
            f'flops must be a table of dtypes; type [flops] and bfloat16 = "989 TFLOP/s" ({flops!r} given)'
        )
    for dtype in flops:
        if dtype not in DTYPES:
            raise ConfigError(f'unknown dtype "{dtype}"{nearest(dtype, DTYPES) or ";"} allowed: {", ".join(DTYPES)}')
    return Machine(
        file=path,
        name=texts["name"],
        memory=size_units.size("memory =", values["memory"]) if "memory" in values else None,
        bandwidth=size_units.rate("bandwidth =", values["bandwidth"]),
        flops={dtype: size_units.flops(f"flops.{dtype} =", value) for dtype, value in flops.items()},
        source=texts["source"],
        date=noted,
    )
