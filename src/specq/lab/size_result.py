"""What sizing found, as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from specq.lab.machines import Machine
from specq.lab.size_memory import Card, Memory, Model
from specq.lab.size_speed import Ceiling, Ridge


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked: tokens of a sequence, sequences, cache type, the card's bytes, bandwidth, FLOP/s and margin."""

    context: int | None
    concurrency: int
    kv: str
    card: int | None
    bandwidth: float | None
    flops: float | None
    margin: tuple[float, int]
    machine: Machine | None

    @property
    def margin_words(self) -> str:
        """The margin as it was asked for: "10 %", or bytes."""
        share, fixed = self.margin
        return f"{100 * share:g} %" if not fixed else f"{fixed / 1e9:g} GB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Bytes of one sequence of so many tokens in each cache type, and in fp16 with one KV head a query head.

    The constant state counts, but not in the row of a single token.
    """

    tokens: int
    cache: dict[str, int]
    ungrouped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """One model. `beyond`: the context that was asked for is beyond its window."""

    model: Model
    draft: Model | None
    beyond: bool
    token: Row
    rows: tuple[Row, ...]
    memory: Memory | None
    card: Card | None
    ceilings: tuple[Ceiling, ...]
    ridge: Ridge | None
    notes: tuple[str, ...]

    @property
    def at_least(self) -> bool:
        """Whether sequences take more than is counted: the size of a constant state is not known."""
        return not all(one.shape.state_known for one in (self.model, self.draft) if one is not None)

    def times_weights(self, row: Row, kv: str) -> float:
        """How many times the weights a cache is."""
        return row.cache[kv] / self.model.weights.bytes

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        return {
            "model": self.model.name,
            **_model(self.model),
            "draft": None if self.draft is None else {"model": self.draft.name, **_model(self.draft)},
            "cache_bytes_per_token": self.token.cache,
            "ungrouped_bytes_per_token": self.token.ungrouped,
            "table": [
                {
                    "tokens": row.tokens,
                    "cache_bytes": row.cache,
                    "times_weights": {kv: self.times_weights(row, kv) for kv in row.cache},
                    "ungrouped_bytes": row.ungrouped,
                }
                for row in self.rows
            ],
            "beyond_window": self.beyond,
            "memory": None if self.memory is None else {**asdict(self.memory), "total": self.memory.total},
            "card": None if self.card is None else {**asdict(self.card), "displaced": self.card.displaced},
            "ceilings": [{**asdict(one), "together": one.together} for one in self.ceilings],
            "ridge": None if self.ridge is None else asdict(self.ridge),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """All models, ranked for the card where both a card and a context were given."""

    asked: Asked
    models: tuple[Sized, ...]

    @property
    def ranked(self) -> bool:
        """Whether the order means something."""
        return self.asked.card is not None and self.asked.context is not None and len(self.models) > 1

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        asked = self.asked
        return {
            "context": asked.context,
            "concurrency": asked.concurrency,
            "kv": asked.kv,
            "card_bytes": asked.card,
            "bandwidth_bytes_per_s": asked.bandwidth,
            "flops_per_s": asked.flops,
            "margin": {"share": asked.margin[0], "bytes": asked.margin[1]},
            "machine": None if asked.machine is None else asked.machine.to_json(),
            "ranked": self.ranked,
            "models": [one.to_json() for one in self.models],
        }


def _model(model: Model) -> dict[str, Any]:
    shape, weights = model.shape, model.weights
    return {
        "model_type": shape.model_type,
        "layers": shape.layers,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "window": shape.context,
        "cache_layers": len(shape.cache),
        "sliding_windows": {str(window): count for window, count in shape.windows.items()},
        "grouped": shape.grouped,
        "state_layers": shape.state_layers,
        "state_bytes": None if shape.state_elements is None else shape.state_bytes,
        "weights": {
            "bytes": weights.bytes,
            "precision": weights.precision,
            "origin": weights.origin,
            "parameters": weights.parameters,
            "bits": weights.bits,
            "read_bytes_per_token": round(weights.read()),
            "experts": weights.experts,
            "experts_per_token": weights.active,
        },
    }
