"""The process that a metric function is called in: python -m specq.evals.judge FILE FUNCTION PARENT.

What such code does to its process (an exit, a segmentation fault, memory that runs out) ends this one alone, and with
it one item, never the model that is answering. Nothing heavy is imported, so that it starts at once.

Both sides speak JSON lines. First it says what it found: `refused`, in words, or `says_bool`, whether the function's
annotation is "-> bool". Then it reads {"answer", "item"} and says {"value"} or {"why"}, until its stdin is closed.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from specq.core.errors import nearest

SHOWN = 200
# How often it looks whether the parent is still there; a function that never returns reads no closed stdin.
_LOOK_S = 1.0
Function = Callable[[str, dict[str, Any]], Any]


def main(argv: list[str]) -> int:
    """Load the function, then judge until stdin ends."""
    path, wanted, parent = Path(argv[0]), argv[1], int(argv[2])
    # What the function prints is no answer, and what it reads no question.
    with os.fdopen(os.dup(0), encoding="utf-8") as questions, os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        _first_to_go()
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        function, refused = load(path, wanted)
        _say(out, {"refused": refused, "says_bool": says_bool(function)})
        if function is not None:
            for line in questions:
                asked = json.loads(line)
                _say(out, judge(function, asked["answer"], asked["item"]))
    return 0


def load(path: Path, wanted: str) -> tuple[Function | None, str]:
    """The function of a file, or None and why there is none."""
    spec = importlib.util.spec_from_file_location(f"specq_metric_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their own module up.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - told to the user, whose code it is
        return None, f"{path} raises {said(error)}"
    found = getattr(module, wanted, None)
    if not callable(found):
        known = list(_functions(module))
        meant = nearest(wanted, known) or ";"
        allowed = f"it has {', '.join(known)}" if known else "it has no functions"
        return None, f"no function {wanted} in {path}{meant} {allowed}"
    try:
        inspect.signature(found).bind("", {})
    except TypeError as error:
        return None, f"{wanted} must take (output, item): {error}"
    except ValueError:
        # Some callables written in C do not tell what they take: the first item will.
        pass
    return found, ""


def judge(function: Function, answer: str, item: dict[str, Any]) -> dict[str, Any]:
    """What the function says of an answer: {"value": a number}, or {"why": why there is none}."""
    try:
        value = function(answer, item)
        # A whole number may be too large for a float, which raises too.
        fine = isinstance(value, bool | int | float) and math.isfinite(value)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - counted and shown with the item, which fails
        return {"why": said(error)}
    if not fine:
        return {"why": f"returned {repr(value)[:SHOWN]}, allowed is a bool or a finite number"}
    return {"value": value if isinstance(value, int) else float(value)}


def said(error: BaseException) -> str:
    """What an error of the user's code says, in one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:SHOWN] if words else type(error).__name__


def says_bool(function: Any) -> bool:
    """Whether a function's annotation says that it gives a bool."""
    return getattr(function, "__annotations__", {}).get("return") in (bool, "bool")


def _functions(module: Any) -> Iterator[str]:
    return (name for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_"))


def _say(out: IO[str], value: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):
        out.write(f"{json.dumps(value)}\n")
        out.flush()


def _first_to_go() -> None:
    """Where memory runs out, Linux shall end this process and not the one that holds the model."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
