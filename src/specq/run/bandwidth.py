"""How fast this device reads memory: the number under every ceiling; and how long it takes for what it is given."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from specq.core.clock import now

SIZE_BYTES = 2**30
TRIES = 7
IN_A_ROW = 16
"""Calls of one try on an accelerator: the first one's launch and the wait for the last are a share of none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Read bandwidth in bytes/s: the slowest, the middle and the fastest of several tries."""

    minimum: float
    median: float
    maximum: float


def measure(device: str, *, threads: int | None = None, size_bytes: int = SIZE_BYTES, tries: int = TRIES) -> Bandwidth:
    """Read bandwidth by `tries` sums over `size_bytes` of float32 on a torch device; on an accelerator 16 in a row.

    The buffer is far larger than a cache, so the sum waits for memory and not for arithmetic.
    `threads` is how many CPU threads read, None for torch's own choice; it is put back afterwards.
    """
    import torch

    with threaded(threads):
        buffer = torch.ones(size_bytes // 4, dtype=torch.float32, device=device)
        times = in_a_row(device)
        seconds = [timed(device, buffer.sum, times) for _ in range(tries)]
    return Bandwidth(
        minimum=size_bytes / max(seconds),
        median=size_bytes / statistics.median(seconds),
        maximum=size_bytes / min(seconds),
    )


def in_a_row(device: str) -> int:
    """How many calls a try has on a torch device: one where a call returns when it is done."""
    return 1 if device.partition(":")[0] == "cpu" else IN_A_ROW


def timed(device: str, call: Callable[[], object], times: int) -> float:
    """Seconds of one of `times` calls in a row, when a torch device has worked through all of them.

    On CUDA by events that the device stamps itself, so that what the host does beside it counts nowhere.
    """
    import torch

    kind = device.partition(":")[0]
    if kind == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000 / times
    start = now()
    for _ in range(times):
        call()
    if kind == "mps":
        torch.mps.synchronize()
    return (now() - start) / times


@contextmanager
def threaded(count: int | None) -> Iterator[None]:
    """Torch's CPU threads for a while; None: as they are."""
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
