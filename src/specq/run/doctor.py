"""What this machine can run, found out by trying, and why not where it cannot."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

from specq.core.errors import Unsupported
from specq.engines.served.kinds import KINDS
from specq.engines.served.kinds.base import Served
from specq.experiment.engine_table import SERVED
from specq.models import cache
from specq.models import fetch as builtins
from specq.run import bandwidth, provenance

DTYPES = ("float32", "bfloat16", "float16")


def examine() -> dict[str, Any]:
    """Facts about the machine, its devices, engines, cache and disk, as JSON values.

    `devices` has one entry a known device: runs, why (where it does not), its bandwidth in
    bytes/s and the dtypes that it computed with. Takes some seconds: memory is really read.
    """
    facts = provenance.collect()
    root = cache.root()
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    return {
        **{key: facts[key] for key in ("specq", "python", "packages", "os", "processor")},
        **{key: facts[key] for key in ("cores_logical", "cores_physical", "cores_usable", "governor", "load_average")},
        "memory_bytes": facts["memory_bytes"],
        "memory_available_bytes": facts["memory_available_bytes"],
        "devices": _devices(),
        "engines": _engines(),
        "cache": provenance.tidy(root),
        "models": {f"{builtins.PREFIX}{name}": builtins.is_fetched(name) for name in builtins.BUILTINS},
        "disk_free_bytes": {
            "cache": shutil.disk_usage(there).free,
            "here": shutil.disk_usage(Path.cwd()).free,
        },
    }


def _engines() -> dict[str, Any]:
    needs = {"hf": ("torch", "transformers"), "mlx": ("mlx", "mlx_lm")}
    found = {name: _engine(packages) for name, packages in needs.items()}
    return {**found, **{name: _served(name) for name in SERVED}}


def _served(name: str) -> dict[str, Any]:
    """Whether a kind of server can be started here, by its command line alone; nothing is started."""
    kind = KINDS[name]
    if name == "mlx_lm":
        return _engine(("mlx", "mlx_lm"))
    try:
        kind.command(Served(weights="model"), 0, environ=os.environ)
    except Unsupported as error:
        return {"runs": False, "why": str(error).removeprefix(f'kind = "{name}": ').removeprefix(f'kind = "{name}" ')}
    return {"runs": True, "why": None}


def _engine(packages: tuple[str, ...]) -> dict[str, Any]:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    why = f"{' and '.join(missing)} not installed: pip install specq" if missing else None
    return {"runs": not missing, "why": why}


def _devices() -> dict[str, Any]:
    if importlib.util.find_spec("torch") is None:
        why = "torch is not installed: pip install specq"
        return {name: {"runs": False, "why": why} for name in ("cpu", "cuda", "mps")}
    import torch

    absent = {
        "cpu": None,
        "cuda": None if torch.cuda.is_available() else "torch sees no CUDA device",
        "mps": None if torch.backends.mps.is_available() else "torch sees no Apple GPU",
    }
    return {name: _device(name) if why is None else {"runs": False, "why": why} for name, why in absent.items()}


def _device(name: str) -> dict[str, Any]:
    import torch

    return {
        "runs": True,
        "why": None,
        "name": provenance.device_name(name),
        "threads": torch.get_num_threads(),
        "bandwidth_bytes_per_s": bandwidth.measure(name).median,
        "dtypes": {dtype: _computes(name, dtype) for dtype in DTYPES},
    }


def _computes(device: str, dtype: str) -> str:
    """Returns "yes", or what torch said when it was asked to multiply two small matrices."""
    import torch

    try:
        square = torch.ones(64, 64, dtype=getattr(torch, dtype), device=device)
        (square @ square).sum().item()
    except (RuntimeError, TypeError) as error:
        return str(error).splitlines()[0]
    return "yes"
