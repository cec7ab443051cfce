"""How fast this device reads memory: the number under every ceiling."""

from __future__ import annotations

from specq.core.clock import now

SIZE_BYTES = 512 * 2**20


def measure(device: str, *, size_bytes: int = SIZE_BYTES, tries: int = 3) -> float:
    """Read bandwidth in bytes/s: the best of `tries` sums over `size_bytes` of float32 on a torch device.

    The buffer is far larger than a cache, so the sum waits for memory and not for arithmetic.
    """
    import torch

    buffer = torch.ones(size_bytes // 4, dtype=torch.float32, device=device)
    best = float("inf")
    for _ in range(tries):
        start = now()
        # .item() waits for the device to finish.
        buffer.sum().item()
        best = min(best, now() - start)
    return size_bytes / best
