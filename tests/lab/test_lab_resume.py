"""A run of the lab that was stopped, killed or failed is gone on with: nothing is lost, and nothing counted twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab_fakes import LENGTHS, Fake

import specq
from specq import cli
from specq.core.errors import ConfigError, Interrupted, RunFailed, RunFolderError
from specq.core.types import Prompt
from specq.lab import context, halves, lab_layout, measured, opening, rows
from specq.lab.measured import PARTS
from specq.lab.requester import Answer
from specq.lab.rows import Ended, Resumed, Row
from specq.run import provenance
from specq.run.store import Store

URL = "http://127.0.0.1:9"
HOW: dict[str, Any] = {"lengths": LENGTHS, "new_tokens": 16, "repeats": 2, "batch": (1, 2), "seed": 3}


class Stops(Fake):
    """A fake that is sent a signal as it answers request `at`, or answers none from there on."""

    def __init__(self, at: int, number: int | None = None, **laws: Any) -> None:
        super().__init__(**laws)
        self._at, self._number = at, number

    def ask(self, prompt: Prompt, max_tokens: int, **how: Any) -> Answer:
        """As a fake."""
        if len(self.asked) >= self._at:
            if self._number is None:
                raise RunFailed("fake: a request failed (ConnectError): nobody listens")
            os.kill(os.getpid(), self._number)
        return super().ask(prompt, max_tokens, **how)


def answers(*fakes: Fake) -> Callable[..., Any]:
    """What opens these one after another, in the place of servers."""
    left = iter(fakes)

    @contextmanager
    def opened(*args: Any, **how: Any) -> Iterator[Fake]:
        yield next(left)

    return opened


def measure(out: Path, **how: Any) -> Path:
    """The folder of a run, which may fail."""
    specq.measure_requests(URL, out=out, **{**HOW, **how})
    return only(out)


def only(out: Path) -> Path:
    """The one run there."""
    (run,) = (out / "lab").iterdir()
    return run


def counted(run: Path) -> Counter[tuple[Any, ...]]:
    """What the requests that count were asked and answered, but for warm-ups and canaries."""
    found = rows.counting(rows.read(run / "records.jsonl")[0])
    return Counter(
        (one.part, one.what, one.length, one.repeat, one.batch, one.ttft_s, one.e2e_s, one.cached_tokens)
        for one in found
        if isinstance(one, Row) and one.part in PARTS
    )


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run without a kill."""
    monkeypatch.setattr(opening, "opened", answers(Fake()))
    return measure(tmp_path / "whole")


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that failed within its second part; the next server answers."""
    monkeypatch.setattr(opening, "opened", answers(Stops(30), Fake()))
    with pytest.raises(RunFailed):
        measure(tmp_path / "broken")
    return only(tmp_path / "broken")


def test_what_a_killed_run_had_is_asked_again_or_counts_twice(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import test_lab_resume as t, signal; from pathlib import Path\n"
        f"t.opening.opened = t.answers(t.Stops(30, signal.SIGKILL)); t.measure(Path({str(tmp_path / 'killed')!r}))"
    )
    folders = [str(Path(__file__).parent), str(Path(specq.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)}, timeout=300
    )
    assert done.returncode == -signal.SIGKILL
    run = only(tmp_path / "killed")
    with (run / "records.jsonl").open("a") as torn:
        torn.write('{"type":"row","pa')
    before = (run / "records.jsonl").read_bytes()
    assert "UNFINISHED: context, cache, batch did not come to an end" in measured.open_lab(run).notes[0]

    again = Fake()
    monkeypatch.setattr(opening, "opened", answers(again))
    found, folder = specq.resume_requests(run.name, out=tmp_path / "killed")
    assert folder == run
    assert (run / "records.jsonl").read_bytes().startswith(before[: before.rindex(b"\n")])
    assert counted(run) == counted(whole)
    assert not any(prompt.id.startswith(halves.PART) for prompt, _ in again.asked)
    every, _ = rows.read(run / "records.jsonl")
    (resumed,) = [one for one in every if isinstance(one, Resumed)]
    assert (resumed.cut, resumed.torn_bytes) == (("context",), 17)
    assert [one.part for one in every if isinstance(one, Ended)] == list(PARTS)
    lost = sum(isinstance(one, Row) and one.part == context.PART for one in every[: every.index(resumed)])
    assert f"context: broken off and measured anew; {lost} requests of before count nowhere" in found.notes
    assert any(note.startswith(f"resumed at {resumed.utc} in a new process") for note in found.notes)
    assert not any("UNFINISHED" in note for note in found.notes)
    # No number is given twice, and time goes on.
    asked = [one for one in every if isinstance(one, Row)]
    assert [one.place for one in asked] == list(range(len(asked)))
    first = next(one for one in every[every.index(resumed) :] if isinstance(one, Row) and one.part != "warm-up")
    assert first.part == "canary"
    groups = [{one.group for one in some if isinstance(one, Row)} - {0} for some in (every[:40], every[60:])]
    assert not groups[0] & groups[1]


def test_the_report_of_a_run_that_was_gone_on_with_is_another(
    whole: Path, broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = specq.resume_requests(broken)
    true = measured.open_lab(whole)
    assert (found.context, found.cache) == (true.context, true.cache)
    assert found.halves is not None
    assert true.halves is not None
    assert (found.halves.model, found.halves.cells) == (true.halves.model, true.halves.cells)
    assert found.batch is not None
    assert [point.batch for point in found.batch.points] == [1, 2]
    # Failures of what is measured anew are told in the note alone.
    assert found.flags == true.flags == ()
    assert cli.main(["lab", "report", str(broken), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["notes"] == list(found.notes)
    shown = {section.title: section for section in lab_layout.sections(found)}
    assert any("broken off and measured anew" in line for line in shown[lab_layout.NOTES].lines)


def test_a_run_that_failed_does_not_say_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "opened", answers(Stops(30), Stops(20), Fake()))
    with pytest.raises(RunFailed, match="nobody listens; what was recorded is kept") as told:
        measure(tmp_path)
    run = only(tmp_path)
    assert str(told.value).endswith(f"to go on type: specq lab measure --resume {run}")
    assert specq.list_runs(tmp_path)[0].state == "unfinished"
    with pytest.raises(RunFailed, match="--resume"):
        specq.resume_requests(run)
    specq.resume_requests(run)
    every, _ = rows.read(run / "records.jsonl")
    assert [one.cut for one in every if isinstance(one, Resumed)] == [("context",), ("context",)]
    assert {part: sum(key[0] == part for key in counted(run).elements()) for part in PARTS}["context"] == 24
    assert specq.list_runs(tmp_path)[0].state == "done"


def test_a_signal_ends_a_run_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "opened", answers(Stops(5, signal.SIGTERM), Fake()))
    with pytest.raises(Interrupted, match="stopped by SIGTERM; what was recorded is kept") as told:
        measure(tmp_path)
    assert told.value.exit_code == 143
    assert specq.resume_requests(only(tmp_path))[0].batch is not None


def test_a_run_that_lacks_only_its_end_asks_a_server(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole / "done.json").unlink()
    before = (whole / "records.jsonl").read_bytes()
    monkeypatch.setattr(opening, "opened", answers())
    specq.resume_requests(whole)
    assert (whole / "done.json").is_file()
    assert (whole / "records.jsonl").read_bytes() == before


def test_a_run_that_is_done_or_busy_or_none_is_gone_on_with(whole: Path, broken: Path) -> None:
    with pytest.raises(RunFolderError, match=f"nothing left to do: {whole} is done; to see it type: specq show"):
        specq.resume_requests(whole)
    with Store.attach(broken), pytest.raises(RunFolderError, match="is being written by another specq process"):
        specq.resume_requests(broken)
    info = json.loads((broken / "run.json").read_text())
    for changed, words in (
        ({"experiment": "load"}, "no lab run, so it cannot be resumed as one"),
        ({"arms": []}, "no lab run"),
        ({"asked": {**info["asked"], "repeats": "2"}}, "not as specq lab writes it .asked lacks repeats"),
        ({"asked": []}, "not as specq lab writes it"),
    ):
        (broken / "run.json").write_text(json.dumps({**info, **changed}))
        with pytest.raises(RunFolderError, match=words):
            specq.resume_requests(broken)
    (broken / "run.json").write_text(json.dumps({name: one for name, one in info.items() if name != "asked"}))
    with pytest.raises(RunFolderError, match="as runs of older versions do not: start a new run without --resume"):
        specq.resume_requests(broken)


def test_a_run_goes_on_with_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, prompts = tmp_path / "text.txt", tmp_path / "own.jsonl"
    text.write_text(" ".join(f"word{i}" for i in range(60_000)))
    prompts.write_text(json.dumps({"id": "1", "prompt": "to be or not"}) + "\n")
    monkeypatch.setattr(opening, "opened", answers(Stops(30), Fake()))
    with pytest.raises(RunFailed):
        measure(tmp_path / "out", text=text, prompts=prompts)
    run = only(tmp_path / "out")
    before = (run / "records.jsonl").read_bytes()
    info = json.loads((run / "run.json").read_text())
    kept = {file: file.read_bytes() for file in (text, prompts, run / "run.json", run / "target.json")}
    for file, now, words in (
        (text, b"another " + kept[text], f"the text {text}"),
        (prompts, kept[prompts].replace(b"not", b"nut"), f"the prompts in {prompts}"),
        (run / "run.json", json.dumps({**info, "settings": {**info["settings"], "repeats": 3}}), "repeats: 3 -> 2"),
        (run / "run.json", json.dumps({**info, "parts": ["halves"]}), "parts"),
        (run / "run.json", json.dumps({**info, "models": {"m": {"weights_sha256": "0"}}}), "the weights of"),
        (run / "target.json", '{"model": "another"}', 'what answers.model: "another" -> null'),
    ):
        file.write_bytes(now if isinstance(now, bytes) else now.encode())
        with pytest.raises(RunFolderError, match="cannot go on, for this changed since it began") as told:
            specq.resume_requests(run)
        assert words in str(told.value)
        assert (run / "records.jsonl").read_bytes() == before
        file.write_bytes(kept[file])
        monkeypatch.setattr(opening, "opened", answers(Fake()))
    specq.resume_requests(run)


def test_a_server_that_moved_is_not_found_and_another_target_passes(
    broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"--resume: this run measures http://127\.0\.0\.1:9, and other is another"):
        specq.resume_requests(broken, url="other")
    asked = []

    @contextmanager
    def opened(wanted: opening.Wanted, **how: Any) -> Iterator[Fake]:
        asked.append(wanted.target)
        yield Fake()

    monkeypatch.setattr(opening, "opened", opened)
    monkeypatch.setattr(provenance, "changes", lambda then, now: ["processor: one -> another"])
    found, _ = specq.resume_requests(broken, url="http://127.0.0.1:19")
    assert asked == ["http://127.0.0.1:19"]
    assert any("on other software or another machine: processor: one -> another" in note for note in found.notes)


def test_an_option_beside_resume_is_taken(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in (("--repeats", "2"), ("--part", "halves"), ("--prompts", "x"), ("--seed", "0")):
        assert cli.main(["lab", "measure", URL, "--resume", str(broken), *option]) == 2
        told = capsys.readouterr().err
        assert "lab measure: --resume goes on with the run's own" in told
        assert f"leave {option[0]} out" in told
    assert cli.main(["lab", "measure"]) == 2
    assert "no TARGET and no --resume RUN" in capsys.readouterr().err
    assert cli.main(["lab", "measure", URL, "--resume", broken.name, "--out", str(broken.parents[1])]) == 0
    assert "broken off and measured anew" in capsys.readouterr().out
    assert (broken / "report.html").is_file()
