"""In which dtype training multiplies."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specq.distill import products
from specq.distill.loss import Head


def head(dtype: torch.dtype) -> Head:
    return Head(weight=torch.randn(32, 8).to(dtype), bias=torch.randn(32).to(dtype))


def timed(monkeypatch: pytest.MonkeyPatch, float32: float, bfloat16: float) -> list[torch.dtype]:
    asked: list[torch.dtype] = []

    def seconds(head: Head, dtype: torch.dtype) -> float:
        asked.append(dtype)
        return float32 if dtype == torch.float32 else bfloat16

    monkeypatch.setattr(products, "seconds", seconds)
    return asked


@pytest.mark.parametrize(
    ("float32", "bfloat16", "taken"),
    [
        (1.0, 6.0, torch.float32),
        (1.0, 1.4, torch.bfloat16),
        (1.0, 1.0, torch.bfloat16),
        (2.0, 1.0, torch.bfloat16),
    ],
)
def test_float32_is_taken_where_it_is_far_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, float32: float, bfloat16: float, taken: torch.dtype
) -> None:
    timed(monkeypatch, float32, bfloat16)
    given = head(torch.bfloat16)
    got = products.chosen(given, tmp_path)
    assert got.weight.dtype == taken
    assert got.bias is not None
    assert given.bias is not None
    assert got.bias.dtype == taken
    assert torch.equal(got.weight, given.weight.to(taken))
    assert torch.equal(got.bias, given.bias.to(taken))


def test_what_was_chosen_holds_when_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, 1.0, 6.0)
    products.chosen(head(torch.bfloat16), tmp_path)
    asked = timed(monkeypatch, 6.0, 1.0)
    assert products.chosen(head(torch.bfloat16), tmp_path).weight.dtype == torch.float32
    assert asked == []


def test_a_target_in_float32_is_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = timed(monkeypatch, 6.0, 1.0)
    given = head(torch.float32)
    assert products.chosen(given, tmp_path) is given
    assert asked == []


def test_a_product_takes_some_time() -> None:
    assert 0 < products.seconds(head(torch.bfloat16), torch.bfloat16) < 10
