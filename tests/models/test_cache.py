from __future__ import annotations

import errno
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from specq.core.errors import DiskFull, ModelError
from specq.models import cache


def _exists(folder: Path) -> bool:
    return (folder / "done").is_file()


def _make(scratch: Path) -> Path:
    (scratch / "out").mkdir()
    (scratch / "out" / "done").write_text("")
    return scratch / "out"


def test_cache_moves_with_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "c"))
    assert cache.root() == tmp_path / "c"
    monkeypatch.delenv("SPECQ_CACHE")
    assert cache.root().name == "specq"


def test_failed_build_leaves_no_folder(tmp_path):
    def make(scratch: Path) -> Path:
        (scratch / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.build(tmp_path / "m", make, is_whole=_exists)
    assert [p for p in tmp_path.iterdir() if p.is_dir()] == []


def test_leftovers_of_a_killed_build_are_removed(tmp_path):
    (tmp_path / "m.part" / "deep").mkdir(parents=True)
    assert cache.build(tmp_path / "m", _make, is_whole=_exists) == tmp_path / "m"
    assert not (tmp_path / "m.part").exists()


def test_broken_folder_is_built_again(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "old").write_text("")
    cache.build(tmp_path / "m", _make, is_whole=_exists)
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["done"]


def test_two_builds_at_once_do_the_work_once(tmp_path):
    started, made = threading.Event(), []

    def slow(scratch: Path) -> Path:
        made.append(scratch)
        started.set()
        other.join(0.3)
        return _make(scratch)

    def second() -> None:
        started.wait(5)
        cache.build(tmp_path / "m", slow, is_whole=_exists)

    other = threading.Thread(target=second)
    other.start()
    cache.build(tmp_path / "m", slow, is_whole=_exists)
    other.join(5)
    assert len(made) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_gets_one_line_and_leaves_nothing(tmp_path, code):
    def make(scratch: Path) -> Path:
        raise OSError(code, "full")

    with pytest.raises(DiskFull, match="no space left"):
        cache.build(tmp_path / "m", make, is_whole=_exists)
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "m.part").exists()


def test_a_limit_on_file_sizes_is_told_as_a_full_disk_or_a_traceback(tmp_path):
    """Run under a real limit, in a process of its own; free space would not help."""
    code = """
import resource, signal
from pathlib import Path
from specq.models import cache

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
folder = Path({folder!r})
for write in ("plain", "safetensors"):
    def make(scratch):
        if write == "plain":
            (scratch / "big").write_bytes(bytes(1 << 17))
        else:
            import numpy as np
            from safetensors.numpy import save_file
            save_file({{"a": np.zeros(1 << 17, np.uint8)}}, scratch / "big.safetensors")
        return scratch
    try:
        cache.build(folder / "m", make, is_whole=lambda path: path.exists())
    except cache.DiskFull as error:
        print(error)
print([path.name for path in folder.iterdir()])
"""
    done = subprocess.run(
        [sys.executable, "-c", code.format(folder=str(tmp_path))], capture_output=True, text=True, check=True
    )
    plain, safetensors, left = done.stdout.splitlines()
    assert "may not grow so large" in plain
    assert plain == safetensors
    assert "ulimit -f unlimited" in plain
    assert left == "[]"


def test_a_failed_or_finished_build_leaves_its_lock(tmp_path):
    def fail(scratch: Path) -> Path:
        raise ModelError("broken")

    with pytest.raises(ModelError, match="broken"):
        cache.build(tmp_path / "m", fail, is_whole=_exists)
    assert list(tmp_path.iterdir()) == []
    cache.build(tmp_path / "m", _make, is_whole=_exists)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_lock_that_was_removed_meanwhile_lets_two_build_at_once(tmp_path):
    """Four take turns: each removes its lock while others wait for it."""
    inside, most, turns = [], [], []

    def slow(scratch: Path) -> Path:
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.02)
        inside.pop()
        return _make(scratch)

    def turn() -> None:
        for _ in range(5):
            cache.build(tmp_path / "m", slow, is_whole=lambda folder: False)
            turns.append(1)

    others = [threading.Thread(target=turn) for _ in range(4)]
    for other in others:
        other.start()
    for other in others:
        other.join(20)
    assert (len(turns), max(most)) == (20, 1)


@pytest.mark.parametrize("look", [1, 2])
def test_a_lock_removed_between_two_looks_at_it_breaks_the_build(tmp_path, monkeypatch, look):
    """Another builder ends at the worst moment: its lock goes just before the first or the second look."""
    looks, real = [], Path.stat

    def stat(path: Path, **how):
        if path.suffix == ".lock":
            looks.append(path)
            if len(looks) == look:
                path.unlink()
        return real(path, **how)

    monkeypatch.setattr(Path, "stat", stat)
    assert cache.build(tmp_path / "m", _make, is_whole=_exists) == tmp_path / "m"


@pytest.mark.parametrize(("code", "kind"), [(errno.ENOSPC, DiskFull), (errno.EROFS, ModelError)])
def test_a_disk_that_the_user_named_is_told_by_the_cache_variable(tmp_path, code, kind):
    def make(scratch: Path) -> Path:
        raise OSError(code, "no")

    with pytest.raises(kind, match="point --out at a folder") as caught:
        cache.build(tmp_path / "m", make, is_whole=_exists, hint="point --out at")
    assert "SPECQ_CACHE" not in str(caught.value)
    with pytest.raises(kind, match="set SPECQ_CACHE to a folder"):
        cache.build(tmp_path / "m", make, is_whole=_exists)


def test_full_disk_told_by_the_safetensors_writer_is_recognised(tmp_path):
    from safetensors import SafetensorError

    with pytest.raises(DiskFull), cache.disk_errors(tmp_path):
        raise SafetensorError("I/O error: No space left on device (os error 28)")
    with pytest.raises(SafetensorError), cache.disk_errors(tmp_path):
        raise SafetensorError("something else")


def test_too_small_a_disk_is_found_before_the_download(tmp_path):
    with pytest.raises(DiskFull, match="MB are needed"):
        cache.need_space(tmp_path, 1 << 62)


def test_cache_that_is_a_file_tells_the_variable(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="set SPECQ_CACHE"):
        cache.build(tmp_path / "file" / "m", _make, is_whole=_exists)
