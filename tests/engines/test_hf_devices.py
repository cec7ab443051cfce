"""Where weights lie must not change a token: accelerate's device map, an accelerator, a broken checkpoint."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

import tiny_models as tiny
from specq.core.errors import ModelError, Unsupported
from specq.core.types import EXACT_RULES, DraftSpec
from specq.engines.hf import HFEngine

PROMPT = tiny.prompt("abc abc, abd abc")


def test_a_device_map_changes_the_tokens(folder_of, target_of):
    spread = HFEngine(device="cpu", dtype="float32", device_map="auto").open(str(folder_of("llama")))
    plain = target_of("llama").decoder(None).generate([PROMPT], tiny.greedy(16))[0]
    for spec in (None, DraftSpec(method="early_exit", layers=1, k=3), DraftSpec(method="lookup", k=3)):
        assert spread.decoder(spec).generate([PROMPT], tiny.greedy(16))[0].ids == plain.ids


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
@pytest.mark.parametrize("rule", EXACT_RULES)
def test_a_cuda_device_changes_the_tokens(folder_of, target_of, rule):
    plain = target_of("llama").decoder(None).generate([PROMPT], tiny.greedy(16))[0]
    target = HFEngine(device="cuda", dtype="float32").open(str(folder_of("llama")))
    assert target.sync is torch.cuda.synchronize
    for spec in tiny.drafts(rule, 3, str(folder_of("llama", noise=0.2))).values():
        assert target.decoder(spec).generate([PROMPT], tiny.greedy(16))[0].ids == plain.ids


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_an_absent_device_is_refused_by_name():
    with pytest.raises(Unsupported, match="'cuda' is not on this machine: use device auto or cpu"):
        HFEngine(device="cuda")


def test_missing_weights_are_made_up_at_random(folder_of, tmp_path):
    folder = folder_of("llama")
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in folder.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    weights = load_file(broken / "model.safetensors")
    gone = next(name for name in weights if name.endswith("mlp.up_proj.weight"))
    del weights[gone]
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="lacks 1 of the weights"):
        HFEngine(device="cpu").open(str(broken))
