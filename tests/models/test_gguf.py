from __future__ import annotations

import io
import json
from contextlib import redirect_stderr

import numpy as np
import pytest
from model_files import TEMPLATE, write_gguf

from specq.core.errors import ModelError
from specq.models import cache, gguf
from specq.models.facts import facts
from specq.models.refs import resolve
from specq.models.tokenizers import adds_bos, load


def test_file_that_is_no_gguf_is_named_by_its_first_bytes(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"PK\x03\x04 a zip")
    with pytest.raises(ModelError, match=r"is not a GGUF file: it starts with b'PK"):
        resolve(str(path))
    path.write_bytes(b"")
    with pytest.raises(ModelError, match="is not a GGUF file"):
        resolve(str(path))


@pytest.mark.parametrize("keep", [5, 30, 400, -100])
def test_truncated_gguf_gets_one_line_wherever_it_was_cut(tmp_path, keep, cache_folder):
    data = write_gguf(tmp_path / "x.gguf").read_bytes()
    (tmp_path / "x.gguf").write_bytes(data[:keep])
    with pytest.raises(ModelError, match="truncated or broken") as caught:
        resolve(str(tmp_path / "x.gguf"))
    assert "\n" not in str(caught.value)
    assert not list((cache_folder / "gguf").glob("*.part"))


def test_part_of_a_split_gguf_is_refused(tmp_path):
    import gguf as library

    out = library.GGUFWriter(tmp_path / "x.gguf", "llama")
    out.add_uint16("split.count", 3)
    out.add_tensor("blk.0.attn_q.weight", np.zeros((2, 2), np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    with pytest.raises(ModelError, match="one part of 3"):
        gguf.read_header(tmp_path / "x.gguf")


def test_kind_is_that_of_the_linears_not_of_norms_and_embeddings(tmp_path):
    header = gguf.read_header(write_gguf(tmp_path / "q.gguf", kind="Q4_1", vocab_size=1000))
    assert (header.kind, header.quantized, header.context, header.eos_id) == ("Q4_1", True, 128, 2)
    assert not gguf.read_header(write_gguf(tmp_path / "f.gguf", kind="F16")).quantized


def test_a_header_takes_the_seconds_of_a_library_that_reads_each_token(tmp_path, monkeypatch):
    import gguf as library

    from specq.engines.served import files

    file = write_gguf(tmp_path / "q.gguf", kind="Q4_1", vocab_size=1000)
    true = sum(int(tensor.n_bytes) for tensor in library.GGUFReader(file).tensors)
    monkeypatch.setattr(library, "GGUFReader", None)
    assert files.gguf_bytes(file, tied=True) == (true, true)
    assert files.gguf_dtype(file) == "Q4_1"


def test_converted_folder_is_plain_and_keeps_what_the_file_says(tmp_path, cache_folder):
    from transformers import AutoModelForCausalLM

    path = write_gguf(tmp_path / "x.gguf", kind="Q4_1", add_bos=False)
    noise = io.StringIO()
    with redirect_stderr(noise):
        found = resolve(str(path))
    assert noise.getvalue() == ""
    assert found.kind == "gguf"
    assert found.notes == ("weights were quantized before: Q4_1",)
    model = AutoModelForCausalLM.from_pretrained(found.folder, local_files_only=True)
    assert str(model.dtype) == "torch.bfloat16"
    assert not hasattr(model.config, "quantization_config")
    assert model.generation_config.eos_token_id == 2
    tokenizer = load(found)
    assert (tokenizer.eos_token_id, tokenizer.eos_token, tokenizer.model_max_length) == (2, "</s>", 128)
    assert tokenizer.chat_template == TEMPLATE
    assert not tokenizer.clean_up_tokenization_spaces
    assert not adds_bos(tokenizer)
    f = facts(found)
    assert (f.eos_ids, f.context, f.has_chat_template, f.dtype) == ((2,), 128, True, "bfloat16")
    origin = json.loads((found.folder / "specq.json").read_text())
    assert (origin["source"], origin["kind"], origin["sha256"]) == ("x.gguf", "Q4_1", cache.file_sha256(path))


def test_weights_of_the_converted_folder_are_those_of_the_file(tmp_path):
    import gguf as library
    import torch
    from safetensors.torch import load_file

    path = write_gguf(tmp_path / "x.gguf", kind="Q8_0")
    weights = load_file(resolve(str(path)).folder / "model.safetensors")
    tensor = next(t for t in library.GGUFReader(path).tensors if t.name == "blk.1.ffn_down.weight")
    expected = torch.from_numpy(library.quants.dequantize(tensor.data, tensor.tensor_type)).to(torch.bfloat16)
    assert torch.equal(weights["model.layers.1.mlp.down_proj.weight"], expected)


@pytest.mark.parametrize("wanted", [True, False])
def test_bos_policy_of_the_file_survives_the_conversion(tmp_path, wanted):
    found = resolve(str(write_gguf(tmp_path / "x.gguf", add_bos=wanted)))
    assert adds_bos(load(found)) is wanted
    assert facts(found).adds_bos is wanted


def test_end_of_turn_token_of_the_file_stops_the_model_too(tmp_path):
    assert facts(resolve(str(write_gguf(tmp_path / "x.gguf", eot_id=3)))).eos_ids == (2, 3)


def test_half_precision_file_is_not_called_quantized(tmp_path):
    notes = resolve(str(write_gguf(tmp_path / "x.gguf", kind="F16"))).notes
    assert notes == ("weights were rounded to bfloat16 from F16",)


def test_missing_weights_are_not_filled_with_random_numbers(tmp_path, cache_folder):
    path = write_gguf(tmp_path / "x.gguf", drop="blk.1.attn_k")
    with pytest.raises(ModelError, match=r"1 weights are missing, the first is .*layers\.1\.self_attn\.k_proj"):
        resolve(str(path))
    assert not [p for p in (cache_folder / "gguf").iterdir() if p.is_dir()]


def test_files_beside_the_gguf_do_not_leak_into_the_conversion(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}')
    (tmp_path / "tokenizer.json").write_text("{")
    assert facts(resolve(str(write_gguf(tmp_path / "x.gguf")))).architecture == "LlamaForCausalLM"


def test_second_use_converts_nothing(tmp_path, monkeypatch):
    path = write_gguf(tmp_path / "x.gguf")
    first = resolve(str(path))
    monkeypatch.setattr(gguf, "convert", lambda *a, **k: pytest.fail("converted again"))
    assert resolve(str(path)) == first
