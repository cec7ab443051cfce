"""The runs under a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specq.core.errors import RunFolderError, nearest
from specq.run.folder import RUN, read_info
from specq.run.store import is_busy, is_done

DEFAULT_OUT = Path("results")
Kind = Literal["run", "load", "lab"]
State = Literal["done", "running", "unfinished", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run in a list; `created` is UTC as 20261130T210446Z.

    Of an unreadable one (its run.json is broken) only the folder is known; question and created are empty. `stale` says
    what has changed since, as far as it can be seen from the current folder.
    """

    run: str
    experiment: str
    question: str
    created: str
    state: State
    stale: tuple[str, ...] = ()


def list_runs(out: Path) -> tuple[RunSummary, ...]:
    """All runs under `out`, oldest first, after those that cannot be read; empty when there are none."""
    found = [_summary(path.parent) for path in out.glob(f"*/*/{RUN}")]
    return tuple(sorted(found, key=lambda run: (run.created, run.run)))


def _summary(run_dir: Path) -> RunSummary:
    # It reads experiments; who only asks where runs lie does not.
    from specq.run import stale

    try:
        info = read_info(run_dir)
    except RunFolderError:
        return RunSummary(run=str(run_dir), experiment=run_dir.parent.name, question="", created="", state="unreadable")
    state: State = "done" if is_done(run_dir) else "running" if is_busy(run_dir) else "unfinished"
    return RunSummary(
        run=str(run_dir),
        experiment=str(info.get("experiment", "")),
        question=str(info.get("question", "")),
        created=str(info.get("created", "")),
        state=state,
        stale=stale.reasons(info),
    )


def kind_of(run_dir: Path) -> Kind:
    """Which command wrote a folder: specq run, load or lab. One whose run.json cannot be read is taken for a run.

    An experiment may be called load or lab too: its run.json has a config and arms.
    """
    try:
        info = read_info(run_dir)
    except RunFolderError:
        return "run"
    if info.get("experiment") == "load" and "asked" in info:
        return "load"
    return "lab" if info.get("experiment") == "lab" and "arms" not in info else "run"


def find_run(given: str | Path, out: Path) -> Path:
    """A run by its folder, or by its folder's name under `out`.

    Raises:
        RunFolderError: there is no such run.
    """
    if Path(given).exists():
        return Path(given)
    known = {path.parent.name: path.parent for path in out.glob(f"*/*/{RUN}")}
    if str(given) in known:
        return known[str(given)]
    raise RunFolderError(
        f"no run {str(given)!r} under {out}{nearest(str(given), known)}; to see the runs there type: specq ls"
    )
