"""Settings of a folder that are not its source's: of the model itself, and of how it is sampled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.models import headers
from specq.models.configs import load_config

GENERATION = "generation_config.json"
# What quantizing or saving changes, and what says nothing of the model.
_APART = (
    "quantization_config",
    "quantization",
    "compression_config",
    "dtype",
    "torch_dtype",
    "transformers_version",
    "_name_or_path",
    "_from_model_config",
    "_attn_implementation",
    "attn_implementation",
    "use_cache",
    "auto_map",
)
# Told with the tokenizer's: who reads a text must know where it ends.
_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
# A head that is quantized can no longer be the embedding.
_TIED = "tie_word_embeddings"
_LONGEST = 60
_MOST = 8


def notes(source: Path, folder: Path, *, untied: bool, ids: bool) -> list[str]:
    """One line for each file whose settings differ, with what the source has and what the folder has.

    Both are read through transformers' class of the model where it takes them, so that a default which one of them
    writes down is no difference. `untied`: the folder may have its head apart. `ids`: special ids are compared too.
    """
    apart = (*_APART, *(() if ids else _IDS), *((_TIED,) if untied else ()))
    told = []
    for file, mine, other in (
        ("config.json", _config(source), _config(folder)),
        (GENERATION, _generation(source), _generation(folder)),
    ):
        if differing := list(_differing(mine, other, apart)):
            more = f" and {len(differing) - _MOST} more" if len(differing) > _MOST else ""
            told.append(f"{file} differs from the source's: {', '.join(differing[:_MOST])}{more}")
    return told


def _config(folder: Path) -> Mapping[str, Any]:
    try:
        return load_config(folder).to_dict()
    except ModelError:
        return headers.read_json(folder / "config.json")


def _generation(folder: Path) -> Mapping[str, Any]:
    path = folder / GENERATION
    return headers.read_json(path) if path.is_file() else {}


def _differing(mine: Mapping[str, Any], other: Mapping[str, Any], apart: tuple[str, ...]) -> Iterator[str]:
    one, two = dict(_flat(mine, apart)), dict(_flat(other, apart))
    for name in dict.fromkeys((*one, *two)):
        # Not set and null are one.
        if not _same(one.get(name), two.get(name)):
            yield f"{name} {_shown(one.get(name))} -> {_shown(two.get(name))}"


def _flat(values: Mapping[str, Any], apart: tuple[str, ...], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if name in apart:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, apart, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same; 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return bool(one == other)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
