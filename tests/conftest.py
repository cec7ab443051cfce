"""Shared fixtures: tiny model folders written once a session, and targets opened once."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# A shell that starts the tests in the background makes them ignore Ctrl-C, and nohup the hangup; what a test starts
# would inherit that, and could not be stopped as a user stops it.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def one_thread() -> None:
    """Tiny models run faster, and the same everywhere, on one thread."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def known_grids() -> None:
    """The same weights lie on the same grid: looked for once, else each audit of a source looks for half a second."""
    from specq.quantize import grid

    detect, known = grid.detect, dict[tuple[str, Any, str], Any]()

    def once(weights: Any, dtype: str) -> Any:
        key = (hashlib.sha256(weights.tobytes()).hexdigest(), weights.shape, dtype)
        if key not in known:
            known[key] = detect(weights, dtype)
        return known[key]

    grid.detect = once


@pytest.fixture(scope="session")
def quick_lm_eval() -> None:
    """lm-eval starts pip to list every package beside each result; nobody reads the list, and it takes a second."""
    from torch.utils import collect_env

    collect_env.get_pretty_env_info = lambda: ""


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Callable[..., Path]:
    """Folder of a tiny model: the arguments of tiny_models.make."""
    import tiny_models

    made: dict[str, Path] = {}

    def folder(kind: str, **how: Any) -> Path:
        key = repr((kind, sorted(how.items())))
        if key not in made:
            made[key] = tiny_models.save(tmp_path_factory.mktemp("tiny") / kind, tiny_models.make(kind, **how))
        return made[key]

    return folder


@pytest.fixture(scope="session")
def target_of(folder_of: Callable[..., Path]) -> Callable[..., Any]:
    """The opened target of a tiny model, float32 on the CPU; shared by all tests."""
    from specq.engines.hf import HFEngine

    opened: dict[Path, Any] = {}

    def target(kind: str, **how: Any) -> Any:
        folder = folder_of(kind, **how)
        if folder not in opened:
            opened[folder] = HFEngine(device="cpu").open(str(folder))
        return opened[folder]

    return target
