"""Quantizing through mlx-lm: what is asked is done, the same each time, and what it rests on is kept."""

from __future__ import annotations

import sys

import pytest
import quantize_sources as sources
import torch
import transformers
from mlx_folders import TEXTS, config, logits, packed, quantize, recipe

import tiny_models as tiny
from specq.models import headers
from specq.quantize import artifact, layers, mlx, mlx_methods

METHODS = ("mlx-rtn", "mlx-gptq", "mlx-awq", "mlx-mixed")


@pytest.fixture(scope="module")
def source(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("mlx") / "source"
    return tiny.save(folder, tiny.make("llama", **sources.WIDE, num_hidden_layers=2), dtype=torch.bfloat16)


@pytest.fixture(scope="module")
def tied(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("mlx") / "tied"
    return tiny.save(folder, tiny.make("llama", **sources.WIDE, num_hidden_layers=1, tie_word_embeddings=True))


@pytest.mark.parametrize("method", METHODS)
def test_two_runs_differ_or_other_layers_than_asked_are_quantized(source, tmp_path, method):
    made = [quantize(source, tmp_path / name, method) for name in "ab"]
    assert sources.weight_hashes(tmp_path / "a") == sources.weight_hashes(tmp_path / "b")
    asked = layers.asked(recipe(method), layers.linear_layers(source))
    assert packed(tmp_path / "a") == {layer.name for layer in asked}
    assert made[0] == made[1]
    assert made[0].fallen_back == ()
    assert {info.dtype for info in headers.tensors(tmp_path / "a").values()} == {"BF16", "U32"}


@pytest.mark.parametrize("method", METHODS)
def test_embedding_and_head_are_kept_when_they_were_asked_for(source, tmp_path, method):
    made = quantize(source, tmp_path / "out", method, embeddings="quantize", head="quantize")
    assert {"model.embed_tokens", "lm_head"} <= packed(tmp_path / "out")
    told = {name for name, _ in made.fallen_back}
    outside = {"mlx-gptq": {"model.embed_tokens"}, "mlx-awq": {"model.embed_tokens", "lm_head"}}
    assert told == outside.get(method, set())


def test_a_tied_head_is_quantized_or_untied_without_a_word(tied, tmp_path):
    made = quantize(tied, tmp_path / "head", head="quantize")
    assert "model.embed_tokens" not in packed(tmp_path / "head")
    assert not any(name.startswith("lm_head") for name in headers.tensors(tmp_path / "head"))
    assert any("kept with it" in note for note in made.notes)
    made = quantize(tied, tmp_path / "both", embeddings="quantize")
    assert "model.embed_tokens" in packed(tmp_path / "both")
    assert any("quantized with it" in note for note in made.notes)


def test_calibration_tokens_are_dropped_or_padded():
    rows = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11]]
    whole = mlx_methods.stacked(rows, 4)
    assert whole == [[1, 2, 3, 4], [5, 6, 7, 8], [8, 9, 10, 11]]
    assert mlx_methods.stacked(rows, 100) == [[*range(1, 12)]]
    one_by_one = mlx_methods._Rows(rows)
    assert [one_by_one[i : i + 1].tolist() for i in range(len(one_by_one))] == [[row] for row in rows]


def test_awq_and_gptq_are_no_better_than_rounding_on_their_own_text(source, tmp_path, one_thread):
    """The control: calibrated error at 2 bits, on the text that was calibrated on, lies below that of rounding."""
    right = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    errors = {}
    for method in ("mlx-rtn", "mlx-gptq", "mlx-awq"):
        quantize(source, tmp_path / method, method, bits=2)
        model = mlx.load(method, tmp_path / method)
        with torch.inference_mode():
            wanted = [right(torch.tensor([row])).logits[0].numpy() for row in TEXTS]
        errors[method] = sum(float(((logits(model, row) - w) ** 2).sum()) for row, w in zip(TEXTS, wanted, strict=True))
    assert errors["mlx-gptq"] < 0.9 * errors["mlx-rtn"]
    assert errors["mlx-awq"] < 0.9 * errors["mlx-rtn"]


def test_rounding_differs_from_mlx_own(source, tmp_path):
    import mlx.core as mx

    quantize(source, tmp_path / "out")
    name = "model.layers.1.mlp.down_proj"
    weights, found = (mx.load(str(folder / headers.SINGLE)) for folder in (source, tmp_path / "out"))
    for part, wanted in zip(("weight", "scales", "biases"), mx.quantize(weights[f"{name}.weight"], 32, 4), strict=True):
        assert mx.array_equal(found[f"{name}.{part}"], wanted)


def test_tokenizer_or_special_ids_are_written_anew(source, tmp_path):
    odd = tmp_path / "source"
    import shutil

    shutil.copytree(source, odd)
    (odd / "generation_config.json").write_text('{"eos_token_id": [2, 7]}')
    (odd / "chat_template.jinja").write_text(sources.TEMPLATE)
    quantize(odd, tmp_path / "out")
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
        assert (tmp_path / "out" / name).read_bytes() == (odd / name).read_bytes(), name
    assert config(tmp_path / "out")["eos_token_id"] == 2
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".json", ".jinja", ".safetensors"}


def test_progress_is_held_back_or_ends_early(source, tmp_path, capsys):
    for method in METHODS:
        told = []

        def tell(done, of, left, told=told):
            told.append((done, of, left))
            print("seen", file=sys.stderr)

        quantize(source, tmp_path / method, method, on_progress=tell)
        assert told[0][0] == 0
        assert told[0][2] is None
        assert told[-1][0] == told[-1][1] > 0
        assert [done for done, *_ in told] == sorted(done for done, *_ in told)
        out, err = capsys.readouterr()
        assert out == ""
        assert err == "seen\n" * len(told)


def test_the_whole_way_to_an_artifact_breaks(source, tmp_path):
    text = sources.write_texts(tmp_path / "texts.jsonl", [{"text": sources.sentence(i, 60)} for i in range(8)])
    for method in ("mlx-rtn", "mlx-gptq"):
        chosen = recipe(method)
        if chosen.facts.calibrates:
            chosen = chosen.with_calibration(str(text))
        made = artifact.make(str(source), chosen, tmp_path / method, lambda *_: None)
        audit = made.audit
        assert audit is not None
        assert (audit.format, audit.bits, audit.group_size, audit.symmetric) == ("mlx affine", 4, 32, False)
        assert (audit.embeddings, audit.head, audit.skipped, audit.non_finite) == ("kept", "kept", (), ())
        assert len(audit.quantized) == audit.asked == 14
        assert audit.same_tokenizer
        assert audit.same_special_ids
        assert audit.same_template
        assert audit.kl_mean is not None
        assert 0 < audit.kl_mean < 1
        assert audit.kernel == "mlx affine on the MLX engine"
