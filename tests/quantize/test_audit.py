from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import audit_folders as made
import pytest
import torch
from packed_folders import quantized_parts

from specq.quantize import audited
from specq.quantize.audit import audit_folder
from specq.quantize.audit_rows import like_for_like
from specq.quantize.audited import QuantAudit

Folders = Callable[[str], Path]
Audits = Callable[[str], QuantAudit]
LAYERS = 14  # seven a layer


# Format, bits, group, symmetry, effective bits (a 16-bit scale, or what the format says) and the start of the kernel.
EXPECTED: dict[str, tuple[str, int | None, int | None, bool, float, str]] = {
    "w4": ("pack-quantized", 4, 32, True, 4.5, "int4pack (bfloat16, cpu or cuda)"),
    "w4-asym": ("pack-quantized", 4, 32, False, 4.625, "int4pack (bfloat16, cpu or cuda)"),
    "w3": ("pack-quantized", 3, 32, True, 3.5, "no kernel here: 3 bits"),
    "w8": ("pack-quantized", 8, 0, True, 8.222, "int8pack (bfloat16, cpu)"),
    "w8-groups": ("pack-quantized", 8, 32, True, 8.5, "no kernel here: 8 bits in groups"),
    "w8a8": ("int-quantized", 8, 0, True, 8.222, "no kernel here: int-quantized"),
    "fp8": ("float-quantized", 8, 0, True, 8.222, "no kernel here: float-quantized"),
    "nvfp4": ("nvfp4-pack-quantized", 4, 16, True, 4.506, "no kernel here: nvfp4"),
    "mxfp4": ("mxfp4-pack-quantized", 4, 32, True, 4.25, "no kernel here: mxfp4"),
    "mlx": ("mlx affine", 4, 32, False, 5.0, "mlx affine on the MLX engine"),
    "mlx-mixed": ("mlx affine", None, 32, False, 3.532, "mlx affine on the MLX engine"),
    "mlx-mxfp4": ("mlx mxfp4", 4, 32, True, 4.25, "mlx mxfp4 on the MLX engine"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_layers_bits_sizes_or_distance_of_a_format_are_wrong(audits: Audits, name: str) -> None:
    found = audits(name)
    kind, bits, group, symmetric, effective, kernel = EXPECTED[name]
    assert (found.format, found.bits, found.group_size, found.symmetric) == (kind, bits, group, symmetric)
    assert (found.asked, len(found.quantized), found.skipped) == (LAYERS, LAYERS, ())
    assert found.bits_per_quantized_weight == pytest.approx(effective, abs=0.01)
    assert found.kernel.startswith(kernel)
    assert found.predicted_bytes is not None
    assert abs(found.disk_bytes / found.predicted_bytes - 1) < 0.02
    assert not [note for note in found.notes if "predicted" in note or "larger" in note]
    assert found.non_finite == ()
    assert found.positions >= 256
    assert found.kl_mean is not None
    assert found.kl_worst is not None
    assert found.argmax_agreement is not None
    assert 1e-7 < found.kl_mean < min(0.1, found.kl_worst)
    assert found.argmax_agreement > 0.95
    assert (found.same_tokenizer, found.same_special_ids, found.same_template) == (True, True, True)
    assert found.head == "tied"
    assert audited.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_fewer_bits_do_not_show_as_more_distance(audits: Audits) -> None:
    distances = [audits(name).kl_mean for name in ("w8-groups", "w8", "w4", "w3")]
    assert distances == sorted(distances, key=float)


def test_effective_bits_leave_out_what_stayed_in_floats(audits: Audits) -> None:
    found = audits("w4")
    linears = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128)
    floats = 50 * 64 + 5 * 64
    assert found.bits_per_weight == pytest.approx((linears * 4.5 + floats * 16) / (linears + floats))
    assert found.memory_bytes == (linears * 4.5 + floats * 16) / 8


def test_a_plain_folder_looks_quantized(audits: Audits) -> None:
    found = audits("source")
    assert (found.format, found.bits, found.quantized) == ("float (BF16)", None, ())
    assert (found.bits_per_weight, found.bits_per_quantized_weight) == (16, None)
    assert found.kernel == "no kernel here: nothing is quantized"
    assert {reason for _, reason in found.skipped} == {"nothing is quantized"}
    assert (found.kl_mean, found.argmax_agreement) == (0, 1)
    assert any("nothing is quantized" in note for note in found.notes)


def test_layers_that_the_config_ignores_are_not_named(audits: Audits) -> None:
    found = audits("ignored")
    downs = [f"model.layers.{i}.mlp.down_proj" for i in range(2)]
    assert dict(found.skipped) == dict.fromkeys(downs, "ignored by the config")
    assert (found.asked, len(found.quantized)) == (LAYERS, LAYERS - 2)


def test_asked_layers_that_were_left_out_are_not_told(folders: Folders) -> None:
    asked = [*(f"model.layers.{i}.mlp.down_proj" for i in range(2)), "model.layers.7.mlp.down_proj"]
    found = audit_folder(folders("ignored"), folders("source"), asked=asked, forward=False)
    assert found.asked == 3
    assert dict(found.skipped)["model.layers.7.mlp.down_proj"] == "not in the folder"
    assert dict(found.skipped)[asked[0]] == "ignored by the config"
    assert any("not the one predicted" in note for note in found.notes)


def test_layers_that_do_not_divide_stay_in_floats_without_a_word(audits: Audits) -> None:
    found = audits("mlx-g128")
    assert len(found.quantized) == 2
    assert len(found.skipped) == 12
    assert {reason for _, reason in found.skipped} == {"64 columns are not divisible by groups of 128"}
    assert any("not the one predicted" in note and "+1" in note for note in found.notes)


def test_quantized_embeddings_are_taken_for_kept_ones(audits: Audits) -> None:
    assert (audits("mlx").embeddings, audits("mlx-embeddings").embeddings) == ("kept", "quantized")
    arms = {name: audits(name) for name in ("w4", "mlx", "mlx-embeddings", "ignored")}
    assert like_for_like(arms) == {
        "mlx-embeddings": ("- embeddings kept",),
        "ignored": ("+ model.layers.*.mlp.down_proj (2)",),
    }
    assert like_for_like({}) == {} == like_for_like({"one": arms["w4"]})


def test_a_quantized_head_that_unties_is_not_told(audits: Audits, folders: Folders) -> None:
    found = audits("head")
    assert (found.head, found.embeddings, len(found.quantized)) == ("quantized", "kept", LAYERS + 1)
    assert any("the head is stored on its own" in note for note in found.notes)
    # Against a recipe that keeps the head, the file is too large.
    kept = audit_folder(folders("head"), folders("source"), asked=audits("w4").quantized, forward=False)
    assert any("not the one predicted" in note for note in kept.notes)


def test_a_config_that_ties_a_quantized_head_is_believed(folders: Folders, tmp_path: Path) -> None:
    tied = made.changed(
        folders("head"), tmp_path / "tied", config=lambda values: values.update(tie_word_embeddings=True)
    )
    found = audit_folder(tied, folders("source"), forward=False)
    assert found.head == "quantized"
    assert any("the folder holds a quantized head" in note for note in found.notes)


def test_a_folder_that_outgrew_its_source_is_not_told(folders: Folders, tmp_path: Path) -> None:
    def widen(held: dict[str, torch.Tensor]) -> None:
        held.update({name: value.float() for name, value in held.items()})

    wide = made.changed(folders("source"), tmp_path / "wide", tensors=widen)
    found = audit_folder(wide, folders("source"), forward=False)
    assert any(note.startswith("the folder is larger than its source") for note in found.notes)


def mixture(root: Path, *, gates: bool) -> tuple[Path, Path]:
    """A tiny Mixtral and the same with 4-bit experts, spelled as llmcompressor does."""
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    args = QuantizationArgs(num_bits=4, symmetric=True, strategy="group", group_size=32)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)

    def pack(held: dict[str, torch.Tensor]) -> None:
        for name in list(held):
            if ".experts." in name or (gates and name.endswith(".gate.weight")):
                parts = quantized_parts(held.pop(name), scheme)
                for old, new in (("w1", "gate_proj"), ("w2", "down_proj"), ("w3", "up_proj")):
                    name = name.replace(f".{old}.", f".{new}.")
                held |= {name.replace("weight", part): value for part, value in parts.items()}

    told = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "ignore": ["lm_head", "re:.*self_attn.*"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": json.loads(args.model_dump_json())}},
    }
    plain = made.mixture(root / "mixture")
    return plain, made.changed(
        plain, root / "packed", tensors=pack, config=lambda values: values.update(quantization_config=told)
    )


@pytest.mark.parametrize("gates", [False, True])
def test_experts_or_their_gates_are_miscounted(tmp_path: Path, one_thread: None, gates: bool) -> None:
    plain, packed = mixture(tmp_path, gates=gates)
    # As the model's class names them: the files say block_sparse_moe and w1, w2, w3.
    names = [
        f"model.layers.0.mlp.experts.{i}.{part}" for i in range(4) for part in ("gate_proj", "up_proj", "down_proj")
    ]
    found = audit_folder(packed, plain, asked=names)
    assert found.asked == 12
    assert len(found.quantized) == 12 + gates
    reasons = dict(found.skipped)
    gate = "model.layers.0.block_sparse_moe.gate"
    assert reasons.get(gate) == (None if gates else "a router gate")
    assert reasons["model.layers.0.self_attn.q_proj"] == "ignored by the config (re:.*self_attn.*)"
    kept = 0 if gates else 1
    assert f"mixture of experts: 12 of 12 expert matrices quantized, {kept} router gates kept" in found.notes
    assert any("router gates are quantized" in note for note in found.notes) == gates
    assert not [note for note in found.notes if "predicted" in note]
    # transformers would run this folder with random experts.
    assert found.kl_mean is None
    assert any("this folder names its experts otherwise than transformers reads them" in n for n in found.notes)


@pytest.mark.parametrize(("method", "effective"), [("gptq", 4.625), ("awq", 4.625)])
def test_an_older_format_is_not_read(folders: Folders, method: str, effective: float) -> None:
    found = audit_folder(folders(method), folders("source"))
    assert (found.format, found.bits, found.group_size) == (method, 4, 32)
    assert found.symmetric is (method == "gptq")
    assert (found.asked, len(found.quantized)) == (LAYERS, LAYERS)
    index = 32 / 64 if method == "gptq" else 0  # an int32 a column, over 64 rows at most
    assert found.bits_per_quantized_weight is not None
    assert effective <= found.bits_per_quantized_weight <= effective + 2 * index
    assert not [note for note in found.notes if "predicted" in note]
    assert found.kernel == "int4pack (bfloat16, cpu or cuda)"
    assert found.kl_mean is not None
    assert 1e-7 < found.kl_mean < 0.1
    assert any("through specq's own reader" in note for note in found.notes)


def test_a_source_that_was_quantized_before_is_not_told(folders: Folders, tmp_path: Path) -> None:
    def snap(held: dict[str, torch.Tensor]) -> None:
        for name in held:
            if name.endswith("proj.weight"):
                blocks = held[name].float().reshape(-1, 32)
                scale = (blocks.abs().amax(1, keepdim=True) / 7.5).bfloat16().float()
                held[name] = (torch.round(blocks / scale).clamp(-8, 7) * scale).reshape(held[name].shape).bfloat16()

    snapped = made.changed(folders("source"), tmp_path / "snapped", tensors=snap)
    found = audit_folder(folders("w4"), snapped, forward=False)
    assert str(found.source_grid).startswith("weights lie on a 4-bit grid, blocks of 32 (14")
    assert any("the cost looks smaller than it is" in note for note in found.notes)
    assert audit_folder(folders("w4"), folders("source"), forward=False).source_grid is None
    stored = audit_folder(folders("mlx"), folders("w8"), forward=False)
    assert stored.source_grid == "stored quantized: pack-quantized, 8-bit, one scale a row, symmetric (14 of 14 layers)"


def test_nothing_can_be_said_without_a_source(folders: Folders) -> None:
    found = audit_folder(folders("w4"), None, fallen_back=[("a", "not positive definite")])
    assert (found.kl_mean, found.positions, found.predicted_bytes, found.same_tokenizer) == (None, 0, None, None)
    assert found.fallen_back == (("a", "not positive definite"),)
    assert len(found.quantized) == LAYERS
