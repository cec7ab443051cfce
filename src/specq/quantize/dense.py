"""Weights in the layout that the CPU's matrix kernels read, packed once instead of at every call.

For bfloat16 on CPU, torch hands each `linear` to oneDNN, which reorders the weights into its own
blocked layout every time. Packing them beforehand gives the same numbers, bit for bit, without
that work. Where the processor has no bfloat16 kernels, float32 is what decodes fast there, and torch
hands it to MKL, which takes about twice as long for two rows as for one; oneDNN on packed weights does
not (measured: docs/decoding.md). It adds up in another order, so that its numbers are not MKL's bit for
bit, but lie within float32's rounding of them.
A layer is packed only after its packed output was compared with the plain one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

ROWS_HINT = 5
"""The number of rows that oneDNN is told to expect when it chooses a layout; any number works."""


FLOAT32_ERROR = 1e-5
"""How far any packed float32 output may lie from the plain one, as a share of the largest.

Measured: 9e-7 to 1.4e-6 for layers of 576 to 14,336 columns.
"""


class PackedLinear(nn.Module):
    """A linear layer on packed weights, inference only.

    In bfloat16 the output equals nn.Linear's bit for bit, in float32 within `FLOAT32_ERROR`.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach(), persistent=False)
        self._packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS_HINT)

    bias: Tensor | None

    @property
    def dense_weight(self) -> Tensor:
        """The weights [out_features, in_features] as they were, in memory of their own."""
        return self._packed.to_dense()

    @property
    def weight_bytes(self) -> int:
        """Bytes of the packed weights, without the layout's own padding."""
        return self._packed.numel() * self._packed.element_size()

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return self._packed.dtype

    def forward(self, x: Tensor) -> Tensor:
        """X [..., in_features] to [..., out_features]."""
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")


def blocked(linear: nn.Linear) -> nn.Module:
    """The layer on packed weights where those give the same numbers on random input, else the layer itself.

    The same bits in bfloat16; in float32 none is further off than `FLOAT32_ERROR`.
    """
    weight = linear.weight
    if not (type(linear) is nn.Linear and weight.device.type == "cpu" and _packs(weight.dtype)):
        return linear
    twin = PackedLinear(linear)
    return twin if _same(linear, twin) else linear


def pack(model: nn.Module) -> int:
    """Replace the linear layers of a CPU model in place; return how many were replaced.

    Those in bfloat16 where oneDNN has kernels for it; where it has none those in float32, if torch would hand them to
    MKL. Does nothing where oneDNN or its packing operators are missing. A layer whose packed output differs from the
    plain one on random input, at one row and at five, stays as it is: see `blocked`.
    The memory of a replaced weight is freed, unless an embedding shares it.
    """
    packed = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and (twin := blocked(child)) is not child:
                setattr(parent, name, twin)
                packed += 1
    return packed


def repacks(dtype: str, device: str) -> bool:
    """Whether `pack` lays the linear layers of a model in that dtype out anew here."""
    return device == "cpu" and dtype in ("bfloat16", "float32") and _packs(getattr(torch, dtype))


def lacks_kernels(dtype: torch.dtype, device: str) -> str:
    """What is slow because oneDNN has no bfloat16 kernels for this processor, "" where nothing is."""
    if device != "cpu" or dtype != torch.bfloat16 or not torch.backends.mkldnn.is_available() or _has_bfloat16():
        return ""
    return (
        "this processor has no bfloat16 matrix kernels in oneDNN (on x86 they take AVX-512): passes of many rows, that "
        "is prefill and verification, are slow in bfloat16; hold engine.dtype = float32 against it"
    )


def _packs(dtype: torch.dtype) -> bool:
    """Whether weights in that dtype are packed here: in the one dtype that this processor decodes fast in."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    if _has_bfloat16():
        return dtype == torch.bfloat16
    return dtype == torch.float32 and torch.backends.mkl.is_available()


def _has_bfloat16() -> bool:
    """Whether oneDNN computes in bfloat16 here; where it does not, packing raises."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@torch.inference_mode()
def _same(linear: nn.Linear, packed: PackedLinear) -> bool:
    generator = torch.Generator().manual_seed(0)
    for rows in (1, 5):
        x = torch.randn(1, rows, linear.in_features, generator=generator).to(linear.weight.dtype)
        right, found = linear(x), packed(x)
        if packed.dtype == torch.float32:
            # Not-a-number compares false, so it never agrees.
            same = bool((found - right).abs().max() <= FLOAT32_ERROR * right.abs().max())
        else:
            same = torch.equal(right, found)
        if not same:
            return False
    return True
