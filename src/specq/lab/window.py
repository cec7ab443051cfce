"""How many tokens a server that is started here must hold for one request, within what its model can."""

from __future__ import annotations

from contextlib import suppress

from specq.core.errors import ConfigError, ModelError
from specq.lab.size import size_models

ROOM = 64
"""Tokens that a stamp, a template or a further question may add to a prompt."""
_BLOCK = 256
"""Some servers want blocks."""


def of_model(model: str | None) -> int | None:
    """The window of a model in tokens; None where none is named, it is not here, or it states none."""
    if model is None:
        return None
    with suppress(ConfigError, ModelError):
        return size_models(model).models[0].model.shape.context
    return None


def started(tokens: int, limit: int | None) -> int:
    """Room for a request of so many tokens with its answer, and some more, in whole blocks.

    What is added stops at the model's window: a server that is told more refuses to start.
    """
    rounded = -(-(tokens + ROOM) // _BLOCK) * _BLOCK
    return rounded if limit is None else max(tokens, min(rounded, limit))
