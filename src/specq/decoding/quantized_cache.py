"""A key-value cache that is held in 8 or 4 bits, laid out as llama.cpp's q8_0 and q4_0, and that can be rolled back.

Blocks of 32 values along the head dimension share one float16 scale. What a pass adds is quantized first; attention
then reads the dequantized values of all tokens, those of the pass itself too. So a text gives the same cache
whether it came in one prefill or token by token, and no token is ever read unquantized.

Shapes: B rows, H key-value heads, T tokens, D values a head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedConfig
from transformers.cache_utils import CacheLayerMixin, DynamicLayer, DynamicSlidingWindowLayer

from specq.core.errors import RunFailed, Unsupported, nearest
from specq.core.types import CACHE_BLOCK as BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Quantized values [..., T, D].

    codes are int8 [..., T, D] or uint8 [..., T, D / 2]; scales are float16 [..., T, D / 32].
    """

    codes: Tensor
    scales: Tensor

    @property
    def tokens(self) -> int:
        """T."""
        return self.codes.shape[-2]

    @property
    def bytes_held(self) -> int:
        """Bytes of codes and scales."""
        return self.codes.numel() * self.codes.element_size() + self.scales.numel() * self.scales.element_size()

    def then(self, more: Packed) -> Packed:
        """These tokens, then more."""
        return Packed(
            codes=torch.cat([self.codes, more.codes], dim=-2), scales=torch.cat([self.scales, more.scales], dim=-2)
        )

    def between(self, start: int, end: int) -> Packed:
        """Tokens start to end; a copy, so that what is left out is freed."""
        return Packed(codes=self.codes[..., start:end, :].clone(), scales=self.scales[..., start:end, :].clone())

    def rows(self, index: Tensor) -> Packed:
        """Only these rows of the batch."""
        return Packed(codes=self.codes[index], scales=self.scales[index])


def _inverse(scale: Tensor) -> Tensor:
    return torch.where(scale == 0, 0.0, 1.0 / scale)


def to_q8(x: Tensor) -> Packed:
    """q8_0 of x [..., D]: d = amax / 127, q = round(x / d); 34 bytes a block. Halves round to even.

    ggml-quants.c, whose plain C path rounds halves away from zero and whose vector paths round them to even.
    """
    blocks = x.float().unflatten(-1, (-1, BLOCK))
    scale = blocks.abs().amax(dim=-1, keepdim=True) / 127.0
    codes = (blocks * _inverse(scale)).round_().to(torch.int8)
    return Packed(codes=codes.flatten(-2), scales=scale.squeeze(-1).half())


def to_q4(x: Tensor) -> Packed:
    """q4_0 of x [..., D]: d = the value of largest magnitude / -8, q = min(trunc(x / d + 8.5), 15); 18 bytes a block.

    Byte j of a block holds value j in its low and value j + 16 in its high four bits (ggml-quants.c).
    """
    blocks = x.float().unflatten(-1, (-1, BLOCK))
    scale = blocks.gather(-1, blocks.abs().argmax(dim=-1, keepdim=True)) / -8.0
    codes = (blocks * _inverse(scale)).add_(8.5).clamp_(0, 15).to(torch.uint8)
    low, high = codes.chunk(2, dim=-1)
    return Packed(codes=(low | (high << 4)).flatten(-2), scales=scale.squeeze(-1).half())


def from_q8(packed: Packed, dtype: torch.dtype) -> Tensor:
    """Codes times scale, computed in float32: [..., D] in dtype."""
    return (packed.codes.unflatten(-1, (-1, BLOCK)) * packed.scales.float().unsqueeze(-1)).flatten(-2).to(dtype)


def from_q4(packed: Packed, dtype: torch.dtype) -> Tensor:
    """Codes less 8 times scale, computed in float32: [..., D] in dtype."""
    halves = packed.codes.unflatten(-1, (-1, BLOCK // 2))
    codes = torch.cat([halves & 15, halves >> 4], dim=-1).to(torch.int8) - 8
    return (codes * packed.scales.float().unsqueeze(-1)).flatten(-2).to(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How values are packed and unpacked."""

    pack: Callable[[Tensor], Packed]
    unpack: Callable[[Packed, torch.dtype], Tensor]


FORMATS: dict[str, Format] = {
    "q8": Format(pack=to_q8, unpack=from_q8),
    "q4": Format(pack=to_q4, unpack=from_q4),
}


class QuantizedLayer(CacheLayerMixin):
    """One layer's keys and values [B, H, T, D], packed. With a window, what no later token sees is dropped.

    As in transformers' own: that happens in each pass, or, once `activate_past_recording` was called, in the `crop`
    (0 included) that must then follow each pass.
    """

    is_croppable = True

    def __init__(self, format_: Format, window: int | None = None) -> None:
        super().__init__()
        self.format, self.window = format_, window
        self.is_sliding = window is not None
        self.record_past = False
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.packed: tuple[Packed, Packed] | None = None
        self.is_initialized = False
        self.seen = self.tokens_read = self.tokens_read_quantized = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Pack nothing yet: sets the shapes. Raises Unsupported where a head is no whole number of blocks."""
        for states in (key_states, value_states):
            if states.shape[-1] % BLOCK:
                raise Unsupported(_sizes_line("this model", (states.shape[-1],)))
        self.packed = (self.format.pack(key_states[..., :0, :]), self.format.pack(value_states[..., :0, :]))
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Pack new tokens; return keys and values of all that are held, unpacked, in the states' dtype."""
        if self.packed is None:
            self.lazy_initialization(key_states, value_states)
        assert self.packed is not None
        keys, values = self.packed
        self.packed = (keys.then(self.format.pack(key_states)), values.then(self.format.pack(value_states)))
        self.seen += key_states.shape[-2]
        read = self._unpacked(key_states.dtype, value_states.dtype)
        for got, states in zip(read, (key_states, value_states), strict=True):
            self._count(got, states)
        if self.window is not None and not self.record_past:
            self.crop(0)
        return read

    def _unpacked(self, key_dtype: torch.dtype, value_dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        assert self.packed is not None
        return self.format.unpack(self.packed[0], key_dtype), self.format.unpack(self.packed[1], value_dtype)

    def _count(self, got: Tensor, states: Tensor) -> None:
        """Count what attention gets, and of it what is not this pass's own states as they were computed.

        The tokens before are held packed and nowhere else, so that they cannot be anything but quantized.
        """
        new = states.shape[-2]
        as_computed = new if torch.equal(got[..., got.shape[-2] - new :, :], states) else 0
        self.tokens_read += got.shape[-2]
        self.tokens_read_quantized += got.shape[-2] - as_computed

    def activate_past_recording(self) -> None:
        """Keep what a rollback needs until the next `crop`."""
        self.record_past = True

    @property
    def held(self) -> int:
        """Tokens that are held."""
        return 0 if self.packed is None else self.packed[0].tokens

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last tokens, given as a negative count; then drop what lies before the window.

        Raises:
            RunFailed: more tokens were removed than the window has kept.
        """
        if self.packed is None:
            return
        end, seen = self.held + tokens_to_remove, self.seen + tokens_to_remove
        kept = seen if self.window is None else min(seen, self.window - 1)
        if tokens_to_remove > 0 or seen < 0 or end < kept:
            raise RunFailed(
                f"a cache of {self.held} tokens (window {self.window}) cannot be cropped by {tokens_to_remove}: "
                "give a negative count, after each pass"
            )
        start = end - kept
        if (start, end) != (0, self.held):
            keys, values = self.packed
            self.packed = (keys.between(start, end), values.between(start, end))
        self.seen = seen

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only these rows of the batch."""
        if self.packed is not None:
            self.packed = (self.packed[0].rows(indices), self.packed[1].rows(indices))

    def get_seq_length(self) -> int:
        """Tokens that were fed and not taken back."""
        return self.seen

    def get_max_length(self) -> int:
        """The window, or -1 for no limit."""
        return -1 if self.window is None else self.window

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many keys the next pass reads, and the position of the first."""
        return self.held + query_length, self.seen - self.held


class QuantizedCache(Cache):
    """A quantized cache for a model's config.

    windowed: sliding-window layers hold their window only; else all layers hold all tokens.

    Raises:
        Unsupported: as check_config.
    """

    def __init__(self, config: PreTrainedConfig, kind: str, *, windowed: bool) -> None:
        check_config(config, kind)
        windows = [getattr(layer, "sliding_window", None) for layer in DynamicCache(config=config).layers]
        self._quantized = [QuantizedLayer(FORMATS[kind], window if windowed else None) for window in windows]
        super().__init__(layers=list(self._quantized))

    @property
    def bytes_held(self) -> int:
        """Bytes of all packed keys and values."""
        return sum(part.bytes_held for layer in self._quantized if layer.packed for part in layer.packed)

    @property
    def quantized_share(self) -> float | None:
        """Of all keys and values that attention read, the share that came out of packed blocks; None before any."""
        total = sum(layer.tokens_read for layer in self._quantized)
        return sum(layer.tokens_read_quantized for layer in self._quantized) / total if total else None


def check_folder(folder: Path, kind: str) -> None:
    """Refuse a model whose cache cannot be quantized; reads its config, loads no weights.

    Raises:
        Unsupported: as check_config. ModelError: transformers does not accept its config.
    """
    from specq.decoding.runnable import load_config

    check_config(load_config(folder), kind)


def check_config(config: PreTrainedConfig, kind: str) -> None:
    """Refuse an unknown kind, heads that blocks of 32 do not divide, and layers that keep more than keys and values.

    Raises:
        Unsupported: names the model and the sizes or the layers.
    """
    if kind not in FORMATS:
        raise Unsupported(f'kv_cache = "{kind}"{nearest(kind, FORMATS) or ":"} allowed is {", ".join(FORMATS)}')
    text = config.get_text_config(decoder=True)
    name = (config.architectures or [type(config).__name__])[0]
    if not getattr(text, "num_attention_heads", None):
        raise Unsupported(
            f"kv_cache: {name} has no attention heads, so it keeps no keys and values: leave kv_cache out"
        )
    if any(size % BLOCK for size in _head_sizes(text)):
        raise Unsupported(_sizes_line(name, _head_sizes(text)))
    kinds = {type(layer) for layer in DynamicCache(config=config).layers}
    if other := sorted(k.__name__ for k in kinds - {DynamicLayer, DynamicSlidingWindowLayer}):
        raise Unsupported(
            f"kv_cache: {name} has layers that keep more than keys and values ({', '.join(other)}): leave kv_cache out"
        )


def _head_sizes(text: PreTrainedConfig) -> tuple[int, ...]:
    """Values of a key head and of a value head, which differ under latent attention."""
    if getattr(text, "kv_lora_rank", None):
        return int(text.qk_nope_head_dim) + int(text.qk_rope_head_dim), int(text.v_head_dim)
    return (int(getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads),)


def _sizes_line(name: str, sizes: tuple[int, ...]) -> str:
    given = " and ".join(map(str, sizes))
    return (
        f"kv_cache: {name} has heads of {given} values, which its blocks of {BLOCK} do not divide: leave kv_cache out"
    )
