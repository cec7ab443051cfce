"""Which device the reference engine uses."""

from __future__ import annotations

import torch

from specq.core.errors import Unsupported


def pick_device(device: str) -> str:
    """The device of that name; "auto" is cuda, mps or cpu, whichever is there first.

    Raises:
        Unsupported: the device is unknown or absent.
    """
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, there in present.items() if there)
    if device not in present:
        raise Unsupported(f"device {device!r}: allowed are auto, {', '.join(present)}")
    if not present[device]:
        raise Unsupported(f"device {device!r} is not on this machine: use device auto or cpu")
    return device
