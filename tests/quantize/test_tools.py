from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from specq.cli import output, views
from specq.quantize import kernels, tools


def test_a_kernel_that_does_not_run_is_said_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {name: devices["cpu"] for name, devices in tools.examine()["kernels"].items()} == {
        "int4pack": "yes",
        "int8pack": "yes",
    }

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such operator\nand more")

    monkeypatch.setattr(kernels, "KernelLinear", broken)
    assert tools.examine()["kernels"]["int4pack"]["cpu"] == "no such operator"


def test_a_tool_that_is_absent_is_offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    there = tools.examine()
    assert there["tools"]["llmcompressor"]["methods"] == ["rtn", "gptq", "awq", "w8a8", "fp8", "nvfp4", "mxfp4"]
    assert there["tools"]["llmcompressor"]["version"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    gone = tools.examine()
    assert gone["tools"]["mlx-lm"]["version"] is None
    assert "pip install" in gone["tools"]["mlx-lm"]["why"]
    assert gone["kernels"]["int8pack"] == {"cpu": "torch is not installed: pip install specq"}
    output.show(views.tools(gone))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["llmcompressor", "-", "not", "installed:", "pip", "install", "llmcompressor"] in rows
    assert ["int4pack", "cpu", "no", "torch", "is", "not", "installed:", "pip", "install", "specq"] in rows
