"""Which tools quantize on this machine and which packed kernels run, with the reason where one does not."""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from typing import Any

from specq.quantize.audited import NO_KERNEL
from specq.quantize.recipes import METHODS, ROW

# What is tried on each kernel: bits and group.
_TRIED = {"int4pack": (4, 32), "int8pack": (8, ROW)}


def examine() -> dict[str, Any]:
    """Facts as JSON values.

    `tools` has one entry a package: its version (None: absent), its methods, and why it cannot be used (None:
    it can). `kernels` has one entry a kernel with "yes" or the reason by device, found by running it once.
    """
    return {
        "tools": {
            "llmcompressor": _tool("llmcompressor", "llmcompressor", _missing("llmcompressor", "llmcompressor")),
            "mlx-lm": _tool("mlx-lm", "mlx-lm", _no_mlx()),
        },
        "kernels": {kernel: _devices(*tried) for kernel, tried in _TRIED.items()},
    }


def _tool(name: str, package: str, why: str | None) -> dict[str, Any]:
    methods = [method for method, facts in METHODS.items() if facts.tool == name]
    return {"version": None if why else metadata.version(package), "methods": methods, "why": why}


def _missing(module: str, package: str) -> str | None:
    return None if importlib.util.find_spec(module) else f"not installed: pip install {package}"


def _no_mlx() -> str | None:
    package = "mlx-lm" if sys.platform == "darwin" else '"mlx-lm[cpu]"'
    if why := _missing("mlx_lm", package):
        return why
    try:
        # mlx-lm installs where mlx has no library for the processor.
        import mlx.core  # noqa: F401
    except ImportError as error:
        return f"mlx cannot be imported ({str(error).splitlines()[0]}): pip install {package}"
    return None


def _devices(bits: int, group_size: int) -> dict[str, str]:
    if importlib.util.find_spec("torch") is None:
        return {"cpu": "torch is not installed: pip install specq"}
    import torch

    found = {"cpu": _runs(bits, group_size, "cpu")}
    if torch.cuda.is_available():
        found["cuda"] = _runs(bits, group_size, "cuda")
    return found


def _runs(bits: int, group_size: int, device: str) -> str:
    """Returns "yes", or why the kernel does not run."""
    import torch

    from specq.quantize import kernels
    from specq.quantize.packed import round_to_nearest

    weights = round_to_nearest(torch.ones(32, 64, dtype=torch.bfloat16), bits, group_size)
    kernel = kernels.kernel_of(weights, device=device, dtype=torch.bfloat16)
    if kernel.startswith(NO_KERNEL):
        return kernel.removeprefix(NO_KERNEL)
    try:
        layer = kernels.KernelLinear(weights, kernel, bias=None, device=device)
        layer(torch.ones(1, 64, dtype=torch.bfloat16, device=device)).sum().item()
    except (RuntimeError, AttributeError) as error:
        return str(error).splitlines()[0]
    return "yes"
