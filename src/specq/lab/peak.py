"""How much arithmetic this device does a second: the other number that the ridge is made of."""

from __future__ import annotations

import statistics

from specq.core.clock import now

SIDE = 1024
TRIES = 7


def measure(device: str, dtype: str, *, side: int = SIDE, tries: int = TRIES) -> float:
    """FLOP/s of a product of two square matrices on a torch device: 2 n^3 over the median time of `tries`.

    The threads are torch's own. `dtype` is a name of torch's, such as "bfloat16".
    """
    import torch

    kind = getattr(torch, dtype)
    left = torch.ones((side, side), dtype=kind, device=device)
    seconds = []
    # The first makes the kernel ready.
    for _ in range(tries + 1):
        start = now()
        product = left @ left
        # .item() waits for the device to finish.
        product[0, 0].item()
        seconds.append(now() - start)
    return 2 * side**3 / statistics.median(seconds[1:])
