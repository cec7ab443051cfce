"""FLOP/s and bandwidth of a device: with the threads that are asked for, and over enough work on an accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specq.lab import asked, opening, peak
from specq.run import bandwidth

LAUNCH_S = 1e-5
FASTEST = 1e15
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: nothing here runs on one")


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many threads torch had at each call that was timed; four before."""
    seen: list[int] = []
    before = torch.get_num_threads()
    torch.set_num_threads(4)

    def timed(device: str, call: Callable[[], object], times: int) -> float:
        seen.append(torch.get_num_threads())
        return 1.0

    monkeypatch.setattr(bandwidth, "timed", timed)
    yield seen
    assert torch.get_num_threads() == 4
    torch.set_num_threads(before)


def test_peak_and_bandwidth_of_a_ridge_are_of_other_threads(
    threads: list[int], folder_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bandwidth.measure, "__kwdefaults__", {"threads": None, "size_bytes": 64, "tries": 2})
    monkeypatch.setattr(peak.measure, "__kwdefaults__", {"threads": None, "side": 8, "tries": 2})
    wanted = opening.Wanted(target=str(folder_of("llama")), kind="hf", device="cpu", threads=2)
    assert asked.machine(None, None, wanted) is not None
    assert threads == [2] * 5


def test_the_launch_is_a_share_of_a_product_on_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[tuple[int, int]] = []

    def ones(shape: tuple[int, int], **how: Any) -> Any:
        asked_for.append(shape)
        return SimpleNamespace()

    def timed(device: str, call: Callable[[], object], times: int) -> float:
        assert times > 1
        return 1.0

    monkeypatch.setattr(torch, "ones", ones)
    monkeypatch.setattr(bandwidth, "timed", timed)
    flops = peak.measure("cuda:0", "bfloat16")
    assert asked_for == [(peak.ACCELERATOR_SIDE, peak.ACCELERATOR_SIDE)]
    assert flops == 2 * peak.ACCELERATOR_SIDE**3
    assert flops / FASTEST > 100 * LAUNCH_S
    assert bandwidth.in_a_row("cpu") == 1


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_device_is_not_waited_for(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            done.append("record")

        def synchronize(self) -> None:
            done.append("wait")

        def elapsed_time(self, end: Event) -> float:
            assert done == ["record", "call", "call", "record", "wait"]
            return 6.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: done.append("wait"))
    seconds = bandwidth.timed(kind, lambda: done.append("call"), 2)
    assert done[-1] == "wait"
    if kind == "cuda":
        assert seconds == pytest.approx(0.003)
    else:
        assert done == ["call", "call", "wait"]


@cuda
def test_more_products_in_a_row_are_faster_each() -> None:
    left = torch.ones((peak.ACCELERATOR_SIDE,) * 2, dtype=torch.bfloat16, device="cuda")
    times = (bandwidth.IN_A_ROW, bandwidth.IN_A_ROW, 4 * bandwidth.IN_A_ROW)
    _, few, many = (bandwidth.timed("cuda", lambda: left @ left, count) for count in times)
    assert few == pytest.approx(many, rel=0.2)
