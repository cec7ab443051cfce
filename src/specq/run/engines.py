"""From an experiment to the engine that runs it, and to the targets that its arms decode with."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

from specq.core.types import TargetSpec
from specq.engines.base import Engine, LoadedTarget
from specq.experiment.schema import Experiment


def make_engine(experiment: Experiment) -> Engine:
    """The engine of [engine] with its settings; loads the model library, not the model."""
    settings = experiment.engine
    if settings.kind == "mlx":
        from specq.engines.mlx import MLXEngine

        return MLXEngine(device=settings.device, dtype=settings.dtype)
    from specq.engines.hf import HFEngine

    return HFEngine(
        device=settings.device,
        dtype=settings.dtype,
        attention=settings.attention,
        threads=settings.threads,
        device_map=settings.device_map,
        compile=settings.compile,
    )


class Targets:
    """The targets of a run's arms, each opened when it is first asked for and closed with this context."""

    def __init__(self, engine: Engine, experiment: Experiment) -> None:
        self.engine, self._experiment = engine, experiment
        self._stack = ExitStack()
        self._open: dict[TargetSpec, LoadedTarget] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.clear()
        self._stack.close()

    def of(self, spec: TargetSpec) -> LoadedTarget:
        """The target of an arm, its recipe already replaced by a folder; arms with equal weights share them."""
        if spec not in self._open:
            if spec == spec.weights:
                self._open[spec] = self._load(spec)
            else:
                # Kept too: a view of its own has checks to make, and keeps what was compiled for it.
                self._open[spec] = self.of(spec.weights).with_cache(spec.kv_cache)
        return self._open[spec]

    def _load(self, spec: TargetSpec) -> LoadedTarget:
        model: Any = spec.model or self._experiment.target.model
        if spec.model is None and self._experiment.target.revision is not None:
            from specq.models import refs

            model = refs.resolve(model, revision=self._experiment.target.revision)
        return self._stack.enter_context(self.engine.open(model, prefill=spec.prefill))
