"""A batch of rows that grow at different speeds, on one cache.

Rows are padded on the right. A column that holds padding or a refused token of some row is masked
for that row and stays as a hole until it is a hole in every row at the end, where it is cropped.
Positions count each row's own tokens, so a row computes what it would compute alone.

Shapes: B rows, T cache columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from specq.core.errors import Unsupported
from specq.core.types import CacheType
from specq.decoding.quantized_cache import QuantizedCache
from specq.decoding.session import CACHES, cache_name, embedding, new_cache, takes


def refusal(model: PreTrainedModel) -> str:
    """Why rows of a model cannot grow at different speeds, "" where they can; its weights are not looked at."""
    if not takes(model, "position_ids"):
        return f"{type(model).__name__} takes no position_ids"
    plain = cache_name(model) == CACHES[0] and new_cache(model, "nothing")
    if not plain or any(type(layer) is not DynamicLayer for layer in plain.layers):
        return (
            f"{type(model).__name__} has layers with sliding windows or states of their own, which would count the "
            "holes of a ragged batch"
        )
    return ""


class RaggedSession:
    """A model, a cache with holes, and how many tokens each row holds."""

    def __init__(self, model: PreTrainedModel, *, kv_cache: CacheType | None = None) -> None:
        if why := refusal(model):
            raise Unsupported(f"{why}: decode with batch_size 1")
        self.model, self.kv_cache = model, kv_cache
        weight = embedding(model)
        self.device, self._rows = weight.device, weight.shape[0]

    def restart(self, rows: int) -> None:
        """Forget everything and begin with `rows` empty rows."""
        config, kind = self.model.config, self.kv_cache
        self.cache = DynamicCache() if kind is None else QuantizedCache(config, kind, windowed=False)
        self.valid = torch.zeros(rows, 0, dtype=torch.bool, device=self.device)
        self.lengths = [0] * rows

    def share(self, other: RaggedSession, layers: int) -> None:
        """Stand on the first layers of another session's cache, as it is now."""
        self.cache = DynamicCache()
        self.cache.layers = other.cache.layers[:layers]
        self.valid, self.lengths = other.valid.clone(), list(other.lengths)

    def forward(self, tokens: Sequence[Sequence[int]], *, last_only: bool = False) -> list[Tensor]:
        """Feed each row its tokens (none is allowed).

        Returns:
            logits [r, V] for the r tokens of each row; with last_only [1, V] of the last, and no row may be empty.
        """
        width = max(len(row) for row in tokens)
        # As in Session: ids beyond a less padded draft's rows are read as its last row.
        batch = torch.tensor([[*row, *[0] * (width - len(row))] for row in tokens], device=self.device)
        batch.clamp_(max=self._rows - 1)
        count = torch.tensor([len(row) for row in tokens], device=self.device)
        column = torch.arange(width, device=self.device)
        live = column < count[:, None]
        start = torch.tensor(self.lengths, device=self.device)[:, None]
        # Padding repeats the row's last position, so that it never leaves the context.
        position = start + torch.minimum(column, (count[:, None] - 1).clamp(min=0))
        self.valid = torch.cat([self.valid, live], dim=1)
        # A prefill's logits of all tokens may be larger than the model: only the columns that end a row are computed.
        ends = sorted({len(row) - 1 for row in tokens})
        cut = last_only and takes(self.model, "logits_to_keep")
        logits = self.model(
            input_ids=batch,
            attention_mask=self.valid.long(),
            position_ids=position,
            past_key_values=self.cache,
            use_cache=True,
            **({"logits_to_keep": torch.tensor(ends, device=self.device)} if cut else {}),
        ).logits
        self.lengths = [length + len(row) for length, row in zip(self.lengths, tokens, strict=True)]
        if last_only:
            at = [ends.index(len(row) - 1) if cut else len(row) - 1 for row in tokens]
            return [logits[i, column : column + 1] for i, column in enumerate(at)]
        return [logits[i, : len(row)] for i, row in enumerate(tokens)]

    def rollback(self, counts: Sequence[int]) -> None:
        """Remove the last counts[i] tokens of each row."""
        for i, count in enumerate(counts):
            if count:
                self.valid[i, self.valid[i].nonzero().squeeze(1)[-count:]] = False
        self.lengths = [length - count for length, count in zip(self.lengths, counts, strict=True)]
        used = self.valid.any(dim=0).nonzero()
        self.crop(self.valid.shape[1] - (int(used[-1]) + 1 if len(used) else 0))

    def crop(self, columns: int) -> None:
        """Drop the last columns of all rows."""
        if columns:
            self.cache.crop(-columns)
            self.valid = self.valid[:, :-columns]

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these rows."""
        index = torch.tensor(rows, device=self.device)
        self.cache.batch_select_indices(index)
        self.valid = self.valid[index]
        self.lengths = [self.lengths[i] for i in rows]
