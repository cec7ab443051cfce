"""What config.json says and the tensors do not is refused by name, at the audit, the plan and the load alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import audit_folders as made
import packed_folders
import pytest
import torch

from specq.core.errors import ModelError
from specq.quantize import contents
from specq.quantize.audit import audit_folder
from specq.quantize.load import load_quantized

Folders = Callable[[str], Path]
Tensors = Callable[[dict[str, torch.Tensor]], None]
LAYER = "model.layers.0.self_attn.q_proj"

pytestmark = pytest.mark.usefixtures("one_thread")


def weights_say(**more: Any) -> Callable[[dict[str, Any]], None]:
    """A change of what the first group of compressed-tensors says about weights."""
    return lambda c: c["quantization_config"]["config_groups"]["group_0"]["weights"].update(more)


def settings_say(**more: Any) -> Callable[[dict[str, Any]], None]:
    """A change of all settings, under both of the names that MLX folders use."""

    def change(config: dict[str, Any]) -> None:
        for key in ("quantization", "quantization_config"):
            if key in config:
                config[key].update(more)

    return change


# Folder, what config.json says instead, and the words: what is stored, what it says.
LIES: dict[str, tuple[str, Callable[[dict[str, Any]], None], str]] = {
    "bits": (
        "w4",
        weights_say(num_bits=8),
        r"weight_packed is \[64, 16\] .* says 8 bits, .*\[64, 32\] \(that is 4 bits",
    ),
    "fewer bits": ("w8", weights_say(num_bits=4), r"weight_packed is \[64, 32\] .* says 4 bits.*that is 8 bits"),
    "group": ("w4", weights_say(group_size=64), r"weight_scale is \[64, 4\] .*groups of 32, .* says groups of 64"),
    "smaller group": ("w4", weights_say(group_size=16), r"weight_scale .*groups of 32, .* says groups of 16"),
    "row": ("w4", weights_say(strategy="channel"), r"weight_scale .*groups of 32, .* says one scale a row"),
    "no row": ("w8", weights_say(strategy="group", group_size=32), r"that is one scale a row, .* says groups of 32"),
    "uneven group": ("w4", weights_say(group_size=48), r"has (64|128) columns, which the groups of 48 .*do not divide"),
    "no group": ("w4", weights_say(group_size=-7), r"4 bits in groups of -7"),
    "symmetric": ("w4-asym", weights_say(symmetric=True), r"weight_zero_point holds zero points, .* is symmetric"),
    "asymmetric": ("w4", weights_say(symmetric=False), r"lacks weight_zero_point, .*asymmetric\); stored are weight_p"),
    "order": ("w4", weights_say(actorder="group"), r"lacks weight_g_idx, .*in activation order"),
    "int group": ("w8a8", weights_say(strategy="group", group_size=32), r"weight_scale .* says groups of 32"),
    "int asymmetric": ("w8a8", weights_say(symmetric=False), r"lacks weight_zero_point"),
    "float bits": ("fp8", weights_say(num_bits=4), r"stored in 8 bits \(F8\), and config\.json says 4 bits"),
    "nvfp4 group": ("nvfp4", weights_say(group_size=32), r"weight_scale is \[64, 8\] .*groups of 16, .* groups of 32"),
    "mxfp4 bits": ("mxfp4", weights_say(num_bits=8), r"two values a byte, and config\.json says 8 bits"),
    "mlx bits": (
        "mlx",
        settings_say(bits=8),
        r"weight is \[64, 16\] and its scales are \[64, 4\].*8 bits .*hold 64 columns, .*hold 128",
    ),
    "mlx group": (
        "mlx",
        settings_say(group_size=64),
        r"4 bits .* hold 128 columns, in its groups of 64 the scales hold 256",
    ),
    "mlx both": ("mlx", settings_say(bits=2, group_size=64), r"config\.json says hidden_size|makes the layer"),
    "gptq bits": ("gptq", settings_say(bits=8), r"qzeros is \[8\] for 64 rows .* says 8 bits.*that is 4 bits"),
    "gptq group": ("gptq", settings_say(group_size=64), r"scales is \[4, 64\] .*groups of 32, .* says groups of 64"),
    "gptq row": ("gptq", settings_say(group_size=-1), r"scales is .*groups of 32, .* says one scale a row"),
    "gptq asymmetric": ("awq", settings_say(zero_point=False), r"qzeros holds zero points, .* is symmetric"),
    "awq group": ("awq", settings_say(group_size=128), r"scales is|do not divide"),
}


def said(read: Callable[[], object], folder: Path) -> str:
    """The error, which must be one line and name the folder."""
    with pytest.raises(ModelError) as caught:
        read()
    words = str(caught.value)
    assert "\n" not in words
    assert str(folder) in words
    return words


@pytest.mark.parametrize("case", LIES)
def test_config_json_is_believed_where_tensors_say_otherwise(folders: Folders, tmp_path: Path, case: str) -> None:
    import re

    name, lie, words = LIES[case]
    folder = made.changed(folders(name), tmp_path / "lies", config=lie)
    found = said(lambda: audit_folder(folder, None, forward=False), folder)
    assert re.search(words, found), found
    assert "config.json" in found


def without(part: str) -> Tensors:
    return lambda held: held.__delitem__(f"{LAYER}.{part}")


def as_kind(part: str, kind: torch.dtype) -> Tensors:
    return lambda held: held.update({f"{LAYER}.{part}": held[f"{LAYER}.{part}"].to(kind)})


def cut(part: str, axis: int = 0) -> Tensors:
    return lambda held: held.update(
        {f"{LAYER}.{part}": held[f"{LAYER}.{part}"].narrow(axis, 0, 1).contiguous()}  # one row or column of it
    )


BROKEN: dict[str, tuple[str, Tensors, str]] = {
    "no scale": ("w4", without("weight_scale"), "lacks weight_scale, which config.json asks for"),
    "no shape": ("w4", without("weight_shape"), "lacks weight_shape"),
    "no weights": ("w4", without("weight_packed"), "has weight_scale, weight_shape and no weights"),
    "wide words": ("w4", as_kind("weight_packed", torch.int64), "weight_packed is stored as I64"),
    "no scale of mlx": ("mlx", without("scales"), "lacks scales"),
    "no biases of mlx": ("mlx", without("biases"), "lacks biases"),
    "wide words of mlx": ("mlx", as_kind("weight", torch.int64), "weight is stored as I64"),
    "short biases": ("mlx", cut("biases"), "biases is [1, 2]"),
    "no zero points": ("gptq", without("qzeros"), "lacks qzeros"),
    "no scale of gptq": ("gptq", without("scales"), "lacks scales"),
    "wide words of gptq": ("gptq", as_kind("qweight", torch.int64), "qweight is stored as I64"),
    "floats for words": ("gptq", as_kind("qweight", torch.float32), "qweight is stored as F32"),
    "short index": ("gptq", lambda held: held.update({f"{LAYER}.g_idx": torch.zeros(32).int()}), "qweight is [8, 64]"),
    "short zero points": ("w4-asym", cut("weight_zero_point"), "weight_zero_point is [1, 2]"),
    "short scale": ("w8a8", cut("weight_scale"), "weight_scale is [1, 1]"),
    "no scale of nvfp4": ("nvfp4", without("weight_global_scale"), "lacks weight_global_scale"),
    "floats of int": ("w8a8", as_kind("weight", torch.int32), "weight is stored as I32"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_tensors_that_are_missing_or_of_another_kind_are_passed_over(
    folders: Folders, tmp_path: Path, case: str
) -> None:
    name, change, words = BROKEN[case]
    folder = made.changed(folders(name), tmp_path / "broken", tensors=change)
    found = said(lambda: contents.read(folder), folder)
    assert words in found
    assert LAYER in found


def test_a_run_refuses_without_naming_the_folder(folders: Folders, tmp_path: Path) -> None:
    folder = made.changed(folders("w4"), tmp_path / "lies", config=weights_say(group_size=64))
    assert "says groups of 64" in said(lambda: load_quantized(folder), folder)


def test_zero_points_of_nothing_on_a_symmetric_grid_are_refused(folders: Folders, tmp_path: Path) -> None:
    def add(held: dict[str, torch.Tensor]) -> None:
        held[f"{LAYER}.weight_zero_point"] = torch.zeros(64, 2, dtype=torch.int8)

    found = contents.read(made.changed(folders("w4"), tmp_path / "zeros", tensors=add))
    scheme = found.layers[LAYER].scheme
    assert scheme is not None
    assert scheme.symmetric


INDEX = torch.arange(64) // 32


@pytest.mark.parametrize(
    ("index", "ordered"),
    [(INDEX.flip(0), True), (INDEX, False), (torch.full((64,), -1), False)],
)
def test_an_order_of_columns_that_config_json_hides_runs_on_the_kernel(
    folders: Folders, tmp_path: Path, index: torch.Tensor, ordered: bool
) -> None:
    def add(held: dict[str, torch.Tensor]) -> None:
        held[f"{LAYER}.weight_g_idx"] = index.int()
        if ordered:
            held[f"{LAYER}.weight_scale"] = held[f"{LAYER}.weight_scale"].flip(1).contiguous()

    folder = made.changed(folders("w4"), tmp_path / "order", tensors=add)
    found = audit_folder(folder, folders("source"))
    assert ("no kernel here: columns are grouped in activation order (1 layers)" in found.kernel) == ordered
    assert any("1 layers group their columns" in n and "config.json says nothing" in n for n in found.notes) == ordered
    # The order was read: turned scales with turned groups are the weights as they were.
    assert found.kl_mean is not None
    assert found.kl_mean < 0.1


def test_an_order_of_columns_ends_in_an_error_of_another_library(folders: Folders, tmp_path: Path) -> None:
    def add(held: dict[str, torch.Tensor]) -> None:
        for name in [name.removesuffix(".weight_packed") for name in held if name.endswith(".weight_packed")]:
            columns = int(held[f"{name}.weight_shape"][1])
            held[f"{name}.weight_g_idx"] = (torch.arange(columns) // 32).flip(0).int()

    folder = made.changed(folders("w4"), tmp_path / "group", tensors=add, config=weights_say(actorder="group"))
    found = audit_folder(folder, folders("source"))
    assert found.kl_mean is not None
    assert found.kernel == "no kernel here: columns are grouped in activation order"
    assert any("14 layers group their columns" in note for note in found.notes)
    assert not any("ValidationError" in note or "says nothing" in note for note in found.notes)


def top(**more: Any) -> Callable[[dict[str, Any]], None]:
    return lambda config: config["quantization_config"].update(more)


def group(**more: Any) -> Callable[[dict[str, Any]], None]:
    return lambda config: config["quantization_config"]["config_groups"]["group_0"].update(more)


@pytest.mark.parametrize("place", [top, group])
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("sparse-24-bitmask", "2:4 sparse floats"),
        ("marlin-24", "2:4 sparse integers in the order of the Marlin kernel"),
        ("weird", "unknown here"),
    ],
)
def test_a_format_that_nothing_reads_is_taken_for_packed_integers(
    folders: Folders, tmp_path: Path, place: Any, kind: str, words: str
) -> None:
    folder = made.changed(folders("w4"), tmp_path / "other", config=place(format=kind))
    for read in (lambda: audit_folder(folder, None), lambda: load_quantized(folder)):
        found = said(read, folder)
        assert f"the format '{kind}' ({words}" in found
        assert "nothing here reads it" in found


def test_sparse_weights_and_modes_that_nothing_reads_pass(folders: Folders, tmp_path: Path) -> None:
    sparse = made.changed(folders("w4"), tmp_path / "sparse", config=top(sparsity_config={"format": "sparse-bitmask"}))
    assert "sparsity_config has the format 'sparse-bitmask'" in said(lambda: contents.read(sparse), sparse)
    mode = made.changed(folders("mlx"), tmp_path / "mode", config=settings_say(mode="weird"))
    assert "mode 'weird', which nothing here reads" in said(lambda: contents.read(mode), mode)


def test_widths_that_do_not_fill_words_are_refused(tmp_path: Path) -> None:
    """3 bits and 96 columns: words that values straddle, rows that do not fill the last one."""
    for bits in (2, 3, 4, 8):
        folder = packed_folders.write(tmp_path / str(bits), bits=bits, group=32, symmetric=False)
        assert all(layer.scheme is None or layer.scheme.bits == bits for layer in contents.read(folder).layers.values())
