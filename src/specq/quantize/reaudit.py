"""Auditing a folder that lies there already: one that specq made, against its source, or one that others made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specq.core.errors import ModelError, SpecqError
from specq.models import headers, refs
from specq.models.facts import facts
from specq.quantize import artifact, audit, layers
from specq.quantize.artifact import Artifact
from specq.quantize.audited import QuantAudit
from specq.quantize.declared import declared


def audit_again(folder: Path, source: str | None) -> QuantAudit:
    """Audit a folder anew. What specq noted when it made the folder is used: source, fallbacks and calibration.

    `source` names the model that it was made from. Where it is None the one that specq noted is taken, if it
    is here (nothing is downloaded) and has the same weights.

    Raises:
        ModelError: no model folder, broken headers, a format that cannot be read here, or no such source.
    """
    if not folder.is_dir():
        raise ModelError(
            f"audit {folder}: no such folder; allowed is a folder of weights, which specq quantize MODEL --out DIR "
            f"makes; of a model by its name type: specq models facts {folder}"
        )
    notes: list[str] = []
    made = _made(folder, notes)
    origin: Path | None = None
    if source is not None:
        named = refs.resolve(source)
        origin = named.folder
        if made is not None and facts(named).weights_sha256 != made.source_sha256:
            notes.append(f"{source} has other weights than the source that specq noted, {made.source}")
    elif made is not None:
        origin = _source_of(made, notes)
    found = audit.audit_folder(
        folder,
        origin,
        fallen_back=() if made is None else made.fallen_back,
        calibration=None if made is None else made.calibration,
        asked=None if made is None else _asked(made),
    )
    return replace(found, notes=(*found.notes, *notes))


def _made(folder: Path, notes: list[str]) -> Artifact | None:
    if not (folder / artifact.FILE).is_file():
        return None
    try:
        return artifact.read(folder)
    except ModelError as error:
        # Its own words, without the path and the advice: the folder itself is audited all the same.
        notes.append(f"{str(error).removeprefix(f'{folder}/').split(':')[0]}, and was not used")
        return None


def _source_of(made: Artifact, notes: list[str]) -> Path | None:
    """The folder of the source, if it is here and still what it was."""
    advice = "to compare with it, name it with --source"
    try:
        origin = refs.resolve(made.source, fetch=False)
        same = facts(origin).weights_sha256 == made.source_sha256
    except SpecqError:
        notes.append(f"the source, {made.source}, is not here: {advice}")
        return None
    if not same:
        notes.append(f"{made.source} has other weights now than the source had: {advice}")
        return None
    return origin.folder


def _asked(made: Artifact) -> tuple[str, ...] | None:
    """The layers that the recipe asked for, where the folder keeps them under the names of the model's class."""
    if made.recipe.facts.tool != "llmcompressor":
        return None
    # Read here before transformers does, whose words would be of Python.
    declared(made.folder, headers.read_json(made.folder / "config.json"))
    names = tuple(layer.name for layer in layers.asked(made.recipe, layers.linear_layers(made.folder)))
    return None if any(".experts." in name for name in names) else names
