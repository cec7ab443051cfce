"""What was opened for a server is closed, however it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specq.core.errors import Unsupported
from specq.engines.served import launch, stub
from specq.engines.served.answers import ServedDecoder
from specq.engines.served.kinds import ollama
from specq.engines.served.kinds.base import Command, Served
from specq.engines.served.session import Session, Where
from specq.engines.served.target import ServedEngine, Settings


def test_a_server_runs_on_whose_model_could_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []

    class Started(launch.Server):
        def stop(self, grace_s: float = 0.0) -> None:
            stopped.append(self.url)

    gone = Command(argv=("/no/such/ollama", "create"))
    monkeypatch.setattr(launch, "start", lambda command, **given: Started("http://127.0.0.1:1"))
    monkeypatch.setattr(ollama, "command", lambda served, port, environ: gone)
    monkeypatch.setattr(ollama, "creation", lambda served, port, file, environ: gone)
    monkeypatch.setattr(ollama, "modelfile_of", lambda served: "FROM x")
    with pytest.raises(Unsupported, match="cannot run /no/such/ollama create: No such file"):
        Session.open("ollama", Served(weights="m"), Where(log=tmp_path / "log"))
    assert stopped == ["http://127.0.0.1:1"]


def test_decoders_of_a_server_by_its_url_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Any] = []
    close = ServedDecoder.close

    def noted(self: ServedDecoder) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(ServedDecoder, "close", noted)
    with stub.started() as (url, _):
        with ServedEngine(Settings(kind="openai", url=url)).open("stub") as target:
            made = [target.decoder(None), target.decoder(None)]
            assert closed == []
        assert set(closed) == set(made)
