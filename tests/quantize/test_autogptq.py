"""Folders of AutoGPTQ and AutoAWQ must be the weights that those libraries' own formulas give."""

from __future__ import annotations

from pathlib import Path

import audit_folders as made
import numpy as np
import older_folders as older
import pytest
import torch
from safetensors.torch import load_file

from specq.core.errors import ModelError
from specq.models.quiet import quiet
from specq.quantize import autogptq, contents
from specq.quantize.audit import audit_folder
from specq.quantize.audited import NO_KERNEL
from specq.quantize.kernels import INT4, INT8
from specq.quantize.load import load_quantized
from specq.quantize.schemes import Scheme

pytestmark = pytest.mark.usefixtures("one_thread")


def weights(rows: int = 64, columns: int = 96) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows + columns))


def scheme(kind: str, bits: int, group: int, *, symmetric: bool, less_one: bool = False) -> Scheme:
    return Scheme(format=kind, bits=bits, group_size=max(group, 0), symmetric=symmetric, less_one=less_one)


def by_its_formula(parts: dict[str, torch.Tensor], bits: int) -> torch.Tensor:
    """auto_gptq qlinear_cuda.forward, for widths that divide a word; weights [K, N] in float32."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    mask = 2**bits - 1
    zeros = torch.bitwise_right_shift(parts["qzeros"][:, :, None], shifts[None, None]).bitwise_and(mask)
    zeros = (zeros + 1).bitwise_and(mask).reshape(parts["scales"].shape)
    q = torch.bitwise_right_shift(parts["qweight"][:, None], shifts[None, :, None]).bitwise_and(mask)
    index = parts["g_idx"].long()
    return parts["scales"].float()[index] * (q.reshape(-1, q.shape[-1]) - zeros[index])


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("bits", "group"), [(2, 32), (3, 32), (4, 32), (4, -1), (8, 32), (8, -1)])
def test_a_gptq_layer_comes_out_with_other_weights(
    bits: int, group: int, symmetric: bool, version: int, shuffled: bool
) -> None:
    order = np.random.default_rng(1).permutation(np.arange(96) // 32) if shuffled and group > 0 else None
    layer = older.rounded(weights(), bits, group, symmetric=symmetric, order=order)
    parts = older.gptq(layer, bits, version=version)
    found = autogptq.assemble(scheme("gptq", bits, group, symmetric=symmetric, less_one=version == 1), parts)
    assert np.array_equal(found.dense(torch.float32).numpy(), layer.dense)
    assert (found.order is not None) == (order is not None)
    assert (found.zeros is None) == symmetric
    if version == 1 and bits != 3:
        assert torch.equal(found.dense(torch.float32), by_its_formula(parts, bits).t())


def test_a_zero_point_of_nothing_overflows() -> None:
    """Stored minus one it is the largest value, and one more is nothing again."""
    layer = older.rounded(weights().abs() + 0.1, 4, 32, symmetric=False)
    assert not layer.zeros.any()
    parts = older.gptq(layer, 4)
    assert set(parts["qzeros"].unique().tolist()) == {-1}
    found = autogptq.assemble(scheme("gptq", 4, 32, symmetric=False, less_one=True), parts)
    assert np.array_equal(found.dense(torch.float32).numpy(), layer.dense)


@pytest.mark.parametrize("symmetric", [True, False])
def test_an_awq_layer_comes_out_with_other_weights(symmetric: bool) -> None:
    layer = older.rounded(weights(), 4, 32, symmetric=symmetric)
    parts = older.awq(layer)
    found = autogptq.assemble(scheme("awq", 4, 32, symmetric=symmetric), parts)
    assert np.array_equal(found.dense(torch.float32).numpy(), layer.dense)
    del parts["qzeros"]
    if symmetric:
        again = autogptq.assemble(scheme("awq", 4, 32, symmetric=True), parts)
        assert torch.equal(again.dense(torch.float32), found.dense(torch.float32))


def test_awq_weights_are_not_those_that_mlx_lm_reads() -> None:
    import mlx.core as mx
    from mlx_lm.utils import _transform_awq_weights

    layer = older.rounded(weights(64, 128), 4, 64, symmetric=False)
    parts = {f"a.{part}": mx.array(value.numpy()) for part, value in older.awq(layer).items()}
    parts["a.scales"] = parts["a.scales"].astype(mx.float32)
    read, _ = _transform_awq_weights(parts, {"bits": 4, "group_size": 64})
    theirs = mx.dequantize(read["a.weight"], read["a.scales"], read["a.biases"], 64, 4)
    mine = autogptq.assemble(scheme("awq", 4, 64, symmetric=False), older.awq(layer)).dense(torch.float32)
    assert np.allclose(np.array(theirs), mine.numpy(), atol=1e-5)


CASES = {
    "gptq": ({"method": "gptq"}, INT4),
    "gptq with zero points": ({"method": "gptq", "symmetric": False}, INT4),
    "gptq of the second version": ({"method": "gptq", "symmetric": False, "version": 2}, INT4),
    "gptq in 8 bits": ({"method": "gptq", "bits": 8, "group": -1}, INT8),
    "gptq in an order": ({"method": "gptq", "shuffled": True}, f"{NO_KERNEL}columns are grouped in activation order"),
    "awq": ({"method": "awq"}, INT4),
}


@pytest.mark.parametrize("case", CASES)
def test_an_older_folder_is_not_run_or_measured(folders, tmp_path: Path, case: str) -> None:
    how, kernel = CASES[case]
    folder = made.older(folders("source"), tmp_path / "older", **how)
    stored = load_file(folder / "model.safetensors")
    with quiet():
        mine = load_quantized(folder, dtype="float32")
        fast = load_quantized(folder, dtype="bfloat16", prefill="packed")
    for name, layer in contents.read(folder).layers.items():
        if layer.scheme is None:
            continue
        names = [part for part in autogptq.PARTS if f"{name}.{part}" in stored]
        wanted = autogptq.assemble(layer.scheme, {part: stored[f"{name}.{part}"] for part in names})
        assert torch.equal(mine.model.get_submodule(name).weight, wanted.dense(torch.float32))
    assert set(fast.kernels.values()) == {kernel}
    found = audit_folder(folder, folders("source"))
    assert found.kernel.startswith(kernel)
    assert found.kl_mean is not None
    assert found.kl_mean < 0.05
    assert any("order of their own" in note for note in found.notes) == bool(how.get("shuffled"))
    assert not any("config.json says nothing" in note for note in found.notes)
    assert not any(error in note for note in found.notes for error in ("ValueError", "g_idx in weights"))


@pytest.mark.parametrize(
    ("method", "change", "words"),
    [
        ("gptq", {"bits": 5}, "5-bit gptq weights, which nothing here reads"),
        ("gptq", {"checkpoint_format": "marlin"}, "checkpoint_format 'marlin', and nothing here reads it"),
        ("gptq", {"is_marlin_format": True}, "'marlin'"),
        ("awq", {"version": "gemv"}, "version 'gemv', and nothing here reads it"),
        ("awq", {"bits": 8}, "8-bit awq weights, which nothing here reads"),
    ],
)
def test_a_layout_that_nothing_reads_is_read(
    folders, tmp_path: Path, method: str, change: dict[str, object], words: str
) -> None:
    folder = made.changed(
        folders(method), tmp_path / "other", config=lambda values: values["quantization_config"].update(change)
    )
    for read in (contents.read, load_quantized):
        with pytest.raises(ModelError) as caught:
            read(folder)
        assert words in str(caught.value)
        assert str(folder) in str(caught.value)


def test_layers_with_settings_of_their_own_get_those_of_all(folders, tmp_path: Path) -> None:
    """GPTQModel's "dynamic": what it names is kept, or has other settings, which these tensors do not have."""

    def told(values):
        values["quantization_config"]["dynamic"] = {r"-:.*never": {}, r"+:.*layers\.1\.mlp.*": {"group_size": 64}}

    folder = made.changed(folders("gptq"), tmp_path / "dynamic", config=told)
    with pytest.raises(ModelError, match=r"layers\.1\.mlp\.\w+\.scales is .* that is groups of 32, .* groups of 64"):
        contents.read(folder)


def test_scales_of_activations_are_dropped(folders, tmp_path: Path) -> None:
    """AutoAWQ puts scales between some architectures' layers; without them the weights mean something else."""
    folder = made.changed(
        folders("awq"),
        tmp_path / "scaled",
        tensors=lambda held: held.update({"model.layers.0.mlp.act.scales": torch.ones(128)}),
    )
    with pytest.raises(ModelError, match=r"model\.layers\.0\.mlp\.act has scales and no weights"):
        contents.read(folder)
