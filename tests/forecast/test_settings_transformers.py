"""What is pasted into transformers makes its drafts propose k tokens: run there, on a tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.generation import candidate_generator

import tiny_models
from specq.core.types import DraftSpec
from specq.decoding.session import shallow
from specq.engines.hf import HFEngine
from specq.forecast import settings

EARLY = DraftSpec(method="early_exit", layers=2, k=1)


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("method", ["early_exit", "model"])
def test_a_draft_that_is_pasted_proposes_k_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, k: int
) -> None:
    folder = tiny_models.save(tmp_path / "llama", tiny_models.make("llama"))
    draft = EARLY if method == "early_exit" else DraftSpec(method="model", model=str(folder), k=1)
    ways = settings.ways("big", "d", draft, "rejection", {"rejection": k})
    (paste,) = (way.paste for way in ways if way.engine == "transformers")
    seen: list[int] = []
    whole = candidate_generator.AssistedCandidateGenerator.get_candidates

    def counting(self: Any, input_ids: torch.Tensor, **more: Any) -> Any:
        found = whole(self, input_ids, **more)
        seen.append(found[0].shape[1] - input_ids.shape[1])
        return found

    monkeypatch.setattr(candidate_generator.AssistedCandidateGenerator, "get_candidates", counting)
    target = transformers.AutoModelForCausalLM.from_pretrained(folder)
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8, 9]]), "max_new_tokens": 40, "do_sample": True, "eos_token_id": -1}
    torch.manual_seed(3)
    exec(paste, {"target": target, "inputs": inputs, "AutoModelForCausalLM": transformers.AutoModelForCausalLM})
    # At the end of a text fewer are left to propose.
    assert max(seen) == k
    assert set(seen[: len(seen) // 2]) == {k}


def proposed(model: Any, ids: list[int], k: int, below: float) -> int:
    """How many tokens a greedy draft proposes after ids: up to the first whose softmax is below."""
    for count in range(1, k + 1):
        law = model(torch.tensor([ids])).logits[0, -1].softmax(dim=-1)
        ids = [*ids, int(law.argmax())]
        if float(law.max()) < below:
            return count
    return k


@torch.inference_mode()
def test_a_stop_that_is_pasted_proposes_other_tokens_than_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, new, below = tiny_models.save(tmp_path / "llama", tiny_models.make("llama")), 30, 0.3
    draft = DraftSpec(method="early_exit", layers=2, k=4, stop_below=below)
    ways = settings.ways("big", "d", draft, "rejection", {"rejection": 4})
    (paste,) = (way.paste for way in ways if way.engine == "transformers")
    seen: list[tuple[list[int], int]] = []
    whole = candidate_generator.AssistedCandidateGenerator.get_candidates

    def watched(self: Any, input_ids: torch.Tensor, **more: Any) -> Any:
        found = whole(self, input_ids, **more)
        seen.append((input_ids[0].tolist(), found[0].shape[1] - input_ids.shape[1]))
        return found

    monkeypatch.setattr(candidate_generator.AssistedCandidateGenerator, "get_candidates", watched)
    target = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = tiny_models.prompt("abc abd abc")
    inputs = {"input_ids": torch.tensor([prompt.ids]), "max_new_tokens": new, "do_sample": False, "eos_token_id": -1}
    exec(paste, {"target": target, "inputs": inputs})
    (own,) = HFEngine(device="cpu").open(str(folder)).decoder(draft).generate([prompt], tiny_models.greedy(new))
    text = [*prompt.ids, *own.ids]
    here = [(text[: step.context], step.proposed) for step in own.steps]
    # At the end of a text fewer are left to propose.
    view, last = shallow(target, 2), len(text) - draft.k - 1
    for told in (seen, here):
        inside = [(ids, count) for ids, count in told if len(ids) < last]
        assert [count for _, count in inside] == [proposed(view, ids, draft.k, below) for ids, _ in inside]
        assert len({count for _, count in inside}) > 1
