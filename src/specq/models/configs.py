"""The transformers config of a model folder, or why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from specq.core.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


def load_config(folder: Path) -> PreTrainedConfig:
    """The transformers config of a folder; local files only, no remote code.

    Raises:
        ModelError: transformers does not accept config.json.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (
        StrictDataclassError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        OSError,
        ZeroDivisionError,
    ) as error:
        raise ModelError(
            f"transformers does not accept {folder}/config.json ({reason(error)}): "
            "get the config that belongs to the model"
        ) from error
    return config


def reason(error: BaseException, longest: int = 160) -> str:
    """The first lines of an error on one line, cut to `longest` characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= longest else text[:longest] + "..."
