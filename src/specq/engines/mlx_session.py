"""A text in the cache of an mlx-lm model: fed, scored and rolled back outside mlx-lm's own loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import mlx.core as mx
import numpy as np
import torch
from mlx_lm.generate import maybe_quantize_kv_cache
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache
from torch import Tensor

from specq.core.errors import Unsupported
from specq.decoding import finite
from specq.decoding.session import Session
from specq.quantize import mlx_methods

PREFILL = 2048
"""Tokens of a prompt in one pass, as in mlx_lm.generate.generate_step."""
KV_BITS = (2, 4, 8)
_KV_GROUPS = (64, 32, 128)


class KVCache:
    """How a model keeps keys and values: as computed (`bits` None), or in 2, 4 or 8 bits from the first token on.

    mlx-lm quantizes nothing below 5000 tokens unless it is told to start at 0. Groups are of the size that
    divides a head: 64 where it does, else 32 or 128.
    """

    def __init__(self, model: Any, bits: int | None, head_dim: int, name: str) -> None:
        self.model, self.bits = model, bits
        self.group_size = next((size for size in _KV_GROUPS if head_dim % size == 0), 0)
        empty = make_prompt_cache(model)
        self.trims = can_trim_prompt_cache(empty)
        self.windows = tuple(_windows(empty))
        if bits is None:
            return
        if bits not in KV_BITS:
            raise Unsupported(f"kv_bits = {bits}: allowed is {', '.join(map(str, KV_BITS))}")
        if not self.group_size:
            raise Unsupported(
                f"kv_bits = {bits}: the heads of {name} have {head_dim} columns, which no group of 32, 64 or 128 "
                "divides; leave the cache unquantized"
            )
        if self.windows or any(not hasattr(part, "to_quantized") for part in empty):
            raise Unsupported(
                f"kv_bits = {bits}: mlx-lm cannot quantize the windowed or recurrent cache of {name}; "
                "leave the cache unquantized"
            )

    def settings(self) -> dict[str, Any]:
        """The arguments of mlx-lm's loops."""
        return {"kv_bits": self.bits, "kv_group_size": self.group_size or 64, "quantized_kv_start": 0}

    def new(self) -> list[Any]:
        """An empty cache."""
        return list(make_prompt_cache(self.model))

    def feed(self, cache: list[Any], ids: Sequence[int]) -> Any:
        """Feed tokens after those that a cache holds; logits [1, T, V], not computed yet."""
        logits = self.model(mx.array([list(ids)]), cache=cache)
        maybe_quantize_kv_cache(cache, 0, self.group_size, self.bits)
        return logits

    def prefill(self, cache: list[Any], ids: Sequence[int]) -> Any:
        """Feed a prompt as mlx-lm does, its last token by itself; the logits after it, [1, V]."""
        for start in range(0, len(ids) - 1, PREFILL):
            self.feed(cache, ids[start : min(start + PREFILL, len(ids) - 1)])
            mx.eval([part.state for part in cache])
        return self.feed(cache, ids[-1:])[:, -1]

    def share(self, prompt_tokens: int, passes: Sequence[int]) -> float | None:
        """Of all keys and values that attention read, the share that was quantized; None without such a cache.

        `passes` are the tokens that each pass after the prompt's read. mlx-lm quantizes a cache once it holds
        something, so that the first pass alone reads what it just computed.
        """
        if self.bits is None:
            return None
        chunks = [min(start + PREFILL, prompt_tokens - 1) for start in range(0, prompt_tokens - 1, PREFILL)]
        read = [*chunks, prompt_tokens, *passes]
        return 1 - read[0] / sum(read)

    def bytes_per_token(self, elements: int, itemsize: int) -> int:
        """Bytes that one more token adds to a cache of so many elements a token."""
        if self.bits is None:
            return elements * itemsize
        # A scale and a bias a group.
        return round(elements * (self.bits / 8 + 2 * itemsize / self.group_size))


def _windows(cache: Sequence[Any]) -> list[int]:
    found = []
    for part in cache:
        found += _windows(getattr(part, "caches", ()))
        size = getattr(part, "max_size", None)
        found += [size] if isinstance(size, int) else []
    return found


class MLXSession:
    """One text in a model's cache; logits leave as float32 torch tensors on the CPU.

    It has what the audit asks of the reference engine's Session: restart, forward, rollback, length, model.dtype.
    """

    def __init__(self, kv: KVCache, dtype: str) -> None:
        self.kv = kv
        self.model = SimpleNamespace(dtype=getattr(torch, dtype))
        self.restart()

    def restart(self) -> None:
        """Forget all tokens."""
        self.cache, self.length = self.kv.new(), 0

    def forward(self, ids: Sequence[int], *, last_only: bool = False) -> Tensor:
        """Feed tokens after those that the cache holds; logits [R, V], R is 1 with last_only."""
        logits = self.kv.prefill(self.cache, ids) if last_only else self.kv.feed(self.cache, ids)[0]
        self.length += len(ids)
        return torch.from_numpy(np.array(logits.astype(mx.float32)))

    def rollback(self, tokens: int) -> None:
        """Remove the last `tokens` tokens (0 included) from the cache."""
        if tokens:
            trim_prompt_cache(self.cache, tokens)
        self.length -= tokens


def broken(models: Mapping[str, Any]) -> str:
    """Which weights of these models are not finite, as `decoding.finite` says it of torch's; "" where all are."""
    for who, model in models.items():
        for name, array in mlx_methods.parameters(model):
            if mlx_methods.is_float(array) and not bool(mx.isfinite(array).all()):
                return f"{name} of the {who} {finite.WEIGHTS}"
    return ""


def as_session(kv: KVCache, dtype: str) -> Session:
    """A fresh session for the audit, which calls nothing that MLXSession lacks."""
    return cast(Session, MLXSession(kv, dtype))
