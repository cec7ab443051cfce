"""Where a model's config.json or GGUF file lies; sizing needs no more of it, and downloads nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.lab import size_config, size_gguf
from specq.models import fetch, gguf_header, headers, hub
from specq.models.gguf_header import Gguf


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A model by the name that the user wrote: its config, the folder that holds it, and a GGUF file's header.

    `place` is the file that was read, for errors. `folder` is None where a bare config file was named.
    """

    name: str
    place: str
    config: dict[str, Any]
    folder: Path | None = None
    gguf: Gguf | None = None


def find(name: str) -> Found:
    """Find a folder with config.json, a config file, a GGUF file, a built-in or a hub id in the local hub cache.

    Raises:
        ModelError: there is none, or its config or header cannot be read.
    """
    if not name.strip():
        raise ModelError(f"the model name is empty: {_ALLOWED}")
    path = Path(name).expanduser()
    if name.startswith(fetch.PREFIX):
        if not fetch.is_fetched(name):
            raise ModelError(f"{name} is not in the cache: type: specq models fetch {fetch.builtin(name).name}")
        return _folder(name, fetch.folder_of(name))
    if path.is_dir():
        return _folder(name, path)
    if path.is_file():
        if path.suffix == ".json":
            return Found(name=name, place=str(path), config=size_config.read(path))
        if path.suffix == ".safetensors":
            raise ModelError(f"{path} is one weights file: give the folder that holds it and config.json")
        header = gguf_header.read(path)
        return Found(name=name, place=str(path), config=size_gguf.as_config(path, header), gguf=header)
    if name in fetch.BUILTINS:
        raise ModelError(f"no model {name!r}: did you mean '{fetch.PREFIX}{name}'?")
    if name.startswith((".", "/", "~")) or path.suffix in (".gguf", ".json", ".safetensors"):
        raise ModelError(f"no such file or folder: {name!r}; {_ALLOWED}")
    if "/" not in name or not hub.ID.fullmatch(name):
        raise ModelError(f"no such file or folder, and no hub id (org/name): {name!r}; {_ALLOWED}")
    return _folder(name, _hub_folder(name))


_ALLOWED = "allowed is a folder with config.json, a config.json, a .gguf file, builtin:smollm2-135m, or a hub id"


def _folder(name: str, folder: Path) -> Found:
    config = folder / "config.json"
    if config.is_file():
        return Found(name=name, place=str(config), config=size_config.read(config), folder=folder)
    if files := sorted(path.name for path in folder.glob("*.gguf")):
        raise ModelError(f"{folder} has no config.json but GGUF files: give the file, for example {folder / files[0]}")
    if (folder / "adapter_config.json").is_file():
        base = headers.read_json(folder / "adapter_config.json").get("base_model_name_or_path")
        raise ModelError(f"{folder} holds an adapter{f' for {base}' if base else ''}, not a model: give its base model")
    raise ModelError(f"{folder} has no config.json: it is all that sizing needs; copy it there from the model")


def _hub_folder(name: str) -> Path:
    """The newest snapshot of a hub id in the local cache that has a config.json.

    The layout is that of huggingface_hub ("Understand caching"): models--ORG--NAME/refs/main names a snapshot.
    """
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface").expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    repository = cache / f"models--{name.replace('/', '--')}"
    main = repository / "refs" / "main"
    snapshots = sorted(repository.glob("snapshots/*/config.json"), key=lambda path: path.stat().st_mtime)
    if main.is_file():
        named = repository / "snapshots" / main.read_text(encoding="utf-8").strip()
        snapshots = [path for path in snapshots if path.parent == named] or snapshots
    if not snapshots:
        raise ModelError(
            f"{name} is not on this machine, and sizing downloads nothing; it needs config.json alone, no weights: "
            f"type: hf download {name} config.json"
        )
    return snapshots[-1].parent
