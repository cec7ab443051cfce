"""Scripts of experiments/peers, run in this process: importing torch and transformers anew takes long."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "experiments" / "peers"


def told(name: str, words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """What a script prints as its last line, a JSON object."""
    capsys.readouterr()
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *words])
        patch.syspath_prepend(str(FOLDER))
        try:
            runpy.run_path(str(FOLDER / name), run_name="__main__")
        finally:
            # The scripts' own modules have names that others may have too.
            for module in set(sys.modules) - before:
                if Path(getattr(sys.modules[module], "__file__", None) or "/").parent == FOLDER:
                    del sys.modules[module]
    return json.loads(capsys.readouterr().out.splitlines()[-1])
