from __future__ import annotations

import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from quantize_sources import TEMPLATE, WIDE, changed, sentence, weight_hashes, write_texts

from specq.core.errors import ConfigError, DiskFull, ModelError, PromptError, RunFailed, SpecqError, Unsupported
from specq.models import cache, refs
from specq.quantize import artifact, llmcompressor, prepare, recipes, room
from specq.quantize.layers import linear_layers


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    folder = tmp_path / "specq-cache"
    monkeypatch.setenv("SPECQ_CACHE", str(folder))
    return folder


@pytest.fixture
def llama(folder_of) -> Path:
    return folder_of("llama", **WIDE)


@pytest.fixture
def texts(tmp_path) -> Path:
    return write_texts(tmp_path / "texts.jsonl", [{"text": sentence(i, 60)} for i in range(6)])


def recipe(**given):
    return recipes.make({"method": "rtn", "group_size": 32, "tokens": 64, **given})


def make(source: Path, chosen, out: Path | None, **more):
    return artifact.make(str(source), chosen, out, lambda *_: None, **more)


def test_a_folder_does_not_say_how_it_was_made(llama, texts, tmp_path, monkeypatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(artifact, "rss_peak_bytes", lambda: 12345)
    chosen = recipe(method="gptq", calibration=str(texts), samples=4)
    made = make(llama, chosen, tmp_path / "out", say=lines.append)
    assert artifact.read(tmp_path / "out") == made
    assert made.recipe == chosen.with_calibration("texts.jsonl")
    assert str(tmp_path) not in (tmp_path / "out" / artifact.FILE).read_text()
    assert made.calibration is not None
    used = made.calibration
    assert (used.source, used.rows_used, used.tokens_used) == ("texts.jsonl", 4, 240)
    assert {"specq", "llmcompressor", "compressed-tensors", "torch"} <= made.versions.keys()
    assert made.peak_bytes == 12345
    assert made.audit is not None
    assert (made.audit.asked, len(made.audit.quantized)) == (21, 21)
    assert made.audit.calibration == made.calibration
    assert lines[-1] == "auditing the result"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "specq-cache", "texts.jsonl"]


def test_a_lever_is_made_twice(llama, monkeypatch) -> None:
    first = make(llama, recipe(), None)
    assert first.folder.parent == cache.root() / "quantized"
    monkeypatch.setattr(llmcompressor, "quantize", lambda *_, **__: pytest.fail("made again"))
    assert make(llama, recipe(), None) == first


def test_another_source_text_recipe_or_version_has_the_same_key(folder_of, llama, tmp_path, monkeypatch) -> None:
    source = refs.resolve(str(llama))
    before = artifact.key(recipe(), source, "")
    assert artifact.key(recipe(), source, "") == before
    others = [
        artifact.key(recipe(seed=1), source, ""),
        artifact.key(recipe(symmetric=False), source, ""),
        artifact.key(recipe(), source, "abc"),
        artifact.key(recipe(), refs.resolve(str(folder_of("llama", **WIDE, seed=1))), ""),
    ]
    other = tmp_path / "templated"
    shutil.copytree(llama, other)
    assert artifact.key(recipe(), refs.resolve(str(other)), "") == before, "a copy is the same model"
    for name in (
        "chat_template.jinja",
        "generation_config.json",
        "special_tokens_map.json",
        "vocab.json",
        "merges.txt",
        "spiece.model",
        "additional_chat_templates/tools.jinja",
    ):
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_text(TEMPLATE if "chat" in name else "{}")
        others.append(artifact.key(recipe(), refs.resolve(str(other)), ""))
    monkeypatch.setattr(artifact.metadata, "version", lambda name: "0")
    others.append(artifact.key(recipe(), source, ""))
    assert len({before, *others}) == 1 + len(others)


def test_the_path_of_a_text_changes_the_key_or_its_words_do_not(llama, texts, tmp_path) -> None:
    source = refs.resolve(str(llama))
    copy = tmp_path / "copy.jsonl"
    shutil.copyfile(texts, copy)

    def key(path: Path) -> str:
        chosen = recipe(method="gptq", calibration=str(path))
        return artifact.key(chosen, source, prepare.text_sha256(chosen))

    assert key(texts) == key(copy)
    copy.write_text(copy.read_text() + '{"text": "more"}\n')
    assert key(texts) != key(copy)


def test_own_text_is_not_kept_beside(llama, tmp_path) -> None:
    chosen = recipe(method="gptq", calibration="self", samples=8, tokens=40)
    made = make(llama, chosen, tmp_path / "a")
    assert made.calibration is not None
    assert made.calibration.source == "self"
    assert made.calibration.sha256 == artifact.hashes.of_file(tmp_path / "a" / artifact.CALIBRATION)
    make(llama, chosen, tmp_path / "b")
    assert weight_hashes(tmp_path / "a") == weight_hashes(tmp_path / "b")


@pytest.mark.parametrize(("out", "advice"), [("out", "point --out at"), (None, "set SPECQ_CACHE to")])
def test_a_full_disk_is_told_to_be_another_one(llama, tmp_path, monkeypatch, out, advice) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left")

    monkeypatch.setattr(artifact, "_write", full)
    with pytest.raises(DiskFull, match=f"or {advice} a folder on another disk"):
        make(llama, recipe(), None if out is None else tmp_path / out)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RunFailed("broke"), OSError(28, "No space left")])
def test_interrupted_work_looks_finished(llama, tmp_path, monkeypatch, error) -> None:
    real = llmcompressor._save

    def save(*given):
        real(*given)
        raise error

    monkeypatch.setattr(llmcompressor, "_save", save)
    for out in (tmp_path / "out", None):
        with pytest.raises((KeyboardInterrupt, SpecqError)):
            make(llama, recipe(), out)
    assert [path for path in tmp_path.rglob("*") if path.suffix == ".safetensors"] == []
    assert not (tmp_path / "out").exists()


def test_weights_that_are_not_finite_are_kept(llama, tmp_path, monkeypatch) -> None:
    real = llmcompressor._save

    def save(model, source, out):
        model.lm_head.weight.data[3, 3] = float("inf")
        real(model, source, out)

    monkeypatch.setattr(llmcompressor, "_save", save)
    with pytest.raises(RunFailed, match=r"lm_head\.weight"):
        make(llama, recipe(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def refused(source: Path, chosen, out: Path | None, kind: type[SpecqError], words: str, monkeypatch) -> None:
    """Refused before any weight is loaded."""
    import transformers

    never = classmethod(lambda *_, **__: pytest.fail("weights were loaded"))
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", never)
    with pytest.raises(kind, match=words):
        make(source, chosen, out)


def test_a_folder_that_exists_is_written_over(llama, tmp_path, monkeypatch) -> None:
    (tmp_path / "out").mkdir()
    refused(llama, recipe(), tmp_path / "out", ConfigError, "exists already", monkeypatch)
    (tmp_path / "file").write_text("")
    refused(llama, recipe(), tmp_path / "file" / "out", ConfigError, "cannot be written", monkeypatch)


def test_a_folder_inside_the_model_is_written(llama, tmp_path, monkeypatch) -> None:
    source = tmp_path / "source"
    shutil.copytree(llama, source)
    (tmp_path / "link").symlink_to(source)
    for out in (source / "w4", source / "a" / "b", tmp_path / "link" / "w4"):
        refused(source, recipe(), out, ConfigError, "inside the model's own folder.*name one beside it", monkeypatch)


def test_a_group_that_does_not_divide_loads_the_model(llama, tmp_path, monkeypatch) -> None:
    refused(llama, recipe(group_size=64), tmp_path / "out", ConfigError, "does not divide.*allowed is 32", monkeypatch)


def test_a_method_without_text_loads_the_model(llama, tmp_path, monkeypatch) -> None:
    refused(llama, recipe(method="gptq"), tmp_path / "out", ConfigError, "--calibration", monkeypatch)
    missing = recipe(method="gptq", calibration=str(tmp_path / "none.txt"))
    refused(llama, missing, tmp_path / "out", PromptError, r"none\.txt", monkeypatch)


def test_too_little_text_loads_the_model(llama, texts, tmp_path, monkeypatch) -> None:
    short = recipe(method="gptq", calibration=str(texts), samples=1)
    refused(llama, short, tmp_path / "out", PromptError, "60 tokens.*96 are needed", monkeypatch)
    own = recipe(method="gptq", calibration="self", samples=1, tokens=50)
    refused(llama, own, tmp_path / "out", PromptError, "96 are needed.*type --samples 4", monkeypatch)


def test_a_quantized_source_is_quantized_again(llama, tmp_path, monkeypatch) -> None:
    first = make(llama, recipe(), tmp_path / "first")
    refused(first.folder, recipe(), tmp_path / "out", ModelError, "quantized already .compressed-tensors", monkeypatch)


def test_nan_weights_are_rounded(llama, tmp_path, monkeypatch) -> None:
    name = "model.layers.1.mlp.up_proj.weight"

    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        tensors[name][5, 7] = float("nan")

    source = changed(llama, tmp_path / "nan", spoil)
    refused(source, recipe(), tmp_path / "out", ModelError, name, monkeypatch)


def test_an_architecture_without_a_map_loads_the_model(folder_of, texts, tmp_path, monkeypatch) -> None:
    source = folder_of("conv", **WIDE)
    chosen = recipe(method="awq", calibration=str(texts))
    refused(source, chosen, tmp_path / "out", Unsupported, "Lfm2ForCausalLM", monkeypatch)


def test_too_little_memory_or_disk_is_found_out_by_dying(llama, tmp_path, monkeypatch) -> None:
    import psutil

    with monkeypatch.context() as patched:
        patched.setattr(psutil, "virtual_memory", lambda: namedtuple("M", "available")(10**8))
        refused(llama, recipe(), tmp_path / "out", ModelError, "GB of memory", patched)
    usage = namedtuple("U", "free")
    monkeypatch.setattr(room.shutil, "disk_usage", lambda path: usage(1000))
    refused(llama, recipe(), tmp_path / "out", DiskFull, "its disk has 0 MB free", monkeypatch)


def test_the_bytes_said_before_are_not_those_written(llama, texts, tmp_path) -> None:
    for name, chosen in {
        "a": recipe(),
        "b": recipe(bits=8, group_size=0),
        "c": recipe(symmetric=False),
        "d": recipe(head="quantize"),
        "e": recipe(method="fp8", group_size=0),
        "f": recipe(method="mxfp4"),
        "g": recipe(method="nvfp4", group_size=16, calibration=str(texts)),
        "h": recipe(method="mlx-rtn"),
        "i": recipe(method="mlx-mixed", embeddings="quantize"),
    }.items():
        made = make(llama, chosen, tmp_path / name)
        written = sum(path.stat().st_size for path in made.folder.glob("*.safetensors"))
        said = room.stored_bytes(chosen, linear_layers(llama), llama)
        assert said == pytest.approx(written, rel=0.02), name


def test_a_file_of_another_version_is_read_as_this_one(llama, tmp_path) -> None:
    make(llama, recipe(), tmp_path / "out")
    path = tmp_path / "out" / artifact.FILE
    value = json.loads(path.read_text())
    for wrong in ({**value, "extra": 1}, {k: v for k, v in value.items() if k != "audit"}, {**value, "recipe": {}}):
        path.write_text(json.dumps(wrong))
        with pytest.raises(ModelError, match="another version"):
            artifact.read(tmp_path / "out")


def test_an_mlx_recipe_or_a_folder_turned_over_is_not_carried_out(llama, texts, tmp_path) -> None:
    pytest.importorskip("mlx.core")
    asked = recipe(method="mlx-gptq", calibration=str(texts))
    made = make(llama, asked, tmp_path / "mlx")
    assert made.audit is not None
    assert (made.audit.format, made.audit.embeddings, made.audit.bits) == ("mlx affine", "kept", 4)
    assert "mlx-lm" in made.versions
    make(llama, recipe(), tmp_path / "packed")
    turned = make(tmp_path / "packed", recipes.make({"method": "mlx-from-ct", "group_size": 32}), tmp_path / "turned")
    assert turned.audit is not None
    assert turned.audit.format == "mlx affine"
    assert turned.audit.argmax_agreement == 1.0
