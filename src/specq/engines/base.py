"""The engine contracts. Importing this file loads no model library.

What crosses a contract is plain Python or numpy; tensors stay inside their engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from specq.core.types import DraftSpec, Generation, Method, Prompt, Rule, Sampling, Step

OnStep = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can do; `plan` refuses an arm that asks for more."""

    rules: tuple[Rule, ...]
    methods: tuple[Method, ...]
    devices: tuple[str, ...]
    step_traces: bool
    logprobs: bool
    batches: bool


class Decoder(Protocol):
    """Generates; owns a draft when it has one."""

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, *, on_step: OnStep | None = None
    ) -> list[Generation]:
        """Decode prompts one after another, one row at a time."""
        ...


class LoadedTarget(Protocol):
    """Owns the weights, so that arms that share a target share them. A context manager."""

    def decoder(self, draft: DraftSpec | None) -> Decoder:
        """A decoder for this target; None decodes plainly."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
