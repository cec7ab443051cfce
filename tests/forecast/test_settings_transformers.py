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
