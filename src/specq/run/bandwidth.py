"""How fast this device reads memory: the number under every ceiling."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from specq.core.clock import now

SIZE_BYTES = 2**30
TRIES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Read bandwidth in bytes/s: the slowest, the middle and the fastest of several tries."""

    minimum: float
    median: float
    maximum: float


def measure(device: str, *, threads: int | None = None, size_bytes: int = SIZE_BYTES, tries: int = TRIES) -> Bandwidth:
    """Read bandwidth by `tries` sums over `size_bytes` of float32 on a torch device.

    The buffer is far larger than a cache, so the sum waits for memory and not for arithmetic.
    `threads` is how many CPU threads read, None for torch's own choice; it is put back afterwards.
    """
    import torch

    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        buffer = torch.ones(size_bytes // 4, dtype=torch.float32, device=device)
        seconds = []
        for _ in range(tries):
            start = now()
            # .item() waits for the device to finish.
            buffer.sum().item()
            seconds.append(now() - start)
    finally:
        torch.set_num_threads(before)
    return Bandwidth(
        minimum=size_bytes / max(seconds),
        median=size_bytes / statistics.median(seconds),
        maximum=size_bytes / min(seconds),
    )
