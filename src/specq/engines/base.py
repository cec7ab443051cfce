"""The engine contracts. Importing this file loads no model library.

What crosses a contract is plain Python or numpy; tensors stay inside their engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from specq.core.records import Audited, FirstTokens, GapNoise, Sampled
from specq.core.types import DraftSpec, Generation, Method, OnStep, Prompt, Rule, Sampling


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
    """Owns the weights, so that arms that share a target share them; a context manager.

    It decodes, says what it is, and scores an arm's own text for the audit.
    """

    eos_ids: tuple[int, ...]

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...

    def decoder(self, draft: DraftSpec | None) -> Decoder:
        """A decoder that shares the target's weights."""
        ...

    def describe(self) -> dict[str, Any]:
        """The fields of records.LoadedModel less `process` and `role`."""
        ...

    def gap_noise(self, prompt: Prompt, ids: Sequence[int], rows: int) -> GapNoise:
        """How argmax gaps move between one-row and block passes over `ids`."""
        ...

    def audit_greedy(self, arm: str, prompt: Prompt, ids: Sequence[int], baseline_ids: Sequence[int]) -> Audited:
        """The arm's text on the baseline's path at temperature 0."""
        ...

    def audit_sampled(
        self,
        arm: str,
        prompt: Prompt,
        repeat: int,
        generation: Generation,
        draft: DraftSpec | None,
        sampling: Sampling,
    ) -> Sampled:
        """Surprise and step count of the arm's text above temperature 0."""
        ...

    def first_tokens(
        self, arm: str, prompt: Prompt, draft: DraftSpec | None, sampling: Sampling, draws: int
    ) -> FirstTokens:
        """One early token over repeated seeds against its exact law."""
        ...


class Engine(Protocol):
    """Opens targets; `device` is where their weights go."""

    device: str

    def open(self, model: Any) -> LoadedTarget:
        """Load the weights of a model name or a resolved reference."""
        ...
