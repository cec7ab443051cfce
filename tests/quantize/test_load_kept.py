"""A quantized head of which a draft keeps some rows: the same numbers in the same places, from fewer integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import packed_folders as folders
import pytest
import torch

import tiny_models as tiny
from specq.decoding.drafters.kept_head import KeptHead
from specq.models.kept import Kept
from specq.models.quiet import quiet
from specq.quantize.kernels import INT8
from specq.quantize.load import load_quantized

IDS = (0, 1, 4, 9, 10, 17, 30, 49)
TEXT = torch.tensor([[1, 5, 6, 9]])


def heads(bits: int, group: int, *, symmetric: bool) -> dict[str, Any]:
    return {"bits": bits, "group": group, "symmetric": symmetric, "ignore": ()}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("made", "kernel"),
    [(heads(8, 0, symmetric=True), INT8), (heads(3, 32, symmetric=False), None), ({"bits": 8}, None)],
    ids=["8 bits", "3 bits with zero points", "a head in floats"],
)
@torch.inference_mode()
def test_a_quantized_draft_keeps_other_rows_of_its_head(
    tmp_path: Path, one_thread: None, made: dict[str, Any], kernel: str | None, dtype: str
) -> None:
    folder = folders.write(tmp_path / "m", **made)
    with quiet():
        whole = load_quantized(folder, dtype=dtype, prefill="packed")
        own = load_quantized(folder, dtype=dtype, prefill="packed", kept=Kept(ids=IDS, rows=tiny.V))
    assert isinstance(own.model.get_output_embeddings(), KeptHead)
    left, right = (one.model(input_ids=TEXT).logits.float() for one in (whole, own))
    outside = [i for i in range(tiny.V) if i not in IDS]
    assert (right[..., outside] == -torch.inf).all()
    assert right[..., IDS].numpy() == pytest.approx(left[..., IDS].numpy(), rel=1e-2, abs=1e-2)
    assert own.bytes_held < whole.bytes_held
    if kernel is not None and dtype == "bfloat16":
        assert own.kernels["lm_head.rows"] == kernel
