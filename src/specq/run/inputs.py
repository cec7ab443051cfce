"""From an experiment to its plan on this machine, and what a run is made from: models and prompts by hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.experiment import plan as planning
from specq.experiment.plan import Plan
from specq.experiment.schema import Experiment
from specq.experiment.sizes import PlannedModel
from specq.run import bandwidth, provenance
from specq.run.provenance import hide_home, tidy


def make_plan(experiment: Experiment, *, measure_bandwidth: bool = False) -> Plan:
    """The plan for the experiment's device; loads the model library and tokenizers, no weights.

    `measure_bandwidth` reads a gigabyte a few times with the run's threads, so that the plan can name ceilings.

    Raises:
        UserError: the prompts file or the target is broken, or the device is not there.
    """
    measured = None
    if measure_bandwidth:
        from specq.engines.hf import pick_device

        measured = bandwidth.measure(pick_device(experiment.engine.device), threads=experiment.engine.threads).median
    return planning.make(experiment, bandwidth_bytes_per_s=measured)


def device_name(experiment: Experiment) -> str:
    """The name of the device that the experiment's weights go to."""
    from specq.engines.hf import pick_device

    return provenance.device_name(pick_device(experiment.engine.device))


def models(plan: Plan) -> dict[str, dict[str, Any]]:
    """The target and every draft model, by role and name, with the hash of the weights."""
    return {f"{model.role} {hide_home(model.name)}": _model(model) for model in plan.models}


def _model(model: PlannedModel) -> dict[str, Any]:
    return {
        **hide_home(model.to_json()),
        "folder": tidy(model.resolved.folder),
        "weights_sha256": model.facts.weights_sha256,
        "template_sha256": model.facts.template_sha256,
    }


def data(experiment: Experiment) -> dict[str, Any]:
    """The prompts file and its hash."""
    path = Path(experiment.workload.prompts).expanduser()
    return {"prompts": tidy(path), "sha256": hashes.of_file(path)}
