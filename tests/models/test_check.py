from __future__ import annotations

import json
import struct

import pytest
from model_files import llama_folder, llama_shapes, write_folder

from specq.core.errors import ModelError
from specq.models import headers
from specq.models.check import check_folder


def test_whole_folder_passes(tmp_path):
    check_folder(llama_folder(tmp_path / "m"))


def test_truncated_weights_are_named_with_bytes_expected_and_found(tmp_path):
    folder = llama_folder(tmp_path / "m")
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-10])
    with pytest.raises(
        ModelError, match=rf"model\.safetensors is truncated: expected {len(data)} bytes, found {len(data) - 10}"
    ):
        check_folder(folder)


def test_weights_cut_inside_the_header_are_called_truncated(tmp_path):
    folder = llama_folder(tmp_path / "m")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:40])
    with pytest.raises(ModelError, match="truncated: expected at least"):
        check_folder(folder)
    weights.write_bytes(b"abc")
    with pytest.raises(ModelError, match="truncated: 3 bytes"):
        check_folder(folder)


def test_bytes_after_the_last_tensor_are_refused(tmp_path):
    folder = llama_folder(tmp_path / "m")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes() + b"x")
    with pytest.raises(ModelError, match="longer than its header says"):
        check_folder(folder)


@pytest.mark.parametrize("data", [b"\xff" * 64, struct.pack("<Q", 4) + b"nope", struct.pack("<Q", 2) + b"[]"])
def test_file_that_is_no_safetensors_gets_one_line(tmp_path, data):
    folder = llama_folder(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(ModelError, match="is not a safetensors file") as caught:
        check_folder(folder)
    assert "\n" not in str(caught.value)


def test_lfs_pointer_is_recognised_and_not_called_broken(tmp_path):
    folder = llama_folder(tmp_path / "m")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    (folder / "model.safetensors").write_text(pointer)
    with pytest.raises(ModelError, match=r"model\.safetensors is a Git LFS pointer.*git lfs pull"):
        check_folder(folder)
    (folder / "config.json").write_text(pointer)
    with pytest.raises(ModelError, match=r"config\.json is a Git LFS pointer"):
        check_folder(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.pkl"])
def test_pickled_weights_are_refused_with_how_to_convert(tmp_path, name):
    folder = llama_folder(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"\x80\x04.")
    with pytest.raises(ModelError, match=rf"pickled weights \({name}\).*save_pretrained"):
        check_folder(folder)


def test_folder_without_weights_is_refused(tmp_path):
    folder = llama_folder(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no safetensors weights"):
        check_folder(folder)


def test_weights_under_another_name_are_not_taken_for_whole(tmp_path):
    folder = llama_folder(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    with pytest.raises(ModelError, match=r"has part\.safetensors but neither"):
        check_folder(folder)


def _sharded(folder):
    llama_folder(folder)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    write_folder(folder / "two", {}, {"extra.weight": (2, 2)})
    (folder / "two" / "model.safetensors").rename(folder / "model-00002-of-00002.safetensors")
    mapping = dict.fromkeys(llama_shapes(), "model-00001-of-00002.safetensors")
    mapping["extra.weight"] = "model-00002-of-00002.safetensors"
    (folder / headers.INDEX).write_text(json.dumps({"weight_map": mapping}))
    return folder


def test_missing_shard_is_named(tmp_path):
    folder = _sharded(tmp_path / "m")
    check_folder(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError, match=r"names model-00002-of-00002\.safetensors, which is missing"):
        check_folder(folder)


def test_tensor_that_the_index_names_but_no_shard_holds_is_named(tmp_path):
    folder = _sharded(tmp_path / "m")
    index = json.loads((folder / headers.INDEX).read_text())
    index["weight_map"]["lost.weight"] = "model-00001-of-00002.safetensors"
    (folder / headers.INDEX).write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"the tensor lost\.weight"):
        check_folder(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"architectures": ["BertForMaskedLM"], "model_type": "bert"},
        {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava"},
        {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "is_encoder_decoder": True},
        {"architectures": ["BartForCausalLM"], "model_type": "bart", "is_encoder_decoder": True},
    ],
)
def test_model_that_is_no_causal_lm_is_refused_by_its_architecture(tmp_path, changes):
    folder = llama_folder(tmp_path / "m", **changes)
    with pytest.raises(ModelError, match=changes["architectures"][0]):
        check_folder(folder)


def test_gpt2_head_name_counts_as_a_causal_lm(tmp_path):
    check_folder(llama_folder(tmp_path / "m", architectures=["GPT2LMHeadModel"], model_type="gpt2"))


def test_remote_code_is_refused_for_a_model_type_that_transformers_does_not_know(tmp_path):
    auto_map = {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
    folder = llama_folder(tmp_path / "m", architectures=["OwnForCausalLM"], model_type="own", auto_map=auto_map)
    with pytest.raises(ModelError, match="needs its own Python code"):
        check_folder(folder)
    # A known type has an implementation in transformers, so its auto_map is never run.
    check_folder(llama_folder(tmp_path / "known", auto_map=auto_map))


def test_unknown_model_type_is_found_before_weights_load(tmp_path):
    folder = llama_folder(tmp_path / "m", architectures=["OwnForCausalLM"], model_type="own")
    with pytest.raises(ModelError, match="'own', which the installed transformers does not know"):
        check_folder(folder)


def test_broken_config_gets_one_line(tmp_path):
    folder = llama_folder(tmp_path / "m")
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json is not valid JSON"):
        check_folder(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"it has no config\.json"):
        check_folder(folder)


def test_folder_of_gguf_files_says_to_give_the_file(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"give the file, for example .*x\.gguf"):
        check_folder(tmp_path)


@pytest.mark.parametrize("config", [True, False])
def test_an_adapter_is_taken_for_a_model_with_odd_file_names(tmp_path, config):
    folder = llama_folder(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base"}')
    if not config:
        (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"holds an adapter for org/base, not a model: merge it .*merge_and_unload"):
        check_folder(folder)
