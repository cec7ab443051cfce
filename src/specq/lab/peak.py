"""How much arithmetic this device does a second: the other number that the ridge is made of."""

from __future__ import annotations

import statistics

from specq.run import bandwidth

SIDE, ACCELERATOR_SIDE = 1024, 8192
"""Of the matrices. On 10^15 FLOP/s a product of the second takes 1.1 ms, a hundred times its launch."""
TRIES = 7


def measure(
    device: str, dtype: str, *, threads: int | None = None, side: int | None = None, tries: int = TRIES
) -> float:
    """FLOP/s of a product of two square matrices on a torch device: 2 n^3 over the median time of `tries`.

    On an accelerator a try is 16 products in a row, timed by the device. `threads` is how many CPU threads multiply,
    None for torch's own choice; it is put back afterwards. `dtype` is a name of torch's, such as "bfloat16".
    """
    import torch

    times = bandwidth.in_a_row(device)
    n = side or (SIDE if times == 1 else ACCELERATOR_SIDE)
    left = torch.ones((n, n), dtype=getattr(torch, dtype), device=device)
    with bandwidth.threaded(threads):
        # The first makes the kernel ready.
        seconds = [bandwidth.timed(device, lambda: left @ left, times) for _ in range(tries + 1)]
    return 2 * n**3 / statistics.median(seconds[1:])
