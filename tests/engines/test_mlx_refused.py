"""What the MLX engine refuses by name, for mlx-lm would do it wrongly or not at all."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from mlx_specs import NEW, PROMPTS, spec

import tiny_models as tiny
from specq.core.errors import NonFiniteLogits, PromptError, TokenizerMismatch, Unsupported
from specq.core.types import DraftSpec, Prompt, Sampling
from specq.engines.mlx import MLXEngine


def test_padded_drafts_propose_ids_that_the_target_has_no_row_for(open_mlx, folder_of):
    """The draft's padding rows are its likeliest tokens; unseen, they would be looked up out of bounds."""
    folder = folder_of("llama", noise=0.2, vocab_size=tiny.V + 14)
    (plain,) = open_mlx("llama").decoder(None).generate(PROMPTS[:1], tiny.greedy(NEW))
    (mine,) = open_mlx("llama").decoder(spec(folder)).generate(PROMPTS[:1], tiny.greedy(NEW))
    assert mine.ids == plain.ids


def test_what_the_engine_cannot_do_is_run_as_something_else(open_mlx, folder_of, tmp_path):
    target = open_mlx("llama")
    for wrong in (
        spec(folder_of("llama"), rule="rejection"),
        DraftSpec(method="lookup", k=2, rule="match"),
        DraftSpec(method="early_exit", k=2, rule="match", layers=1),
    ):
        with pytest.raises(Unsupported, match='the mlx engine has method = "model" with rule = "match"'):
            target.decoder(wrong)
    with pytest.raises(Unsupported, match="names no model"):
        target.decoder(DraftSpec(method="model", k=2, rule="match"))
    with pytest.raises(Unsupported, match="made first"):
        target.decoder(spec("self", recipe="some.toml"))
    other = tiny.save(tmp_path / "other", tiny.make("llama"), pieces=(*tiny.PIECES[:-1], "@"))
    with pytest.raises(TokenizerMismatch, match="id 49"):
        target.decoder(spec(other))
    with pytest.raises(Unsupported, match="which no group of 32, 64 or 128 divides"):
        target.with_cache("q8")
    with pytest.raises(Unsupported, match="dtype 'int8'"):
        MLXEngine(device="cpu", dtype="int8")
    with pytest.raises(Unsupported, match="mlx runs on cpu here"):
        MLXEngine(device="cuda")


def test_a_recurrent_cache_is_rolled_back(open_mlx):
    sizes = {"block_dim": 32, "block_auto_adjust_ff_dim": False, "tie_word_embeddings": True}
    target = open_mlx("conv", **sizes)
    with pytest.raises(Unsupported, match="keeps a cache that mlx-lm cannot roll back"):
        target.decoder(spec("self"))
    with pytest.raises(Unsupported, match="cannot quantize the windowed or recurrent cache"):
        open_mlx("conv", **{**sizes, "hidden_size": 128, "block_dim": 128}).with_cache("q8")


def test_a_window_is_outgrown_with_a_draft(target_of, mlx_engine, tmp_path, one_thread):
    """Within its window mlx-lm rolls back; beyond it trims nothing, without a word."""
    window = {"sliding_window": 32, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    folder = tiny.save(tmp_path / "window", tiny.make("llama"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **window}))
    target = mlx_engine.open(str(folder))
    short, long = tiny.prompt("abcabc", id="s"), PROMPTS[0]
    (plain,) = target.decoder(None).generate([short], tiny.greedy(12))
    decoder = target.decoder(spec("self"))
    (mine,) = decoder.generate([short], tiny.greedy(12))
    assert mine.ids == plain.ids
    with pytest.raises(Unsupported, match=r"'a': with its answer and a draft it may have 43 tokens, .* window of 32"):
        decoder.generate([long], tiny.greedy(NEW))
    assert len(target.decoder(None).generate([long], tiny.greedy(NEW))[0].ids) == NEW


def test_a_folder_of_another_library_is_read_as_one_of_mlx(mlx_engine, tmp_path, one_thread):
    folder = tiny.save(tmp_path / "ct", tiny.make("llama"))
    config = json.loads((folder / "config.json").read_text())
    given = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": given}))
    with pytest.raises(Unsupported, match="--method mlx-from-ct"):
        mlx_engine.open(str(folder))


def test_prompts_that_do_not_fit_are_decoded(open_mlx):
    decoder = open_mlx("llama").decoder(None)
    with pytest.raises(PromptError, match="'void' is empty"):
        decoder.generate([Prompt(id="void", ids=())], tiny.greedy(3))
    with pytest.raises(PromptError, match=r"'long' has 188 tokens and may grow by 5"):
        decoder.generate([tiny.prompt("a" * (tiny.CONTEXT - 4), id="long")], tiny.greedy(5))
    with pytest.raises(PromptError, match="'odd' has the token id 50"):
        decoder.generate([Prompt(id="odd", ids=(4, tiny.V))], tiny.greedy(3))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_logits_that_are_no_numbers_become_tokens(mlx_engine, tmp_path, one_thread, value):
    model = tiny.make("llama")
    model.lm_head.weight.data[5, 3] = value
    target = mlx_engine.open(str(tiny.save(tmp_path / "broken", model)))
    for sampling in (tiny.greedy(4), Sampling(temperature=1.0, max_new_tokens=4)):
        for draft in (None, spec("self")):
            with pytest.raises(
                NonFiniteLogits, match=r"not finite after \d+ tokens: lm_head.weight of the target holds"
            ):
                target.decoder(draft).generate(PROMPTS[:1], sampling)


def test_a_machine_without_mlx_gets_a_traceback(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    with pytest.raises(Unsupported, match=r"mlx cannot be imported here .*: type: pip install"):
        MLXEngine()
