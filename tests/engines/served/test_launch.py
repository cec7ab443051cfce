"""Servers as processes: what is started is stopped whole, and nothing else is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from specq.core.errors import RunFailed, Unsupported, UserError
from specq.engines.served import control, launch
from specq.engines.served.kinds.base import Command

SERVER = textwrap.dedent(
    """
    import signal, subprocess, sys, time
    from http.server import BaseHTTPRequestHandler, HTTPServer
    port, how = int(sys.argv[1]), sys.argv[2:]
    print("loading weights", flush=True)
    if "dies" in how:
        print("CUDA out of memory", flush=True); sys.exit(3)
    if "worker" in how:
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        print("worker", subprocess.Popen([sys.executable, "-IS", "-c", stubborn]).pid, flush=True)
        time.sleep(0.3)
    if "slow" in how:
        time.sleep(60)
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            keyed = self.headers.get("Authorization") == "Bearer open-sesame"
            code = 404 if self.path == "/none" else 200 if "locked" not in how or keyed else 401
            self.send_response(code); self.end_headers()
            self.wfile.write(b'{"a": "open-sesame"}' if self.path == "/json" else b"open-sesame")
        def log_message(self, *given): pass
    HTTPServer(("127.0.0.1", port), Answers).serve_forever()
    """
)


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., launch.Server]:
    def started(*how: str, **given: object) -> launch.Server:
        port = launch.free_port()
        command = Command(argv=(sys.executable, "-IS", "-c", SERVER, str(port), *how))
        return launch.start(command, port=port, health="/health", log=tmp_path / "logs" / "server.log", **given)  # type: ignore[arg-type]

    return started


def gone(pid: int, within_s: float = 10.0) -> bool:
    """Whether a process is no more, or is only waiting to be reaped."""
    for _ in range(int(within_s / 0.05)):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_a_server_that_died_says_not_why(start: Callable[..., launch.Server]) -> None:
    with pytest.raises(RunFailed, match=r"exit code 3 before it was ready; .*server\.log: .*CUDA out of memory"):
        start("dies")


def test_a_server_that_never_gets_ready_is_waited_for_forever_or_left_behind(
    start: Callable[..., launch.Server], tmp_path: Path
) -> None:
    heard: list[float] = []
    with pytest.raises(RunFailed, match=r"not ready after 0\.4 s; .*loading weights"):
        start("slow", "worker", limit_s=0.4, on_wait=heard.append)
    assert heard == sorted(heard)
    assert heard
    lines = launch.last_lines(tmp_path / "logs" / "server.log")
    assert all(gone(int(line.split()[1])) for line in lines if line.startswith("worker"))


def test_an_earlier_servers_words_are_taken_for_this_ones(start: Callable[..., launch.Server], tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "server.log").write_text("an old tale\n")
    with pytest.raises(RunFailed) as told:
        start("dies")
    assert "an old tale" not in str(told.value)
    assert launch.last_lines(tmp_path / "logs" / "server.log")[0] == "an old tale"


def test_a_worker_of_a_stopped_server_lives_on(start: Callable[..., launch.Server], tmp_path: Path) -> None:
    with start("worker") as server:
        lines = launch.last_lines(tmp_path / "logs" / "server.log")
        worker = next(int(line.split()[1]) for line in lines if line.startswith("worker"))
        assert server.started_here
        assert server.pid is not None
        assert not gone(worker, 0.1)
        # A Ctrl-C at the terminal goes to this process' group, and the server is not in it.
        assert os.getpgid(worker) == os.getpgid(server.pid) == server.pid != os.getpgrp()
        server.stop(grace_s=0.5)
        assert gone(worker)
        assert gone(server.pid)
    assert server.ended() is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=1)


def test_a_server_that_ended_by_itself_is_not_seen_or_its_number_is_signalled_again(
    start: Callable[..., launch.Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    assert server.ended() is None
    assert server.pid is not None
    os.killpg(server.pid, signal.SIGKILL)
    assert gone(server.pid)
    assert server.ended() is not None
    monkeypatch.setattr(os, "killpg", lambda *given: pytest.fail("signalled a group that is gone"))
    server.stop()


def test_a_server_that_was_attached_to_is_stopped(start: Callable[..., launch.Server]) -> None:
    with start() as own:
        with launch.attach(own.url + "/", "/health") as other:
            assert (other.started_here, other.pid, other.url) == (False, None, own.url)
        assert own.ended() is None
        assert control.healthy(own.url, "/health")


def test_a_server_outlives_the_run_that_was_killed(tmp_path: Path) -> None:
    port = launch.free_port()
    code = textwrap.dedent(
        f"""
        import sys, time
        from pathlib import Path
        from specq.engines.served import launch
        from specq.engines.served.kinds.base import Command
        command = Command(argv=(sys.executable, "-IS", "-c", {SERVER!r}, "{port}", "worker"))
        server = launch.start(command, port={port}, health="/health", log=Path({str(tmp_path / "log")!r}))
        print(server.pid, flush=True)
        time.sleep(60)
        """
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        group = int(run.stdout.readline())
        worker = next(int(line.split()[1]) for line in launch.last_lines(tmp_path / "log") if line.startswith("worker"))
        run.kill()
    assert gone(group, 20)
    assert gone(worker)
    assert not control.healthy(f"http://127.0.0.1:{port}", "/health", limit_s=0.5)


def test_a_process_that_was_forked_off_stops_its_parents_server(start: Callable[..., launch.Server]) -> None:
    with start() as server:
        if (child := os.fork()) == 0:
            launch._stop_all()
            os._exit(0)
        os.waitpid(child, 0)
        assert server.ended() is None
        assert server.owned


def test_a_missing_program_is_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="cannot start no-such-server: there is no such program"):
        launch.start(Command(argv=("no-such-server",)), port=1, health="/", log=tmp_path / "log")


@pytest.mark.parametrize("url", ["localhost:1", "ftp://host"])
def test_an_address_without_a_scheme_is_tried(url: str) -> None:
    with pytest.raises(Unsupported, match="allowed is http://HOST:PORT"):
        launch.attach(url, "/health")


def test_a_key_stands_in_an_error_or_is_not_sent(
    start: Callable[..., launch.Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunFailed):
        start("locked", limit_s=0.4)
    port = launch.free_port()
    process = subprocess.Popen([sys.executable, "-IS", "-c", SERVER, str(port), "locked"])
    url = f"http://127.0.0.1:{port}"
    try:
        monkeypatch.setenv("SPECQ_TEST_KEY", "open-sesame")
        for _ in range(100):
            if control.healthy(url, "/health", key_env="SPECQ_TEST_KEY"):
                break
            time.sleep(0.05)
        launch.attach(url, "/health", key_env="SPECQ_TEST_KEY")
        answers, failed = control.ask(url, ("/json", "/text", "/none"), key_env="SPECQ_TEST_KEY")
        assert (answers, failed) == (
            {"/json": {"a": "[SPECQ_TEST_KEY]"}, "/text": "[SPECQ_TEST_KEY]"},
            {"/none": "HTTP 404"},
        )
        monkeypatch.setenv("SPECQ_TEST_KEY", "a-wrong-word")
        with pytest.raises(Unsupported) as told:
            launch.attach(url, "/health", key_env="SPECQ_TEST_KEY")
        assert "wrong-word" not in str(told.value)
        monkeypatch.delenv("SPECQ_TEST_KEY")
        with pytest.raises(UserError, match='key_env = "SPECQ_TEST_KEY": the environment has no such variable'):
            launch.attach(url, "/health", key_env="SPECQ_TEST_KEY")
    finally:
        process.kill()
        process.wait()


def test_nobody_listening_is_an_exception() -> None:
    port = launch.free_port()
    answers, failed = control.ask(f"http://127.0.0.1:{port}", ("/props",), limit_s=1)
    assert (answers, failed) == ({}, {"/props": "ConnectError"})


def test_an_address_with_the_version_of_the_api_leads_elsewhere(start: Callable[..., launch.Server]) -> None:
    with start() as server:
        # This server answers every path but one: asked below /v1 it would be there.
        assert not control.healthy(f"{server.url}/v1", "/none")
        assert control.ask(f"{server.url}/v1/", ("/none",))[1] == {"/none": "HTTP 404"}
        assert launch.attach(f"{server.url}/v1", "/health").url == server.url
