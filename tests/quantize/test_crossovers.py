"""Row counts at which packed layers hand passes over: measured once, and taken again where all is the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specq.core.crossover import Crossover
from specq.quantize import kernels
from specq.quantize.crossovers import Crossovers
from specq.quantize.kernels import INT8, KernelLinear
from specq.quantize.packed import round_to_nearest
from specq.quantize.recipes import ROW

pytestmark = pytest.mark.usefixtures("one_thread")


def layers(count: int, rows: int = 16) -> list[KernelLinear]:
    weights = round_to_nearest(torch.randn(rows, 32), 8, ROW)
    return [KernelLinear(weights, INT8, bias=None, device="cpu") for _ in range(count)]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row counts that were timed; the other way wins from the fourth on."""
    asked: list[int] = []
    monkeypatch.setattr(kernels, "_other_is_faster", lambda turns, rows: asked.append(rows) or rows >= 5)
    return asked


def forbidden(*_: object) -> bool:
    raise AssertionError("timed again")


def test_a_row_count_is_timed_again_in_a_later_process(timed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Crossover] = []
    first = Crossovers(process=3, device="a chip", told=told.append)
    assert first.set(layers(2)) == 5
    assert timed == [2, 3, 4, 5]
    (found,) = told
    assert (found.process, found.device, found.way, found.layers, found.rows) == (3, "a chip", "scaled", 2, 5)
    monkeypatch.setattr(kernels, "_other_is_faster", forbidden)
    for known in (first, Crossovers(told, device="a chip", told=told.append)):
        again = layers(2)
        assert known.set(again) == 5
        assert [layer.many for layer in again] == [5, 5]
    assert len(told) == 1


def test_never_is_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_other_is_faster", lambda turns, rows: False)
    known = Crossovers()
    assert known.set(layers(1)) is None
    monkeypatch.setattr(kernels, "_other_is_faster", forbidden)
    assert known.set(layers(1)) is None


@pytest.mark.parametrize(
    "other",
    [
        {"kernel": "int4pack"},
        {"out_features": 48},
        {"in_features": 64},
        {"group_size": 16},
        {"layers": 3},
        {"way": "dense"},
        {"dtype": "float16"},
        {"threads": 99},
        {"device": "another chip"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_the_row_count_of_another_case_is_taken(timed: list[int], other: dict[str, object]) -> None:
    told: list[Crossover] = []
    Crossovers(device="a chip", told=told.append).set(layers(2))
    elsewhere = replace(told[0], rows=128, **other)
    assert Crossovers([elsewhere], device="a chip").set(layers(2)) == 5
    assert Crossovers([replace(told[0], rows=128)], device="a chip").set(layers(2)) == 128


def test_a_second_record_of_a_case_overrules_the_first(timed: list[int]) -> None:
    told: list[Crossover] = []
    Crossovers(told=told.append).set(layers(1))
    assert Crossovers([told[0], replace(told[0], process=1, rows=64)]).set(layers(1)) == 5
