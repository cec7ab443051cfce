"""Faults of a server and of a disk through a whole run: told, gone on from, nothing lost and nothing twice."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from load_runs import prompts

from specq import cli
from specq.core import jsonl
from specq.core.errors import ConfigError, DiskFull
from specq.engines.served import stub
from specq.load import measuring, rows
from specq.load.found import Found
from specq.load.rows import Began, Measured, Requested
from specq.load.running import measure_load, resume_load


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specq.load.charts.pictures", lambda found: ())
    monkeypatch.setattr("specq.load.page.render", lambda found: "")
    monkeypatch.setattr("specq.run.provenance.collect", dict)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with stub.started() as (found, _):
        yield found


def loaded(url: str, folder: Path, *, play: dict[str, Any] | None = None, **how: Any) -> Found:
    given: dict[str, Any] = {"concurrency": [2], "requests": 6, "model": "m", "out": folder / "out"}
    given |= {"body": {"stub": {"tokens": 4, "key": str(folder), **(play or {})}}}
    return measure_load(url, prompts(folder), **(given | how))


def lines(run: Path, kind: type[Any] = Requested) -> list[Any]:
    return [row for row in rows.read(run / "records.jsonl")[0] if isinstance(row, kind)]


def whole(run: Path) -> None:
    """Each request is on record once, with its output before it, and each complete attempt has all of its own."""
    told = lines(run)
    outputs, _ = jsonl.read(run / "outputs.jsonl")
    assert max(Counter(row.id for row in told).values()) == 1
    assert max(Counter(line["id"] for _, line in outputs).values()) == 1
    # What is committed has its output; an output without its row was never committed.
    assert {row.id for row in told} <= {line["id"] for _, line in outputs}
    for point in lines(run, Measured):
        own = [row for row in told if (row.point, row.attempt) == (point.point, point.attempt)]
        assert sorted(row.number for row in own) == list(range(len(own)))
        assert sum(row.phase == "steady" for row in own) == 6


@pytest.mark.parametrize(("status", "kind"), [(429, "http_429"), (500, "http_5xx"), (503, "http_5xx")])
def test_a_busy_server_is_not_asked_again_or_its_wait_is_in_no_latency(
    url: str, tmp_path: Path, status: int, kind: str
) -> None:
    play = {"fault": "status", "status": status, "retry_after": "0.3", "times": 1}
    found = loaded(url, tmp_path, play=play, concurrency=[1], warm_up=0, tries=2)
    told = sorted(lines(found.run), key=lambda row: row.number)
    assert [row.retries for row in told if row.phase == "steady"] == [1, 0, 0, 0, 0, 0]
    assert {row.error for row in told} == {None}
    (level,) = found.levels
    assert level.failed == {}
    # What its user waited is from the first asking on, as long as the server asked for.
    assert level.latency.e2e_s.n == 6
    assert (level.latency.ttft_s.mean or 0) > 0.3 / 6
    assert told[0].first_token_at_s - told[0].due_at_s > 0.3
    assert told[0].first_token_at_s - told[0].sent_at_s < 0.3
    whole(found.run)
    once = loaded(url, tmp_path, play={**play, "key": f"{tmp_path}/once"}, concurrency=[1], warm_up=0)
    assert once.levels[0].failed == {kind: 1}
    assert "asked to wait 0.3 s" in next(row.said for row in lines(once.run) if row.error)


@pytest.mark.parametrize("fault", ["hang", "cut", "torn", "malformed", "error", "reset"])
def test_a_fault_in_a_stream_leaves_half_an_answer_or_none_on_record(url: str, tmp_path: Path, fault: str) -> None:
    play = {"fault": fault, "after": 2, "status": 500, "times": 3}
    found = loaded(url, tmp_path, play=play, limit_s=0.3, concurrency=[1, 2])
    whole(found.run)
    texts = {line["id"]: line["text"] for _, line in jsonl.read(found.run / "outputs.jsonl")[0]}
    wrong = [row for row in lines(found.run) if row.error is not None]
    assert len(wrong) == 3
    for row in wrong:
        # What had come until then is kept, and no half of a letter.
        came = "" if fault == "reset" else "a b\u00f6"
        assert texts[row.id].startswith(came)
        assert "\ufffd" not in texts[row.id]
        assert row.said
    assert all(texts[row.id] == "a b\u00f6 \u20ac5 \U0001f642" for row in lines(found.run) if row.error is None)
    assert found.done


def test_a_wrong_model_name_is_asked_for_fifty_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stub.started(model="right") as (url, _):
        with pytest.raises(ConfigError, match=r'has no model .m. \(.*\); it has "right": name one with --model'):
            loaded(url, tmp_path)
        (run,) = (tmp_path / "out" / "load").iterdir()
        assert len(lines(run)) <= 2
        words = ["load", url, "--prompts", str(tmp_path / "prompts.jsonl"), "--model", "wrong", "--requests", "6"]
        assert cli.main([*words, "--out", str(tmp_path / "out")]) == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith("specq: server: the server has no model 'wrong'")
        assert loaded(url, tmp_path, model="right").levels[0].failed == {}


def test_a_clock_that_jumps_is_in_a_latency(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = iter(range(10_000))
    real = time.time

    def jumping() -> float:
        # An hour ahead, then an hour behind, at each reading.
        return real() + (3600.0 if next(jumps) % 2 else -3600.0)

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr(time, "gmtime", lambda *given: time.struct_time((2020, 1, 1, 0, 0, 0, 2, 1, 0)))
    time.time()
    found = loaded(url, tmp_path, play={"rate": 100.0})
    assert next(jumps) > 0
    for row in lines(found.run):
        assert 0 <= row.due_at_s <= row.sent_at_s <= row.first_token_at_s <= row.last_token_at_s <= row.end_at_s < 60
        # Three tokens after the first at 100 a second.
        assert 0.02 < row.last_token_at_s - row.first_token_at_s < 5
    assert 0 < found.levels[0].rates.seconds < 60
    whole(found.run)


@pytest.mark.parametrize("full", ["records.jsonl", "outputs.jsonl"])
def test_a_run_does_not_go_on_after_a_full_disk(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    append, room = jsonl.Appender.append, iter(range(9))

    def fill(self: jsonl.Appender, value: dict[str, Any]) -> None:
        if self.path.name == full and next(room, None) is None:
            # A part of the line still fits.
            self._file.write(b'{"id": "half')
            self._file.flush()
            raise DiskFull(f"{self.path}: no space is left on the disk")
        append(self, value)

    monkeypatch.setattr(jsonl.Appender, "append", fill)
    with pytest.raises(DiskFull, match=r"no space is left.*specq load --resume"):
        loaded(url, tmp_path, concurrency=[1, 2])
    monkeypatch.setattr(jsonl.Appender, "append", append)
    (run,) = (tmp_path / "out" / "load").iterdir()
    before, torn = rows.read(run / "records.jsonl")
    assert (torn > 0) == (full == "records.jsonl")
    found = resume_load(run)
    told = rows.read(run / "records.jsonl")[0]
    assert told[: len(before)] == before
    assert found.done
    assert [one.requests for one in found.levels] == [6, 6]
    attempts = {(row.point, row.attempt) for row in lines(run, Began)}
    assert {point for point, _ in attempts} == {"server@1#1", "server@2#1"}
    assert found.interrupted == sum(
        (row.point, row.attempt) not in {(one.point, one.attempt) for one in lines(run, Measured)} for row in lines(run)
    )
    whole(run)


def test_a_real_full_disk_ends_without_a_line_or_cannot_be_gone_on_from(tmp_path: Path) -> None:
    code = (
        "import resource, sys\nfrom specq import cli\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    with stub.started(plays={"tokens": 4}) as (url, _):
        words = ["load", url, "--prompts", str(prompts(tmp_path)), "--out", str(tmp_path / "out"), "--requests", "60"]
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, timeout=240
        )
        assert done.returncode == 2
        assert "specq load --resume" in done.stderr.splitlines()[-1]
        (run,) = (tmp_path / "out" / "load").iterdir()
        kept, _ = rows.read(run / "records.jsonl")
        assert len(kept) > 3
        found = resume_load(run)
    assert rows.read(run / "records.jsonl")[0][: len(kept)] == kept
    assert (found.done, found.levels[0].requests) == (True, 60)
    assert max(Counter(row.id for row in lines(run)).values()) == 1


def test_a_look_for_garbage_makes_streams_late_or_is_never_taken_up_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    asked = measuring._Run._prompt

    def note(self: Any, number: int) -> Any:
        seen.append(gc.isenabled())
        return asked(self, number)

    monkeypatch.setattr(measuring._Run, "_prompt", note)
    loaded(url, tmp_path)
    assert seen
    assert not any(seen)
    assert gc.isenabled()
    with pytest.raises(Exception, match="specq load --resume"):
        loaded("http://127.0.0.1:9", tmp_path, requests=1000, concurrency=[60])
    assert gc.isenabled()
