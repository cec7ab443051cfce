"""A resume of what is no run to go on with, or of something else than was begun, is refused, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab_fakes import Fake
from lab_resumes import URL, Stops, answers, measure, only

import specq
from specq import cli
from specq.core.errors import ConfigError, RunFailed, RunFolderError
from specq.lab import opening
from specq.run import provenance
from specq.run.store import Store


def test_a_server_with_other_slots_passes_for_another_and_another_version_for_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def described(at: int, slots: int, version: str) -> Fake:
        fake = Stops(at)
        settings = {"slots": slots, "window": 512 * slots, "version": version}
        monkeypatch.setattr(fake, "describe", lambda: {"model": "m", "settings": settings, "untold": {"/": str(slots)}})
        return fake

    fakes = described(30, 1, "1"), described(1000, 1, "2"), described(1000, 2, "1")
    monkeypatch.setattr(opening, "opened", answers(*fakes))
    with pytest.raises(RunFailed):
        measure(tmp_path)
    with pytest.raises(
        RunFolderError, match=r'since it began: what answers\.settings\.version: "1" -> "2"; put it back'
    ):
        specq.resume_requests(only(tmp_path))
    assert not fakes[1].asked
    specq.resume_requests(only(tmp_path))


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
