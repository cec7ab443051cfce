"""What `specq plan` prints of a tiny model: kernels, arms that are refused, each reason once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from specq import cli
from specq.run import inputs

sys.path.insert(0, str(Path(__file__).parent / "experiment"))
import plan_models

FILE = """
question = "Which?"
[target]
model = "target"
[engine]
device = "cpu"
[workload]
prompts = "prompts.jsonl"
max_new_tokens = 4
[levers.w3]
kind = "quantize"
recipe = "r.toml"
[levers.early]
kind = "draft"
method = "early_exit"
layers = 9
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(inputs.bandwidth, "measure", _Measured)
    plan_models.maker(tmp_path)()
    (tmp_path / "prompts.jsonl").write_text('{"id": "raw", "prompt": "one two three"}\n')
    (tmp_path / "r.toml").write_text('method = "rtn"\nbits = 3\ngroup_size = 4\n')
    (tmp_path / "e.toml").write_text(FILE)
    return tmp_path


class _Measured:
    median = 1e9

    def __init__(self, *_: object, **__: object) -> None:
        """A bandwidth that nobody measured."""


def test_a_refused_arm_is_shown_with_numbers_and_its_reason_twice(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["plan", "e.toml"]) == 2
    out, err = capsys.readouterr()
    reason = "layers = 9: allowed is 1 to 2"
    assert (out + err).count(reason) == 1
    assert err.splitlines()[-1].startswith(f"specq: early#1: {reason}")
    (row,) = [line for line in out.splitlines() if line.startswith("early#1 ")]
    assert row.split()[-4:] == ["refused", "-", "-", "-"]


def test_layers_without_a_kernel_look_like_packed_ones(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "e.toml", "--set", 'arms.run=["w3"]']) == 0
    out = capsys.readouterr().out
    (model,) = [line for line in out.splitlines() if line.startswith("r.toml of target ") and "no kernel here" in line]
    assert model.rstrip().endswith("no kernel here")
    why = "21 layers: no kernel here: the kernels compute in bfloat16, not float32"
    assert f"r.toml of target: {why}; held and read dense, in float32" in out
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("w3#1")] == [["w3#1", "*"]]
    assert "* quantized layers without a packed kernel here" in out
    assert cli.main(["plan", "e.toml", "--json", "--set", 'arms.run=["w3"]']) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["models"][1]["kernels"] == [why]
    assert told["arms"][-1]["no_kernel"] == [why]


def test_a_models_name_is_called_a_folder_without_a_config(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", "builtin:smollm2-135m"]) == 2
    err = capsys.readouterr().err
    assert "audit builtin:smollm2-135m: no such folder" in err
    assert "type: specq models facts builtin:smollm2-135m" in err
    assert cli.main(["audit", "target"]) == 0
