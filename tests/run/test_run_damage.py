from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import run_fakes
from run_checks import assert_complete, of, only_run, samples, want

from specq import report
from specq.core.errors import RunFailed, RunFolderError
from specq.core.nouns import counted
from specq.core.records import Audited, Failed, GapNoise, Generated, Note
from specq.experiment import config
from specq.experiment.schema import Experiment
from specq.run import folder, runner

Edit = Callable[[dict[str, Any]], None]


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    run_fakes.patch_parent(monkeypatch.setattr)
    monkeypatch.delenv("FAKE", raising=False)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an experiment and, under out, its run whose worker was killed as it made its eighth answer."""
    folder = tmp_path_factory.mktemp("origin")
    with pytest.MonkeyPatch.context() as patch:
        run_fakes.patch_parent(patch.setattr)
        kill(folder, patch)
    return folder


def kill(folder: Path, patch: pytest.MonkeyPatch, **load: Any) -> Path:
    want(patch, kill_after=8)
    with pytest.raises(RunFailed):
        runner.run(run_fakes.write_experiment(folder, **load), out=folder / "out")
    want(patch)
    return only_run(folder / "out")


@pytest.fixture
def run(origin: Path, tmp_path: Path) -> Path:
    """A copy of the killed run, to be damaged."""
    return Path(shutil.copytree(only_run(origin / "out"), tmp_path / "tiny" / "killed"))


@pytest.fixture
def experiment(origin: Path) -> Experiment:
    return config.load(origin / "tiny.toml")


def edit_info(run: Path, edit: Edit) -> None:
    info = json.loads((run / "run.json").read_text(encoding="utf-8"))
    edit(info)
    (run / "run.json").write_text(json.dumps(info), encoding="utf-8")


def edit_lines(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(change(lines)), encoding="utf-8")


def notes(run: Path) -> str:
    return " ".join(note.text for note in of(run, Note))


def test_a_config_edited_in_run_json_is_refused_and_the_key_is_named(run: Path, experiment: Experiment) -> None:
    before = (run / "records.jsonl").read_bytes()
    edit_info(run, lambda info: info["config"]["workload"].update(temperature=0.5))
    with pytest.raises(RunFolderError, match=r"config was edited.*specq run FILE --resume .* names what differs"):
        runner.run(None, resume=run)
    with pytest.raises(RunFolderError, match=r"run\.json was edited.*workload\.temperature: 0\.5 -> 0\.0"):
        runner.run(experiment, resume=run)
    with pytest.raises(RunFolderError, match="config was edited"):
        report.build(run)
    assert (run / "records.jsonl").read_bytes() == before
    edit_info(run, lambda info: info["config"]["workload"].update(temperature=0.0))
    runner.run(None, resume=run)
    assert_complete(run)


def test_a_hash_edited_together_with_the_config_does_not_pass_for_the_experiment(
    run: Path, experiment: Experiment
) -> None:
    def both(info: dict[str, Any]) -> None:
        info["config"]["workload"]["seed"] = 5
        info["config_sha256"] = folder.config_sha256(info["config"])

    edit_info(run, both)
    with pytest.raises(RunFolderError, match=r"workload\.seed: 5 -> 0"):
        runner.run(experiment, resume=run)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda info: info["arms"][2]["draft"].update(k=7), r"other arms than .*first 'lookup#1', 1 in all"),
        (lambda info: info["arms"].pop(), r"other arms than .*first 'exit#1', 1 in all"),
        (lambda info: info["arms"].reverse(), r"other arms than .*their order"),
        (
            lambda info: info["prompts"][1]["ids"].append(3),
            r"tokenizer of fake, or run\.json was edited: 1 prompt .*first p1;",
        ),
        (lambda info: info["models"]["target fake"].update(weights_sha256="11"), r"the weights of target fake;"),
        (lambda info: info["models"].clear(), r"the model target fake, which the run did not begin with"),
        (lambda info: info.update(arms="x"), r"run\.json: lacks arms"),
        (lambda info: info.update(prompts=[1]), r"run\.json: prompts\[0\] is not as specq run writes it"),
        (lambda info: info.update(provenance="x"), r"run\.json: provenance not as specq run writes it"),
        (lambda info: info.pop("config"), r"run\.json: lacks config"),
    ],
)
def test_what_else_was_edited_in_run_json_is_refused_by_name(run: Path, edit: Edit, says: str) -> None:
    edit_info(run, edit)
    with pytest.raises(RunFolderError, match=says):
        runner.run(None, resume=run)


def test_a_broken_done_json_is_refused_by_name(run: Path) -> None:
    (run / "done.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"done\.json is not JSON .*take it away and type: specq run --resume"):
        report.build(run)


def test_a_home_folder_of_another_name_is_no_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run = kill(tmp_path, monkeypatch)
    stored = json.loads((run / "run.json").read_text(encoding="utf-8"))["config"]
    assert stored["workload"]["prompts"] == "~/prompts.jsonl"
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    assert not report.build(run).complete
    monkeypatch.setenv("HOME", str(tmp_path))
    runner.run(None, resume=run)
    assert_complete(run)


def test_run_json_is_read_once_by_a_resume(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, times = folder.read_info, []
    monkeypatch.setattr(folder, "read_info", lambda path: times.append(path) or read(path))
    runner.run(None, resume=run)
    assert times == [run]


@pytest.mark.parametrize("what", ["deleted", "cut", "torn", "one line", "cut above temperature 0"])
def test_answers_whose_output_is_lost_run_again(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if what == "cut above temperature 0":
        run, what = kill(tmp_path, monkeypatch, temperature=0.7), "cut"
    outputs = run / "outputs.jsonl"
    lost = {"deleted": 7, "cut": 4, "torn": 1, "one line": 1}[what]
    if what == "deleted":
        outputs.unlink()
    elif what == "torn":
        outputs.write_bytes(outputs.read_bytes()[:-9])
    else:
        edit_lines(outputs, lambda lines: lines[:3] if what == "cut" else lines[:2] + lines[3:])
    are = "is" if lost == 1 else "are"
    flag = f"{lost} of 7 recorded answers {are} not in outputs.jsonl any more"
    assert any(flag in text for text in report.build(run).flags)
    runner.run(None, resume=run)
    assert_complete(run)
    assert f"{counted(lost, 'answer')} {are} not in outputs.jsonl any more" in notes(run)
    assert not of(run, Failed)
    assert report.build(run).complete


def test_a_finished_run_that_lost_outputs_says_so_and_can_be_made_whole(tmp_path: Path) -> None:
    experiment = run_fakes.write_experiment(tmp_path)
    run = runner.run(experiment, out=tmp_path / "out", write_report=report.write)
    assert report.build(run).complete
    edit_lines(run / "outputs.jsonl", lambda lines: lines[1:])
    (gone,) = folder.read(run).lost
    made = report.build(run)
    assert not made.complete
    assert "1 of 24 recorded answers is not in outputs.jsonl any more" in made.flags[0]
    assert f"specq run --resume {run}" in made.flags[0]
    audits = len(of(run, Audited)), len(of(run, GapNoise))
    runner.run(experiment, resume=run, write_report=report.write)
    assert_complete(run)
    assert samples(run)[(gone.process, gone.arm, gone.prompt, gone.repeat)] == 1
    assert (len(of(run, Audited)), len(of(run, GapNoise))) == audits, "the audits of that prompt ran again, once"
    assert report.build(run).complete
    with pytest.raises(RunFolderError, match="nothing left to do"):
        runner.run(experiment, resume=run)


def test_a_finished_run_that_lost_records_says_so_and_can_be_made_whole(tmp_path: Path) -> None:
    run = runner.run(run_fakes.write_experiment(tmp_path, memory=True), out=tmp_path / "out")
    wrote = len((run / "records.jsonl").read_text(encoding="utf-8").splitlines())
    kept = ('"kind":"Done"', '"kind":"Machine"')
    edit_lines(run / "records.jsonl", lambda lines: [line for line in lines if any(word in line for word in kept)])
    assert f"7 lines, {wrote} stood there when the run was done" in report.build(run).flags[0]
    runner.run(None, resume=run)
    assert_complete(run)
    assert "stood there when the run was done" in notes(run)
    made = report.build(run)
    assert made.complete
    assert all(arm.measures["peak_bytes"].n == 1 for arm in made.arms)


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("records.jsonl", '"new_tokens":6', '"new_tokens":5', r"new_tokens is 5, the answer has 6 tokens"),
        ("outputs.jsonl", '"ids":[', '"ids":[7,', r"new_tokens is 6, the answer has 7 tokens"),
        ("outputs.jsonl", '"ids":[', '"ids":[1', r"output_sha256 is not the hash of the answer's ids"),
    ],
)
def test_a_record_that_contradicts_its_output_is_refused_by_file_and_line(
    run: Path, name: str, old: str, new: str, says: str
) -> None:
    text = (run / name).read_text(encoding="utf-8")
    (run / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    for use in (lambda: report.build(run), lambda: runner.run(None, resume=run)):
        with pytest.raises(RunFolderError, match=rf"records\.jsonl:\d+: {says} \(outputs\.jsonl:1\).*put it back"):
            use()


def test_a_damaged_line_stops_a_resume_and_changes_nothing(run: Path) -> None:
    edit_lines(run / "records.jsonl", lambda lines: [lines[0], "[" + lines[1][1:], *lines[2:]])
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(RunFolderError, match=r"records\.jsonl:2: not a JSON line"):
        runner.run(None, resume=run)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    # Taking the line out is what the message offers: the run goes on without it.
    edit_lines(run / "records.jsonl", lambda lines: [line for line in lines if not line.startswith("[")])
    runner.run(None, resume=run)
    assert {key[1] for key in samples(run)} == {r.arm for r in of(run, Generated)}
