"""A small model made of some of a target's own layers and trained on the target's own texts: a draft for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specq.core.errors import Interrupted
from specq.distill import recipe

if TYPE_CHECKING:
    from specq.distill.artifact import Distilled
    from specq.run.runner import OnProgress


def distill_model(
    target: str,
    layers: str | int | Sequence[int],
    out: Path | str,
    *,
    texts: Path | str = recipe.SELF,
    prompts: Path | str | None = None,
    minutes: float = 45.0,
    loss: recipe.Loss = "kl",
    temperature: float = 1.0,
    seed: int = 0,
    tokens: int | None = None,
    steps: int | None = None,
    vocabulary: int | None = None,
    resume: bool = False,
    revision: str | None = None,
    on_progress: OnProgress | None = None,
) -> Distilled:
    """Make a draft of some of a target's layers in the new folder `out`, trained on the target's own texts.

    `layers` is how many, or which of them from 0. `tokens` and `steps` end sampling and training after so many instead
    of after their share of the minutes; with both the outcome hangs on the seed alone. With `vocabulary` specq drafts
    with the so many most frequent ids alone, and the folder keeps its whole head for all else. What is done is kept in
    `out`.part until the folder is whole, and `resume` goes on from there.

    Raises:
        UserError: the recipe, the texts, the target or the folder will not do.
        Interrupted: Ctrl-C, SIGTERM or SIGHUP; what was done is kept. RunFailed: training broke. DiskFull: no space.
    """
    from specq.distill.making import make
    from specq.run import signals
    from specq.run.runner import Progress

    asked = recipe.make(
        {
            "layers": _words(layers),
            "texts": str(texts),
            "prompts": None if prompts is None else str(prompts),
            "minutes": float(minutes),
            "loss": loss,
            "temperature": float(temperature),
            "seed": seed,
            "tokens": tokens,
            "steps": steps,
            "vocabulary": vocabulary,
        }
    )

    def say(line: str) -> None:
        if on_progress is not None:
            on_progress(Progress(done=0, total=0, phase="distill", text=line))

    with signals.raised():
        try:
            return make(target, asked, Path(out), resume=resume, revision=revision, say=say)
        except KeyboardInterrupt as stop:
            raise Interrupted(
                f"stopped; what was done is kept in {out}.part: type the same again with --resume",
                signals.number_of(stop),
            ) from None


def _words(layers: str | int | Sequence[int]) -> str:
    """Layers as they stand on a command line; a list of one keeps its comma."""
    if isinstance(layers, str | int):
        return str(layers)
    return ",".join(map(str, layers)) + ("," if len(layers) == 1 else "")
