from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from specq.core import jsonl
from specq.core.errors import RunFolderError


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("only root makes devices")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


MAKERS = {"device": _device, "pipe": os.mkfifo, "socket": _socket, "folder": Path.mkdir}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", ["a.json", "a.json.part", "link"])
def test_a_file_takes_the_place_of_what_is_none(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    there, asked = Path("there" if name == "link" else name), Path("link" if name == "link" else "a.json")
    MAKERS[kind](there)
    if name == "link":
        asked.symlink_to(there)
    before = there.stat()
    with pytest.raises(RunFolderError, match=f"{name} is a {kind} and no file; nothing was written"):
        jsonl.write_text_whole(asked, "new")
    after = there.stat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    assert {path.name for path in tmp_path.iterdir()} == {there.name, asked.name} - (
        {asked.name} if name == "a.json.part" else set()
    )


def test_a_file_takes_the_place_of_a_link_to_it(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    far, link, second = tmp_path / "far" / "file", tmp_path / "link", tmp_path / "second"
    link.symlink_to(Path("far") / "file")
    second.symlink_to(link)
    for asked in (link, second, far):
        jsonl.write_whole(asked, str(asked))
        assert link.is_symlink()
        assert second.is_symlink()
        assert str(asked) in far.read_text()
    assert [path.name for path in far.parent.iterdir()] == ["file"]
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Exception, match="loop"):
        jsonl.write_whole(tmp_path / "loop", 1)
    assert (tmp_path / "loop").is_symlink()


def test_the_temporary_name_is_a_link_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "a.part").symlink_to(tmp_path / "mine")
    with pytest.raises(RunFolderError, match=r"a\.part is a symbolic link"):
        jsonl.write_text_whole(tmp_path / "a", "new")
    assert (tmp_path / "mine").read_text() == "mine"
