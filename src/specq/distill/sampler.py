"""The target's own texts, many at a time, with the hidden states that gave each token.

All rows of a batch hold equally many tokens at every step: a row whose prompt is longer than another's is fed the rest
of it while the others already write. So nothing is padded, no mask is needed, and any cache will do. Each sampled
token's hidden state is kept as it is computed; the target need not read its texts again.

Shapes: B rows, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicLayer

from specq.core import hashes
from specq.core.errors import NonFiniteLogits, Unsupported
from specq.decoding.session import CACHES, cache_name, new_cache, no_cache

_BLOCK = 256
_ROOM = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One text to be written: its number, which seeds it, and what stands before the target's first word.

    With `bridge` the target first writes a question, of at most `question_tokens`; then come the tokens of the
    bridge, and its answer.
    """

    number: int
    prompt: tuple[int, ...]
    bridge: tuple[int, ...] = ()
    question_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Token ids, of which those from `start` on are learned, and the target's state before each of these [n, H]."""

    ids: tuple[int, ...]
    start: int
    hidden: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How texts are written: temperature, seed and its part, the most tokens of an answer and of a whole row.

    A batch ends when at most `leave` rows are still being written; these are kept as far as they came.
    """

    temperature: float
    seed: int
    part: str
    answer_tokens: int
    most: int
    eos_ids: tuple[int, ...]
    leave: int = 0


@dataclass(slots=True)
class _Row:
    ask: Ask
    ids: list[int]
    stream: np.random.Generator
    start: int
    kept: list[Tensor] = field(default_factory=list)
    done: bool = False

    def take(self, token: int, hidden: Tensor, how: How) -> None:
        """One sampled token and the state that gave it."""
        ended = token in how.eos_ids
        if self.start == 0:
            self._question(token, ended)
            return
        self.ids.append(token)
        self.kept.append(hidden)
        self.done = ended or len(self.kept) >= how.answer_tokens or len(self.ids) >= how.most

    def _question(self, token: int, ended: bool) -> None:
        asked = len(self.ids) - len(self.ask.prompt)
        if ended and asked == 0:
            # Nothing was asked, so nothing is answered; the text is dropped.
            self.done = True
            return
        if not ended:
            self.ids.append(token)
        if ended or asked + 1 >= self.ask.question_tokens:
            # The bridge begins with what ends a turn, as the template has it.
            self.ids += self.ask.bridge
            self.start = len(self.ids)


@torch.inference_mode()
def write(
    model: PreTrainedModel, asks: Sequence[Ask], how: How, tell: Callable[[int], None] | None = None
) -> list[Text]:
    """The target's texts, in the order of `asks`; those without a single learned token are left out.

    Each has a seed of its own, so that a text depends on its batch by rounding alone. `tell` hears after every pass how
    many tokens are learned so far.

    Raises:
        Unsupported: the model keeps no key-value cache. NonFiniteLogits: its logits are not finite.
    """
    rows = [_row(ask, how) for ask in asks]
    width = min(len(row.ids) for row in rows)
    cache, live = _cache(model), list(rows)
    selects = all(hasattr(layer, "batch_select_indices") for layer in cache.layers)
    head, body = model.get_output_embeddings(), model.base_model
    columns = [row.ids[:width] for row in live]
    while live:
        batch = torch.tensor(columns, device=model.device)
        states = body(input_ids=batch, past_key_values=cache, use_cache=True).last_hidden_state[:, -1]
        writing = [len(row.ids) == width and not row.done for row in live]
        if any(writing):
            uniforms = [row.stream.random() if writes else 0.0 for row, writes in zip(live, writing, strict=True)]
            tokens = draw(head(states), how.temperature, uniforms)
            for i, row in enumerate(live):
                if writing[i]:
                    row.take(tokens[i], states[i], how)
        if tell is not None:
            tell(sum(len(row.kept) for row in rows))
        left = [i for i, row in enumerate(live) if not row.done]
        if len(left) <= how.leave:
            break
        width += 1
        # Rows that are done are fed on until a quarter is: taking them out copies the cache. Some caches cannot.
        if selects and len(left) <= 0.75 * len(live):
            cache.batch_select_indices(torch.tensor(left, device=model.device))
            live = [live[i] for i in left]
        columns = [[row.ids[min(width, len(row.ids)) - 1]] for row in live]
    return [Text(ids=tuple(row.ids), start=row.start, hidden=torch.stack(row.kept).cpu()) for row in rows if row.kept]


def _row(ask: Ask, how: How) -> _Row:
    stream = np.random.default_rng(hashes.seed_of(how.seed, "distill", how.part, ask.number))
    return _Row(ask=ask, ids=list(ask.prompt), stream=stream, start=0 if ask.bridge else len(ask.prompt))


def draw(logits: Tensor, temperature: float, uniforms: Sequence[float]) -> list[int]:
    """One token a row from logits [B, V] by inverse CDF, the argmax at temperature 0.

    The twin of `decoding.sampling.draw` in two stages: first the block of the vocabulary, then the token in it, so
    that only one block a row is summed in float64.

    Raises:
        NonFiniteLogits: a row has NaN, +inf, or nothing above -inf.
    """
    best = logits.amax(dim=-1)
    if not bool(torch.isfinite(best).all()):
        raise NonFiniteLogits("the target returned logits that are not finite: check its weights or its dtype")
    if temperature == 0.0:
        return [int(token) for token in logits.argmax(dim=-1)]
    scores = logits.float() if temperature == 1.0 else logits.float() / temperature
    p = scores.softmax(dim=-1)
    p = p.cpu() if p.device.type == "mps" else p
    size = p.shape[-1]
    p = torch.nn.functional.pad(p, (0, -size % _BLOCK)).view(p.shape[0], -1, _BLOCK)
    sums = p.sum(dim=-1).double()
    u = torch.tensor(uniforms, dtype=torch.float64, device=p.device)[:, None]
    edges = sums.cumsum(dim=-1)
    goal = u * edges[:, -1:]
    block = torch.searchsorted(edges, goal, right=True).clamp_(max=sums.shape[-1] - 1)
    inside = p[torch.arange(p.shape[0], device=p.device), block[:, 0]]
    within = inside.cumsum(dim=-1, dtype=torch.float64)
    # The block's sum is float32's, so the share of it that is left goes on in the sum of float64.
    share = (goal - edges.gather(1, block)) / sums.gather(1, block) + 1
    token = torch.searchsorted(within, share * within[:, -1:], right=True).clamp_(max=_BLOCK - 1)
    # Sums in another order may part by an ulp at an edge, where a token of no probability could stand.
    empty = inside.gather(1, token) <= 0
    token = torch.where(empty, inside.argmax(dim=-1, keepdim=True), token)
    return [int(t) for t in (block * _BLOCK + token)[:, 0]]


def _cache(model: PreTrainedModel) -> Any:
    """An empty cache whose plain layers grow without being copied at every token."""
    cache = new_cache(model, "nothing") if cache_name(model) == CACHES[0] else None
    if cache is None:
        raise Unsupported(no_cache(type(model).__name__))
    cache.layers = [_Growing() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


class _Growing(DynamicLayer):
    """A DynamicLayer with room to spare: keys and values are views of larger buffers, doubled when they are full."""

    _room: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append keys and values [B, heads, T, size]; returns all."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        old = self.get_seq_length()
        new = old + key_states.shape[-2]
        assert self.keys is not None
        assert self.values is not None
        if self._room is None or self._room[0].shape[-2] < new:
            self._room = _larger(self.keys, key_states, old, new), _larger(self.values, value_states, old, new)
        for room, states in zip(self._room, (key_states, value_states), strict=True):
            room[..., old:new, :] = states
        self.keys, self.values = self._room[0][..., :new, :], self._room[1][..., :new, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Only these rows; the buffers are made anew at the next token."""
        super().batch_select_indices(indices)
        self._room = None


def _larger(held: Tensor, states: Tensor, old: int, new: int) -> Tensor:
    *rows, _, size = states.shape
    room = states.new_empty(*rows, max(_ROOM, 2 * new), size)
    if old:
        room[..., :old, :] = held
    return room
