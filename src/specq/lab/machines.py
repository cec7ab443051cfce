"""Machines as vendors' data sheets describe them: memory, bandwidth and peak FLOP/s, with source and date."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError, nearest
from specq.lab import size_units

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


def folders() -> tuple[Path, ...]:
    """Where machines are looked for by name: under the current folder, then beside the source that runs."""
    return FOLDER, Path(__file__).parents[3] / FOLDER


def load(given: Path | str) -> Machine:
    """Read a machine, by the name of its file or as a file.

    Raises:
        ConfigError: there is none, it is no TOML, or a key is wrong; in one line that names the file.
    """
    path = _find(given)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML ({error}); name a machine file") from error
    try:
        return _machine(path, values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _find(given: Path | str) -> Path:
    path = Path(given).expanduser()
    if path.is_file():
        return path
    for folder in folders():
        # A name is one word: what has a folder or an ending was meant as a file.
        if path.name == str(given) and (found := folder / f"{given}.toml").is_file():
            return found
    names = sorted({file.stem for folder in folders() for file in folder.glob("*.toml")})
    known = f"machines are {', '.join(names)}" if names else f"{FOLDER}/ has none"
    raise ConfigError(
        f'no machine "{given}"{nearest(path.stem, names) or ";"} {known}; type --machine NAME, name a file, or give '
        "--card, --bandwidth and --flops"
    )


def _machine(path: Path, values: Mapping[str, Any]) -> Machine:
    for key in values:
        if key not in KEYS:
            raise ConfigError(f'unknown key "{key}"{nearest(key, KEYS) or ";"} allowed: {", ".join(KEYS)}')
    for key, typed in _TEXTS.items():
        if not isinstance(values.get(key), str) or not values[key].strip():
            raise ConfigError(f"{key} must be a text that is not empty; type {typed}")
    day = values.get("date")
    if isinstance(day, datetime):
        day = day.date()
    if not isinstance(day, date):
        raise ConfigError(
            "date must be the day on which the figures were noted, without quotes; type date = 2026-01-31"
        )
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
        name=values["name"].strip(),
        memory=size_units.size("memory =", values["memory"]) if "memory" in values else None,
        bandwidth=size_units.rate("bandwidth =", values["bandwidth"]),
        flops={dtype: size_units.flops(f"flops.{dtype} =", value) for dtype, value in flops.items()},
        source=values["source"].strip(),
        date=day,
    )
