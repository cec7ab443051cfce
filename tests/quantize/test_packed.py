"""Integers must come out of a folder as compressed-tensors put them in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from packed_folders import quantized_parts

from specq.core.errors import ModelError
from specq.quantize import packed
from specq.quantize.declared import declared
from specq.quantize.packed import Grid

pytestmark = pytest.mark.usefixtures("one_thread")
LAYER = "model.layers.0.mlp.up_proj"


def weights(rows: int, columns: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    return torch.randn(rows, columns, generator=generator).to(dtype)


def scheme(bits: int, group: int, symmetric: bool) -> QuantizationScheme:
    args = QuantizationArgs(
        num_bits=bits, symmetric=symmetric, strategy="group" if group else "channel", group_size=group or None
    )
    return QuantizationScheme(targets=["Linear"], weights=args)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 96, 100])
def test_a_value_comes_out_changed(bits, count):
    values = torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (5, count), dtype=torch.int8)
    values[0, 0], values[1, 0] = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert torch.equal(packed.unpack(pack_to_int32(values, bits), bits, count), values)


def test_a_word_is_read_from_the_wrong_end():
    # 1, 2, ... 8 in four bits each, the first in the lowest: offset by 8 they are 9, 10, ... 16 - so 7 at most.
    word = sum((value + 8) << 4 * place for place, value in enumerate([-8, -7, 0, 1, 2, 3, 7, -1]))
    word = word - 2**32 if word >= 2**31 else word
    found = packed.unpack(torch.tensor([[word]], dtype=torch.int32), 4, 8)
    assert found.tolist() == [[-8, -7, 0, 1, 2, 3, 7, -1]]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("bits", "group"), [(2, 32), (3, 32), (4, 32), (4, 64), (4, 0), (8, 0), (8, 64)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_dequantized_weights_differ_in_a_bit(bits, group, symmetric, dtype):
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor

    how = scheme(bits, group, symmetric)
    parts = quantized_parts(weights(40, 192, dtype), how)
    found = packed.assemble(LAYER, Grid(bits=bits, group_size=group, symmetric=symmetric), parts)
    right = PackedQuantizationCompressor.decompress(dict(parts), how)["weight"]
    assert found.dense(dtype).dtype == dtype
    assert torch.equal(found.dense(dtype), right)


def test_the_order_of_columns_is_ignored():
    parts = quantized_parts(weights(16, 64), scheme(4, 32, True))
    grid = Grid(bits=4, group_size=32, symmetric=True)
    plain = packed.assemble(LAYER, grid, parts)
    index = torch.arange(64) // 32
    assert packed.assemble(LAYER, grid, {**parts, "weight_g_idx": index.int()}).order is None
    assert packed.assemble(LAYER, grid, {**parts, "weight_g_idx": torch.full((64,), -1)}).order is None
    turned = packed.assemble(LAYER, grid, {**parts, "weight_g_idx": index.flip(0).int()})
    assert turned.order is not None
    scales = plain.scales.float()
    right = plain.q.float() * torch.cat([scales[:, 1:].expand(-1, 32), scales[:, :1].expand(-1, 32)], dim=1)
    assert torch.equal(turned.dense(torch.float32), right)
    assert not torch.equal(turned.dense(torch.float32), plain.dense(torch.float32))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weight_scale": None}, "lacks weight_scale"),
        ({"weight_packed": torch.zeros(16, 7, dtype=torch.int32)}, r"packed words \[16, 7\], expected \[16, 8\]"),
        ({"weight_scale": torch.ones(16, 3)}, r"scales \[16, 3\], expected \[16, 2\]"),
        ({"weight_zero_point": torch.zeros(1, 2, dtype=torch.int32)}, "zero points"),
        ({"weight_zero_point": None}, "lacks weight_zero_point"),
    ],
)
def test_tensors_that_do_not_fit_are_read_anyway(change, said):
    parts = {**quantized_parts(weights(16, 64), scheme(4, 32, False)), **change}
    with pytest.raises(ModelError, match=said):
        packed.assemble(
            LAYER,
            Grid(bits=4, group_size=32, symmetric=False),
            {name: value for name, value in parts.items() if value is not None},
        )


def grids(groups, *names):
    said = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}
    return packed.grids(declared(Path("folder"), {"quantization_config": said}), names)


def group(targets, bits, **more):
    return {"targets": targets, "weights": {"num_bits": bits, "type": "int", "strategy": "channel", **more}}


@pytest.mark.parametrize("backwards", [False, True])
def test_a_layer_gets_the_grid_of_another(backwards):
    """A name counts before a pattern and a pattern before a class, wherever in the file they stand."""
    groups = {
        "group_0": group(["Linear"], 4, strategy="group", group_size=32),
        "group_1": group(["re:.*down_proj$"], 8, symmetric=False),
        "group_2": group(["re:.*a_.*"], 3),
        "group_3": group(["b.down_proj"], 2, strategy=None, group_size=64),
        "group_4": group(["c.up_proj"], 5, strategy=None, group_size=-1),
    }
    groups = dict(reversed(groups.items())) if backwards else groups
    found = grids(groups, "a.down_proj", "a_.down_proj", "a.up_proj", "b.down_proj", "c.up_proj")
    assert found["a.down_proj"] == Grid(bits=8, group_size=0, symmetric=False)
    assert found["a_.down_proj"] == Grid(bits=3, group_size=0, symmetric=True)
    assert found["a.up_proj"] == Grid(bits=4, group_size=32, symmetric=True)
    assert found["b.down_proj"] == Grid(bits=2, group_size=64, symmetric=True)
    assert found["c.up_proj"] == Grid(bits=5, group_size=0, symmetric=True)


def test_each_layer_gets_the_scheme_that_compressed_tensors_gives_it():
    """That library's own order of targets, on names that several of them match."""
    from compressed_tensors.utils.match import match_targets

    targets = ["Linear", "re:.*proj$", "re:.*down.*", "re:a.*", "a.down_proj"]
    groups = {f"group_{i}": group([target], i + 1) for i, target in enumerate(targets)}
    names = ["a.down_proj", "b.down_proj", "a.up_proj", "b.up_proj", "b.gate"]
    found = grids(groups, *names)
    for name in names:
        first = match_targets(name, torch.nn.Linear(1, 1), targets)[0]
        assert found[name].bits == targets.index(first) + 1, name


def test_a_grid_that_is_not_said_or_not_read_is_guessed():
    with pytest.raises(ModelError, match=r"a\.up_proj is stored quantized and .*config\.json does not say how"):
        grids({"g": group(["re:.*down_proj$"], 8)}, "a.up_proj")
    with pytest.raises(ModelError, match="packs 4-bit float weights; allowed are integers"):
        grids({"g": group(["Linear"], 4, type="float")}, "a")
    with pytest.raises(ModelError, match="a is pack-quantized, 4-bit, blocks"):
        grids({"g": group(["Linear"], 4, strategy="tensor")}, "a")
    with pytest.raises(ModelError, match="a is int-quantized, 8-bit"):
        grids({"g": {**group(["Linear"], 8), "format": "int-quantized"}}, "a")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("bits", "group"), [(8, 0), (4, 32), (4, 64), (4, 0)])
def test_rounding_in_memory_is_not_that_of_compressed_tensors(bits, group, dtype):
    dense = weights(48, 192, dtype)
    dense[3] = 0
    found = packed.round_to_nearest(dense, bits, group)
    right = packed.assemble(LAYER, found.grid, quantized_parts(dense, scheme(bits, group, True)))
    assert torch.equal(found.q, right.q)
    assert torch.equal(found.scales, right.scales)
    assert torch.equal(found.dense(dtype), right.dense(dtype))


@pytest.mark.parametrize("bits", [2, 4])
def test_a_grid_between_smallest_and_largest_is_a_symmetric_one(bits):
    """Each weight within half a step; a symmetric grid misses that where a group lies off zero."""
    dense = weights(48, 192, torch.float32) + 3
    found = packed.round_to_nearest(dense, bits, 32, symmetric=False)
    step = found.scales.repeat_interleave(32, dim=1)
    assert bool(((found.dense(torch.float32) - dense).abs() <= step * 0.501).all())
    other = packed.round_to_nearest(dense, bits, 32)
    assert not bool(((other.dense(torch.float32) - dense).abs() <= step * 0.501).all())


def test_weights_on_a_grid_with_offsets_leave_it():
    """In bfloat16 too, where steps and offsets are rounded; and a group of equal weights, whose step is nothing."""
    q = torch.randint(0, 16, (48, 192), generator=torch.Generator().manual_seed(1))
    q[:, ::32], q[:, 1::32] = 0, 15
    steps = torch.rand(48, 6, generator=torch.Generator().manual_seed(2)).add(0.5).repeat_interleave(32, dim=1)
    dense = (q * steps - 4.3).to(torch.bfloat16)
    dense[3] = 0.5
    found = packed.round_to_nearest(dense, 4, 32, symmetric=False)
    right = q - 8
    right[3] = -8
    assert torch.equal(found.q.long(), right)
    assert (found.dense(torch.bfloat16) - dense).float().norm() <= 0.005 * dense.float().norm()
