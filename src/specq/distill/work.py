"""The folder of an unfinished distillation, DIR.part: one writer, one recipe, and DIR by rename at the end."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specq.core import jsonl
from specq.core.errors import ConfigError, DiskFull, RunFolderError
from specq.models import cache, headers

RECIPE = "recipe.json"
HINT = "point --out at"
"""How the advice begins to write to another disk."""


def part_of(out: Path) -> Path:
    """Where the work on a folder lies until it is whole."""
    return out.with_name(out.name + ".part")


def check_out(out: Path, source: Path, *, resume: bool) -> Path:
    """The absolute path of --out, which must be free, and its work there or not there as `resume` says.

    Raises:
        ConfigError: each in one line that says what to type.
    """
    whole = out.expanduser().absolute()
    if whole.exists():
        raise ConfigError(f"--out {out} exists already: name a folder that does not, or remove it first")
    if source.resolve() in whole.resolve().parents:
        raise ConfigError(f"--out {out} lies inside the target's own folder, {source}: name one beside it")
    above = next(parent for parent in whole.parents if parent.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise ConfigError(
            f"--out {out} cannot be written ({above} is no folder that you may write): name another folder"
        )
    part = part_of(whole)
    if resume and not (part / RECIPE).is_file():
        raise ConfigError(f"--resume: there is no unfinished work in {part}; leave --resume out to begin")
    if not resume and (part / RECIPE).is_file():
        raise ConfigError(
            f"--out {out} was begun and is unfinished ({part}): add --resume to go on, or remove that folder"
        )
    return whole


@contextmanager
def opened(out: Path, recipe: Mapping[str, Any]) -> Iterator[Path]:
    """The locked work folder of `out`, made where there is none; what it holds is kept however the block ends.

    Raises:
        ConfigError: it was begun with another recipe; names the keys. RunFolderError: another process works in it.
        DiskFull, ModelError: it cannot be written; where there is work to keep, the former says how to go on.
    """
    part = part_of(out)
    with _kept(part), cache.disk_errors(part, hint=HINT):
        part.mkdir(parents=True, exist_ok=True)
        lock = os.open(part, os.O_RDONLY)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RunFolderError(f"{part} is being written by another specq process; wait until it ends") from error
            if (part / RECIPE).is_file():
                _same(part, recipe)
            else:
                jsonl.write_whole(part / RECIPE, dict(recipe))
            yield part
        finally:
            os.close(lock)


@contextmanager
def _kept(part: Path) -> Iterator[None]:
    """Whoever finds the disk full does not know what lies in the work folder."""
    try:
        yield
    except DiskFull as error:
        if not (part / RECIPE).is_file():
            raise
        again = "type the same again with --resume"
        if cache.full_code(error.__cause__) == errno.EFBIG:
            raise DiskFull(
                f"a file in {part} may not grow so large (a file size limit); what was done is kept there: type: "
                f"ulimit -f unlimited, and {again}"
            ) from error
        raise DiskFull(
            f"no space left on the disk of {part}; what was done is kept there: free some space and {again}, or {HINT} "
            "a folder on another disk to begin anew"
        ) from error


def finish(part: Path, made: Path, out: Path) -> None:
    """Give the finished folder its name and take the work away."""
    made.replace(out)
    shutil.rmtree(part)


def _same(part: Path, recipe: Mapping[str, Any]) -> None:
    before = headers.read_json(part / RECIPE)
    changed = [key for key in dict.fromkeys((*before, *recipe)) if before.get(key) != recipe.get(key)]
    if changed:
        told = "; ".join(f"{key} was {before.get(key)!r} and is {recipe.get(key)!r}" for key in changed)
        raise ConfigError(
            f"--resume goes on with the same recipe only: {told}; give what was given, or remove {part} and begin anew"
        )
