"""Texts with their hidden states on disk, a file a batch, each there whole or not at all; and what is read of them.

Shapes: T tokens, R texts, S learned tokens, H hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specq.core import hashes
from specq.core.errors import RunFolderError
from specq.distill.sampler import Text

NAME = "texts-{:05d}.safetensors"
HELD_OUT = "held-out.safetensors"
_WINDOW = 8
"""So many batches' texts are sorted by length at a time, so that little is padded and batches still differ."""


def write(path: Path, texts: Sequence[Text], about: dict[str, str]) -> None:
    """Write a file of texts (temporary name, then rename), with words about it; one without texts counts as done."""
    from safetensors.torch import save_file

    tensors = {
        "ids": torch.tensor([i for text in texts for i in text.ids], dtype=torch.int32),
        "lengths": torch.tensor([len(text.ids) for text in texts], dtype=torch.int32),
        "starts": torch.tensor([text.start for text in texts], dtype=torch.int32),
        "hidden": torch.cat([text.hidden for text in texts]).contiguous() if texts else torch.empty(0, 0),
    }
    part = path.with_name(path.name + ".part")
    save_file(tensors, part, metadata=about)
    part.replace(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One text of a file: its ids, where what is learned begins, and its first row among the file's states."""

    ids: tuple[int, ...]
    start: int
    file: int
    row: int

    @property
    def learned(self) -> int:
        """How many tokens are learned."""
        return len(self.ids) - self.start


class Files:
    """The texts of several files; hidden states are read as they are asked for.

    Raises:
        RunFolderError: a file is damaged.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        from safetensors import SafetensorError, safe_open

        self._files: list[Any] = []
        self.about: list[dict[str, str]] = []
        self.entries: list[Entry] = []
        for number, path in enumerate(paths):
            try:
                file = safe_open(path, framework="pt")
                self._files.append(file.get_slice("hidden"))
                self.about.append(file.metadata() or {})
                self.entries += _entries(file, number)
            except (SafetensorError, OSError) as error:
                raise RunFolderError(
                    f"{path} is damaged ({error}): remove it and --resume, and its texts are written anew"
                ) from error

    def hidden(self, entry: Entry) -> Tensor:
        """The states before an entry's learned tokens [n, H]."""
        states = self._files[entry.file][entry.row : entry.row + entry.learned]
        assert isinstance(states, Tensor)
        return states


def _entries(file: Any, number: int) -> Iterator[Entry]:
    ids, starts = file.get_tensor("ids").tolist(), file.get_tensor("starts").tolist()
    at = row = 0
    for length, start in zip(file.get_tensor("lengths").tolist(), starts, strict=True):
        yield Entry(ids=tuple(ids[at : at + length]), start=start, file=number, row=row)
        at, row = at + length, row + length - start


def batches(entries: Sequence[Entry], tokens: int, seed: int) -> Iterator[list[int]]:
    """Indexes of entries, batch by batch without end: each of at least `tokens` learned tokens, or of all of them.

    Each epoch has an order of its own that the seed decides, and every entry once.
    """
    epoch = 0
    while True:
        rng = np.random.default_rng(hashes.seed_of(seed, "distill", "order", epoch))
        made = _epoch(entries, tokens, rng)
        yield from (made[int(i)] for i in rng.permutation(len(made)))
        epoch += 1


def _epoch(entries: Sequence[Entry], tokens: int, rng: np.random.Generator) -> list[list[int]]:
    found: list[list[int]] = []
    window: list[int] = []
    inside = 0
    order = [int(i) for i in rng.permutation(len(entries))]
    for at, i in enumerate(order):
        window.append(i)
        inside += entries[i].learned
        if inside >= _WINDOW * tokens or at + 1 == len(order):
            found += _cut(sorted(window, key=lambda j: (len(entries[j].ids), j)), entries, tokens)
            window, inside = [], 0
    return _joined(found, entries, tokens)


def _cut(window: Sequence[int], entries: Sequence[Entry], tokens: int) -> list[list[int]]:
    found: list[list[int]] = [[]]
    inside = 0
    for i in window:
        if inside >= tokens:
            found.append([])
            inside = 0
        found[-1].append(i)
        inside += entries[i].learned
    return _joined(found, entries, tokens)


def _joined(found: list[list[int]], entries: Sequence[Entry], tokens: int) -> list[list[int]]:
    """A last batch that is too small goes into the one before it."""
    if len(found) > 1 and sum(entries[i].learned for i in found[-1]) < tokens:
        *found, before, last = found
        found.append(before + last)
    return found


def padded(texts: Sequence[Entry]) -> tuple[Tensor, Tensor]:
    """Token ids [R, T] padded on the right, and where a learned token is predicted [R, T] bool.

    The token at position t + 1 is predicted at t. What stands to the right of a text cannot reach it.
    """
    width = max(len(text.ids) for text in texts)
    ids = torch.zeros(len(texts), width, dtype=torch.long)
    learned = torch.zeros(len(texts), width, dtype=torch.bool)
    for i, text in enumerate(texts):
        ids[i, : len(text.ids)] = torch.tensor(text.ids)
        learned[i, text.start - 1 : len(text.ids) - 1] = True
    return ids, learned
