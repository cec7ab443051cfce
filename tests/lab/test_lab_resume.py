"""A run of the lab that was stopped, killed or failed is gone on with: nothing is lost, and nothing counted twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_fakes import Fake
from lab_resumes import Stops, answers, measure, only

import specq
from specq import cli
from specq.core.errors import Interrupted, RunFailed
from specq.core.types import Prompt
from specq.lab import context, halves, lab_layout, measured, opening, rows
from specq.lab.measured import PARTS
from specq.lab.requester import Answer
from specq.lab.requester_hf import HFRequester
from specq.lab.rows import Ended, Resumed, Row


def counted(run: Path) -> Counter[tuple[Any, ...]]:
    """What the requests that count were asked and answered, but for warm-ups and canaries."""
    found = rows.counting(rows.read(run / "records.jsonl")[0])
    return Counter(
        (one.part, one.what, one.length, one.repeat, one.batch, one.ttft_s, one.e2e_s, one.cached_tokens)
        for one in found
        if isinstance(one, Row) and one.part in PARTS
    )


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
    at = every.index(resumed)
    old, new = ({one.group for one in some if isinstance(one, Row)} - {0} for some in (every[:at], every[at:]))
    assert old
    assert min(new) > max(old)


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


def test_failures_of_the_first_server_end_the_run_on_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "opened", answers(Stops(30, fails=(5, 6, 7)), Fake(fails=(9,))))
    with pytest.raises(RunFailed):
        measure(tmp_path)
    found, _ = specq.resume_requests(only(tmp_path))
    assert found.flags == (
        f"4 of {found.requests} requests failed and count nowhere: fake: a request failed (hung): planted",
    )


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


def test_a_model_that_is_loaded_again_passes_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Callable[..., Path]
) -> None:
    model, out, real = str(folder_of("llama")), tmp_path / "out", HFRequester.ask

    def ask(requester: HFRequester, prompt: Prompt, *args: Any, **how: Any) -> Answer:
        if prompt.id.startswith("context-8"):
            raise RunFailed("planted")
        return real(requester, prompt, *args, **how)

    monkeypatch.setattr(HFRequester, "ask", ask)
    with pytest.raises(RunFailed, match="planted; what was recorded is kept"):
        specq.measure_requests(
            model, parts=["context"], lengths=(4, 8), new_tokens=4, repeats=2, text="builtin:text", out=out
        )
    monkeypatch.setattr(HFRequester, "ask", real)
    found, run = specq.resume_requests(only(out).name, out=out, url=model)
    assert found.context is not None
    assert sum(counted(run).values()) == 8
