"""The baseline's logits on disk, for the audit of a run that holds one target in memory at a time.

A changed target is compared with the baseline along the baseline's answers of the first process and repeat. Each of
these answers gets one file in the run's folder, float32 [T, V]: 4 bytes x new tokens x vocabulary. They are written
token by token, read as they are needed, and all removed when the audit is done. A file ends with the sha256 of what
stands before it: logits that were altered since are found out and never compared with.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from specq.core.errors import RunFailed
from specq.core.records import Generated

FOLDER = "logits"
KIND = np.dtype(np.float32)
DIGEST_BYTES = hashlib.sha256().digest_size
PIECE_BYTES = 1 << 20


def path(run_dir: Path, answer: Generated) -> Path:
    """Where the logits along an answer lie: named by the tokens, so that those of another text are never taken."""
    return run_dir / FOLDER / f"{answer.prompt_sha256[:24]}-{answer.output_sha256[:24]}.npy"


def write(file: Path, rows: Iterable[np.ndarray], positions: int) -> None:
    """Write logits of so many positions, each [V] float32; the file is there whole or not at all.

    Raises:
        OSError: it cannot be written; what else is raised, making the rows raised.
    """
    part = file.with_suffix(".part")
    try:
        file.parent.mkdir(exist_ok=True)
        with part.open("wb") as out:
            digest = hashlib.sha256()
            for place, row in enumerate(rows):
                data = row.astype(KIND).tobytes()
                if place == 0:
                    data = _header(positions, len(row)) + data
                digest.update(data)
                out.write(data)
            out.write(digest.digest())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def read(file: Path) -> np.ndarray:
    """The logits of a file [T, V] float32, mapped and not read.

    Raises:
        RunFailed: it is not there, or not as `write` left it.
    """
    if not file.is_file():
        raise RunFailed("the baseline's logits along its answer were not kept")
    try:
        if not _is_whole(file):
            raise RunFailed(f"{file} is not as it was written: the baseline's logits in it were altered or cut")
        return np.asarray(np.load(file, mmap_mode="r"))
    except (OSError, ValueError, EOFError) as error:
        raise RunFailed(f"{file} cannot be read: {error}") from error


def _header(positions: int, vocabulary: int) -> bytes:
    out = io.BytesIO()
    header = {"descr": KIND.str, "fortran_order": False, "shape": (positions, vocabulary)}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue()


def _is_whole(file: Path) -> bool:
    """Whether a file's last bytes are the sha256 of all before them."""
    left, digest = file.stat().st_size - DIGEST_BYTES, hashlib.sha256()
    with file.open("rb") as content:
        while left > 0 and (piece := content.read(min(left, PIECE_BYTES))):
            digest.update(piece)
            left -= len(piece)
        return content.read() == digest.digest()


def is_there(file: Path) -> bool:
    """Whether `read` would find the logits: a file that was cut, altered or overwritten counts as none."""
    try:
        read(file)
    except RunFailed:
        return False
    return True


def remove(run_dir: Path) -> None:
    """Take away all logits of a run."""
    shutil.rmtree(run_dir / FOLDER, ignore_errors=True)
