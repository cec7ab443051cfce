"""What the weights and one request's cache take, and whose weights these are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Bytes of the weights and their bits, and of the cache at the user's own length; by sizing, no weights loaded.

    `origin` says whose weights these are: of what is `loaded` here or by a server that is started; as a server that
    runs already has `told` of its own; or of the model that was `named` for it, while what it holds is not known.
    Where no model is known, nor is a cache; nor where a model keeps a constant state of unknown size.
    """

    weight_bytes: int
    bits: float | None
    cache_bytes: int | None
    tokens: int | None
    cache_type: str
    origin: Literal["loaded", "told", "named"] = "loaded"

    @property
    def held(self) -> bool:
        """Whether these are the weights that answer."""
        return self.origin != "named"

    @property
    def cache_read(self) -> float | None:
        """The share of keys and values in what a decode step reads; None where one of the two is not known."""
        if self.cache_bytes is None or not self.held:
            return None
        return self.cache_bytes / (self.cache_bytes + self.weight_bytes)


def as_written(info: Mapping[str, Any]) -> Size | None:
    """As run.json has it; runs of servers that were attached to, where it does not say, took the model named."""
    given = info.get("size")
    usual = "named" if str(info["target"]).startswith(("http://", "https://")) else "loaded"
    return None if given is None else Size(**{"origin": usual, **given})
