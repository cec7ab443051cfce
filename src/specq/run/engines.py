"""From an experiment to the engine that runs it, and to the targets that its arms decode with."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from specq.core.records import Crossover
from specq.core.types import DraftSpec, TargetSpec
from specq.engines.base import Decoder, Engine, LoadedTarget
from specq.experiment.schema import Experiment
from specq.run import provenance
from specq.run.job import Job

if TYPE_CHECKING:
    from specq.quantize.crossovers import Crossovers


def of_job(job: Job) -> Engine:
    """The engine of a worker: its packed layers hand over at the row counts that the run measured first.

    Row counts that the run has no record of are measured, and recorded for the workers that follow.
    """
    if job.experiment.engine.is_server:
        from specq.engines.served.target import ServedEngine
        from specq.experiment.served_settings import settings_of
        from specq.run import serving

        return ServedEngine(
            settings_of(
                job.experiment,
                logs=serving.logs(job),
                told=lambda text: serving.note(job, text),
                waited=lambda passed_s: serving.stop_if_asked(job),
            )
        )
    if job.experiment.engine.kind != "hf":
        return make_engine(job.experiment)
    from specq.engines.devices import pick_device
    from specq.quantize.crossovers import Crossovers

    known = [record for record in job.store.contents().records if isinstance(record, Crossover)]
    device = provenance.device_name(pick_device(job.experiment.engine.device))
    crossovers = Crossovers(known, process=job.process, device=device, told=job.store.append)
    return make_engine(job.experiment, crossovers)


def in_float32(experiment: Experiment) -> Engine:
    """The experiment's engine in float32 and uncompiled, where rounding decides nothing."""
    settings = experiment.engine.model_copy(update={"dtype": "float32", "compile": False})
    return make_engine(experiment.model_copy(update={"engine": settings}))


def make_engine(experiment: Experiment, crossovers: Crossovers | None = None) -> Engine:
    """The engine of [engine] with its settings; loads the model library, not the model.

    `crossovers` as in HFEngine; other engines have none.
    """
    settings = experiment.engine
    if settings.is_server:
        from specq.engines.served.target import ServedEngine
        from specq.experiment.served_settings import settings_of

        return ServedEngine(settings_of(experiment))
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
        crossovers=crossovers,
    )


def decoder(target: LoadedTarget, spec: TargetSpec, draft: DraftSpec | None) -> Decoder:
    """The decoder of an arm: with its draft, and with how it is asked."""
    return target.decoder(draft, prefix_cache=spec.prefix_cache, slots=spec.batch)


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
        spec = spec.loaded
        if spec not in self._open:
            if spec == spec.weights:
                self._open[spec] = self._load(spec)
            else:
                # Kept too: a view of its own has checks to make, and keeps what was compiled for it.
                self._open[spec] = self.of(spec.weights).with_cache(spec.kv_cache)
        return self._open[spec]

    def _load(self, spec: TargetSpec) -> LoadedTarget:
        model: Any = spec.model or spec.source or self._experiment.target.model
        if spec.model is None and spec.source is None and self._experiment.target.revision is not None:
            from specq.models import refs

            model = refs.resolve(model, revision=self._experiment.target.revision)
        return self._stack.enter_context(self.engine.open(model, prefill=spec.prefill))
