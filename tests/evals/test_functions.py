"""A metric of one's own: what it raises fails the item aloud, and what it gives is checked."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import psutil
import pytest
from eval_items import item

from specq.core.errors import ConfigError, RunFailed
from specq.evals import metrics
from specq.evals.metric import Metric, Score, failed

CODE = """
import math

def right(output: str, item: dict) -> bool:
    return output == item["reference"]

def share(output, item):
    return len(output) / 10

def odd(output, item):
    if output == "boom":
        raise ValueError("cannot read\\n  this")
    if output == "exit":
        raise SystemExit(3)
    item["reference"] = "changed"
    return {"none": None, "nan": math.nan, "text": "1", "two": 2, "half": 0.5, "true": True}[output]

def one(output):
    return True

def three(output, item, more):
    return True

number = 3

def ends(output, item):
    import os
    print("no answer")
    if output == "exit":
        os._exit(3)
    if output == "segfault":
        os.kill(os.getpid(), 11)
    if output == "killed":
        os.kill(os.getpid(), 9)
    if output == "reads":
        return float(input() or 0)
    if output == "large":
        return 10 ** 400
    if output == "pid":
        return os.getpid()
    return os.getsid(0) == os.getpid()
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(CODE)
    return tmp_path


def load(folder: Path, name: str, **options: object) -> Metric:
    return metrics.make(f"mine.py:{name}", options, folder=folder)


def refused(folder: Path, name: str, **options: object) -> str:
    with pytest.raises(ConfigError) as caught:
        metrics.make(name, options, folder=folder)
    return str(caught.value)


def test_a_function_is_not_called_with_the_answer_and_the_item(made: Path) -> None:
    metric = load(made, "right")
    assert (metric.binary, metric.output, metric.name) == (True, "text", "mine.py:right")
    assert metric.sha256 == hashlib.sha256((made / "mine.py").read_bytes()).hexdigest()
    assert metric.check(item({"any": "thing"})) is None
    assert metric.score(item("x"), "x") == Score(value=1.0)
    assert metric.score(item("x"), "y") == Score(value=0.0)
    assert metrics.make(f"{made}/mine.py:right").score(item("x"), "x").value == 1
    share = load(made, "share")
    assert not share.binary
    assert share.score(item("x"), "four").value == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("boom", "ValueError: cannot read this"),
        ("exit", "SystemExit: 3"),
        ("other", "KeyError: 'other'"),
        ("none", "returned None, allowed is a bool or a finite number"),
        ("nan", "returned nan, allowed"),
        ("text", "returned '1', allowed"),
    ],
)
def test_a_function_that_raises_gives_0_in_silence_or_ends_the_run(made: Path, answer: str, says: str) -> None:
    found = load(made, "odd").score(item("x"), answer)
    assert found.value is None
    assert found.failed
    assert says in found.why


def test_a_binary_function_gives_halves(made: Path) -> None:
    metric = load(made, "odd", binary=True)
    assert metric.binary
    assert metric.score(item("x"), "half").why == "returned 0.5, allowed is 0 or 1 for a binary metric"
    assert metric.score(item("x"), "two").failed
    assert metric.score(item("x"), "true").value == 1
    assert load(made, "odd").score(item("x"), "half").value == 0.5
    assert not load(made, "right", binary=False).binary


def test_a_function_changes_the_item_for_the_next_answer(made: Path) -> None:
    one = item({"deep": "x"})
    load(made, "odd").score(one, "true")
    assert one.given["reference"] == {"deep": "x"}


def test_a_function_that_cannot_be_called_is_found_while_running(made: Path) -> None:
    assert "no such file as" in refused(made, "none.py:right")
    assert "allowed is FILE.py:FUNCTION" in refused(made, "mine.py")
    assert "allowed is FILE.py:FUNCTION" in refused(made, "mine.py:")
    message = refused(made, "mine.py:rigth")
    assert "no function rigth in" in message
    assert "did you mean 'right'?" in message
    assert "no function number" in refused(made, "mine.py:number")
    assert "one must take (output, item)" in refused(made, "mine.py:one")
    assert "three must take (output, item)" in refused(made, "mine.py:three")
    assert "unknown option \"binry\", did you mean 'binary'?" in refused(made, "mine.py:right", binry=True)
    (made / "broken.py").write_text("import nothing_such\n")
    assert "raises ModuleNotFoundError: No module named 'nothing_such'" in refused(made, "broken.py:f")
    (made / "leaves.py").write_text("raise SystemExit('bye')\n")
    assert "raises SystemExit: bye" in refused(made, "leaves.py:f")
    (made / "ends.py").write_text("import os\nos._exit(4)\n")
    assert refused(made, "ends.py:f") == f'metric "ends.py:f": running {made}/ends.py ended its process (exit code 4)'


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("exit", "(exit code 3)"),
        ("segfault", "(signal SIGSEGV)"),
        ("killed", "(signal SIGKILL, killed, most often because memory ran out)"),
    ],
)
def test_a_function_that_ends_its_process_ends_the_run(made: Path, answer: str, why: str) -> None:
    metric = load(made, "ends")
    assert metric.score(item("x"), answer) == failed(f'metric "mine.py:ends" ended its process {why}')
    # Started anew for the next item. What it prints is no answer, and Ctrl-C in a terminal does not reach it.
    assert metric.score(item("x"), "session").value == 1


def test_a_function_reads_the_next_item_or_outlives_its_metric(made: Path) -> None:
    metric = load(made, "ends")
    assert metric.score(item("x"), "reads").why.startswith("EOFError")
    assert metric.score(item("x"), "large").why.startswith("OverflowError")
    pid = int(metric.score(item("x"), "pid").value or 0)
    assert pid != os.getpid()
    assert psutil.pid_exists(pid)
    del metric
    assert not psutil.pid_exists(pid)


def test_a_file_that_changed_judges_the_items_that_are_left(made: Path) -> None:
    metric = load(made, "ends")
    assert metric.score(item("x"), "exit").failed
    (made / "mine.py").write_text(CODE + "# changed\n")
    with pytest.raises(RunFailed, match=r"mine\.py was changed while answers were judged; put the file back"):
        metric.score(item("x"), "session")
