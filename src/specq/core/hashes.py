"""Identity and seeds: stable across processes, platforms and Python versions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def of_bytes(data: bytes) -> str:
    """Hex sha256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def of_json(value: Any) -> str:
    """Hex sha256 of a JSON value: keys sorted, no spaces, so that equal values have equal hashes."""
    return of_bytes(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())


def of_ids(ids: Sequence[int]) -> str:
    """Hex sha256 of token ids."""
    return of_bytes(",".join(map(str, ids)).encode())


def of_answer(ids: Sequence[int], text: str, *, has_ids: bool = True) -> str:
    """Hex sha256 of an answer: of its ids, or of its text where a server gives none."""
    return of_ids(ids) if has_ids else of_bytes(text.encode())


def of_prompt(ids: Sequence[int], text: str, messages: Sequence[Any]) -> str:
    """Hex sha256 of a prompt: of its ids, or of what it says where the server alone knows them."""
    return of_ids(ids) if ids else of_json([text, list(messages)])


def of_file(path: Path) -> str:
    """Hex sha256 of a file's bytes, read in pieces of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def seed_of(*parts: Any) -> int:
    """A seed in [0, 2**63) that depends on the parts alone, not on the order in which seeds are asked for."""
    return int(of_json([str(p) for p in parts])[:16], 16) >> 1
