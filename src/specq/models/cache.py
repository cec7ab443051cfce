"""The user's cache folder: whole folders or none, one builder at a time, and file hashes that are kept."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from specq.core import hashes
from specq.core.errors import DiskFull, ModelError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
HINT = "set SPECQ_CACHE to"
"""How the advice begins to write to another folder, unless a caller has another way."""


def root() -> Path:
    """The cache folder: SPECQ_CACHE when it is set, else the platform's user cache. It may not exist yet."""
    if given := os.environ.get("SPECQ_CACHE"):
        return Path(given).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "specq"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specq"


@contextmanager
def disk_errors(where: Path, *, hint: str = HINT) -> Iterator[None]:
    """Turn a full disk, a limit on file sizes or a folder that cannot be written into one line.

    Raises:
        DiskFull: the disk or the quota is full, or files may not grow so large.
        ModelError: the folder cannot be written.
    """
    from safetensors import SafetensorError

    try:
        yield
    except OSError as error:
        if code := full_code(error):
            raise full(where, code, hint=hint) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise ModelError(
                f"cannot write the folder {where} ({error.strerror}): {hint} a folder that you can write"
            ) from error
        raise
    except SafetensorError as error:
        if code := full_code(error):
            raise full(where, code, hint=hint) from error
        raise


def full_code(error: BaseException | None) -> int:
    """The system's number of a full disk, quota or file size that an error tells of; 0 where it tells of none."""
    if isinstance(error, OSError):
        return error.errno if error.errno in _FULL else 0
    # The safetensors writer reports the system's error as text only.
    return next((code for code in _FULL if f"os error {code}" in str(error)), 0)


def full(where: Path, code: int = errno.ENOSPC, *, hint: str = HINT) -> DiskFull:
    """The error of a full disk; EFBIG is a limit on file sizes, which free space does not lift."""
    if code == errno.EFBIG:
        return DiskFull(
            f"a file in {where} may not grow so large (a file size limit); nothing half-written was kept: "
            "type: ulimit -f unlimited, and try again"
        )
    return DiskFull(
        f"no space left on the disk of {where}; nothing half-written was kept: "
        f"free some space, or {hint} a folder on another disk, and try again"
    )


def need_space(where: Path, size: int) -> None:
    """Check that the disk of `where` has `size` bytes free.

    Raises:
        DiskFull: it has less.
    """
    where.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(where).free
    if free < size:
        raise DiskFull(
            f"the disk of {where} has {free / 1e6:.0f} MB free and {size / 1e6:.0f} MB are needed: "
            f"free some space, or {HINT} a folder on another disk, and try again"
        )


def build(final: Path, make: Callable[[Path], Path], *, is_whole: Callable[[Path], bool], hint: str = HINT) -> Path:
    """Build the folder `final` so that it is there whole or not at all, and return it.

    `make` gets an empty scratch folder beside `final` and returns the finished folder inside it, which
    is renamed into place. One process builds at a time; another waits and then finds the work done.
    Scratch that a killed build left is removed first. A `final` that is not whole is built again. `hint`
    begins the advice to write elsewhere: "set SPECQ_CACHE to".

    Raises:
        DiskFull, ModelError: the folder cannot be written; what `make` raises passes through.
    """
    if is_whole(final):
        return final
    scratch = final.with_name(final.name + ".part")
    with disk_errors(final.parent, hint=hint):
        final.parent.mkdir(parents=True, exist_ok=True)
        with _lock(final.with_name(final.name + ".lock")):
            _remove(scratch)
            if is_whole(final):
                return final
            scratch.mkdir()
            try:
                made = make(scratch)
                _remove(final)
                made.replace(final)
            finally:
                _remove(scratch)
    return final


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    import fcntl

    while True:
        with path.open("ab") as file:
            # The lock goes with the file handle, so a killed process never leaves it held.
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                held = path.stat().st_ino == os.fstat(file.fileno()).st_ino
            except FileNotFoundError:
                held = False
            if not held:
                # Who held it before removed the file: this lock holds nobody back, and the next file counts.
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file, kept in the cache by its path, size and time of change.

    A cache that cannot be written only costs time: the hash is then computed again.
    """
    real = path.resolve()
    state = real.stat()
    key = hashes.of_json([str(real), state.st_size, state.st_mtime_ns])
    kept = root() / "hashes" / key
    if kept.is_file() and len(known := kept.read_text(encoding="ascii")) == 64:
        return known
    digest = hashes.of_file(real)
    part = kept.with_name(f"{key}.{os.getpid()}.part")
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(digest, encoding="ascii")
        part.replace(kept)
    return digest
