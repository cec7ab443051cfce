"""Fixtures of the MLX engine: opened once, tiny models opened once each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def mlx_engine(one_thread: None) -> Any:
    """The MLX engine on the CPU."""
    from specq.engines.mlx import MLXEngine

    return MLXEngine(device="cpu")


@pytest.fixture(scope="session")
def open_mlx(mlx_engine: Any, folder_of: Callable[..., Path]) -> Callable[..., Any]:
    """The opened MLX target of a tiny model: the arguments of tiny_models.make; shared by all tests."""
    made: dict[Path, Any] = {}

    def opened(kind: str, **how: Any) -> Any:
        folder = folder_of(kind, **how)
        if folder not in made:
            made[folder] = mlx_engine.open(str(folder))
        return made[folder]

    return opened
