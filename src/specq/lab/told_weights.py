"""What a server that runs already says of its own weights: of their bytes and number, or of the file that they lie in.

Sources: /v1/models and /props in tools/server/README.md of ggml-org/llama.cpp: `meta` of a model has `size`, the bytes
of its tensors, and `n_params`, how many weights these hold; `model_path` is the file that the server loaded.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from specq.core.errors import ConfigError, ModelError
from specq.engines.served import control, launch
from specq.engines.served.kinds.base import Values, first_of
from specq.engines.served.kinds.weights import GGUF

_LISTS, _PROPS = "/v1/models", "/props"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A server's weights as it tells them; `bits` of each, None where it does not say how many there are."""

    bytes: int
    bits: float | None


def ask(url: str, *, served_as: str | None = None, key_env: str | None = None) -> Told | None:
    """What the server at a URL says of its weights; None where it says nothing, or nobody answers.

    Raises:
        UserError: the environment has no variable of the name `key_env`.
    """
    answers, _ = control.ask(launch.Server(url).url, (_LISTS, _PROPS), key_env=key_env)
    return _listed(answers.get(_LISTS), served_as) or _in_file(url, first_of(answers.get(_PROPS), "model_path"))


def _listed(told: Any, served_as: str | None) -> Told | None:
    """From the list of models: the one that is asked for, or the only one."""
    data = first_of(told, "data")
    models = [one for one in data if isinstance(one, Mapping)] if isinstance(data, list) else []
    own = [one for one in models if one.get("id") == served_as] or models
    if len(own) != 1:
        return None
    values = Values(own[0].get("meta"))
    size, count = values.count("size"), values.count("n_params")
    return Told(bytes=size, bits=8 * size / count if count else None) if size else None


def _in_file(url: str, path: Any) -> Told | None:
    """From the header of the file, where the server runs on this machine and the file is one that it loads as it is."""
    if not isinstance(path, str) or not path.endswith(GGUF) or not _here(url) or not Path(path).is_file():
        return None
    from specq.lab.size import size_models

    try:
        (one,) = size_models(path).models
    except (ConfigError, ModelError):
        return None
    return Told(bytes=one.model.weights.bytes, bits=one.model.weights.bits)


def _here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
