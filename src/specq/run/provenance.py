"""Where and on what a run was made. Facts only: no environment variables, no user names, no home paths."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import specq

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "accelerate",
    "safetensors",
    "numpy",
    "scipy",
    "llmcompressor",
    "compressed-tensors",
    "lm-eval",
    "mlx",
    "mlx-lm",
    "xllamacpp",
)
SOURCE = Path(__file__).resolve().parents[1]
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def collect() -> dict[str, Any]:
    """The machine and the software, as JSON-able facts; what cannot be read is null."""
    import psutil

    return {
        "specq": specq.__version__,
        "git_specq": own_git_state(),
        "git_working_folder": git_state(Path.cwd()),
        "python": platform.python_version(),
        "packages": package_versions(),
        "os": platform.platform(),
        "processor": processor_name(),
        "cores_logical": psutil.cpu_count(logical=True),
        "cores_physical": psutil.cpu_count(logical=False),
        "cores_usable": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "memory_available_bytes": psutil.virtual_memory().available,
        "load_average": list(os.getloadavg()),
        "governor": _read_line(GOVERNOR),
        "on_battery": _on_battery(),
        "working_folder": tidy(Path.cwd()),
    }


def package_versions() -> dict[str, str | None]:
    """Installed versions of the packages that can change a number; null where one is absent."""
    return {name: _version(name) for name in PACKAGES}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def usable_cores() -> int:
    """Cores this process may use: a container or taskset can leave fewer than the machine has."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def processor_name() -> str:
    """The processor's marketing name, or the machine type where the system does not tell."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.split(":", 1)[1].strip()
    if sys.platform == "darwin" and (name := _output(["sysctl", "-n", "machdep.cpu.brand_string"], Path.cwd())):
        return name
    return platform.processor() or platform.machine()


def device_name(device: str) -> str:
    """The name of a torch device: the GPU's for cuda, the processor's for all others."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name(0)
    return processor_name()


def own_git_state() -> dict[str, Any] | None:
    """The git tree that specq itself runs from; null where it is installed as a package."""
    # An environment that lies inside somebody's project is in their tree but no part of it.
    return git_state(SOURCE) if _output(["git", "ls-files", "__init__.py"], SOURCE) else None


def changes(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What can change a number and is not as it was, as "name: then -> now"; both are from `collect`."""
    names = ("specq", "python", "processor", "device_name", "cores_usable", "cores_logical")
    pairs = [(name, then.get(name), now.get(name)) for name in names]
    old, new = then.get("packages") or {}, now.get("packages") or {}
    pairs += [(name, old.get(name), new.get(name)) for name in dict.fromkeys([*old, *new])]
    return [f"{name}: {before} -> {after}" for name, before, after in pairs if before != after]


_STATUS = ["git", "status", "--porcelain", "--", ":(top)", ":(top,exclude)results"]


def git_state(folder: Path) -> dict[str, Any] | None:
    """Revision and dirty flag of the git tree that holds `folder`; null outside one or without git.

    What runs leave in results/ makes nothing dirty.
    """
    revision = _output(["git", "rev-parse", "HEAD"], folder)
    if not revision:
        return None
    return {"revision": revision, "dirty": bool(_output(_STATUS, folder))}


def _output(command: list[str], folder: Path) -> str | None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _read_line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _on_battery() -> bool | None:
    import psutil

    sensors = getattr(psutil, "sensors_battery", None)
    battery = sensors() if sensors else None
    return None if battery is None else not battery.power_plugged


def tidy(path: Path) -> str:
    """A path for a file that others may read: relative to the current folder, else with ~ for the home folder."""
    whole = path.expanduser().absolute()
    if whole.is_relative_to(Path.cwd()):
        return str(whole.relative_to(Path.cwd()))
    return str(hide_home(str(whole)))


def hide_home(value: Any) -> Any:
    """The JSON value with the home folder written as ~ in every string."""
    home = str(Path.home())
    # A home of "/" (a container without a user) would turn every slash into a tilde.
    return value if len(home) < 2 else _map_strings(value, lambda text: _swap(text, home, "~"))


def tidy_command(words: Sequence[str]) -> tuple[str, ...]:
    """A command as records hold it: this interpreter is python, specq's own files have their path in the package."""
    package = str(SOURCE.parent)
    shown = ["python" if word == sys.executable else word.removeprefix(f"{package}/") for word in words]
    return tuple(hide_home(shown))


def show_home(value: Any) -> Any:
    """Undo hide_home for strings that begin with ~/ ."""
    return _map_strings(value, lambda text: str(Path(text).expanduser()) if text.startswith("~/") else text)


def _swap(text: str, home: str, sign: str) -> str:
    return sign if text == home else text.replace(home + "/", sign + "/")


def _map_strings(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_strings(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_strings(item, change) for item in value]
    return value
