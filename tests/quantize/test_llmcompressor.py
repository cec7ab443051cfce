from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch
import transformers
from quantize_sources import TEMPLATE, WIDE, logits, packed, quantize, rows, save_mixture, weight_hashes
from transformers import AutoModelForCausalLM

import tiny_models
from specq.core.errors import RunFailed, Unsupported
from specq.models import headers
from specq.quantize import layers, llmcompressor, recipes
from specq.quantize.watched import watched

RAGGED = rows(40, 96, 64, 33, 70)
INTEGERS = {"group_size": 32}


@pytest.fixture(scope="module")
def llama(folder_of) -> Path:
    return folder_of("llama", **WIDE)


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())["quantization_config"]


@pytest.mark.parametrize(
    ("recipe", "form", "symmetric"),
    [
        ({"method": "rtn", "bits": 4, **INTEGERS}, "pack-quantized", True),
        ({"method": "rtn", "bits": 2, "symmetric": False, **INTEGERS}, "pack-quantized", False),
        ({"method": "gptq", "bits": 3, **INTEGERS}, "pack-quantized", True),
        ({"method": "gptq", "bits": 4, "symmetric": False, **INTEGERS}, "pack-quantized", False),
        ({"method": "gptq", "bits": 8}, "pack-quantized", True),
        ({"method": "awq", "bits": 4, **INTEGERS}, "pack-quantized", True),
        ({"method": "w8a8"}, "int-quantized", True),
        ({"method": "fp8"}, "float-quantized", True),
        ({"method": "nvfp4"}, "nvfp4-pack-quantized", True),
        ({"method": "mxfp4"}, "mxfp4-pack-quantized", True),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_a_method_writes_another_format_or_dies_without_a_gpu(llama, tmp_path, recipe, form, symmetric) -> None:
    quantize(llama, tmp_path / "out", RAGGED, **recipe)
    found = config_of(tmp_path / "out")
    weights = found["config_groups"]["group_0"]["weights"]
    assert found["format"] == form
    assert (weights["num_bits"], weights["symmetric"]) == (recipe.get("bits", weights["num_bits"]), symmetric)
    if form == "pack-quantized":
        by_row = recipes.make(recipe).group_size == 0
        assert (weights["strategy"], weights["group_size"]) == (("channel", None) if by_row else ("group", 32))
    # The head stays, and every other linear layer is there in a form of its own.
    names = headers.tensors(tmp_path / "out")
    assert names["lm_head.weight"].dtype == "F32"
    linears = [layer.name for layer in layers.linear_layers(llama) if layer.role == "linear"]
    assert [name for name in linears if f"{name}.weight_scale" not in names] == []


def test_what_was_written_does_not_load_in_transformers(llama, tmp_path) -> None:
    source = AutoModelForCausalLM.from_pretrained(llama)
    ids = RAGGED[1]
    for bits, worst in ((8, 0.1), (4, 3.0)):
        quantize(llama, tmp_path / str(bits), RAGGED, method="gptq", bits=bits, **({} if bits == 8 else INTEGERS))
        model = AutoModelForCausalLM.from_pretrained(tmp_path / str(bits))
        difference = (logits(model, ids) - logits(source, ids)).abs().mean()
        assert 0 < difference < worst


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_two_runs_differ(llama, tmp_path, method) -> None:
    for name, state in (("a", 1), ("b", 2)):
        torch.manual_seed(state)
        quantize(llama, tmp_path / name, RAGGED, method=method, **INTEGERS)
        assert torch.initial_seed() == state
    assert weight_hashes(tmp_path / "a") == weight_hashes(tmp_path / "b")
    quantize(llama, tmp_path / "c", RAGGED[1:], method=method, **INTEGERS)
    assert weight_hashes(tmp_path / "a") != weight_hashes(tmp_path / "c"), "the text must matter"


def test_ragged_rows_are_padded_or_cut(llama, tmp_path, monkeypatch) -> None:
    from llmcompressor.modifiers.gptq import GPTQModifier

    seen: list[int] = []
    real = GPTQModifier.calibrate_module

    def counted(self, module, args, output):
        if module.in_features == WIDE["intermediate_size"]:
            seen.append(args[0].shape[1])
        return real(self, module, args, output)

    monkeypatch.setattr(GPTQModifier, "calibrate_module", counted)
    quantize(llama, tmp_path / "out", RAGGED, method="gptq", **INTEGERS)
    assert seen == [len(row) for row in RAGGED] * tiny_models.LAYERS


def test_a_hessian_that_cannot_be_inverted_is_only_warned_of(llama, tmp_path, monkeypatch) -> None:
    from llmcompressor.modifiers.gptq import gptq_quantize

    real = gptq_quantize.factorize_hessian

    def failing(W, H, percdamp, used_rtn_fallback):
        if W.shape[-1] == WIDE["intermediate_size"]:
            H = -torch.eye(H.shape[-1]).expand_as(H).clone()
        return real(W, H, percdamp, used_rtn_fallback)

    assert quantize(llama, tmp_path / "fine", RAGGED, method="gptq", **INTEGERS).fallen_back == ()
    monkeypatch.setattr(gptq_quantize, "factorize_hessian", failing)
    made = quantize(llama, tmp_path / "out", RAGGED, method="gptq", **INTEGERS)
    names = [name for name, _ in made.fallen_back]
    assert names == [f"model.layers.{i}.mlp.down_proj" for i in range(tiny_models.LAYERS)]
    assert "positive definite" in made.fallen_back[0][1]


def test_layers_that_awq_has_no_scale_for_are_not_named(folder_of, llama, tmp_path) -> None:
    made = quantize(llama, tmp_path / "grouped", RAGGED, method="awq", **INTEGERS)
    outputs = [f"model.layers.{i}.self_attn.o_proj" for i in range(tiny_models.LAYERS)]
    # With fewer key than query heads v_proj's rows are not o_proj's columns, and no scale fits both.
    assert [name for name, _ in made.fallen_back] == outputs
    full = folder_of("llama", **WIDE, num_key_value_heads=4)
    assert quantize(full, tmp_path / "full", RAGGED, method="awq", **INTEGERS).fallen_back == ()


def test_the_mended_libraries_stay_mended_after_a_call() -> None:
    from llmcompressor.modifiers.gptq import GPTQModifier
    from llmcompressor.modifiers.transform.awq import AWQModifier
    from llmcompressor.pipelines.cache import IntermediatesCache
    from llmcompressor.pipelines.sequential import pipeline

    def state():
        return (
            IntermediatesCache.pin_memory,
            pipeline.tqdm,
            GPTQModifier._log_rtn_fallback_summary,
            AWQModifier._log_error_metrics,
            os.environ.get("TOKENIZERS_PARALLELISM"),
            sys.stderr,
        )

    before = state()
    inside = []

    def interrupted() -> None:
        with watched(1, (), lambda *_: None):
            inside.append(state())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert inside[0][:4] != before[:4]
    assert state() == before


def test_nothing_is_told_or_something_is_littered(llama, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    told: list[tuple[int, int, bool]] = []

    def progress(done: int, of: int, left: float | None) -> None:
        print("progress", file=sys.stderr)
        told.append((done, of, left is not None))

    chosen = recipes.make({"method": "w8a8"})
    found = layers.linear_layers(llama)
    from specq.models import refs

    llmcompressor.quantize(refs.resolve(str(llama)), chosen, RAGGED, tmp_path / "out", progress, layers=found)
    # SmoothQuant and GPTQ each walk through three layers and the head.
    assert told == [(n, 8, n > 0) for n in range(9)]
    out, err = capfd.readouterr()
    assert out == ""
    assert err.split() == ["progress"] * 9, "what is told while it works must reach the terminal, and nothing else"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_files_beside_the_weights_change(folder_of, tmp_path) -> None:
    import shutil

    source = tmp_path / "source"
    shutil.copytree(folder_of("llama", **WIDE), source)
    (source / "chat_template.jinja").write_text(TEMPLATE)
    generation = '{"eos_token_id": [2, 3], "temperature": 0.6, "do_sample": false, "odd": 1}'
    (source / "generation_config.json").write_text(generation)
    (source / "special_tokens_map.json").write_text('{"eos_token": "</s>"}')
    quantize(source, tmp_path / "out", RAGGED, method="gptq", **INTEGERS)
    for path in source.iterdir():
        if path.suffix != ".safetensors" and path.name != "config.json":
            assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes(), path.name
    assert {p.name for p in (tmp_path / "out").iterdir()} == {p.name for p in source.iterdir()}
    theirs, ours = (json.loads((folder / "config.json").read_text()) for folder in (source, tmp_path / "out"))
    assert {key: value for key, value in ours.items() if key != "quantization_config"} == theirs


def test_truncation_leaks_into_the_tokenizer(llama, tmp_path) -> None:
    quantize(llama, tmp_path / "out", RAGGED, method="gptq", **INTEGERS)
    saved = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "tokenizer.json").read_text())["truncation"] is None
    assert len(saved("a" * 1000)["input_ids"]) == 1000


def test_a_tied_head_is_quantized_and_the_folder_grows(folder_of, tmp_path) -> None:
    tied = folder_of("llama", **WIDE, tie_word_embeddings=True)
    quantize(tied, tmp_path / "kept", RAGGED, method="rtn", **INTEGERS)
    assert not any(name.startswith("lm_head") for name in headers.tensors(tmp_path / "kept"))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "kept")
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    # A draft may have its head quantized: the embedding stays in floats, and the head stands beside it.
    quantize(tied, tmp_path / "head", RAGGED, method="gptq", head="quantize", **INTEGERS)
    names = headers.tensors(tmp_path / "head")
    assert "lm_head.weight_packed" in names
    assert names["model.embed_tokens.weight"].dtype == "F32"
    assert json.loads((tmp_path / "head" / "config.json").read_text())["tie_word_embeddings"] is False
    loaded, source = (AutoModelForCausalLM.from_pretrained(path) for path in (tmp_path / "head", tied))
    assert (logits(loaded, RAGGED[0]).argmax(-1) == logits(source, RAGGED[0]).argmax(-1)).float().mean() > 0.5


QWEN = {"num_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64}


@pytest.mark.parametrize(("kind", "more"), [("MixtralConfig", {}), ("Qwen2MoeConfig", QWEN)])
def test_the_gate_of_a_mixture_is_quantized_or_an_expert_is_not(tmp_path, kind, more) -> None:
    source = save_mixture(tmp_path / "mixture", kind, **more)
    made = quantize(source, tmp_path / "out", RAGGED, method="gptq", **INTEGERS)
    found = layers.linear_layers(source)
    linears = {layer.name for layer in found if layer.role == "linear"}
    # The folder keeps the family's own words for the block and its experts.
    own = {".block_sparse_moe.": ".mlp.", ".w1": ".gate_proj", ".w2": ".down_proj", ".w3": ".up_proj"}
    named = packed(tmp_path / "out")
    for theirs, ours in own.items():
        named = {name.replace(theirs, ours) for name in named}
    assert named == linears
    assert any(name.endswith(".w1") for name in packed(tmp_path / "out")) == (kind == "MixtralConfig")
    assert sum(".experts." in name for name in linears) == 4 * 3
    gates = [name for name in headers.tensors(tmp_path / "out") if layers.is_gate(name)]
    assert gates
    assert all(name.endswith("gate.weight") for name in gates)
    assert [layer.name for layer in found if layer.role == "gate"] == (
        ["model.layers.0.mlp.shared_expert_gate"] if more else []
    )
    assert made.fallen_back == ()
    assert made.notes == ()


@pytest.mark.parametrize(
    ("method", "architecture", "words"),
    [
        ("awq", "MixtralForCausalLM", r"AWQ.*MixtralForCausalLM.*method = \"gptq\""),
        ("awq", "Lfm2ForCausalLM", "would guess"),
        ("w8a8", "Lfm2ForCausalLM", "SmoothQuant"),
    ],
)
def test_an_unknown_architecture_is_guessed_at(method: str, architecture: str, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        llmcompressor.check(recipes.make({"method": method}), architecture)
    with pytest.raises(Unsupported) as refused:
        llmcompressor.check(recipes.make({"method": method}), architecture)
    assert len(str(refused.value)) < 300, "all that it knows are a screen of names"
    llmcompressor.check(recipes.make({"method": method}), "LlamaForCausalLM")
    llmcompressor.check(recipes.make({"method": "gptq"}), architecture)


def test_embeddings_are_kept_though_asked_for() -> None:
    with pytest.raises(Unsupported, match="embeddings"):
        llmcompressor.check(recipes.make({"method": "rtn", "embeddings": "quantize"}), "LlamaForCausalLM")


def test_a_fault_inside_is_a_traceback(llama, tmp_path, monkeypatch) -> None:
    from llmcompressor.modifiers.gptq import GPTQModifier

    def broken(*_):
        raise Exception("No finite\nloss")

    monkeypatch.setattr(GPTQModifier, "calibrate_module", broken)
    with pytest.raises(RunFailed, match=r"could not quantize .* by gptq .No finite loss"):
        quantize(llama, tmp_path / "out", RAGGED, method="gptq", **INTEGERS)
    monkeypatch.undo()
    quantize(llama, tmp_path / "again", RAGGED, method="gptq", **INTEGERS)
