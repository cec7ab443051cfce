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
from specq.run import changed, folder
from specq.run.job import experiment_of
from specq.run.provenance import hide_home
from specq.run.store import Store

BACK = "put it back, or start a new run without --resume"
# Changed inputs that a message names.
_NAMED = 5


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
    _same_arms(store, json.loads(json.dumps([asdict(arm) for arm in arms(experiment_of(info))])))


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
        RunFolderError: a prompt, a model, an eval or what a recipe would make of a model is not that of the run; the
            message names each file.
    """
    if found := changed.inputs(store.info, now):
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise RunFolderError(
            f"{store.run_dir} cannot go on, for this changed since it began: {'; '.join(found[:_NAMED])}{more}; {BACK}"
        )


def _same_arms(store: Store, now: list[dict[str, Any]]) -> None:
    then = store.info["arms"]
    if then == now:
        return
    old, new = ({one["id"]: one for one in each} for each in (then, now))
    differ = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    told = f"first {differ[0]!r}, {len(differ)} in all" if differ else "their order"
    raise RunFolderError(
        f"{store.run_dir} was made from other arms than this version of specq makes of its config ({told}): run.json "
        f"was edited, or another version wrote it; {BACK}"
    )


def _hashed(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in HASH_LEAVES_OUT}
