"""Integer weights as AutoGPTQ and AutoAWQ lay them out, read without those libraries.

gptq (AutoGPTQ, GPTQModel: QuantLinear.pack): `qweight` [K * bits / 32, N] fills its words along the columns of the
weights, `qzeros` [G, N * bits / 32] along their rows, both little end first without gaps; `scales` are [G, N], and
`g_idx` [K] is the group of each column. The first version of the layout stores zero points minus one, modulo 2^bits.
awq (AutoAWQ: WQLinear_GEMM): `qweight` [K, N / 8] and `qzeros` [G, N / 8] fill their words along the rows, four bits
each, in the order 0, 2, 4, 6, 1, 3, 5, 7. In both a weight is (q - zero) * scale.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from specq.quantize.packed import Grid, IntWeights, order_of, unpack
from specq.quantize.schemes import Scheme

PARTS = ("qweight", "qzeros", "scales", "g_idx")
# Which place of a word holds the value of each of eight rows.
_AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)


def assemble(scheme: Scheme, parts: Mapping[str, Tensor]) -> IntWeights:
    """A layer from its tensors as stored, whose shapes were found to fit; the keys of `parts` are those of PARTS."""
    read = _gptq if scheme.format == "gptq" else _awq
    q, zeros = read(scheme, parts)
    scales = parts["scales"].t().contiguous()
    return IntWeights(
        grid=Grid(bits=scheme.bits, group_size=scheme.group_size or 0, symmetric=scheme.symmetric),
        q=q,
        scales=scales,
        # Symmetric grids store a zero point too, in the middle of the range, which is zero here.
        zeros=None if scheme.symmetric else zeros,
        order=order_of(parts.get("g_idx"), q.shape[1] // scales.shape[1]),
    )


def _gptq(scheme: Scheme, parts: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    words, bits = parts["qweight"], scheme.bits
    q = unpack(words.t().contiguous(), bits, words.shape[0] * 32 // bits)
    zeros = unpack(parts["qzeros"], bits, words.shape[1])
    if scheme.less_one:
        half = 2 ** (bits - 1)
        zeros = ((zeros.to(torch.int16) + half + 1) % (2 * half) - half).to(torch.int8)
    return q, zeros.t().contiguous()


def _awq(scheme: Scheme, parts: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    zeros = parts.get("qzeros")
    return _rows(parts["qweight"], scheme.bits), None if zeros is None else _rows(zeros, scheme.bits)


def _rows(words: Tensor, bits: int) -> Tensor:
    """Signed values [N, R] of words [R, N / 8]."""
    values = unpack(words, bits, words.shape[1] * len(_AWQ_PLACES))
    return (
        values.view(len(words), -1, len(_AWQ_PLACES))[..., list(_AWQ_PLACES)].reshape(len(words), -1).t().contiguous()
    )
