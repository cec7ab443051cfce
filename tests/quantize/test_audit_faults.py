from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import audit_folders as made
import numpy as np
import pytest
import torch

from specq.core.errors import ModelError
from specq.quantize import compare
from specq.quantize.audit import audit_folder
from specq.quantize.audit_rows import rows
from specq.quantize.audited import QuantAudit
from specq.quantize.layers import linear_layers

Folders = Callable[[str], Path]
Audits = Callable[[str], QuantAudit]
LAYERS = 14  # seven a layer


@pytest.mark.parametrize(
    ("name", "tensor", "value"),
    [
        ("w4", "model.layers.1.mlp.up_proj.weight_scale", float("nan")),
        ("mlx", "model.layers.0.self_attn.q_proj.biases", float("inf")),
        ("mxfp4", "model.layers.0.mlp.down_proj.weight_scale", 255),
        ("source", "model.norm.weight", float("-inf")),
    ],
)
def test_planted_values_that_are_not_finite_pass(
    folders: Folders, tmp_path: Path, name: str, tensor: str, value: float
) -> None:
    def plant(held: dict[str, torch.Tensor]) -> None:
        held[tensor].view(-1)[3] = value

    broken = made.changed(folders(name), tmp_path / "broken", tensors=plant)
    found = audit_folder(broken, folders("source"), forward=name != "mxfp4")
    assert found.non_finite == (tensor,)
    assert found.kl_mean is None
    if name != "mxfp4":
        assert any("NaN or infinite logits" in note for note in found.notes)
    assert ("finite", f"NO: NaN or infinite values in {tensor}") in rows(found)


def test_a_planted_wrong_scale_passes_the_forward_pass(folders: Folders, audits: Audits, tmp_path: Path) -> None:
    def plant(held: dict[str, torch.Tensor]) -> None:
        held["model.layers.0.mlp.down_proj.weight_scale"] *= -1

    found = audit_folder(made.changed(folders("w8"), tmp_path / "f", tensors=plant), folders("source"))
    right = audits("w8")
    assert found.kl_mean is not None
    assert right.kl_mean is not None
    assert found.kl_mean > 100 * right.kl_mean


def test_tokenizer_settings_that_leak_are_not_seen(folders: Folders, tmp_path: Path) -> None:
    leaked = made.changed(folders("w4"), tmp_path / "leaked")
    cut = {"direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0}
    made.edit(leaked / "tokenizer.json", lambda values: values.update(truncation=cut))
    found = audit_folder(leaked, folders("source"), forward=False)
    assert (found.same_tokenizer, found.same_special_ids, found.same_template) == (False, True, True)
    assert any("truncation" in note for note in found.notes)


def test_an_eos_or_a_template_that_changed_is_not_seen(folders: Folders, tmp_path: Path) -> None:
    changed = made.changed(folders("w4"), tmp_path / "eos")
    made.edit(changed / "generation_config.json", lambda values: values.update(eos_token_id=[2, 3]))
    (changed / "chat_template.jinja").write_text(made.TEMPLATE.replace("assistant:", "bot:"), encoding="utf-8")
    found = audit_folder(changed, folders("source"), forward=False)
    assert (found.same_tokenizer, found.same_special_ids, found.same_template) == (True, False, False)
    # Another spelling of the same template renders the same text.
    (changed / "chat_template.jinja").write_text("{# kept #}" + made.TEMPLATE, encoding="utf-8")
    assert audit_folder(changed, folders("source"), forward=False).same_template is True


def test_another_vocabulary_is_taken_for_the_same(folders: Folders, tmp_path: Path) -> None:
    def swap(values: dict[str, Any]) -> None:
        vocab = values["model"]["vocab"]
        vocab["a"], vocab["b"] = vocab["b"], vocab["a"]

    changed = made.changed(folders("w4"), tmp_path / "swapped")
    made.edit(changed / "tokenizer.json", swap)
    found = audit_folder(changed, folders("source"), forward=False)
    assert found.same_tokenizer is False
    assert any("in the source" in note and "in the folder" in note for note in found.notes)


BAD: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "unknown method": (lambda c: c.update(quantization_config={"quant_method": "bitsandbytes"}), "'bitsandbytes'"),
    "unknown format": (
        lambda c: c["quantization_config"]["config_groups"]["group_0"].update(format="marlin-24"),
        "'marlin-24'",
    ),
    "no config": (lambda c: c.pop("quantization_config"), "config.json does not say how"),
    "a list": (lambda c: c.update(quantization_config=[1]), "quantization_config is [1], expected an object"),
    "no groups": (
        lambda c: c["quantization_config"].pop("config_groups"),
        "config_groups is null: allowed is an object",
    ),
    "bits in words": (
        lambda c: c["quantization_config"]["config_groups"]["group_0"]["weights"].update(num_bits="four"),
        'weights.num_bits is "four": allowed is a whole number',
    ),
    "a quantized layer that is ignored": (
        lambda c: c["quantization_config"].update(ignore=["lm_head", "model.layers.0.mlp.up_proj"]),
        "holds quantized weights, and config.json keeps that layer in floats",
    ),
    "a broken pattern": (
        lambda c: c["quantization_config"]["config_groups"]["group_0"].update(targets=["re:(", "Linear"]),
        "unterminated subpattern",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_folder_that_nobody_can_read_is_not_refused_by_name(folders: Folders, tmp_path: Path, case: str) -> None:
    change, words = BAD[case]
    broken = made.changed(folders("w4"), tmp_path / "broken", config=change)
    with pytest.raises(ModelError) as caught:
        audit_folder(broken, None)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_model_or_is_cut_is_read(folders: Folders, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        audit_folder(tmp_path, None)
    cut = made.changed(folders("w4"), tmp_path / "cut")
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:-5])
    with pytest.raises(ModelError, match="truncated"):
        audit_folder(cut, None)


def test_a_token_without_probability_makes_a_distance_of_nothing() -> None:
    """Logits of minus infinity in both models add nothing; in the folder alone they are infinitely far."""
    rng = np.random.default_rng(0)
    mine, other = rng.normal(size=(2, 5, 7)).astype(np.float32)
    wanted = compare._measured(
        [compare._log_softmax(np.delete(mine, 3, axis=1))], iter([np.delete(other, 3, axis=1)]), []
    )
    mine[:, 3] = other[:, 3] = -np.inf
    found = compare._measured([compare._log_softmax(mine)], iter([other]), [])
    assert found.kl_mean == pytest.approx(wanted.kl_mean)
    assert found.kl_worst == pytest.approx(wanted.kl_worst)
    assert (found.positions, found.argmax_agreement) == (5, wanted.argmax_agreement)
    mine[2, 3] = 0.0
    found = compare._measured([compare._log_softmax(mine)], iter([other]), [])
    assert (found.kl_mean, found.kl_worst, found.positions) == (None, None, 0)
    assert "no probability at all" in found.notes[0]


def test_a_config_that_contradicts_itself_ends_in_a_traceback(folders: Folders, tmp_path: Path) -> None:
    torn = made.changed(
        folders("w4"), tmp_path / "torn", config=lambda held: held.update(hidden_size=held["hidden_size"] + 1)
    )
    with pytest.raises(ModelError, match=r"does not accept .*config\.json"):
        linear_layers(torn)


def test_a_loader_that_breaks_ends_in_a_traceback(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(contents: object) -> object:
        raise UnboundLocalError("cannot access local variable 'model_dtype'")

    monkeypatch.setattr(compare, "opened", loaded)
    found = audit_folder(folders("w4"), folders("source"))
    assert any("no forward pass: UnboundLocalError" in note for note in found.notes)
    assert found.kl_mean is None


def test_a_folder_without_a_source_is_taken_for_its_own_source(folders: Folders) -> None:
    found = audit_folder(folders("w4"), None)
    assert found.source_grid == "not known: no source was given"
    assert not any("quantized before" in note for note in found.notes)
