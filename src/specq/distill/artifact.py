"""What came of a distillation: the folder and what specq_distill.json says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.models import headers

FILE = "specq_distill.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """A distilled folder and how it came about; all but `folder` stands in its specq_distill.json.

    `layers` are the target's that were kept. `texts` counts texts, tokens to learn, what was dropped, and seconds.
    `training` has the dtype of its products, steps, tokens, seconds, tokens a second here and of the matrix products
    alone, and the loss curve as [step, tokens, loss]. `held_out` says what overlap was measured on, `overlap` its value
    and interval before and after training and what was gained. `cost` is of one token: multiply-adds, and bytes that
    are read.

    `vocabulary` says from how many ids a draft proposes where not from all, and what that costs: the mass that the
    target's law has on the others along the held-out texts, and the overlap with these ids alone. `overlap` itself is
    of the whole head. In `cost` the draft's numbers are those of the kept rows, `whole_head` those of the folder.
    """

    folder: Path
    recipe: Mapping[str, Any]
    layers: tuple[int, ...]
    source: str
    source_sha256: str
    source_notes: tuple[str, ...]
    texts: Mapping[str, Any]
    training: Mapping[str, Any]
    held_out: Mapping[str, Any]
    overlap: Mapping[str, Any]
    cost: Mapping[str, Any]
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    device: str
    vocabulary: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields but the folder as plain values."""
        values = asdict(self)
        del values["folder"]
        return values


def read(folder: Path) -> Distilled:
    """What specq noted of a folder that it distilled.

    Raises:
        ModelError: there is no such file, or another version wrote it.
    """
    value = headers.read_json(folder / FILE)
    try:
        lists = {key: tuple(value[key]) for key in ("layers", "source_notes", "notes")}
        return Distilled(folder=folder, **{**value, **lists})
    except (KeyError, TypeError) as error:
        raise ModelError(f"{folder / FILE} was written by another version of specq: distill the model again") from error
