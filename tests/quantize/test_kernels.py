"""Packed kernels must give the dequantized layer's numbers, and say where there is none."""

from __future__ import annotations

import sys
from dataclasses import replace as replace_fields
from itertools import cycle, pairwise

import pytest
import torch
from torch import nn

import peers
import tiny_models as tiny
from specq.quantize import dense, kernels, replace
from specq.quantize.audited import NO_KERNEL
from specq.quantize.dense import PackedLinear, blocked
from specq.quantize.kernels import INT4, INT8, KernelLinear, kernel_for, kernel_of
from specq.quantize.packed import Grid, IntWeights, round_to_nearest

pytestmark = pytest.mark.usefixtures("one_thread")
ROWS = (1, 2, 3, 5, 8, 17, 64)
NO_GPU = "this machine has no CUDA GPU, so the tile-packed kernel was not run"


def layer(rows: int, columns: int, bits: int, group: int, *, symmetric: bool = True) -> IntWeights:
    generator = torch.Generator().manual_seed(rows + columns + group)
    half = 2 ** (bits - 1)
    groups = columns // (group or columns)
    scales = torch.rand(rows, groups, generator=generator) * 0.01 + 0.002
    zeros = torch.randint(-half, half, (rows, groups), generator=generator, dtype=torch.int8)
    return IntWeights(
        grid=Grid(bits=bits, group_size=group, symmetric=symmetric),
        q=torch.randint(-half, half, (rows, columns), generator=generator, dtype=torch.int8),
        scales=scales.bfloat16(),
        zeros=None if symmetric else zeros,
    )


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).bfloat16()


def errors(fast: nn.Module, weights: IntWeights, bias: torch.Tensor | None, rows: int) -> tuple[float, float]:
    """Mean square root error of the packed and of the bfloat16 layer against float64, over the exact result's."""
    x = (
        torch.randn(rows, weights.q.shape[1], generator=torch.Generator().manual_seed(rows))
        .bfloat16()
        .to(_device(fast))
    )
    exact_bias = None if bias is None else bias.double()
    exact = nn.functional.linear(x.double(), weights.dense(torch.float64).to(x.device), exact_bias)
    plain = nn.functional.linear(x, weights.dense(torch.bfloat16).to(x.device), bias)
    found = fast(x)
    assert found.dtype == torch.bfloat16
    return tuple(float((y.double() - exact).norm() / exact.norm()) for y in (found, plain))


def _device(module: nn.Module) -> torch.device:
    return next(module.buffers()).device


CPU = [(16, 32, 4, 32), (48, 192, 4, 64), (192, 576, 4, 64), (64, 256, 4, 128), (32, 512, 4, 256), (80, 96, 4, 32)]
CPU += [(16, 64, 4, 0), (35, 16, 8, 0), (17, 48, 8, 0), (192, 576, 8, 0), (64, 1536, 8, 0)]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", CPU)
@torch.inference_mode()
def test_a_packed_layer_is_off_by_more_than_rounding(shape, bias, symmetric):
    weights = layer(*shape, symmetric=symmetric or shape[2] == 8)
    added = draw(shape[0]) if bias else None
    kernel = kernel_of(weights, device="cpu", dtype=torch.bfloat16)
    assert kernel == (INT8 if shape[2] == 8 else INT4)
    fast = KernelLinear(weights, kernel, bias=added, device="cpu")
    for rows in ROWS:
        found, plain = errors(fast, weights, added, rows)
        # The kernel rounds offsets, and a bias is added to what was rounded: one rounding more than the dense layer's.
        assert found <= max(1.6 * plain, 0.003), (rows, found, plain)
    x = draw(2, 3, shape[1])
    assert torch.equal(fast(x), fast(x.view(6, -1)).view(2, 3, -1))


@torch.inference_mode()
def test_zeros_with_fractions_are_lost_in_the_kernel():
    weights = round_to_nearest(draw(96, 320) + 2, 4, 32, symmetric=False)
    fast = KernelLinear(weights, INT4, bias=None, device="cpu")
    for rows in (1, 5):
        found, plain = errors(fast, weights, None, rows)
        assert found <= max(1.6 * plain, 0.003), (rows, found, plain)
    whole = replace_fields(weights, zeros=weights.zeros.round())
    assert errors(KernelLinear(whole, INT4, bias=None, device="cpu"), weights, None, 1)[0] > 0.01


@pytest.mark.parametrize("twin", [True, False])
@torch.inference_mode()
def test_many_rows_go_another_way_with_other_weights(twin):
    weights = layer(64, 96, 8, 0)
    bias = draw(64)
    plain = nn.Linear(96, 64).bfloat16()
    plain.weight.data, plain.bias.data = weights.dense(torch.bfloat16), bias
    fast = KernelLinear(weights, INT8, bias=bias, device="cpu")
    fast.dense = blocked(plain) if twin else None
    fast.many = 4
    taken = []
    fast.by_kernel = lambda flat: taken.append(len(flat)) or KernelLinear.by_kernel(fast, flat)
    for rows in (1, 3, 4, 9):
        x = draw(1, rows, 96)
        if rows < 4:
            assert (fast(x).float() - plain(x).float()).norm() < 0.01 * plain(x).float().norm()
        else:
            assert torch.equal(fast(x), plain(x))
    assert taken == [1, 3]


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        ({"bits": 4, "group_size": 64, "rows": 24}, "24 rows"),
        ({"bits": 4, "group_size": 96}, "groups of 96"),
        ({"bits": 4, "group_size": 0}, "groups of 576"),
        ({"bits": 4, "group_size": 64, "ordered": True}, "activation order"),
        ({"bits": 4, "group_size": 64, "dtype": "float32"}, "float32"),
        ({"bits": 4, "group_size": 64, "device": "mps"}, "mps"),
        ({"bits": 8, "group_size": 64}, "groups of 64"),
        ({"bits": 8, "group_size": 0, "symmetric": False}, "zero points"),
        ({"bits": 8, "group_size": 0, "columns": 40}, "40 columns"),
        ({"bits": 8, "group_size": 0, "device": "cuda"}, "for the cpu"),
        ({"bits": 3, "group_size": 64}, "3 bits"),
        ({"bits": 2, "group_size": 64}, "2 bits"),
    ],
)
def test_a_layer_without_a_kernel_is_said_to_have_one(layer, why):
    found = kernel_for(**{"symmetric": True, "rows": 64, "columns": 576, **layer})
    assert found.startswith(NO_KERNEL)
    assert why in found


def test_a_layer_with_a_kernel_is_said_to_have_none():
    for symmetric in (True, False):
        for group in (32, 64, 128, 256):
            for device in ("cpu", "cuda"):
                shape = {"rows": 16, "columns": 512, "device": device}
                assert kernel_for(bits=4, group_size=group, symmetric=symmetric, **shape) == INT4
    for group in (0, 48):
        assert kernel_for(bits=8, group_size=group, symmetric=True, rows=7, columns=48) == INT8


def test_a_kernel_that_gives_wrong_numbers_is_used(monkeypatch):
    weights = layer(32, 64, 4, 32)
    plain = nn.Linear(64, 32, bias=False).bfloat16().requires_grad_(False)
    plain.weight.data = weights.dense(torch.bfloat16)
    fast = KernelLinear(weights, INT4, bias=None, device="cpu")
    assert replace._agrees(fast, plain)
    scales = fast.scales.clone()
    for wrong in (scales.flip(0), scales * 1.05, torch.full_like(scales, float("nan"))):
        fast.scales = wrong
        assert not replace._agrees(fast, plain)


def test_the_crossover_is_not_where_the_other_way_wins(monkeypatch):
    fast = [KernelLinear(layer(16, 32, 8, 0), INT8, bias=None, device="cpu") for _ in range(2)]
    asked = []
    monkeypatch.setattr(kernels, "_other_is_faster", lambda layers, rows: asked.append(rows) or rows >= 6)
    assert kernels.set_many(fast) == 6
    assert asked == [2, 3, 4, 5, 6]
    assert [f.many for f in fast] == [6, 6]
    monkeypatch.setattr(kernels, "_other_is_faster", lambda layers, rows: False)
    assert kernels.set_many(fast) is None
    four = KernelLinear(layer(16, 32, 4, 32), INT4, bias=None, device="cpu")
    monkeypatch.setattr(kernels, "_other_is_faster", lambda layers, rows: True)
    assert kernels.set_many([four]) is None


def test_the_clock_reads_one_way_twice(monkeypatch):
    calls = []
    clock = iter(range(10**6))
    monkeypatch.setattr(kernels, "now", lambda: next(clock) + (10.0 * len(calls)))
    monkeypatch.setattr(KernelLinear, "by_kernel", lambda self, x: calls.extend("kk"))
    monkeypatch.setattr(KernelLinear, "by_many", lambda self, x: calls.append("m"))
    turns = cycle([[KernelLinear(layer(16, 32, 8, 0), INT8, bias=None, device="cpu")]])
    assert kernels._other_is_faster(turns, 3)
    monkeypatch.setattr(KernelLinear, "by_many", lambda self, x: calls.extend("mmm"))
    assert not kernels._other_is_faster(turns, 3)


@pytest.mark.parametrize("seconds", [0.0001, 0.004])
def test_the_crossover_is_timed_on_weights_that_a_cache_holds_or_takes_long(monkeypatch, seconds):
    """A layer comes again only after all others, and 0.2 s pass unless three turns at each row count take longer."""
    clock, called = [0.0], []

    def call(wins):
        def way(self, x):
            called.append(id(self))
            clock[0] += seconds / 2 if wins else seconds

        return way

    monkeypatch.setattr(kernels, "now", lambda: clock[0])
    monkeypatch.setattr(KernelLinear, "by_kernel", call(wins=True))
    monkeypatch.setattr(KernelLinear, "by_many", call(wins=False))
    fast = [KernelLinear(layer(16, 32, 8, 0), INT8, bias=None, device="cpu") for _ in range(37)]
    assert kernels.set_many(fast) is None
    assert len(set(called)) == 37
    apart = [b - a for one in set(called) for a, b in pairwise(i for i, each in enumerate(called) if each == one)]
    # Each row count draws its size from the next layer and does not run it.
    assert min(apart) >= 37 - len(kernels._ROWS)
    least = (kernels._TRIES + 1) * 1.5 * seconds * len(kernels._ROWS)
    assert clock[0] < max(0.25, 1.01 * least)


PACKS = {"bf16": "bfloat16", "float32": "float32"}


@torch.inference_mode()
def test_a_blocked_layer_forgets_its_weights():
    if not isinstance(twin := blocked(nn.Linear(96, 33).bfloat16().requires_grad_(False)), PackedLinear):
        pytest.skip("oneDNN has no bfloat16 kernels for this processor, so nothing is packed")
    linear = nn.Linear(96, 33).bfloat16().requires_grad_(False)
    twin = blocked(linear)
    assert torch.equal(twin.dense_weight, linear.weight)
    assert twin.weight_bytes == 96 * 33 * 2
    assert blocked(nn.Linear(8, 8)) is not None
    assert isinstance(blocked(nn.Linear(8, 8)), nn.Linear)


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("shape", [(64, 128, 4, 32), (192, 576, 4, 64), (64, 512, 4, 256), (48, 96, 4, 32)])
@torch.inference_mode()
def test_a_tile_packed_layer_is_off_by_more_than_rounding(shape, symmetric):
    weights = layer(*shape, symmetric=symmetric)
    fast = KernelLinear(weights, kernel_of(weights, device="cuda", dtype=torch.bfloat16), bias=None, device="cuda")
    for rows in ROWS:
        found, plain = errors(fast, weights, None, rows)
        assert found <= max(1.6 * plain, 0.003), (rows, found, plain)


def test_the_script_beside_the_peers_breaks(tmp_path, monkeypatch, capsys):
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1}
    folder = tiny.save(tmp_path / "m", tiny.make("llama", **shape), dtype=torch.bfloat16)
    (tmp_path / "p.jsonl").write_text('{"id": "a", "prompt": "abc abd abc"}\n')
    small = ["--limit", "1", "--tokens", "4", "--repeats", "1", "--layers", "1", "--hidden", "512", "--head"]
    small += ["--bandwidth-bytes", "1000000", "--shapes", "32x64", "--rows", "1", "3", "--walk-bytes", "4096"]
    monkeypatch.setitem(sys.modules, "kernels", peers)
    found = peers.told("kernels.py", ["--model", str(folder), "--prompts", str(tmp_path / "p.jsonl"), *small], capsys)
    # transformers, which asks for a package of this name, must not find the script.
    assert sys.modules["kernels"] is None
    names = {"bf16 eager", "bf16 eager again", "bf16 packed", "8-bit", "4-bit", "8-bit, head too", "4-bit, head too"}
    assert set(found["model"]["arms"]) == {*names, "4-bit, 8-bit head"}
    assert found["model"]["arms"]["bf16 packed"]["equal_outputs"] == 1
    assert all(row["decode_ratio"]["ratio"] > 0 for row in found["model"]["arms"].values())
    read = {name: row["bytes_a_token"] for name, row in found["large"]["arms"].items()}
    assert read["bf16 packed"] > read["8-bit"] > read["4-bit"]
    rows = found["rows"]["32x64"]
    packs = {f"{name} packed" for name, dtype in PACKS.items() if dense.repacks(dtype, "cpu")}
    assert set(rows) == {*PACKS, *packs, "8-bit", "4-bit"}
    assert {len(row) for row in rows.values()} == {2}
