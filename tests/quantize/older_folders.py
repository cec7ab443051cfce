"""Layers as AutoGPTQ and AutoAWQ write them, packed value by value after those libraries' own loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True, kw_only=True)
class Rounded:
    """A layer [N, K] on a grid: q from 0 to 2^bits - 1 [N, K], zeros as large [N, G], scales [N, G] and groups [K]."""

    q: np.ndarray
    zeros: np.ndarray
    scales: np.ndarray
    index: np.ndarray

    @property
    def dense(self) -> np.ndarray:
        """The weights by the formula that both libraries share: (q - zero) * scale."""
        return (self.q - self.zeros[:, self.index]) * self.scales[:, self.index].astype(np.float32)


def rounded(
    weight: torch.Tensor, bits: int, group: int, *, symmetric: bool = True, order: np.ndarray | None = None
) -> Rounded:
    """Weights [N, K] rounded to nearest in groups of columns; `order` gives each column's group, -1 is one a row."""
    values = weight.float().numpy()
    rows, columns = values.shape
    size = columns if group < 0 else group
    index = np.arange(columns) // size if order is None else order
    groups, top = columns // size, 2**bits - 1
    scales, zeros = np.zeros((rows, groups), np.float16), np.zeros((rows, groups), np.int64)
    for at in range(groups):
        part = values[:, index == at]
        low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
        if symmetric:
            high = np.maximum(-low, high)
            low = -high
        scales[:, at] = np.maximum((high - low) / top, 1e-4)
        zeros[:, at] = 2 ** (bits - 1) if symmetric else np.round(-low / scales[:, at]).clip(0, top)
    q = np.round(values / scales[:, index].astype(np.float32) + zeros[:, index]).clip(0, top).astype(np.int64)
    return Rounded(q=q, zeros=zeros, scales=scales, index=index)


def gptq(layer: Rounded, bits: int, *, version: int = 1, index: bool = True) -> dict[str, torch.Tensor]:
    """auto_gptq QuantLinear.pack: words along the first axis of q^T, and along the second of the zero points."""
    stored = (layer.zeros.T - 1 if version == 1 else layer.zeros.T) % 2**bits
    made = {
        "qweight": torch.from_numpy(_words(layer.q.T, bits)),
        "qzeros": torch.from_numpy(_words(stored.T, bits).T.copy()),
        "scales": torch.from_numpy(layer.scales.T.copy()),
    }
    return made | ({"g_idx": torch.from_numpy(layer.index.astype(np.int32))} if index else {})


def awq(layer: Rounded) -> dict[str, torch.Tensor]:
    """awq WQLinear_GEMM.from_linear: eight rows a word, in an order of their own."""

    def pack(values: np.ndarray) -> torch.Tensor:
        words = np.zeros((len(values), values.shape[1] // 8), np.uint32)
        for column in range(words.shape[1]):
            for i, place in enumerate(AWQ_ORDER):
                words[:, column] |= values[:, column * 8 + place].astype(np.uint32) << np.uint32(4 * i)
        return torch.from_numpy(words.view(np.int32))

    return {
        "qweight": pack(layer.q.T),
        "qzeros": pack(layer.zeros.T),
        "scales": torch.from_numpy(layer.scales.T.copy()),
    }


def _words(values: np.ndarray, bits: int) -> np.ndarray:
    """int32 words [R * bits / 32, C] of values [R, C], bit after bit from the lowest on, as the loops there shift."""
    words = np.zeros((-(-len(values) * bits // 32), values.shape[1]), np.uint32)
    for row, line in enumerate(values):
        for bit in range(bits):
            word, place = divmod(row * bits + bit, 32)
            words[word] |= ((line >> bit) & 1).astype(np.uint32) << np.uint32(place)
    return words.view(np.int32)
