"""Decoding through compiled graphs: one graph a row count, over a cache of fixed length.

The prefill runs uncompiled, as Session does it, and its keys and values are copied into the fixed cache. A pass
over few tokens then runs the smallest graph that holds them; rows too many repeat the last token, write behind the
live tokens and are dropped. Rolling back moves a number: where the next token goes is an input of the graph.

Shapes: R rows, C cache slots, H query heads, h key-value heads, D values a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from specq.core.clock import now
from specq.core.errors import Unsupported
from specq.decoding.fixed import FixedCache, twin
from specq.decoding.session import Session, takes

BUCKET = 256
"""The cache length is rounded up to a multiple of this, so that prompts of many lengths share graphs."""


class CompiledSession(Session):
    """A Session whose passes over few tokens are compiled for each of `rows` row counts.

    A pass of more tokens than the largest graph has runs in pieces. The cache grows by itself when a text needs
    it, which compiles anew; `reserve` before measuring avoids that. Nothing is compiled before `warm_up` or the
    first pass of a row count; `compile_s` sums the seconds that compiling took.

    Args:
        model: all its layers attend to the whole text.
        rows: row counts of the graphs, say 1 and k + 1.
        backend: what torch.compile is given; "eager" traces and compiles nothing.

    Raises:
        Unsupported: as check_compilable, or the model's forward takes no position_ids.
    """

    def __init__(self, model: PreTrainedModel, rows: Sequence[int], *, backend: str = "inductor") -> None:
        check_compilable(model.config)
        if not takes(model, "position_ids"):
            raise Unsupported(_line(type(model).__name__, "takes no position_ids"))
        self.rows = tuple(sorted(set(rows)))
        self.compile_s = 0.0
        self.capacity = 0
        self._backend = backend
        self._context = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        self._twin: PreTrainedModel | None = None
        self._fixed: FixedCache | None = None
        self._graphs: dict[int, _Graph] = {}
        super().__init__(model, keep="everything")

    def reserve(self, tokens: int) -> None:
        """Make room for texts of `tokens` tokens (prompt and new ones) and for the rows that a pass may add."""
        need = tokens + self.rows[-1]
        if need <= self.capacity:
            return
        self.capacity = -(-need // BUCKET) * BUCKET
        grown = FixedCache(self.capacity)
        if self._fixed is not None and self._fixed.keys:
            grown.take(zip(self._fixed.keys, self._fixed.values, strict=True), self.length)
        self._fixed = grown
        self._graphs.clear()

    def warm_up(self, tokens: int) -> None:
        """Compile all graphs for texts of up to `tokens` tokens, and run each twice; forgets the text."""
        self.restart()
        self.reserve(tokens)
        for rows in self.rows:
            self.forward([0])
            for _ in range(2):
                self.forward([0] * rows)
            self.restart()

    def forward(self, ids: Sequence[int], *, last_only: bool = False) -> Tensor:
        """As Session.forward.

        Raises:
            Unsupported: torch.compile cannot trace the model.
        """
        if self.length == 0:
            logits = super().forward(ids, last_only=last_only)
            self.reserve(self.length)
            assert self._fixed is not None
            self._fixed.take(((layer.keys, layer.values) for layer in self.cache.layers), self.length)
            return logits
        self.reserve(self.length + len(ids))
        parts = [self._pass(ids[i : i + self.rows[-1]]) for i in range(0, len(ids), self.rows[-1])]
        return parts[-1][-1:] if last_only else torch.cat(parts)

    def rollback(self, tokens: int) -> None:
        """Forget the last `tokens` tokens; what they wrote lies behind the text and is never read."""
        self.length -= tokens

    def _pass(self, ids: Sequence[int]) -> Tensor:
        rows = next(r for r in self.rows if r >= len(ids))
        if rows not in self._graphs:
            self._compile(rows)
        logits = self._graphs[rows].run(ids, self.length)[: len(ids)]
        self.length += len(ids)
        return logits

    def _compile(self, rows: int) -> None:
        start = now()
        with torch.inference_mode(False), torch.no_grad():
            if self._twin is None:
                self._twin = twin(self.model)
            assert self._fixed is not None
            self._graphs[rows] = _Graph(
                self._twin,
                self._fixed,
                rows,
                self.length,
                backend=self._backend,
                context=self._context,
                last=self._rows - 1,
            )
        self.compile_s += now() - start


class _Graph:
    """One compiled pass of R rows. All its inputs stay at their addresses and are written in place.

    So the guards that torch.compile checks at every call can say nothing new: after the first call the
    compiled function is called directly on the inputs that it was given then.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        cache: FixedCache,
        rows: int,
        length: int,
        *,
        backend: str,
        context: int | None,
        last: int,
    ) -> None:
        device = cache.keys[0].device
        self._last, self._context = last, context
        self._ids = torch.zeros(1, rows, dtype=torch.long, device=device)
        self._slots = torch.zeros(rows, dtype=torch.long, device=device)
        self._positions = self._slots[None].clone()
        self._mask = torch.zeros(1, 1, rows, cache.capacity, device=device)
        self._rows = torch.arange(rows, device=device)
        self._all = torch.arange(cache.capacity, device=device)
        # The call that traces writes too: behind the text, where nothing is read.
        self._fill([0], length)
        cache.slots = self._slots

        def step() -> Tensor:
            logits: Tensor = model(
                input_ids=self._ids,
                position_ids=self._positions,
                attention_mask=self._mask,
                past_key_values=cache,
                use_cache=True,
            ).logits
            return logits

        # Uncompiled first: what `attend` refuses would else drown in the tracer's own errors.
        step()
        try:
            self._call, self._inputs = _trace(step, backend)
        except torch._dynamo.exc.TorchDynamoException as error:
            first = str(error).strip().splitlines()[0]
            raise Unsupported(
                f"compile = true: {type(model).__name__} cannot be traced ({first}): leave it out"
            ) from error

    def run(self, ids: Sequence[int], length: int) -> Tensor:
        """Logits [R, V] of ids (filled up with the last of them) after `length` tokens."""
        self._fill(ids, length)
        logits: Tensor = self._call(*self._inputs)[0]
        return logits[0]

    def _fill(self, ids: Sequence[int], length: int) -> None:
        rows = self._ids.shape[1]
        self._ids.copy_(torch.tensor([[*ids, *[ids[-1]] * (rows - len(ids))]])).clamp_(max=self._last)
        torch.add(self._rows, length, out=self._slots)
        self._positions.copy_(self._slots)
        if self._context is not None:
            # Rows too many may lie beyond the context; where they think they are does not matter.
            self._positions.clamp_(max=self._context - 1)
        self._mask.fill_(-torch.inf).masked_fill_(self._all <= self._slots[:, None], 0.0)


def _trace(step: Callable[[], Tensor], backend: str) -> tuple[Callable[..., tuple[Tensor, ...]], tuple[Any, ...]]:
    """Compile and call `step` once; return the compiled function and the inputs it was called with."""
    compiler = torch._dynamo.lookup_backend(backend)
    seen: list[tuple[Callable[..., tuple[Tensor, ...]], tuple[Any, ...]]] = []

    def catching(graph: Any, examples: Any) -> Callable[..., tuple[Tensor, ...]]:
        compiled = compiler(graph, examples)

        def first(*inputs: Any) -> tuple[Tensor, ...]:
            seen.append((compiled, inputs))
            return compiled(*inputs)

        return first

    # torch.compile counts recompilations by code object and soon refuses more: each graph gets its own.
    own = FunctionType(step.__code__.replace(), step.__globals__, closure=step.__closure__)
    torch.compile(own, backend=catching, fullgraph=True, dynamic=False)()
    return seen[0]


def check_compilable(config: PreTrainedConfig) -> None:
    """Refuse a model with layers that do not attend to the whole text.

    Raises:
        Unsupported: names the model and the layers.
    """
    kinds = {type(layer) for layer in DynamicCache(config=config).layers}
    if other := sorted(kind.__name__ for kind in kinds - {DynamicLayer}):
        name = (config.architectures or [type(config).__name__])[0]
        raise Unsupported(_line(name, f"has layers with windows or states of their own ({', '.join(other)})"))


def _line(name: str, why: str) -> str:
    return f"compile = true: {name} {why}; compiled are models whose layers all attend to the whole text: leave it out"
