"""How busy the device is while a server is under load: NVML where this machine has NVIDIA's, else the processor."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

EVERY_S = 0.5
Read = Callable[[], dict[str, float]]


class Watch:
    """Reads the device every so often between `start` and `found`, in the running event loop.

    A server on another machine cannot be watched from here: its device is unknown.
    """

    def __init__(self, url: str, read: tuple[str, Read] | None = None) -> None:
        self.source, self._read = read or (_reader() if is_here(url) else ("unknown", dict))
        self._seen: list[dict[str, float]] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._read()
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            if seen := self._read():
                self._seen.append(seen)

    def found(self) -> dict[str, Any]:
        """Stop, and the mean and highest of each reading."""
        if self._task is not None:
            self._task.cancel()
        if not self._seen:
            return {"source": "unknown"}
        names = list(self._seen[0])
        values = {name: [seen[name] for seen in self._seen if name in seen] for name in names}
        return {
            "source": self.source,
            "readings": len(self._seen),
            **{name: {"mean": sum(of) / len(of), "most": max(of)} for name, of in values.items()},
        }


def is_here(url: str) -> bool:
    """Whether an address is this very machine's."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reader() -> tuple[str, Read]:
    """NVML through pynvml (the package nvidia-ml-py), where it is here and finds a device; else psutil."""
    try:
        import pynvml
    except ImportError:
        return "processor", _processor
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return "processor", _processor
    if not handles:
        return "processor", _processor

    def read() -> dict[str, float]:
        # The busiest device: a server may have one of several.
        use = [pynvml.nvmlDeviceGetUtilizationRates(one) for one in handles]
        held = [pynvml.nvmlDeviceGetMemoryInfo(one) for one in handles]
        return {
            "device_share": max(one.gpu for one in use) / 100,
            "memory_busy_share": max(one.memory for one in use) / 100,
            "memory_held_bytes": float(max(one.used for one in held)),
        }

    return "NVML", read


def _processor() -> dict[str, float]:
    import psutil

    return {"device_share": psutil.cpu_percent() / 100}
