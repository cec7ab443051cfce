"""The engine contracts. Importing this file loads no model library.

What crosses a contract is plain Python or numpy; tensors stay inside their engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from specq.core.records import Audited, Divergence, FirstTokens, GapNoise, Sampled
from specq.core.types import CacheType, DraftSpec, Generation, Method, OnStep, Prefill, Prompt, Rule, Sampling
from specq.decoding.law import Law


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can do; `plan` refuses an arm that asks for more."""

    rules: tuple[Rule, ...]
    methods: tuple[Method, ...]
    devices: tuple[str, ...]
    step_traces: bool
    logprobs: bool
    batches: bool
    lookup_first: bool = False
    prefix_cache: bool = False
    stop_below: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Given tokens under a model: log-probabilities [T] float64 before any warping, and argmax ids [T] int64.

    Position t looks at the prompt and the tokens before t.
    """

    logprobs: np.ndarray
    argmax: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """What a lookup draft would propose before each token of a text, [T] int: how many tokens, and how many right.

    `elsewhere` is the law of the draft that the lookup goes before, which proposes where the lookup has nothing; None:
    nothing is proposed there.
    """

    proposed: np.ndarray
    matched: np.ndarray
    elsewhere: Law | None = None


def one_each(sampling: Sampling | Sequence[Sampling], prompts: Sequence[Prompt]) -> list[Sampling]:
    """The sampling of each prompt.

    Raises:
        ValueError: there are not as many as prompts.
    """
    each = [sampling] * len(prompts) if isinstance(sampling, Sampling) else list(sampling)
    if len(each) != len(prompts):
        raise ValueError(f"{len(each)} samplings for {len(prompts)} prompts: give one for all, or one a prompt")
    return each


class Decoder(Protocol):
    """Generates; owns a draft when it has one."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the weights of a draft model of its own."""
        ...

    def warm_up(self, tokens: int) -> float:
        """Compile what is to be compiled for texts of up to `tokens` tokens; returns the seconds that it took."""
        ...

    def generate(
        self,
        prompts: Sequence[Prompt],
        sampling: Sampling | Sequence[Sampling],
        *,
        on_step: OnStep | None = None,
        batch_size: int = 1,
    ) -> list[Generation]:
        """Decode prompts `batch_size` at a time; more than 1 where the engine's capabilities say batches.

        `sampling` is one for all, or one a prompt, so that each may have a seed of its own.
        """
        ...


class LoadedTarget(Protocol):
    """Owns the weights, so that arms that share a target share them; a context manager.

    It decodes, says what it is, and scores an arm's own text for the audit.
    """

    eos_ids: tuple[int, ...]

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...

    def decoder(self, draft: DraftSpec | None, *, prefix_cache: bool = False, slots: int = 1) -> Decoder:
        """A decoder that shares the target's weights.

        With `prefix_cache` what a prompt begins with like an earlier one is not read again. `slots` is how many
        prompts are to be decoded at a time.
        """
        ...

    def with_cache(self, kind: CacheType | None) -> LoadedTarget:
        """The same weights with keys and values kept in 8 or 4 bits; None: as computed."""
        ...

    def describe(self) -> dict[str, Any]:
        """The fields of records.LoadedModel less `process` and `role`."""
        ...

    def describe_draft(self, draft: DraftSpec) -> dict[str, Any] | None:
        """As `describe`, of a draft's second model, with the bytes that it holds beside the target's weights.

        None where the draft has no model of its own.
        """
        ...

    def score(self, prompt_ids: Sequence[int], several: Sequence[Sequence[int]]) -> list[Scores]:
        """Teacher-forced, continuation by continuation: each token after the prompt and the tokens before it."""
        ...

    def law(self, prompt: Prompt, ids: Sequence[int], sampling: Sampling) -> Law:
        """The target's law, after warping, of each token of a text that follows the prompt."""
        ...

    def draft_law(
        self, draft: DraftSpec, prompt: Prompt, ids: Sequence[int], sampling: Sampling, k: int
    ) -> Law | Copies:
        """A draft's law, after warping, of each token of a text; of a lookup, what it would copy, up to k tokens.

        Of a draft with a lookup before it, both.
        """
        ...

    def gap_noise(self, prompt: Prompt, ids: Sequence[int], rows: int) -> GapNoise:
        """How argmax gaps move between one-row and block passes over `ids`."""
        ...

    def audit_greedy(self, arm: str, prompt: Prompt, ids: Sequence[int], baseline_ids: Sequence[int] | None) -> Audited:
        """The arm's text on the baseline's path at temperature 0; None: there is no other text to compare with."""
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

    def logits(self, prompt: Prompt, ids: Sequence[int]) -> Iterator[np.ndarray]:
        """Logits [V] float32 before each token of `ids` after the prompt, unwarped."""
        ...

    def divergence(self, arm: str, prompt: Prompt, ids: Sequence[int], baseline: Any) -> Divergence:
        """This target against the baseline's, both read along `ids` after the prompt.

        `baseline` is a target of the same engine, or what its `logits` gave, [T, V].
        """
        ...


class Engine(Protocol):
    """Opens targets; `device` is where their weights go."""

    device: str
    capabilities: Capabilities

    def open(self, model: Any, *, prefill: Prefill = "dense", noise: float = 0.0) -> LoadedTarget:
        """Load the weights of a model name or a resolved reference; `prefill` as in TargetSpec.

        `noise` perturbs the linear layers by that share of each row's spread.
        """
        ...
