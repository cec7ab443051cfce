"""Requests and drafts that the tests of the MLX engine share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny_models as tiny
from specq.core.types import DraftSpec

PROMPTS = [tiny.prompt("abc abc, abd abc", id="a"), tiny.prompt("the quick brown fox", id="b")]
NEW = 24


def spec(folder: Path | str, k: int = 3, **more: Any) -> DraftSpec:
    """A draft model by the only rule that mlx-lm has."""
    return DraftSpec(**{"method": "model", "model": str(folder), "k": k, "rule": "match", **more})
