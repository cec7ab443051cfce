"""Matrix products for mlx on Linux CPUs through numpy: mlx's own kernel there is tens of times slower.

Quantizing feeds thousands of tokens at once, and its time is that of these products.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np


def is_slow() -> bool:
    """Whether mlx multiplies by its own CPU kernel: not on macOS, which has Accelerate, and not on a GPU."""
    import mlx.core as mx

    return sys.platform != "darwin" and bool(mx.default_device() == mx.Device(mx.cpu))


def product(a: Any, b: Any) -> Any:
    """The product of a [..., K] and b [N, K] transposed: [..., N], both float32; computed now, not when needed."""
    import mlx.core as mx

    left, right = np.asarray(a), np.asarray(b)
    return mx.array((left.reshape(-1, left.shape[-1]) @ right.T).reshape(*left.shape[:-1], len(right)))


@contextmanager
def linear_layers() -> Iterator[None]:
    """Let linear layers, quantized or not, multiply through numpy wherever they are fed float32."""
    import mlx.core as mx
    import mlx.nn as nn

    if not is_slow():
        yield
        return
    plain: Any = nn.Linear.__call__
    packed: Any = nn.QuantizedLinear.__call__

    def linear(layer: Any, x: Any) -> Any:
        if not x.dtype == layer.weight.dtype == mx.float32:
            return plain(layer, x)
        out = product(x, layer.weight)
        return out + layer["bias"] if "bias" in layer else out

    def quantized(layer: Any, x: Any) -> Any:
        if not x.dtype == layer.scales.dtype == mx.float32 or layer.mode != "affine":
            return packed(layer, x)
        weight = mx.dequantize(layer.weight, layer.scales, layer.biases, layer.group_size, layer.bits)
        out = product(x, weight)
        return out + layer["bias"] if "bias" in layer else out

    with patch.object(nn.Linear, "__call__", linear), patch.object(nn.QuantizedLinear, "__call__", quantized):
        yield


def catcher(own: Any) -> Any:
    """The class by which mlx-lm's GPTQ sums products of inputs, summing through numpy where mlx is slow."""
    if not is_slow():
        return own
    import mlx.core as mx

    class Catcher(own):
        """Sums x^T x of all inputs x [T, K] into H [K, K]."""

        H: Any

        def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
            if x.dtype != mx.float32:
                return super().__call__(x, *args, **kwargs)
            columns = x.flatten(0, -2).T
            self.H = self.H + product(columns, columns)
            return self.module(x, *args, **kwargs)

    return Catcher
