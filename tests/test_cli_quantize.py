from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import specq
from specq import api, cli
from specq.cli import output, views
from specq.quantize import audited
from specq.run import quantizing, runner

ARM = {
    "id": "a#1",
    "draft": None,
    "model_bytes": 1,
    "cache_bytes": 1,
    "bytes_per_step": 1,
    "ceiling_tokens_per_s": None,
    "no_kernel": (),
    "refused": False,
}
SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}

STOPPED = """
import os, sys, time
from pathlib import Path
from specq import cli
from specq.models import cache
from specq.run import quantizing

def build(scratch):
    (scratch / "model").mkdir()
    os.kill(os.getpid(), int(sys.argv[1]))
    time.sleep(30)

def make(source, recipe, out, on_progress, *, revision, say):
    cache.build(out, build, is_whole=Path.exists)

quantizing.make = make
sys.exit(cli.main(["quantize", "any", "--method", "rtn", "--out", "new"]))
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What the command line asked to be made; nothing is."""
    found: list[dict[str, Any]] = []

    def make(source: str, recipe: Any, out: Path | None, on_progress: Any, *, revision: str | None, say: Any) -> Any:
        found.append({"source": source, "recipe": recipe, "out": out, "revision": revision})
        return SimpleNamespace(folder=Path("made"), to_json=lambda: {"recipe": recipe.to_json()})

    monkeypatch.setattr(quantizing, "make", make)
    monkeypatch.chdir(tmp_path)
    return found


def test_a_flag_does_not_override_the_recipe_file(asked: list[dict[str, Any]]) -> None:
    Path("r.toml").write_text('method = "gptq"\nbits = 4\nsymmetric = false\nsamples = 7\ncalibration = "a.jsonl"\n')
    words = ["--bits", "3", "--symmetric", "--calibration", "b.txt", "--head", "quantize", "--seed", "0"]
    assert cli.main(["quantize", "org/x", "--recipe", "r.toml", *words, "--revision", "v1", "--json"]) == 0
    (call,) = asked
    recipe = call["recipe"]
    assert (recipe.method, recipe.bits, recipe.symmetric, recipe.samples) == ("gptq", 3, True, 7)
    assert (recipe.calibration, recipe.head, recipe.seed) == ("b.txt", "quantize", 0)
    assert (call["source"], call["out"], call["revision"]) == ("org/x", None, "v1")


def test_a_default_of_the_method_comes_from_another_one(asked: list[dict[str, Any]]) -> None:
    Path("r.toml").write_text('method = "gptq"\ncalibration = "a.jsonl"\n')
    assert cli.main(["quantize", "x", "--recipe", "r.toml", "--bits", "8", "--json"]) == 0
    assert cli.main(["quantize", "x", "--method", "rtn", "--asymmetric", "--out", "d", "--json"]) == 0
    eight, four = (call["recipe"] for call in asked)
    assert (eight.bits, eight.group_size) == (8, 0), "8 bits take one scale a row unless told"
    assert (four.bits, four.group_size, four.symmetric) == (4, 64, False)
    assert asked[1]["out"] == Path("d")


def test_progress_is_not_worth_reading(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(source: str, recipe: Any, out: Any, on_progress: Any, *, revision: Any, say: Callable[[str], None]) -> Any:
        say("checking")
        for done in range(601):
            on_progress(done, 600, None if done == 0 else 60.0 - done / 10)
        say("auditing the result")
        return SimpleNamespace(folder=Path("made"), to_json=dict)

    monkeypatch.setattr(quantizing, "make", make)
    assert cli.main(["quantize", "x", "--method", "rtn", "--json"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "checking"
    assert lines[1:3] == ["[0/600] quantizing", "[15/600] quantizing, about 58 s left"]
    assert lines[-3:] == [
        "[585/600] quantizing, about 2 s left",
        "[600/600] auditing the result",
        "[600/600] done",
    ]
    assert len(lines) == 3 + quantizing.LINES


def test_what_was_made_before_is_not_said(asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["quantize", "x", "--method", "rtn", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == "made before: made is taken from the cache\n"
    assert json.loads(out)["folder"] == "made"


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143)])
def test_a_stop_leaves_something_half_made_or_no_line(number: int, code: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(number)], cwd=tmp_path, capture_output=True, text=True, timeout=20
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == "specq: stopped; nothing half-made is left\n"
    assert list(tmp_path.iterdir()) == []


def test_a_stop_before_a_command_listens_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "list_runs", stopped)
    assert cli.main(["ls"]) == 130
    assert capsys.readouterr().err == "specq: stopped; nothing was recorded\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no --method and no --recipe FILE; type: specq quantize MODEL --method rtn"),
        (["--method", "gtpq"], "did you mean 'gptq'?"),
        (["--method", "rtn", "--bits", "5"], 'bits = 5: method = "rtn" allows 2, 3, 4, 8'),
        (["--method", "rtn", "--bits", "four"], "--bits four"),
        (["--method", "nvfp4", "--asymmetric"], 'symmetric = false: method = "nvfp4" allows true'),
        (["--method", "w8a8", "--group-size", "64"], "allows 0"),
        (["--method", "rtn", "--mix", "mixed_2_6"], 'allowed is method = "mlx-mixed"'),
        (["--method", "rtn", "--calibration", "a"], "reads no text"),
        (["--method", "gptq"], "give --calibration FILE"),
        (["--method", "gptq", "--calibration", "absent.txt"], "absent.txt: No such file"),
        (["--recipe", "absent.toml"], "absent.toml: no such file"),
        (["--recipe", "bad.toml"], "bad.toml: unknown key \"bitz\", did you mean 'bits'?"),
        (["--method", "rtn", "--out", "bad.toml"], "--out bad.toml exists already"),
        (["--method", "rtn", "--zzz"], "no option --zzz"),
    ],
)
def test_a_mistake_in_a_recipe_is_more_than_one_line(
    words: list[str],
    says: str,
    folder_of: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = folder_of("llama", **SMALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "cache"))
    Path("bad.toml").write_text('method = "rtn"\nbitz = 3\n')
    assert cli.main(["quantize", str(model), *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err.splitlines()[-1]
    assert len([line for line in err.splitlines() if line.startswith("specq:")]) == 1
    assert not list(tmp_path.glob("cache/quantized/*"))


@pytest.fixture
def made(folder_of: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model that the command line quantizes into w4; its source lies beside it."""
    shutil.copytree(folder_of("llama", **SMALL), tmp_path / "source")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "w4"


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def test_a_folder_is_not_made_shown_and_audited_alike(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["quantize", "source", "--method", "rtn", "--group-size", "32", "--out", "w4"]
    assert cli.main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    told: Mapping[str, Any] = json.loads(out.splitlines()[-1])
    assert (told["folder"], told["recipe"]["method"], told["audit"]["asked"]) == (str(made), "rtn", 14)
    assert "\x1b" not in out + err
    assert cli.main(words) == 2, "the folder is there"
    capsys.readouterr()

    # The audit finds the source by what the folder says, and tells the same as when it was made.
    assert cli.main(["audit", "w4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == told["audit"]
    assert cli.main(["audit", "w4"]) == 0
    shown = capsys.readouterr().out
    assert "14 of 14 layers asked for" in shown
    assert "KL mean" in shown
    assert cli.main(["models", "facts", "w4"]) == 0
    assert "weights were quantized before: compressed-tensors" in capsys.readouterr().out

    assert cli.main(["quantize", "w4", "--method", "rtn", "--group-size", "32", "--out", "again"]) == 2
    assert "w4 is quantized already (compressed-tensors)" in capsys.readouterr().err

    # A source that changed is another model; so is one that is gone.
    shutil.copytree("source", "elsewhere")
    weights = Path("source/model.safetensors")
    held = weights.read_bytes()
    weights.write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
    other = specq.audit_quantized("w4")
    assert other.kl_mean is None
    assert (
        other.notes[-1] == "source has other weights now than the source had: to compare with it, name it with --source"
    )
    shutil.rmtree("source")
    alone = specq.audit_quantized("w4")
    assert alone.kl_mean is None
    assert alone.notes[-1] == "the source, source, is not here: to compare with it, name it with --source"
    assert specq.audit_quantized("w4", "elsewhere") == audited.from_json(told["audit"])

    # What another version wrote is not believed, and the folder is audited all the same.
    changed(made / "specq-quantize.json", lambda value: value.pop("seconds"))
    assert specq.audit_quantized("w4").notes[-1].startswith("specq-quantize.json was written by another version")


def test_the_plan_does_not_show_what_changes_the_target(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    weights = {"source": None, "recipe": None, "model": None, "prefill": "dense", "kv_cache": None}
    weights |= {"clean": False, "select": None, "prefix_cache": False, "batch": 1}
    targets = [
        weights,
        {**weights, "recipe": "r.toml", "prefill": "packed", "kv_cache": "q8"},
        {**weights, "model": "d"},
        {**weights, "source": "m"},
        {**weights, "source": "m", "recipe": "r.toml"},
    ]
    draft = {"method": "model", "model": "self", "layers": None, "k": 4, "rule": "match", "recipe": None, "bits": None}
    draft |= {"threshold": None}
    drafts = [None, {**draft, "bits": 8}, {**draft, "recipe": "d.toml"}, None, None]
    arms = [{**ARM, "target": target, "draft": one} for target, one in zip(targets, drafts, strict=True)]
    made: dict[str, Any] = {"name": "n", "question": "q", "prompts": [], "models": [], "arms": arms, "notes": []}
    made |= {
        "bandwidth_bytes_per_s": None,
        "available_bytes": None,
        "needed_bytes": 1,
        "evals_bytes": 0,
        "proofs_bytes": 0,
        "refusals": [],
        "evals": [],
        "served": [],
    }
    output.show(views.plan(made))
    shown = [[cell.strip() for cell in line.split("  ") if cell] for line in capsys.readouterr().out.splitlines()]
    rows = [row[1:3] for row in shown if row[:1] == ["a#1"]]
    assert rows == [
        ["-", "-"],
        ["r.toml, prefill packed; cache q8", "model self, 8 bits, k = 4, match"],
        ["d, prefill dense", "model self, d.toml, k = 4, match"],
        ["m", "-"],
        ["r.toml of m, prefill dense", "-"],
    ]


def test_progress_without_a_listener_breaks(asked: list[dict[str, Any]]) -> None:
    told: list[runner.Progress] = []
    recipe = specq.load_recipe(method="rtn")
    specq.quantize_model("x", recipe)
    specq.quantize_model("x", recipe, on_progress=told.append)
    assert [progress.phase for progress in told] == ["quantize"]
    assert [call["recipe"] for call in asked] == [recipe, recipe]
