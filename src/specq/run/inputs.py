"""From an experiment to its plan on this machine, and what a run is made from: models and prompts by hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specq.core import hashes
from specq.core.types import TargetSpec
from specq.experiment import plan as planning
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.overlap import Overlap, overlaps
from specq.experiment.plan import Plan
from specq.experiment.schema import Experiment
from specq.experiment.sizes import PlannedModel
from specq.experiment.transformed import Transformed, log_of, steps_of
from specq.models import refs, tokenizers
from specq.run import bandwidth, provenance
from specq.run.artifacts import source_of
from specq.run.job import Asked, prompt_to_json
from specq.run.provenance import hide_home, tidy


def make_plan(experiment: Experiment, *, measure_bandwidth: bool = False) -> Plan:
    """The plan for the experiment's device; loads the model library and tokenizers, no weights.

    `measure_bandwidth` reads a gigabyte a few times with the run's threads, so that the plan can name ceilings.

    Raises:
        UserError: the prompts file or the target is broken, or the device is not there.
    """
    measured = None
    if measure_bandwidth and not experiment.engine.attaches:
        from specq.engines.devices import pick_device

        measured = bandwidth.measure(pick_device(experiment.engine.device), threads=experiment.engine.threads).median
    return planning.make(experiment, bandwidth_bytes_per_s=measured)


def device_name(experiment: Experiment) -> str:
    """The name of the device that the experiment's weights go to; unknown of a server that runs already."""
    if experiment.engine.attaches:
        return "unknown: the server runs already"
    if experiment.engine.is_server:
        return f"the server's own choice beside {provenance.device_name('cpu')}"
    from specq.engines.devices import pick_device

    return provenance.device_name(pick_device(experiment.engine.device))


def origin(experiment: Experiment) -> dict[str, Any] | None:
    """The file, the overrides and the cut that the experiment was made from; None where it was made in Python."""
    if experiment.origin is None:
        return None
    file, overrides, smoke = experiment.origin
    return {"file": tidy(Path(file)), "set": hide_home(list(overrides)), "smoke": smoke}


def models(plan: Plan) -> dict[str, dict[str, Any]]:
    """The target, what stands in its place and every draft model, by role and name, with the hash of the weights."""
    return {f"{model.role} {hide_home(model.name)}": _model(model) for model in plan.models}


def _model(model: PlannedModel) -> dict[str, Any]:
    return {
        **hide_home(model.to_json()),
        "folder": tidy(model.resolved.folder),
        "weights_sha256": model.facts.weights_sha256,
        "template_sha256": model.facts.template_sha256,
    }


def evals(plan: Plan) -> dict[str, Any]:
    """Every eval by its name, with its items whole, so that a worker, a resume and a report see the same ones.

    `batch_size` prompts are decoded at a time; the twin of the baseline takes `twin_batch_size`, another one, None
    where prompts go one by one whatever is asked.
    """
    shared = overlaps(plan.experiment, plan.evals)
    return {
        one.asked.name: {**_eval(one, plan.experiment.engine.is_server), **_shared(shared.get(one.asked.name, {}))}
        for one in plan.evals
    }


def readings(plan: Plan) -> dict[str, Any]:
    """How models in the target's place read prompts and items, by their names; of those that read as it does nothing.

    `other_tokens` says where their tokens are not the target's, "" where only the prompts are. Beside them stand the
    readings of transformed prompts, as TargetSpec.reading names them.
    """
    found = _stand_ins(plan)
    found.update((one.target.reading, _transformed(one)) for one in plan.transformed)
    return found


def _transformed(one: Transformed) -> dict[str, Any]:
    """Prompts and items as they are after the transform, with the log of what was done to each."""
    return {
        "other_tokens": hide_home(one.other_tokens),
        "steps": steps_of(one.target).words,
        "prompts": [
            {
                **prompt_to_json(prompt, hashes.of_ids(prompt.ids)),
                "tokens_before": tokens,
                "before_sha256": one.before_sha256[prompt.id],
                "transform": log_of(one.results[prompt.id]),
            }
            for prompt, tokens in zip(one.prompts, one.tokens_before, strict=True)
        ],
        "evals": {
            own.asked.name: {
                item.id: {
                    "tokens": tokens,
                    "prompt_sha256": sha256,
                    "asked": item.prompt or [dict(message) for message in item.messages],
                    "transform": log_of(one.of_items[own.asked.name][item.id]),
                }
                for item, tokens, sha256 in zip(own.items, own.tokens, own.prompts, strict=True)
            }
            for own in one.evals
        },
    }


def _stand_ins(plan: Plan) -> dict[str, Any]:
    return {
        one.source: {
            "other_tokens": hide_home(one.other_tokens),
            "prompts": [
                prompt_to_json(prompt, hashes.of_prompt(prompt.ids, prompt.text, prompt.messages))
                for prompt in one.prompts
            ],
            "evals": {
                own.asked.name: {
                    item.id: {"tokens": tokens, "prompt_sha256": sha256}
                    for item, tokens, sha256 in zip(own.items, own.tokens, own.prompts, strict=True)
                }
                for own in one.evals
            },
        }
        for one in plan.stand_ins
        if not one.reads_alike
    }


def _shared(found: dict[str, Overlap]) -> dict[str, Any]:
    """What an eval shares with each recipe's calibration text, and how much was left out that most items share."""
    return {
        "overlap": hide_home({recipe: list(one.items) for recipe, one in found.items() if one.items}),
        "overlap_left_out": hide_home({recipe: one.left_out for recipe, one in found.items() if one.left_out}),
    }


def _eval(one: PlannedEval, served: bool) -> dict[str, Any]:
    size = one.batch_size
    several = not one.one_by_one and one.metric.output == "text"
    twin = None if not several else 2 if size == 1 else size // 2
    if served and one.metric.output == "text":
        # The twin's server was started anew, and so may answer otherwise.
        twin = size
    return {
        "output": one.metric.output,
        "binary": one.metric.binary,
        "metric": hide_home(one.metric.name),
        "metric_sha256": one.metric.sha256,
        "sha256": one.sha256,
        "batch_size": size,
        "twin_batch_size": twin,
        "one_by_one": one.one_by_one,
        "probe": one.probe,
        "unprobed": one.unprobed,
        "items": [
            {
                "id": item.id,
                "tags": list(item.tags),
                "cluster": item.cluster,
                "critical": item.critical,
                "tokens": tokens,
                "prompt_sha256": sha256,
                "given": item.given,
            }
            for item, tokens, sha256 in zip(one.items, one.tokens, one.prompts, strict=True)
        ],
    }


def data(experiment: Experiment) -> dict[str, Any]:
    """The prompts file and its hash."""
    path = Path(experiment.workload.prompts).expanduser()
    return {"prompts": tidy(path), "sha256": hashes.of_file(path)}


def tokenizer_of(job: Asked, spec: TargetSpec) -> Any:
    """The tokenizer of a target: the experiment's, whatever quantized it, or that of the model in its place."""
    revision = job.experiment.target.revision if spec.source is None else None
    return tokenizers.load(refs.resolve(source_of(job.experiment, spec), revision=revision))
