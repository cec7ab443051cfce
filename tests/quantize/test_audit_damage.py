"""Damage that the shapes of tensors do not show must be refused by name, and must not be counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import audit_folders as made
import pytest
import torch

from specq.core.errors import ModelError
from specq.models import headers
from specq.quantize.audit import audit_folder
from specq.quantize.schemes import Declared

Folders = Callable[[str], Path]
LAYER = "model.layers.0.self_attn.q_proj"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", ["fp8", "w8a8", "mxfp4"])
def test_a_layer_that_transformers_would_keep_is_taken_for_quantized(
    folders: Folders, tmp_path: Path, name: str
) -> None:
    folder = made.changed(
        folders(name), tmp_path / "kept", config=lambda c: c["quantization_config"].update(ignore=["lm_head", LAYER])
    )
    with pytest.raises(ModelError, match=rf"{LAYER}\.weight\w* holds quantized .*ignore names '{LAYER}'"):
        audit_folder(folder, None, forward=False)


def test_part_of_a_name_keeps_a_layer_of_an_awq_folder(folders: Folders, tmp_path: Path) -> None:
    def keep(*parts: str) -> Path:
        return made.changed(
            folders("awq"),
            tmp_path / "-".join(parts),
            config=lambda c: c["quantization_config"].update(modules_to_not_convert=list(parts)),
        )

    assert audit_folder(keep("gate", "lm_head"), None, forward=False).asked == 14
    with pytest.raises(ModelError, match=r"gate_proj\.qweight .*modules_to_not_convert names 'gate_proj'"):
        audit_folder(keep("gate_proj"), None, forward=False)


def test_a_pattern_or_a_class_that_keeps_layers_is_not_read() -> None:
    assert Declared(format="pack-quantized", ignore=("re:.*up_proj",)).keeps("a.up_proj") == "re:.*up_proj"
    assert Declared(format="pack-quantized", ignore=("Linear",)).keeps("a.up_proj") == "Linear"
    assert Declared(format="pack-quantized", ignore=("up_proj",)).keeps("a.up_proj") is None


@pytest.mark.parametrize("values", [[99] * 4, [0, 1, 2, -1]])
def test_columns_of_groups_that_do_not_exist_are_read(folders: Folders, tmp_path: Path, values: list[int]) -> None:
    def plant(held: dict[str, torch.Tensor]) -> None:
        held["model.layers.0.mlp.down_proj.weight_g_idx"] = torch.tensor(values, dtype=torch.int32).repeat(32)

    folder = made.changed(folders("w4"), tmp_path / "order", tensors=plant)
    wrong = rf"weight_g_idx is {values[-1]} at column \d: the layer has 4 groups, so allowed is 0 to 3"
    with pytest.raises(ModelError, match=wrong):
        audit_folder(folder, None, forward=False)


def test_an_index_of_minus_ones_is_refused(folders: Folders, tmp_path: Path) -> None:
    def plant(held: dict[str, torch.Tensor]) -> None:
        held[f"{LAYER}.weight_g_idx"] = torch.full((64,), -1, dtype=torch.int32)

    audit_folder(made.changed(folders("w4"), tmp_path / "order", tensors=plant), None, forward=False)


def test_floats_beside_packed_weights_are_counted_as_their_bits(folders: Folders, tmp_path: Path) -> None:
    def plant(held: dict[str, torch.Tensor]) -> None:
        held[f"{LAYER}.weight"] = torch.zeros(64, 64, dtype=torch.bfloat16)

    found = audit_folder(made.changed(folders("w4"), tmp_path / "beside", tensors=plant), None, forward=False)
    assert found.bits_per_quantized_weight == audit_folder(folders("w4"), None, forward=False).bits_per_quantized_weight


def test_json_that_is_nested_too_deeply_ends_in_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"a":' * 100_000 + "1" + "}" * 100_000, encoding="utf-8")
    with pytest.raises(ModelError, match=r"is not valid JSON \(nested too deeply\)"):
        headers.read_json(path)
