"""Folders that look finished and are not, and what is said of those that are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from quantize_sources import WIDE, changed

from specq.core.errors import ModelError, RunFailed
from specq.models import refs
from specq.quantize import artifact, llmcompressor, reaudit, recipes


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "specq-cache"))


@pytest.fixture
def llama(folder_of) -> Path:
    return folder_of("llama", **WIDE)


def recipe(**given):
    return recipes.make({"method": "rtn", "group_size": 32, **given})


def make(source: Path, chosen, out: Path | None, **more):
    return artifact.make(str(source), chosen, out, lambda *_: None, **more)


def test_a_folder_that_predicts_nothing_looks_finished(llama, tmp_path, monkeypatch) -> None:
    """Every tensor is finite, and what they give is not."""
    real = llmcompressor._save

    def save(model, source, out):
        model.model.norm.weight.data.fill_(3e38)
        real(model, source, out)

    monkeypatch.setattr(llmcompressor, "_save", save)
    with pytest.raises(RunFailed, match="NaN or infinite logits, where the source's are finite: nothing was kept"):
        make(llama, recipe(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_source_that_predicts_nothing_is_blamed_on_the_folder(llama, tmp_path) -> None:
    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.norm.weight"].fill_(3e38)

    made = make(changed(llama, tmp_path / "huge", spoil), recipe(), tmp_path / "out")
    assert made.audit is not None
    assert any(note.startswith("the source's own forward pass gave NaN or infinite") for note in made.audit.notes)


def test_a_damaged_file_is_called_another_versions_or_taken_from_the_cache(llama, tmp_path) -> None:
    made = make(llama, recipe(), None)
    path = made.folder / artifact.FILE
    path.write_text(path.read_text()[:-9])
    with pytest.raises(ModelError, match=r"specq-quantize\.json is damaged"):
        artifact.read(made.folder)
    again = reaudit.audit_again(made.folder, str(llama))
    assert again.notes[-1] == "specq-quantize.json is damaged, no JSON object as specq wrote it, and was not used"
    assert artifact.kept(recipe(), refs.resolve(str(llama))) is None
    assert artifact.read(make(llama, recipe(), None).folder).recipe == recipe()


def test_a_tied_head_is_called_quantized(folder_of, tmp_path) -> None:
    pytest.importorskip("mlx.core")
    tied = folder_of("llama", **WIDE, tie_word_embeddings=True)
    said: list[str] = []
    made = make(tied, recipe(method="mlx-rtn", head="quantize"), tmp_path / "out", say=said.append)
    assert made.words == "mlx-rtn 4-bit, groups of 32, asymmetric"
    assert f"quantizing by {made.words}" in said
    # Through llmcompressor the head gets weights of its own.
    assert make(tied, recipe(head="quantize"), tmp_path / "ct").words.endswith(", head too")
