"""How the end of a worker is told: by what it was at and what it said last, never by a bar of progress."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specq.core.errors import RunFailed
from specq.run import process
from specq.run.job import Task

BAR = "\rRunning generate_until requests:  50%|#####     | 7/14 [00:01<00:01,  5.1it/s]"


@pytest.mark.parametrize(
    ("said", "last"),
    [
        (f"ValueError: odd\n\rRunning:   0%|          | 0/14 [00:00<?, ?it/s]{BAR}", "ValueError: odd"),
        (f"{BAR}Fatal Python error: Segmentation fault\n", "Fatal Python error: Segmentation fault"),
        (
            "odd\n\rGenerating test split: 0 examples [00:00, ? examples/s]\rGenerating: 3 examples [00:01, 2/s]\n",
            "odd",
        ),
        (f"{BAR}\n{BAR}\n", ""),
        ("layer 1\rlayer 2\rRuntimeError: odd", "RuntimeError: odd"),
        ("KeyError: '12 [00:01]'\r\n", "KeyError: '12 [00:01]'"),
        ("", ""),
    ],
)
def test_a_bar_of_progress_is_taken_for_the_cause(said: str, last: str) -> None:
    assert process.last_line(said) == last


def test_a_warning_is_taken_for_the_cause() -> None:
    trace = "Traceback (most recent call last):\n  line\nKeyError: 'x'\n"
    assert process.reason(1, trace) == "KeyError: 'x'"
    assert process.reason(3, "UserWarning: slow\n") == "it did not say why; its last line on stderr: UserWarning: slow"
    assert process.reason(3, BAR) == "it said nothing"
    assert process.reason(-11, BAR) == "killed by SIGSEGV"


ANSWERING: dict[str, Any] = {"event": "answering", "arm": "w#1", "eval": "own", "items": ["a", "b", "c", "d"]}
JUDGING = {"event": "judging", "eval": "own", "item": "b", "metric": "arm_easy: acc"}
EVALUATED = {"event": "evaluated", "arm": "w#1", "eval": "own", "items": 4}


@pytest.mark.parametrize(
    ("events", "end", "says"),
    [
        (
            [ANSWERING],
            "os._exit(3)",
            'died (exit code 3: {last}, as w#1 answered items a, b, c and 1 more of eval "own");',
        ),
        (
            [ANSWERING, JUDGING],
            "os.kill(os.getpid(), 11)",
            "died (exit code -11: killed by SIGSEGV, as metric arm_easy: acc judged the answer of w#1 to item "
            '"b" of eval "own");',
        ),
        ([ANSWERING, JUDGING, EVALUATED], "os._exit(3)", "died (exit code 3: {last});"),
        ([], "os._exit(3)", "died (exit code 3: {last});"),
    ],
)
def test_a_worker_that_died_in_an_eval_names_neither_item_nor_metric(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, events: list[dict[str, Any]], end: str, says: str
) -> None:
    lines = "\n".join(json.dumps(event) for event in events)
    code = f"import os, sys; print({lines!r}, flush=True); sys.stderr.write({BAR!r}); sys.stderr.flush(); {end}"
    monkeypatch.setattr(process, "command", lambda store, task: [sys.executable, "-S", "-c", code])
    records: list[Any] = []
    told: list[dict[str, Any]] = []
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        store: Any = SimpleNamespace(
            pause=lambda: None, append=records.append, lock_fd=fd, how_to_go_on="to go on type: x"
        )
        with pytest.raises(RunFailed) as caught:
            process.run_worker(store, Task(kind="eval", arm="w#1"), told.append)
    finally:
        os.close(fd)
    assert says.format(last="it said nothing") in str(caught.value)
    (died,) = records
    assert f": {died.message});" in str(caught.value)
    # What only tells what was begun is no progress.
    assert told == [event for event in events if event["event"] == "evaluated"]
