"""Quantizing at a user's word: progress as runs show it, and a stop that ends with one line."""

from __future__ import annotations

from pathlib import Path

from specq.core.errors import Interrupted
from specq.quantize.artifact import Artifact, make
from specq.quantize.recipes import Recipe
from specq.run import signals
from specq.run.runner import OnProgress, Progress

# Some tools count hundreds of layers in a second; no more lines than these are worth reading.
LINES = 40


def quantize(
    model: str, recipe: Recipe, out: Path | None, *, revision: str | None, on_progress: OnProgress | None
) -> Artifact:
    """Quantize into `out`, or once into the cache, and audit the result; `on_progress` as in a run.

    Raises:
        UserError: the recipe, the texts, the model or the folder will not do.
        Interrupted: Ctrl-C, SIGTERM or SIGHUP; nothing half-made is left.
        RunFailed: the tool broke, or wrote tensors that are not finite. DiskFull: too little space.
    """
    told = _Told(on_progress)
    with signals.raised():
        try:
            made = make(model, recipe, out, told.layer, revision=revision, say=told.say)
        except KeyboardInterrupt as stop:
            raise Interrupted("stopped; nothing half-made is left", signals.number_of(stop)) from None
    if not told.anything:
        told.say(f"made before: {made.folder.name} is taken from the cache")
    return made


class _Told:
    """Passes on what is done: layers of how many, with the time left, and each part as it begins."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._done = self._total = 0
        self._shown = -1
        self.anything = False

    def layer(self, done: int, of: int, seconds_left: float | None) -> None:
        self._done, self._total = done, of
        share = LINES * done // of if of else 0
        left = "" if seconds_left is None or seconds_left < 1 else f", about {seconds_left:.0f} s left"
        self._tell(f"quantizing{left}" if share != self._shown and done < of else "")
        self._shown = share

    def say(self, line: str) -> None:
        self._tell(line)

    def _tell(self, text: str) -> None:
        self.anything = True
        if self._on_progress is not None:
            self._on_progress(Progress(done=self._done, total=self._total, phase="quantize", text=text))
