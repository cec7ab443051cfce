"""Quantized folders for the audit and their audits, made once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import audit_folders as made
import pytest

from specq.quantize.audited import QuantAudit

Folders = Callable[[str], Path]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Folders:
    """Folders by name, each made once."""
    root = tmp_path_factory.mktemp("audited")

    def get(name: str) -> Path:
        out = root / name
        if out.exists():
            return out
        if name == "source":
            return made.source(out)
        plain = get("source")
        if name in ("gptq", "awq"):
            return made.older(plain, out, name)
        return made.mlx(plain, out, name) if name in made.MLX else made.compressed(plain, out, name)

    return get


@pytest.fixture(scope="session")
def audits(folders: Folders) -> Callable[[str], QuantAudit]:
    """Whole audits by name, each made once."""
    from specq.quantize.audit import audit_folder

    done: dict[str, QuantAudit] = {}

    def get(name: str) -> QuantAudit:
        if name not in done:
            done[name] = audit_folder(folders(name), folders("source"))
        return done[name]

    return get
