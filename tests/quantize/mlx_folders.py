"""Tiny models quantized through mlx-lm, and what their folders hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import quantize_sources as sources

from specq.models import headers, refs
from specq.quantize import mlx, recipes
from specq.quantize.made import Made, OnProgress
from specq.quantize.recipes import Recipe

TEXTS = sources.rows(40, 60, 33, 64)


def recipe(method: str, **more: Any) -> Recipe:
    """A recipe with groups of 32 on short rows."""
    calibration = {"calibration": "self"} if recipes.METHODS[method].calibrates else {}
    return recipes.make({"method": method, "group_size": 32, "tokens": 64, **calibration, **more})


def quantize(
    source: Path,
    out: Path,
    method: str = "mlx-rtn",
    *,
    texts: Sequence[Sequence[int]] = TEXTS,
    on_progress: OnProgress = lambda *_: None,
    **more: Any,
) -> Made:
    """One call of the module, without the checks before it."""
    chosen = recipe(method, **more)
    given = texts if chosen.facts.calibrates else []
    return mlx.quantize(refs.resolve(str(source)), chosen, given, out, on_progress)


def packed(folder: Path) -> set[str]:
    """The layers whose weights are packed."""
    return {name.rpartition(".")[0] for name in headers.tensors(folder) if name.endswith(".scales")}


def config(folder: Path) -> dict[str, Any]:
    """config.json."""
    return json.loads((folder / "config.json").read_text())


def logits(model: Any, ids: Sequence[int]) -> np.ndarray:
    """Logits [T, V] of an mlx-lm model."""
    import mlx.core as mx

    return np.array(model(mx.array([list(ids)])).astype(mx.float32))[0]
