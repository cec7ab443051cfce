"""Do the tensors on disk fit the model that config.json describes? From headers alone, before weights load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.models import headers
from specq.models.quiet import quiet


def check_tensors(folder: Path, model_class: Any, config: Any) -> None:
    """Refuse missing tensors and wrong shapes, as far as names on disk are those of the model.

    The model is made without memory, for its names and shapes. Where a file holds names that the model
    does not know, transformers may rename or join tensors as it loads; then nothing is said here, and
    loading decides. Packed weights have shapes of their own and are not looked at.

    Raises:
        ModelError: names the first tensor that is missing or has another shape.
    """
    if getattr(config, "quantization_config", None):
        return
    import torch

    with quiet(), torch.device("meta"):
        model = model_class(config)
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    prefix = f"{model.base_model_prefix}."
    found = _named_as(wanted, headers.tensors(folder), prefix)
    if found is None:
        return
    for name, shape in wanted.items():
        if name in found and found[name] != shape:
            raise ModelError(
                f"{folder}: the tensor {name} is {list(found[name])} on disk and {list(shape)} by config.json: "
                "get the config and the weights that belong together"
            )
    optional = tuple(model._keys_to_ignore_on_load_missing or ())
    tied = model.all_tied_weights_keys
    missing = sorted(
        name
        for name in wanted
        if name not in found
        and not (name in tied and tied[name] in found)
        and not any(re.search(pattern, name) for pattern in optional)
    )
    if missing:
        raise ModelError(
            f"{folder} lacks {len(missing)} of the weights its config asks for (first: {missing[0]}); "
            "transformers would make them up at random: get the whole checkpoint"
        )


def _named_as(
    wanted: Mapping[str, tuple[int, ...]], on_disk: Mapping[str, headers.TensorInfo], prefix: str
) -> dict[str, tuple[int, ...]] | None:
    """Shapes on disk under the model's own names; None where a name is not the model's."""
    found = {}
    for name, info in on_disk.items():
        known = next((n for n in (name, prefix + name, name.removeprefix(prefix)) if n in wanted), None)
        if known is None:
            return None
        found[known] = info.shape
    return found
