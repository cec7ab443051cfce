from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import specq
from specq import __main__, api, cli
from specq.cli import progress
from specq.run import runner

sys.path.insert(0, str(Path(__file__).parent / "run"))
import run_fakes

HEAVY = ("torch", "transformers", "pydantic", "scipy", "numpy", "pandas", "rich")


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    run_fakes.patch_parent(monkeypatch.setattr)
    monkeypatch.delenv("FAKE", raising=False)
    monkeypatch.chdir(tmp_path)
    run_fakes.write_experiment(tmp_path)
    return tmp_path


def imported(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sorted(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()) if done.stdout.strip() else set()


def test_importing_specq_or_asking_for_help_loads_nothing_heavy() -> None:
    assert imported("import specq") == set()
    assert (
        imported("import contextlib, specq.cli\nwith contextlib.suppress(SystemExit): specq.cli.main(['--help'])")
        == set()
    )


def test_ctrl_c_while_the_command_is_imported_shows_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    class Importing(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "specq.cli", Importing("specq.cli"))
        assert __main__.main() == 130
    assert capsys.readouterr().err == "specq: stopped; nothing was recorded\n"
    scripts = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert scripts["scripts"] == {"specq": "specq.__main__:main"}
    code = "import sys, specq.__main__; sys.exit('specq.cli' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_planning_and_reading_modules_load_no_model_library() -> None:
    loaded = imported("import specq.api, specq.run.runner, specq.run.catalog, specq.cli.views, specq.cli.progress")
    assert not loaded & {"torch", "transformers", "pandas"}


def test_the_exported_names_are_these() -> None:
    assert specq.__all__ == [
        "ask_drafts",
        "audit_quantized",
        "check_evals",
        "check_gate",
        "distill_model",
        "doctor",
        "fetch_model",
        "find_prefixes",
        "import_metrics",
        "list_models",
        "list_runs",
        "load_experiment",
        "load_recipe",
        "make_workload",
        "measure_grid",
        "measure_load",
        "measure_requests",
        "model_facts",
        "open_run",
        "plan_experiment",
        "price_requests",
        "quantize_model",
        "read_workload",
        "rebuild_lab",
        "rebuild_report",
        "replay_files",
        "resume_load",
        "resume_requests",
        "run_experiment",
        "shorten_prompts",
        "size_models",
        "start_experiment",
        "study_drafts",
        "study_grid",
        "validate_drafts",
    ]
    for name in specq.__all__:
        assert getattr(specq, name) is getattr(api, name)
        assert getattr(api, name).__doc__
    with pytest.raises(AttributeError, match="nothing_such"):
        specq.nothing_such  # noqa: B018


def test_every_verb_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    verbs = "run init plan quantize audit distill size cost import doctor report show ls models evals version"
    for verb in verbs.split():
        assert f"\n  {verb}" in out
        assert cli.main([verb, "--help"]) == 0


def test_a_gate_on_an_arm_that_there_is_not_is_told_after_the_run(fakes: Path) -> None:
    assert cli.main(["run", "tiny.toml", "--gate-arm", "nosuch"]) == 2
    assert not (fakes / "results").exists()


def test_a_run_ends_with_one_json_object_on_stdout_and_progress_on_stderr(
    fakes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "tiny.toml", "--json", "--gate"]) == 0
    out, err = capsys.readouterr()
    last = json.loads(out.splitlines()[-1])
    run = Path(last["run"])
    assert (run / "done.json").is_file()
    assert {arm["id"] for arm in last["report"]["arms"]} == {"baseline#1", "baseline#2", "lookup#1", "exit#1"}
    assert last["report"]["complete"] is True
    assert json.loads((run / "report.json").read_text(encoding="utf-8"))["complete"] is True
    assert sum("prompt p" in line for line in err.splitlines()) == 6, "one line a prompt and turn"
    assert "\x1b" not in out + err
    capsys.readouterr()
    for verb in ("show", "report"):
        assert cli.main([verb, run.name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["run"] == run.name
        assert cli.main([verb, str(run)]) == 0
        assert "\x1b" not in capsys.readouterr().out
    assert cli.main(["ls", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["runs"]
    assert (listed["run"], listed["state"], listed["question"]) == (str(run), "done", "Which?")
    assert cli.main(["ls"]) == 0
    assert run.name in capsys.readouterr().out


def test_a_failed_audit_fails_the_gate_with_3(
    fakes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE", json.dumps({"fail": {"audit": "yes"}}))
    assert cli.main(["run", "tiny.toml", "--gate"]) == 3
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith("specq: the gate failed: ")
    assert "lookup#1" in err
    assert cli.main(["run", "tiny.toml"]) == 0, "without --gate the report tells it"


def test_a_died_worker_exits_1_and_tells_how_to_go_on(
    fakes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE", json.dumps({"kill_after": 5}))
    assert cli.main(["run", "tiny.toml"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "incomplete" in last
    command = last.split("type: specq ")[1].split()
    monkeypatch.setenv("FAKE", "{}")
    assert cli.main(command) == 0
    assert cli.main(command) == 2
    assert "nothing left to do" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run"], "type: specq run experiments/quickstart.toml"),
        (["run", "absent.toml"], "absent.toml: no such file"),
        (["run", "tiny.toml", "--set", "workload.repeat=3"], "repeats"),
        (["run", "--resume", "nowhere"], "no run 'nowhere'"),
        (["run", "--resume", "nowhere", "--smoke"], "FILE must be given"),
        (["plan", "tiny.toml", "--set", "levers.lookup.k=0"], "1 to 64"),
        (["show", "nowhere"], "no run 'nowhere'"),
        (["models", "fetch", "smollm"], "builtin:smollm2-135m"),
        (["models", "facts", "./absent"], "absent"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    words: list[str], says: str, fakes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert says in err
    assert not (fakes / "results").exists()


def test_a_row_is_folded_on_its_way_into_a_pipe(
    fakes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    question = " ".join(["which"] * 60)
    text = (fakes / "tiny.toml").read_text(encoding="utf-8").replace("Which?", question)
    (fakes / "tiny.toml").write_text(text, encoding="utf-8")
    assert cli.main(["run", "tiny.toml"]) == 0
    capsys.readouterr()
    monkeypatch.delenv("COLUMNS", raising=False)
    for words in (["ls"], ["show", next((fakes / "results").glob("*/*")).name]):
        assert cli.main(words) == 0
        assert question in capsys.readouterr().out
    for width in (40, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        assert cli.main(["ls"]) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= width


def test_progress_ends_short_of_its_total(fakes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "tiny.toml"]) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    done, total = re.findall(r"\d+", last)
    assert last == f"[{done}/{total}] done"
    assert done == total


def test_what_was_left_out_of_a_run_is_not_said_at_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.watch() as show:
        show(runner.Progress(done=3, total=9, phase="measure", text="a"))
        show(runner.Progress(done=7, total=9, phase="measure"))
    assert capsys.readouterr().err == "[3/9] a\n[7/9] done; 2 samples or checks were left out\n"


def test_debug_shows_the_traceback_wherever_it_stands(fakes: Path) -> None:
    for words in (["--debug", "show", "nowhere"], ["show", "nowhere", "--debug"]):
        with pytest.raises(specq.core.errors.RunFolderError):
            cli.main(words)


def test_a_bug_of_ours_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(api, "list_runs", broken)
    assert cli.main(["ls"]) == 1
    assert capsys.readouterr().err == (
        "specq: internal error, ZeroDivisionError: division by zero (--debug shows where)\n"
    )


def test_hostile_text_is_shown_and_not_obeyed(fakes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (fakes / "tiny.toml").read_text(encoding="utf-8")
    (fakes / "tiny.toml").write_text(text.replace("Which?", "[red]a\\u001b[31mb"), encoding="utf-8")
    assert cli.main(["run", "tiny.toml"]) == 0
    assert cli.main(["ls"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[red]a" in out
