"""What the plan says that weights take and that a pass reads, against models that are really loaded."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specq.engines.hf import HFEngine
from specq.experiment import config, plan
from specq.experiment.sizes import PlannedModel
from specq.models import facts, kept, refs
from specq.quantize import artifact, dense, recipes

sys.path.insert(0, str(Path(__file__).parents[1] / "quantize"))
import packed_folders
import quantize_sources

SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
# Buffers, such as rotary frequencies, are held and are no weights.
BUFFERS = 2048


@pytest.fixture(autouse=True)
def _twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers hand over at 8 rows, so that no dense copy is dropped because a kernel was measured faster."""
    monkeypatch.setattr("specq.quantize.kernels._other_is_faster", lambda layers, rows: rows >= 8)


def planned(folder: Path, levers: dict[str, Any], run: list[str] | None = None, **engine: Any) -> plan.Plan:
    prompts = folder.parent / "prompts.jsonl"
    prompts.write_text(json.dumps({"id": "raw", "prompt": "one two three"}) + "\n")
    asked = config.from_resolved(
        {
            "name": "x",
            "target": {"model": str(folder)},
            "engine": {"device": "cpu", **engine},
            "workload": {"prompts": str(prompts), "max_new_tokens": 4},
            "levers": levers,
            **({} if run is None else {"arms": {"run": run}}),
        }
    )
    made = plan.make(asked, available_bytes=1 << 30)
    made.check()
    return made


def self_draft(**keys: Any) -> dict[str, Any]:
    return {"kind": "draft", "method": "model", "model": "self", "k": 2, **keys}


def draft_of(made: plan.Plan) -> PlannedModel:
    (one,) = [model for model in made.models if model.role == "draft"]
    return one


@pytest.mark.parametrize("dtype", ["auto", "bfloat16"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_head_that_is_laid_out_beside_its_embedding_is_not_counted(
    folder_of: Callable[..., Path], dtype: str, tied: bool
) -> None:
    folder = folder_of("llama", tie_word_embeddings=tied, **SIZES)
    (target,) = planned(folder, {}, dtype=dtype).models
    told = HFEngine(device="cpu", dtype=dtype).open(str(folder)).describe()
    assert target.weight_bytes == pytest.approx(told["weight_bytes"], abs=BUFFERS)
    assert target.bytes_per_token() == told["bytes_per_token"]
    packs = tied and dense.repacks(told["dtype"], "cpu")
    head = target.facts.vocab * target.facts.hidden * (4 if told["dtype"] == "float32" else 2)
    assert target.held.copy_bytes == head * packs


def test_a_processor_without_the_kernels_is_said_to_hold_a_head_twice(
    folder_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "_has_bfloat16", lambda: False)
    folder = folder_of("llama", tie_word_embeddings=True, **SIZES)
    (target,) = planned(folder, {}, dtype="bfloat16").models
    assert target.weight_bytes == target.facts.parameters * 2


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("keys", "dtype"),
    [
        ({"bits": 8}, "bfloat16"),
        ({"bits": 8, "prefill": "packed"}, "bfloat16"),
        ({"bits": 4}, "bfloat16"),
        ({"bits": 4, "prefill": "packed", "head": "quantize"}, "bfloat16"),
        ({"bits": 8, "dtype": "bfloat16"}, "float32"),
        ({"bits": 4}, "float32"),
        ({"dtype": "bfloat16"}, "float32"),
    ],
)
def test_a_draft_that_is_its_target_holds_or_reads_other_bytes_than_planned(
    folder_of: Callable[..., Path], keys: dict[str, Any], dtype: str, tied: bool
) -> None:
    folder = folder_of("llama", tie_word_embeddings=tied, **SIZES)
    made = planned(folder, {"me": self_draft(**keys)}, dtype=dtype)
    target = HFEngine(device="cpu", dtype=dtype).open(str(folder))
    draft = made.arms[-1].draft
    assert draft is not None
    told = target.describe_draft(draft)
    assert told is not None
    assert draft_of(made).weight_bytes == pytest.approx(told["weight_bytes"], abs=BUFFERS)
    assert draft_of(made).bytes_per_token() == pytest.approx(told["bytes_per_token"], abs=BUFFERS)
    assert made.arms[-1].model_bytes == pytest.approx(
        target.describe()["weight_bytes"] + told["weight_bytes"], abs=BUFFERS
    )
    kernels = "".join(target.loaded_draft(draft).notes)
    assert bool(made.arms[-1].no_kernel) == ("no kernel here" in kernels)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_draft_that_keeps_some_ids_is_planned_with_its_whole_head(
    folder_of: Callable[..., Path], tmp_path: Path, tied: bool, dtype: str
) -> None:
    folder = folder_of("llama", tie_word_embeddings=tied, **SIZES)
    shutil.copytree(folder, tmp_path / "floats")
    packed_folders.write(tmp_path / "packed", bits=8, ignore=(), tie_word_embeddings=False)
    target = HFEngine(device="cpu", dtype=dtype).open(str(folder))
    for name in ("floats", "packed"):
        kept.write(tmp_path / name, range(0, 50, 2), 50)
        made = planned(folder, {"few": self_draft(model=str(tmp_path / name))}, dtype=dtype)
        assert made.arms[-1].draft is not None
        told = target.describe_draft(made.arms[-1].draft)
        assert told is not None
        # Half the head's bytes are more than that.
        assert draft_of(made).weight_bytes == pytest.approx(told["weight_bytes"], abs=600)
        assert draft_of(made).bytes_per_token() == pytest.approx(told["bytes_per_token"], abs=600)


def test_a_target_that_drafts_for_itself_adds_weights(folder_of: Callable[..., Path]) -> None:
    folder = folder_of("llama", **SIZES)
    made = planned(folder, {"me": self_draft()}, dtype="bfloat16")
    assert made.arms[-1].draft is not None
    assert HFEngine(device="cpu", dtype="bfloat16").open(str(folder)).describe_draft(made.arms[-1].draft) is None
    assert made.arms[-1].model_bytes == made.arms[0].model_bytes


NONE = "no kernel here: "
FOUR = 'method = "rtn"\nbits = 4\ngroup_size = 32\n'


@pytest.mark.parametrize(
    ("text", "kernel", "dtype"),
    [
        (FOUR, "int4pack", "bfloat16"),
        (f'{FOUR}head = "quantize"\nsymmetric = false\n', "int4pack", "bfloat16"),
        ('method = "rtn"\nbits = 8\n', "int8pack", "bfloat16"),
        ('method = "rtn"\nbits = 8\ngroup_size = 32\n', f"{NONE}8 bits in groups of 32", "bfloat16"),
        ('method = "rtn"\nbits = 3\ngroup_size = 32\n', f"{NONE}3 bits", "bfloat16"),
        ('method = "gptq"\ngroup_size = 32\ncalibration = "TEXTS"\n', "int4pack", "bfloat16"),
        ('method = "w8a8"\ncalibration = "TEXTS"\n', f"{NONE}int-quantized", "bfloat16"),
        ('method = "nvfp4"\ncalibration = "TEXTS"\n', f"{NONE}nvfp4-pack-quantized", "bfloat16"),
        ('method = "mxfp4"\n', f"{NONE}mxfp4-pack-quantized", "bfloat16"),
        ('method = "fp8"\n', f"{NONE}float-quantized", "float32"),
        (FOUR, f"{NONE}the kernels compute in bfloat16", "float32"),
    ],
)
def test_a_recipe_is_planned_with_other_bytes_than_what_it_makes_takes(
    folder_of: Callable[..., Path], tmp_path: Path, text: str, kernel: str, dtype: str
) -> None:
    folder = folder_of("llama", tie_word_embeddings=True, **SIZES)
    texts, recipe = tmp_path / "texts.jsonl", tmp_path / "r.toml"
    quantize_sources.write_texts(texts, [{"text": quantize_sources.sentence(i, 60)} for i in range(8)])
    recipe.write_text(text.replace("TEXTS", str(texts)))
    for prefill in ("dense", "packed"):
        levers = {"w": {"kind": "quantize", "recipe": str(recipe), "prefill": prefill}}
        before = planned(folder, levers, dtype=dtype)
        made = artifact.make(str(folder), recipes.load(recipe), None, lambda *_: None).folder
        after = planned(folder, levers, dtype=dtype)
        told = HFEngine(device="cpu", dtype=dtype).open(str(made), prefill=prefill).describe()
        for one in (before, after):
            (weights,) = one.models[1:]
            assert one.arms[-1].model_bytes == pytest.approx(told["weight_bytes"], abs=BUFFERS)
            assert one.arms[-1].bytes_per_step == pytest.approx(told["bytes_per_token"], abs=BUFFERS)
            assert kernel in weights.held.kernels[0]
            assert [note for note in told["notes"] if NONE in note] == list(one.arms[-1].no_kernel)


def test_a_folder_of_others_is_planned_by_its_bytes_on_disk(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = folder_of("llama", **SIZES)
    packed = packed_folders.write(tmp_path / "packed", bits=4, group=32)
    levers = {"w": {"kind": "quantize", "model": str(packed)}}
    for dtype in ("bfloat16", "float32"):
        told = HFEngine(device="cpu", dtype=dtype).open(str(packed)).describe()
        made = planned(folder, levers, dtype=dtype)
        assert made.arms[-1].model_bytes == pytest.approx(told["weight_bytes"], abs=BUFFERS)
        assert made.arms[-1].bytes_per_step == pytest.approx(told["bytes_per_token"], abs=BUFFERS)
        assert bool(made.arms[-1].no_kernel) == (dtype == "float32")
        (target,) = planned(packed, {}, dtype=dtype).models
        assert target.weight_bytes == pytest.approx(told["weight_bytes"], abs=BUFFERS)


def test_experts_that_a_token_does_not_choose_are_read(tmp_path: Path) -> None:
    folder = quantize_sources.save_mixture(tmp_path / "mixture", "MixtralConfig")
    made = planned(folder, {"s": self_draft(bits=8, prefill="packed")}, dtype="bfloat16")
    known = facts.facts(refs.resolve(str(folder)))
    assert made.models[0].bytes_per_token() == pytest.approx(known.bytes_per_token("bfloat16"), abs=8)
    assert made.models[0].bytes_per_token() < made.models[0].weight_bytes
    # Merged experts are no linear layers, so a rounded draft shares them.
    target = HFEngine(device="cpu", dtype="bfloat16").open(str(folder))
    draft = made.arms[-1].draft
    assert draft is not None
    told = target.describe_draft(draft)
    assert told is not None
    assert draft_of(made).weight_bytes == pytest.approx(told["weight_bytes"], abs=BUFFERS)


@pytest.mark.parametrize("tied", [True, False])
def test_a_draft_of_mlx_is_planned_as_if_it_shared_weights(folder_of: Callable[..., Path], tied: bool) -> None:
    mlx = pytest.importorskip("specq.engines.mlx")
    pytest.importorskip("mlx.core")
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "tie_word_embeddings": tied}
    folder = folder_of("llama", **sizes)
    for keys in ({"bits": 8}, {"bits": 4, "group_size": 32}, {"dtype": "bfloat16"}):
        made = planned(folder, {"me": self_draft(rule="match", **keys)}, kind="mlx")
        target, draft = mlx.MLXEngine(device="cpu").open(str(folder)), made.arms[-1].draft
        assert draft is not None
        told = target.describe_draft(draft)
        assert told is not None
        assert draft_of(made).weight_bytes == told["weight_bytes"]
        assert draft_of(made).bytes_per_token() == told["bytes_per_token"]
        assert made.arms[-1].model_bytes == target.describe()["weight_bytes"] + told["weight_bytes"]
        assert made.arms[-1].no_kernel == ()
