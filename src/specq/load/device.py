"""How busy the device is while a server is under load: NVML where this machine has NVIDIA's, else the processor.

Of the processor, the server's own share where its processes are known: those of the group that was started here, or the
one that listens at its port with its children. Else it is the whole machine's.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from specq.core import clock

EVERY_S = 0.5
NVML, SERVER, PROCESSOR, UNKNOWN = "NVML", "the server's processes", "processor", "unknown"
Read = Callable[[], dict[str, float]]
_NO_READING = {"source", "readings"}


class Watch:
    """Reads the device every so often between `start` and `found`, in the running event loop.

    `group` is the process group of a server that was started here. A server on another machine cannot be watched from
    here: its device is unknown. Making one takes a while: its processes are looked for among all.
    """

    def __init__(self, url: str, group: int | None = None, read: tuple[str, Read] | None = None) -> None:
        self.source, self._read = read or (_reader(url, group) if is_here(url) else (UNKNOWN, dict))
        self._seen: list[dict[str, float]] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._read()
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self._look()

    def _look(self) -> None:
        if seen := self._read():
            self._seen.append(seen)

    def found(self) -> dict[str, Any]:
        """Stop, and the mean and highest of each reading."""
        if self._task is not None:
            self._task.cancel()
            if not self._seen:
                # It was over before the first look: one of the whole time says as much.
                self._look()
        if not self._seen:
            return {"source": UNKNOWN}
        names = dict.fromkeys(name for seen in self._seen for name in seen)
        values = {name: [seen[name] for seen in self._seen if name in seen] for name in names}
        return {
            "source": self.source,
            "readings": len(self._seen),
            **{name: {"mean": sum(of) / len(of), "most": max(of)} for name, of in values.items()},
        }


def together(repeats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What several watches found, as if they had been one: means over all readings, and the highest of all.

    A use of one source is no use of another: where repeats have several there are their names and no reading.
    """
    told = [one for one in repeats if set(one) - _NO_READING]
    if not told:
        return dict(repeats[-1]) if repeats else {}
    sources = dict.fromkeys(str(one.get("source", UNKNOWN)) for one in told)
    if len(sources) > 1:
        return {"source": f"{' or '.join(sources)}, by repeat"}
    found: dict[str, Any] = {"source": next(iter(sources)), "readings": sum(one.get("readings", 1) for one in told)}
    for name in dict.fromkeys(name for one in told for name in one if name not in _NO_READING):
        of = [(one[name], one.get("readings", 1)) for one in told if name in one]
        mean = sum(value["mean"] * count for value, count in of) / sum(count for _, count in of)
        found[name] = {"mean": mean, "most": max(value["most"] for value, _ in of)}
    return found


def is_here(url: str) -> bool:
    """Whether an address is this very machine's."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reader(url: str, group: int | None) -> tuple[str, Read]:
    """The best that there is, with its name; beside NVML's the cores that the server's processes use."""
    processes = _of_group(group) if group is not None else _listening(urlsplit(url).port)
    own = _cores_of(processes) if processes else None
    nvml = _nvml()
    if nvml is not None:
        return NVML, lambda: {**nvml(), **({} if own is None else own())}
    if own is None:
        return PROCESSOR, _processor

    def read() -> dict[str, float]:
        found = own()
        return {"device_share": found["server_cores"] / _cores(), **found} if found else {}

    return SERVER, read


def _nvml() -> Read | None:
    """Readings of NVML through pynvml (the package nvidia-ml-py); None where it is not here or finds no device."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
        if not handles:
            return None
        # Some devices, such as slices of one, tell no use.
        _nvml_read(pynvml, handles)
    except pynvml.NVMLError:
        return None

    def read() -> dict[str, float]:
        try:
            return _nvml_read(pynvml, handles)
        except pynvml.NVMLError:
            return {}

    return read


def _nvml_read(pynvml: Any, handles: Sequence[Any]) -> dict[str, float]:
    # The busiest device: a server may have one of several.
    use = [pynvml.nvmlDeviceGetUtilizationRates(one) for one in handles]
    held = [pynvml.nvmlDeviceGetMemoryInfo(one) for one in handles]
    return {
        "device_share": max(one.gpu for one in use) / 100,
        "memory_busy_share": max(one.memory for one in use) / 100,
        "memory_held_bytes": float(max(one.used for one in held)),
    }


def _of_group(group: int) -> list[Any]:
    import psutil

    return [one for one in psutil.process_iter() if _group_of(one.pid) == group]


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _listening(port: int | None) -> list[Any]:
    """The process that listens at a port with its children; nobody where the system does not tell."""
    import psutil

    try:
        ends = [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN and one.laddr]
        pid = next((one.pid for one in ends if one.laddr.port == port and one.pid), None)
        own = None if pid is None or pid == os.getpid() else psutil.Process(pid)
        return [] if own is None else [own, *own.children(recursive=True)]
    except (psutil.Error, PermissionError):
        return []


def _cores_of(processes: Sequence[Any]) -> Read:
    """How many cores some processes used since the reading before; nothing at the first."""
    import psutil

    before: dict[int, float] = {}
    last_s = clock.now()

    def read() -> dict[str, float]:
        nonlocal before, last_s
        now: dict[int, float] = {}
        for one in processes:
            try:
                times = one.cpu_times()
            except psutil.Error:
                continue
            now[one.pid] = times.user + times.system
        taken = sum(seconds - before[pid] for pid, seconds in now.items() if pid in before)
        at_s = clock.now()
        passed, first = at_s - last_s, not before
        before, last_s = now, at_s
        return {} if first or passed <= 0 or not now else {"server_cores": taken / passed}

    return read


def _cores() -> int:
    import psutil

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else psutil.cpu_count() or 1


def _processor() -> dict[str, float]:
    import psutil

    return {"device_share": psutil.cpu_percent() / 100}
