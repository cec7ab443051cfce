"""Servers that the lab starts itself: on the files of a model, whatever name it has, and none left behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "run"))

import served_stubs

import specq
from specq.core.errors import ConfigError, RunFolderError, ServerGone, Unsupported
from specq.engines.served import launch
from specq.engines.served.kinds import weights
from specq.engines.served.kinds.base import Command
from specq.lab import batching, opening, rows
from specq.lab.opening import Wanted
from specq.models import fetch, refs

BUILTIN = "builtin:smollm2-135m"
FOLDERS = ("vllm", "sglang", "mlx_lm")
FILES = ("llamacpp", "ollama")


class Started(Exception):
    """In the place of a server."""

    def __init__(self, command: Command) -> None:
        self.command = command


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Callable[..., Path]) -> Path:
    """All kinds of server, which are not run, and a tiny model as the built-in one."""
    (tmp_path / "ollama").write_text("#!/bin/sh\n")
    (tmp_path / "ollama").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for kind in ("VLLM_PYTHON", "SGLANG_PYTHON"):
        monkeypatch.setenv(f"SPECQ_{kind}", "/some/python")
    monkeypatch.setenv("SPECQ_LLAMA_SERVER", "/some/llama-server")
    monkeypatch.setattr(refs.builtins, "fetch", lambda name, **how: folder_of("llama"))
    monkeypatch.setattr(fetch, "gguf_file", lambda name, **how: tmp_path / "built-in.gguf")

    def start(command: Command, **how: Any) -> None:
        raise Started(command)

    monkeypatch.setattr(launch, "start", start)
    return tmp_path


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_server_of_folders_is_started_on_a_name_that_it_does_not_know(
    kind: str, installed: Path, folder_of: Callable[..., Path]
) -> None:
    wanted = Wanted(target=BUILTIN, kind=kind)
    opening.check(wanted)
    with pytest.raises(Started) as found, opening.opened(wanted, slots=2, folder=installed):
        pass
    argv = found.value.command.argv
    assert not [word for word in argv if "builtin:" in word]
    assert str(folder_of("llama")) in argv
    assert wanted.held


def test_an_ollama_is_asked_for_a_name_that_it_does_not_know(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Wanted(target=BUILTIN, kind="ollama")
    opening.check(wanted)
    taken: list[list[str]] = []

    class Done:
        returncode = 0

    def run(argv: Any, **how: Any) -> type[Done]:
        taken.append(list(argv))
        return Done

    def start(command: Command, *, log: Path, **how: Any) -> launch.Server:
        log.write_text("")
        return launch.Server("http://127.0.0.1:9", log=log)

    monkeypatch.setattr(launch, "start", start)
    monkeypatch.setattr("specq.engines.served.session.subprocess.run", run)
    monkeypatch.setattr(opening.light_tokenizer, "load", lambda name: None)
    monkeypatch.setattr("specq.engines.served.control.ask", lambda *a, **k: ({"/api/version": {"version": "1"}}, {}))
    with opening.opened(wanted, slots=1, folder=installed) as requester:
        assert requester.describe()["model"] == "specq-built-in"
    assert [argv[1:3] for argv in taken] == [["create", "specq-built-in"]]
    assert f"FROM {installed / 'built-in.gguf'}" in (installed / "server.modelfile").read_text()
    assert wanted.sized == str(weights.gguf_file(BUILTIN))


def test_a_name_that_only_the_server_knows_is_looked_for_here(installed: Path) -> None:
    wanted = Wanted(target="llama3.2:1b", kind="ollama")
    opening.check(wanted)
    assert (wanted.local, wanted.sized, wanted.held) == (None, None, False)
    assert Wanted(target="llama3.2:1b", kind="ollama", model="here").local == "here"


def test_a_server_that_is_not_installed_is_told_late(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPECQ_VLLM_PYTHON")
    with pytest.raises(Unsupported, match="no vLLM found"):
        specq.measure_requests(BUILTIN, kind="vllm", out=installed / "out")
    assert not (installed / "out").exists()
    with pytest.raises(ConfigError, match="--served-as mine: it goes with the URL"):
        opening.check(Wanted(target=BUILTIN, kind="llamacpp", served_as="mine"))


def test_a_started_server_is_measured_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Callable[..., Path]
) -> None:
    monkeypatch.setattr(refs.builtins, "fetch", lambda name, **how: folder_of("llama"))
    served_stubs.install(tmp_path, monkeypatch, plain={"tokens": 4})
    found, run = specq.measure_requests(
        BUILTIN,
        kind="vllm",
        parts=["context"],
        lengths=(4, 8),
        new_tokens=4,
        repeats=2,
        text="builtin:text",
        args=["--enforce-eager"],
        out=tmp_path / "out",
    )
    assert found.context is not None
    told = json.loads((run / "target.json").read_text())
    assert Path(told["model"]).name == folder_of("llama").name
    # The stub tells neither; the command does.
    assert told["settings"]["prefix_cache"] is True
    assert told["settings"]["speculation"] == "none"


def test_a_second_server_is_read_from_the_log_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Callable[..., Path]
) -> None:
    monkeypatch.setattr(refs.builtins, "fetch", lambda name, **how: folder_of("llama"))
    served_stubs.install(tmp_path, monkeypatch, plain={"tokens": 4})
    logs, real = [], opening.Session.open

    def seen(kind: str, served: Any, where: Any) -> Any:
        logs.append((where.log.name, served.slots))
        return real(kind, served, where)

    monkeypatch.setattr(opening.Session, "open", seen)
    _, run = specq.measure_requests(
        BUILTIN,
        kind="vllm",
        parts=["context", "batch"],
        batch=[1, 2],
        lengths=(4, 8),
        new_tokens=4,
        repeats=2,
        text="builtin:text",
        out=tmp_path / "out",
    )
    assert logs == [("server.log", 1), ("server-2.log", 2)]
    assert {path.name for path in run.glob("*.log")} == {"server.log", "server-2.log"}


def test_a_run_that_goes_on_writes_over_the_logs_of_the_first_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Callable[..., Path]
) -> None:
    monkeypatch.setattr(refs.builtins, "fetch", lambda name, **how: folder_of("llama"))
    served_stubs.install(tmp_path, monkeypatch, plain={"tokens": 4})
    real = batching.measure

    def gone(*args: Any) -> None:
        raise ServerGone("the server ended")

    monkeypatch.setattr(batching, "measure", gone)
    with pytest.raises(ServerGone, match="the server ended; what was recorded is kept; to go on type"):
        specq.measure_requests(
            BUILTIN,
            kind="vllm",
            parts=["context", "batch"],
            batch=[1, 2],
            lengths=(4, 8),
            new_tokens=4,
            repeats=2,
            text="builtin:text",
            out=tmp_path / "out",
        )
    (run,) = (tmp_path / "out" / "lab").iterdir()
    kept = {path.name: path.read_bytes() for path in run.glob("*.log")}
    assert set(kept) == {"server.log", "server-2.log"}
    monkeypatch.setattr(batching, "measure", real)
    # What is left runs on a server with other slots, which is the same server for all that.
    found, _ = specq.resume_requests(run)
    # Whether a stub's tokens come apart hangs on the machine: requests are counted, and no steps.
    every, _ = rows.read(run / "records.jsonl")
    assert sum(isinstance(one, rows.Row) and one.part == batching.PART for one in every) == 2 * (1 + 2)
    assert {path.name for path in run.glob("*.log")} == {*kept, "server-3.log"}
    assert {name: (run / name).read_bytes() for name in kept} == kept
    assert not any("broken off" in note for note in found.notes)
    with pytest.raises(RunFolderError, match="is done"):
        specq.resume_requests(run)
