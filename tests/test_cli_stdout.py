"""Results that cannot be written: on a full disk, and to a reader that has seen enough."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specq import cli

FULL = Path("/dev/full")
WORDS = {
    "version": ["version"],
    "help": ["--help"],
    "table": ["models", "ls"],
    "json": ["models", "ls", "--json"],
    "size": ["size", "{config}"],
}
CONFIG = (
    '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128, '
    '"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100, '
    '"max_position_embeddings": 128, "torch_dtype": "float32"}'
)


def run(words: list[str], folder: Path, out: Any, *, buffered: bool) -> subprocess.CompletedProcess[str]:
    (folder / "config.json").write_text(CONFIG)
    given = [sys.executable, "-m", "specq", *(word.format(config=folder) for word in words)]
    # Not even an empty value: that is what turns a buffer off.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    env |= {} if buffered else {"PYTHONUNBUFFERED": "1"}
    return subprocess.run(given, stdout=out, stderr=subprocess.PIPE, env=env, text=True, timeout=120)


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_a_full_disk_under_stdout_is_an_internal_error(words: list[str], buffered: bool, tmp_path: Path) -> None:
    with FULL.open("w") as out:
        done = run(words, tmp_path, out, buffered=buffered)
    assert done.returncode == 2
    assert done.stderr.startswith("specq: stdout")
    assert ": no space is left, or a file may not grow so large; free some" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_a_reader_that_has_seen_enough_gets_a_word_or_a_code_of_failure(
    words: list[str], buffered: bool, tmp_path: Path
) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = run(words, tmp_path, write, buffered=buffered)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


class Full(io.StringIO):
    """Takes words, and has no space for them."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code

    def flush(self) -> None:
        raise OSError(self.code, os.strerror(self.code))


def test_words_that_wait_are_lost_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        monkeypatch.setattr(sys, "stdout", Full(code))
        assert cli.main(["version"]) == 2
        assert "specq: stdout: no space is left" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdout", Full(errno.EPIPE))
    assert cli.main(["version"]) == 141
    # A mistake stays one.
    assert cli.main(["show", "nowhere"]) == 2


def test_another_file_of_a_full_disk_is_told_as_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "elsewhere")

    monkeypatch.setattr("specq.api.list_models", full)
    assert cli.main(["models", "ls"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("specq: elsewhere: no space is left")
    assert "stdout" not in told
