"""Products through numpy against mlx's own: the same numbers, and only where mlx is slow."""

from __future__ import annotations

import numpy as np
import pytest

from specq.quantize import mlx_blas


def layers():
    import mlx.core as mx
    import mlx.nn as nn

    mx.random.seed(0)
    for bias in (False, True):
        plain = nn.Linear(64, 32, bias=bias)
        yield plain
        yield nn.QuantizedLinear.from_linear(plain, group_size=32, bits=4)


@pytest.mark.parametrize("slow", [True, False])
def test_a_layer_gives_other_numbers(monkeypatch, slow):
    import mlx.core as mx

    monkeypatch.setattr(mlx_blas, "is_slow", lambda: slow)
    for layer in layers():
        x = mx.random.normal((2, 5, 64))
        wanted = layer(x)
        with mlx_blas.linear_layers():
            got = layer(x)
        assert got.shape == wanted.shape
        assert float(mx.abs(got - wanted).max()) < 1e-4
        if not slow:
            assert mx.array_equal(got, wanted)
        layer.set_dtype(mx.bfloat16)
        with mlx_blas.linear_layers():
            assert layer(x.astype(mx.bfloat16)).dtype == mx.bfloat16


def test_sums_of_products_differ_from_those_of_mlx_lm(monkeypatch):
    import mlx.core as mx
    import mlx.nn as nn
    from mlx_lm.quant.gptq import Catcher

    monkeypatch.setattr(mlx_blas, "is_slow", lambda: True)
    found = []
    for kind in (Catcher, mlx_blas.catcher(Catcher)):
        mx.random.seed(1)
        caught = kind(nn.Linear(8, 4))
        for rows in (3, 5):
            caught(mx.random.normal((2, rows, 8)))
        found.append(np.array(caught.H))
    assert np.abs(found[0] - found[1]).max() < 1e-4
    assert np.abs(found[0]).max() > 1
    monkeypatch.setattr(mlx_blas, "is_slow", lambda: False)
    assert mlx_blas.catcher(Catcher) is Catcher
