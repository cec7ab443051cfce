"""Texts that a made-up target wrote, and files of their log-probabilities as an engine would export them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specq.core.types import Sampling
from specq.decoding.sampling import warp
from specq.forecast import imported

V, PROMPT, T = 30, 3, 24
GREEDY = Sampling()


def normalised(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities of each row."""
    found: np.ndarray = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return found


def laws(seed: int, total: int = T) -> np.ndarray:
    """Log-probabilities [PROMPT + total, V] of a model that is sure of some tokens and unsure of others."""
    rng = np.random.default_rng(seed)
    return normalised(rng.normal(size=(PROMPT + total, V)) * rng.uniform(0.5, 4, size=(PROMPT + total, 1)))


def near(law: np.ndarray, seed: int) -> np.ndarray:
    """A draft that says about the same."""
    return normalised(0.8 * law + 0.2 * laws(seed, len(law) - PROMPT))


def warped(law: np.ndarray, sampling: Sampling) -> np.ndarray:
    """The law after warping, by the code that decodes; one-hot at temperature 0."""
    if sampling.temperature == 0:
        return np.eye(law.shape[1])[law.argmax(axis=1)]
    found: np.ndarray = warp(torch.tensor(law, dtype=torch.float32), sampling).numpy().astype(float)
    return found


def written(law: np.ndarray, seed: int, sampling: Sampling) -> list[int]:
    """A text drawn from the law after warping."""
    rng = np.random.default_rng(seed)
    return [int(rng.choice(len(row), p=row / row.sum())) for row in warped(law, sampling)]


def row(law: np.ndarray, token: int, top: int, *, rank: bool = True) -> dict[str, Any]:
    """A token's own log-probability and the likeliest `top`, with ranks or without."""
    order = np.argsort(-law, kind="stable").tolist()
    kept = dict.fromkeys([*order[:top], token])
    return {str(id): {"logprob": float(law[id])} | ({"rank": order.index(id) + 1} if rank else {}) for id in kept}


def line(id: str, law: np.ndarray, ids: list[int], top: int, *, rank: bool = True) -> dict[str, Any]:
    """One line of a file."""
    rows = [None, *(row(law[at], ids[at], top, rank=rank) for at in range(1, len(ids)))]
    return {"id": id, "ids": ids, "prompt_tokens": PROMPT, "prompt_logprobs": rows}


def write(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    """A file of such lines."""
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return path


def text(tmp_path: Path, name: str, value: dict[str, Any]) -> imported.Text:
    """One line, read as the text that it is."""
    return next(iter(imported.load(write(tmp_path / f"{name}.jsonl", [value])).values()))


def files(tmp_path: Path, sampling: Sampling, *, texts: int = 3, top: int = V, total: int = T) -> tuple[Path, Path]:
    """The files of a target and of a draft, of texts that the target wrote at these settings."""
    tmp_path.mkdir(exist_ok=True)
    target, draft = [], []
    for seed in range(texts):
        law = laws(seed, total)
        ids = written(law, 1000 + seed, sampling)
        target.append(line(str(seed), law, ids, top))
        draft.append(line(str(seed), near(law, 100 + seed), ids, top))
    return write(tmp_path / "target.jsonl", target), write(tmp_path / "draft.jsonl", draft)
