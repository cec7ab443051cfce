"""What a model folder must be before any weight is loaded."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.models import headers

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


def check_folder(folder: Path) -> None:
    """Check that a folder holds a causal language model as whole safetensors files.

    Reads config.json and the safetensors headers, no weights.

    Raises:
        ModelError: config.json is missing or broken; the architecture is not a causal LM; the model
            needs its own Python code; weights are missing, truncated, pickled or Git LFS pointers.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(_without_config(folder))
    config = headers.read_json(folder / "config.json")
    _check_architecture(folder, config)
    _check_code(folder, config)
    _check_weights(folder)


def is_whole(folder: Path) -> bool:
    """Whether `check_folder` finds no fault."""
    try:
        check_folder(folder)
    except ModelError:
        return False
    return True


def _without_config(folder: Path) -> str:
    if (folder / "adapter_config.json").is_file():
        return _adapter(folder)
    if found := sorted(path.name for path in folder.glob("*.gguf")):
        return f"{folder} has no config.json but GGUF files: give the file, for example {folder / found[0]}"
    return f"{folder} is not a model folder: it has no config.json"


def _adapter(folder: Path) -> str:
    base = None
    if (folder / "adapter_config.json").is_file():
        base = headers.read_json(folder / "adapter_config.json").get("base_model_name_or_path")
    return (
        f"{folder} holds an adapter{f' for {base}' if base else ''}, not a model: merge it first, in Python: "
        "PeftModel.from_pretrained(base, folder).merge_and_unload().save_pretrained(out), and give out"
    )


def _check_architecture(folder: Path, config: dict[str, Any]) -> None:
    found = config.get("architectures") or []
    allowed = "allowed is a causal language model (an architecture that ends in ForCausalLM or LMHeadModel)"
    if not found:
        raise ModelError(f"{folder}/config.json names no architecture; {allowed}")
    named = ", ".join(map(str, found))
    if config.get("is_encoder_decoder"):
        raise ModelError(f"{folder} is an encoder-decoder model ({named}); {allowed}")
    if not any(str(name).endswith(("ForCausalLM", "LMHeadModel")) for name in found):
        raise ModelError(f"{folder} is not a causal language model: its architecture is {named}; {allowed}")


def _check_code(folder: Path, config: dict[str, Any]) -> None:
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise ModelError(f"{folder}/config.json has no model_type, so transformers cannot tell which model it is")
    own_code = bool(config.get("auto_map"))
    spec = importlib.util.find_spec("transformers")
    places = spec.submodule_search_locations if spec else None
    # Most model types have a folder of their name, and looking for it spares the slow import.
    if not own_code and kind.isidentifier() and any((Path(place) / "models" / kind).is_dir() for place in places or ()):
        return
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if kind in CONFIG_MAPPING_NAMES:
        return
    if own_code:
        raise ModelError(
            f"{folder} needs its own Python code (auto_map in config.json), which specq does not run; "
            f"allowed is a model_type that transformers knows, found {kind!r}"
        )
    raise ModelError(f"{folder} has the model_type {kind!r}, which the installed transformers does not know")


def _check_weights(folder: Path) -> None:
    if headers.weight_files(folder):
        headers.tensors(folder)
        return
    if (folder / "adapter_config.json").is_file() or any(folder.glob("adapter_model.*")):
        raise ModelError(_adapter(folder))
    other = sorted(path.name for path in folder.glob("*.safetensors"))
    if other:
        raise ModelError(f"{folder} has {other[0]} but neither {headers.SINGLE} nor {headers.INDEX}: save it again")
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        raise ModelError(
            f"{folder} has only pickled weights ({pickles[0]}), which can run code when they are loaded: convert them "
            "where you trust them with transformers' save_pretrained, which writes safetensors, and give that folder"
        )
    raise ModelError(
        f"{folder} has no safetensors weights: expected {headers.SINGLE}, or {headers.INDEX} with its shards"
    )
