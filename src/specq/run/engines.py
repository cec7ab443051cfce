"""From an experiment to the engine that runs it."""

from __future__ import annotations

from specq.engines.base import Engine, LoadedTarget
from specq.experiment.schema import Experiment


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


def open_target(engine: Engine, experiment: Experiment) -> LoadedTarget:
    """Load the experiment's target, at its pinned revision where it has one."""
    target = experiment.target
    if target.revision is None:
        return engine.open(target.model)
    from specq.models import refs

    return engine.open(refs.resolve(target.model, revision=target.revision))
