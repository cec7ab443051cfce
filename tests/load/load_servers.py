"""Loads on servers that are started: the stub as if it were vLLM, from an experiment or by its kind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from load_runs import prompts

sys.path.append(str(Path(__file__).parents[1] / "run"))

import served_stubs as served_stubs

from specq.load.found import Found
from specq.load.running import measure_load

LOOKUP = '[levers.lookup]\nkind = "draft"\nmethod = "lookup"\nk = 4\n'


def experiment(folder: Path, *, model: Path, more: str = LOOKUP) -> Path:
    """An experiment on a vLLM that is started."""
    file = prompts(folder)
    text = f'[target]\nmodel = "{model}"\n[engine]\nkind = "vllm"\n[workload]\nprompts = "{file}"\n'
    path = folder / "served.toml"
    path.write_text(f'{text}max_new_tokens = 4\nlengths = "natural"\nrepeats = 1\n{more}')
    return path


def loaded(target: Path | str, folder: Path, **how: Any) -> Found:
    """A small load run on it."""
    given: dict[str, Any] = {"concurrency": [1, 2], "requests": 6, "out": folder / "out"}
    return measure_load(target, **(given | how))
