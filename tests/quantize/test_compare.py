"""A folder beside a source: what one pass and a look at the weights must notice."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from quantize_sources import WIDE, changed, quantize

import tiny_models
from specq.quantize import artifact, compare, contents, reaudit, recipes
from specq.quantize.compare import Distance

INTEGERS = {"method": "rtn", "group_size": 32}
ASKED = "is that the model it was made of?"


@pytest.fixture(scope="module")
def w4(folder_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compare") / "w4"
    quantize(folder_of("llama", **WIDE), out, [], **INTEGERS)
    return out


def distance(source: Path, folder: Path) -> Distance:
    return compare.distance(contents.read(source), contents.read(folder))


@pytest.mark.parametrize("method", ["rtn", "gptq", "fp8", "mxfp4", "nvfp4", "w8a8", "awq", "mlx-rtn", "rtn at 2 bits"])
def test_the_right_source_is_doubted(folder_of, tmp_path, method: str) -> None:
    source = folder_of("llama", **WIDE)
    name, _, two = method.partition(" at ")
    given = {"method": name, "group_size": 32} if name in ("rtn", "gptq", "awq", "mlx-rtn") else {"method": name}
    chosen = recipes.make({**given, **({"bits": 2} if two else {})})
    if chosen.facts.calibrates:
        chosen = chosen.with_calibration("self")
    made = artifact.make(
        str(source), recipes.make({**chosen.to_json(), "samples": 24, "tokens": 64}), tmp_path / "out", lambda *_: None
    )
    assert made.audit is not None
    assert made.audit.kl_mean is not None, made.audit.notes
    assert not [note for note in made.audit.notes if ASKED in note or "swapped or damaged" in note]
    assert not [note for note in made.audit.notes if "differs from the source's" in note or "not compared" in note]


def test_weights_of_another_training_are_taken_for_the_source(folder_of, w4) -> None:
    found = distance(folder_of("llama", **WIDE, seed=1), w4)
    (note,) = [note for note in found.notes if ASKED in note]
    assert note.startswith("the weights do not follow the source's (correlation at most ")
    assert "in 3 layers looked at" in note


@pytest.mark.parametrize(
    ("change", "words", "compared"),
    [
        (
            {"intermediate_size": 128},
            "9 of 22 layers have another shape in the source, such as model.layers.0.mlp",
            False,
        ),
        ({"num_hidden_layers": 2}, "7 layers of this folder are not in the source, such as model.layers.2.", True),
        ({"num_hidden_layers": 4}, "7 layers of the source are not in this folder, such as model.layers.3.", True),
        ({"vocab_size": 64}, "the vocabulary has 64 rows in the source and 50 here", True),
    ],
)
def test_a_source_of_other_shapes_is_compared_without_a_word(folder_of, w4, change, words, compared) -> None:
    found = distance(folder_of("llama", **{**WIDE, **change}), w4)
    assert any(note.startswith(words) and ASKED in note for note in found.notes), found.notes
    assert (found.kl_mean is not None) == compared


def test_another_source_than_was_noted_is_not_told(folder_of, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "cache"))
    source, other = folder_of("llama", **WIDE), folder_of("llama", **WIDE, noise=0.01)
    made = artifact.make(str(source), recipes.make(INTEGERS), tmp_path / "out", lambda *_: None)
    found = reaudit.audit_again(tmp_path / "out", str(other))
    assert found.notes[-1] == f"{other} has other weights than the source that specq noted, {source}"
    assert reaudit.audit_again(tmp_path / "out", str(source)) == made.audit


def test_whose_fault_it_is_that_nothing_is_predicted_is_not_said(folder_of, w4, tmp_path) -> None:
    """Weights that are finite, and so large that what they give is not."""
    source = folder_of("llama", **WIDE)

    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.norm.weight"].fill_(3e38)

    huge = changed(source, tmp_path / "huge", spoil)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert distance(huge, w4).notes[-1].startswith(compare.SOURCE_BROKEN)
        assert distance(source, huge).notes[-1].startswith(compare.BROKEN)
        # Large logits that are finite make a distribution, of one token.
        row = compare._log_softmax(np.array([[3e38, -3e38, 0.0]], np.float32))
    assert row.tolist() == [[0.0, -np.inf, -np.float32(3e38)]]


@pytest.mark.parametrize("method", ["rtn", "fp8", "mxfp4"])
def test_a_family_whose_floats_meet_two_dtypes_is_not_measured(tmp_path, one_thread, method: str) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": tiny_models.V, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4}
    config = transformers.GPTNeoXConfig(**sizes, num_hidden_layers=1, max_position_embeddings=128)
    model = transformers.AutoModelForCausalLM.from_config(config)
    source = tiny_models.save(tmp_path / "source", model, dtype=torch.bfloat16)
    given = INTEGERS if method == "rtn" else {"method": method}
    quantize(source, tmp_path / "out", [], **given)
    found = distance(source, tmp_path / "out")
    assert found.kl_mean is not None, found.notes
    assert not [note for note in found.notes if ASKED in note]
