"""What tests of whole runs ask of a run's folder."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import run_fakes

from specq.core import lines
from specq.core.records import Generated, key

ARMS = ("baseline#1", "baseline#2", "lookup#1", "exit#1")


def want(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    monkeypatch.setenv("FAKE", json.dumps(settings))


def records(run: Path) -> list[Any]:
    return [record for _, record in lines.read(run / "records.jsonl")[0]]


def of(run: Path, kind: Any) -> list[Any]:
    return [record for record in records(run) if isinstance(record, kind)]


def only_run(out: Path) -> Path:
    (run,) = (out / "tiny").iterdir()
    return run


def samples(run: Path) -> Counter[tuple[int, str, str, int]]:
    return Counter((r.process, r.arm, r.prompt, r.repeat) for r in of(run, Generated))


def all_samples(prompts: int = 3, repeats: int = 2, processes: int = 1) -> set[tuple[int, str, str, int]]:
    return {
        (process, arm, f"p{prompt}", repeat)
        for process in range(processes)
        for arm in ARMS
        for prompt in range(prompts)
        for repeat in range(repeats)
    }


def assert_complete(run: Path, **counts: int) -> None:
    found = samples(run)
    assert set(found) == all_samples(**counts)
    assert set(found.values()) == {1}
    outputs = Counter(key(output) for _, output in lines.read_outputs(run / "outputs.jsonl")[0])
    assert outputs == found
    assert (run / "done.json").is_file()


def start_parent(tmp_path: Path) -> subprocess.Popen[bytes]:
    script = [sys.executable, run_fakes.__file__, "parent", str(tmp_path / "tiny.toml"), str(tmp_path / "out")]
    return subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(condition: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def recorded(out: Path, kind: str, at_least: int) -> bool:
    found = list(out.glob("tiny/*/records.jsonl"))
    return bool(found) and found[0].read_text(encoding="utf-8").count(f'"kind":"{kind}"') >= at_least
