"""Whether a run may go on: its config, arms, prompts and models must be those it began with."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from specq.core.errors import RunFolderError
from specq.experiment.arms import arms
from specq.experiment.memory import gib
from specq.experiment.plan import Plan
from specq.experiment.schema import HASH_LEAVES_OUT, Experiment
from specq.run import folder
from specq.run.job import experiment_of
from specq.run.provenance import hide_home
from specq.run.store import Store

BACK = "put it back, or start a new run without --resume"


def check_config(store: Store, experiment: Experiment | None) -> None:
    """Do nothing when the stored config is the one that was recorded, and the experiment's where one is given.

    Raises:
        RunFolderError: it is not; the message names the keys that differ where that can be known.
    """
    info = store.info
    if experiment is None:
        if not folder.is_config_as_recorded(info):
            raise RunFolderError(folder.edited_config(store.run_dir, info))
    elif experiment.config_sha256 != info.get("config_sha256") or not folder.is_config_as_recorded(info):
        then, now = (_hashed(config) for config in (info["config"], hide_home(experiment.resolved())))
        differ = "; ".join(folder.differences(then, now)) or "config_sha256 alone"
        raise RunFolderError(
            f"{store.run_dir} was made from another config, or its run.json was edited "
            f"(run.json -> experiment: {differ}); {BACK}"
        )
    stored = _plain([asdict(arm) for arm in arms(experiment_of(info))])
    _same(store, "arms", info["arms"], stored)


def check_memory(store: Store, plan: Plan) -> None:
    """Do nothing when memory holds what the run holds at once: its order is that in which it began.

    Raises:
        RunFolderError: all its targets were in memory together, and do not fit now.
    """
    if plan.blocks and not store.info.get("blocks"):
        raise RunFolderError(
            f"{store.run_dir} began with all targets in memory together, which need {gib(plan.together_bytes)}, and "
            f"{gib(plan.available_bytes or 0)} are free now: free some memory, or start a new run without --resume, "
            "whose arms go in blocks"
        )


def check_inputs(store: Store, now: dict[str, Any]) -> None:
    """Do nothing when the run would see the same tokens and weights again; `now` is what run.json would be.

    Raises:
        RunFolderError: a prompt, a model or what a recipe would make of one is not the one of the run; the message
            names the first.
    """
    _same(store, "prompts", store.info["prompts"], _plain(now["prompts"]))
    _same(store, "models", _weights(store.info.get("models", {})), _weights(now["models"]))
    _same(store, "eval items", _items(store.info.get("evals") or {}), _items(now["evals"]))
    # Runs of older versions did not record it.
    then = store.info.get("quantized", now["quantized"])
    _same(store, "recipes, calibration texts or quantizers", _keys(then), _keys(now["quantized"]))


def _same(store: Store, what: str, then: list[dict[str, Any]], now: list[dict[str, Any]]) -> None:
    if then == now:
        return
    old, new = ({one["id"]: one for one in each} for each in (then, now))
    differ = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    told = f"first {differ[0]!r}, {len(differ)} in all" if differ else "their order"
    raise RunFolderError(f"{store.run_dir} was made from other {what} than are there now ({told}); {BACK}")


def _weights(models: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": role, "weights_sha256": model.get("weights_sha256") if isinstance(model, dict) else None}
        for role, model in models.items()
    ]


def _items(evals: dict[str, Any]) -> list[dict[str, Any]]:
    asked = ("metric", "metric_sha256", "batch_size", "twin_batch_size")
    return [
        {**_plain(item), **{key: one[key] for key in asked}, "id": f"{name}/{item['id']}"}
        for name, one in evals.items()
        for item in one["items"]
    ]


def _keys(quantized: dict[str, str]) -> list[dict[str, Any]]:
    return [{"id": label, "key": key} for label, key in quantized.items()]


def _hashed(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in HASH_LEAVES_OUT}


def _plain(value: Any) -> Any:
    """The value as it comes back from JSON, so that a tuple equals its list."""
    return json.loads(json.dumps(value))
