"""From an experiment to the engine that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

from specq.core.records import Audited, FirstTokens, GapNoise, Sampled
from specq.core.types import DraftSpec, Generation, Prompt, Sampling
from specq.engines.base import Decoder
from specq.experiment.schema import Experiment


class Target(Protocol):
    """What a worker asks of a loaded target: decoding, what it is, and the audits of its own text."""

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

    def open(self, model: Any) -> Target:
        """Load the weights of a model name or a resolved reference."""
        ...


def make_engine(experiment: Experiment) -> Engine:
    """The engine of [engine] with its settings; loads the model library, not the model."""
    from specq.engines.hf import HFEngine

    settings = experiment.engine
    return HFEngine(
        device=settings.device,
        dtype=settings.dtype,
        attention=settings.attention,
        threads=settings.threads,
        device_map=settings.device_map,
    )


def open_target(engine: Engine, experiment: Experiment) -> Target:
    """Load the experiment's target, at its pinned revision where it has one."""
    target = experiment.target
    if target.revision is None:
        return engine.open(target.model)
    from specq.models import refs

    return engine.open(refs.resolve(target.model, revision=target.revision))
