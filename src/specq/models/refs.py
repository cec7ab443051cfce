"""A model by the name that the user wrote: a built-in, a folder, a GGUF file or a hub id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specq.core.errors import ModelError
from specq.models import fetch as builtins
from specq.models import gguf, headers, hub
from specq.models.check import PICKLES, check_folder

__all__ = ["Resolved", "check_folder", "resolve"]

BEFORE = "weights were quantized before: "
"""How the note about a folder of quantized weights begins."""
Kind = Literal["builtin", "folder", "gguf", "hub"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A model as a plain transformers folder (config.json and safetensors).

    `name` is what the user wrote; `revision` is the commit of a hub id, else None; `notes` are facts
    about the weights that every report repeats, such as "weights were quantized before: Q4_1".
    """

    name: str
    kind: Kind
    folder: Path
    revision: str | None = None
    notes: tuple[str, ...] = ()


def resolve(name: str, *, revision: str | None = None, fetch: bool = True) -> Resolved:
    """Find a model and check that its folder is whole; no weights are loaded.

    A GGUF file is converted once into the cache. `fetch` allows downloads: without it a built-in or a
    hub id must lie in its cache already.

    Raises:
        ModelError: no such model, not a causal LM, broken or pickled weights, no network.
        DiskFull: the cache's disk is full.
    """
    kind, folder = _find(name, revision, fetch)
    check_folder(folder)
    return Resolved(
        name=name,
        kind=kind,
        folder=folder,
        revision=folder.name if kind == "hub" else None,
        notes=_notes(folder),
    )


def _find(name: str, revision: str | None, fetch: bool) -> tuple[Kind, Path]:
    kind, path = _kind(name)
    if revision is not None and kind != "hub":
        raise ModelError(f"revision {revision!r} pins a hub id, and {name!r} is a {kind}: leave the revision out")
    if kind == "builtin":
        if not fetch and not builtins.is_fetched(name):
            bare = builtins.builtin(name).name
            raise ModelError(f"{name} is not in the cache yet: type: specq models fetch {bare}")
        return kind, builtins.fetch(name)
    if kind == "gguf":
        return kind, gguf.folder_of(path)
    if kind == "folder":
        return kind, path
    return kind, hub.snapshot(name, revision=revision, fetch=fetch)


def _kind(name: str) -> tuple[Kind, Path]:
    path = Path(name).expanduser() if name.startswith("~") else Path(name)
    if not name.strip():
        raise ModelError("the model name is empty: give a folder, a .gguf file, a hub id or builtin:smollm2-135m")
    if name.startswith(builtins.PREFIX):
        return "builtin", path
    if path.is_dir():
        return "folder", path.absolute()
    if path.is_file():
        return "gguf", _model_file(path)
    looks_like_path = name.startswith((".", "/", "~")) or name.endswith((".gguf", ".safetensors", *PICKLES))
    if looks_like_path or (path.parts[0] != name and Path(path.parts[0]).exists()) or not hub.ID.fullmatch(name):
        raise ModelError(
            f"no such file or folder: {name!r}; allowed is a model folder, a .gguf file, a hub id (org/name) or "
            "builtin:smollm2-135m"
        )
    if name in builtins.BUILTINS:
        raise ModelError(f"no model {name!r}: did you mean '{builtins.PREFIX}{name}'?")
    return "hub", path


def same(name: str) -> str:
    """What all spellings of a model's name have in common: its folder or file, or else the name."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name


def _model_file(path: Path) -> Path:
    if path.suffix in PICKLES:
        raise ModelError(
            f"{path} is a pickle, which can run code when it is loaded: give a folder with config.json and safetensors"
        )
    if path.suffix == ".safetensors":
        raise ModelError(f"{path} is one weights file: give the folder that holds it and config.json")
    return path.absolute()


def _notes(folder: Path) -> tuple[str, ...]:
    """The notes of a conversion, then what config.json says about quantized weights."""
    notes: list[str] = []
    if (folder / gguf.ORIGIN).is_file():
        kept = headers.read_json(folder / gguf.ORIGIN).get("notes")
        notes += [str(note) for note in kept] if isinstance(kept, list) else []
    config = headers.read_json(folder / "config.json")
    given = config.get("quantization_config") or config.get("quantization")
    if isinstance(given, dict):
        bits = given.get("bits") or given.get("num_bits")
        mlx = f"mlx {given.get('mode') or 'affine'}" if "group_size" in given else "an unnamed method"
        how = given.get("quant_method") or given.get("format") or mlx
        notes.append(f"{BEFORE}{how}" + (f", {bits} bits" if bits else ""))
    return tuple(notes)
