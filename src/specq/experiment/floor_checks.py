"""Floors that a run could never be held against, whatever comes out: told before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from specq.core.errors import ConfigError
from specq.core.nouns import counted
from specq.evals import describe, margins
from specq.experiment.checks import Refusal
from specq.experiment.quality import split
from specq.experiment.schema import Experiment
from specq.stats.intervals import TAIL_FROM

if TYPE_CHECKING:
    from specq.experiment.eval_plan import PlannedEval

_LATENCIES = ("ttft_s", "tpot_s", "e2e_s")
_TAKE_OUT = "or take the floor out"


def refusals(experiment: Experiment, prompts: int, evals: Sequence[PlannedEval]) -> list[Refusal]:
    """Why ceilings and the least speed-up of [floor] could be told of no arm, one refusal each; `prompts` will run.

    A smoke run judges nothing, and is refused nothing.
    """
    if experiment.smoke:
        return []
    found = [*_of_memory(experiment), *_of_latencies(experiment, prompts), *_of_gains(experiment, prompts, evals)]
    return [Refusal(arm=None, reason=reason, error=ConfigError) for reason in found]


def notes(experiment: Experiment) -> list[str]:
    """What is to be said of a floor that is held against nothing."""
    floor = experiment.floor.model_dump(exclude_defaults=True)
    if not floor or experiment.lever_sets() or experiment.smoke:
        return []
    return [f"[floor] {', '.join(floor)}: no arm stands beside the baseline to be held against it; add a lever"]


def _of_memory(experiment: Experiment) -> Iterator[str]:
    if experiment.floor.peak_bytes is not None and not experiment.workload.memory:
        yield f"floor.peak_bytes: workload.memory = false measures no peak; set workload.memory = true, {_TAKE_OUT}"


def _of_latencies(experiment: Experiment, prompts: int) -> Iterator[str]:
    load = experiment.workload
    answers = prompts * load.repeats * load.processes
    for key in (f"{name}_{tail}" for name in _LATENCIES for tail in TAIL_FROM):
        if getattr(experiment.floor, key, None) is None:
            continue
        name, tail = key.rsplit("_", 1)
        if name == "tpot_s" and load.max_new_tokens == 1:
            yield f"floor.{key}: {_no_decoding(experiment)}"
        elif answers < TAIL_FROM[tail]:
            yield (
                f"floor.{key}: {counted(answers, 'answer')} an arm ({counted(prompts, 'prompt')} x "
                f"{counted(load.repeats, 'repeat')} x {counted(load.processes, 'process', 'processes')}), and {tail} "
                f"needs {TAIL_FROM[tail]}; give more prompts, repeats or processes, {_TAKE_OUT}"
            )


def _of_gains(experiment: Experiment, prompts: int, evals: Sequence[PlannedEval]) -> Iterator[str]:
    """Of the least speed-up and the price of a correct answer, which are judged by their intervals."""
    floor, load = experiment.floor, experiment.workload
    by_interval = {"speedup": floor.speedup, "price_per_correct_answer": floor.price_per_correct_answer}
    for key, asked in by_interval.items():
        if asked is not None and prompts == 1:
            yield f"floor.{key}: one prompt has no spread, so it has no interval; give at least two, {_TAKE_OUT}"
    if floor.speedup is not None and experiment.objective.minimise == "tpot_s" and load.max_new_tokens == 1:
        yield f"floor.speedup on tpot_s: {_no_decoding(experiment)}"
    if floor.price_per_correct_answer is not None:
        for one in evals:
            if one.clusters == 1:
                yield (
                    f'floor.price_per_correct_answer: all items of eval "{one.asked.name}" are one cluster, which '
                    f"shows no spread; give items of other clusters, {_TAKE_OUT}"
                )


def _no_decoding(experiment: Experiment) -> str:
    new = experiment.workload.max_new_tokens
    return f"workload.max_new_tokens = {new}, and an answer of one token has no time of a token; raise it, {_TAKE_OUT}"


def check_quality(experiment: Experiment, one: PlannedEval) -> None:
    """Do nothing where an eval can decide every margin that is on it, and a price that is of it.

    Raises:
        ConfigError: a margin that no outcome could meet or that no arm has a score for, one on a tag that no item has,
            or the price of what is half right.
    """
    priced = experiment.objective.minimise == "price_per_correct_answer" or experiment.floor.price_per_correct_answer
    if priced and not one.metric.binary:
        raise ConfigError(f'price_per_correct_answer: metric "{one.metric.name}" scores more than 0 or 1')
    for key, margin in experiment.floor.quality.items():
        name, tag = split(key)
        if name != one.asked.name:
            continue
        # A smoke run judges nothing, and of a tag's items its few may hold none.
        if experiment.smoke:
            continue
        items = [item for item in one.items if tag is None or tag in item.tags]
        if not items:
            tags = ", ".join(sorted({tag for item in one.items for tag in item.tags})) or "none"
            cut = f" (limit = {one.asked.limit} takes the first items alone)" if one.asked.limit is not None else ""
            raise ConfigError(f'floor.quality "{key}": no item has the tag "{tag}"{cut}; the tags are {tags}')
        if why := _undecided(key, margin, len(items), len({item.cluster for item in items}), one.metric.binary):
            raise ConfigError(f'floor.quality "{key}": {why}')
        if one.metric.output != "text" and (lossy := _only_lossy(experiment)):
            raise ConfigError(
                f'floor.quality "{key}": it scores texts and generates none, so it does not see the lossy rule of '
                f"{', '.join(lossy)}, and there is no other arm; take an eval that generates answers, {_TAKE_OUT}"
            )


def _undecided(key: str, margin: float, items: int, clusters: int, binary: bool) -> str:
    """Why so many items, in so many clusters, could never keep a lever under a margin, and what to give; "" if some."""
    whose = f"{items} items in {counted(clusters, 'cluster')}, which count once each: " if clusters < items else ""
    if not binary:
        # How far scores differ is not known before a run, but one of them has no spread.
        return f"{whose}one alone shows no spread; give more items, or no floor" if clusters == 1 else ""
    if not (why := describe.undecidable(clusters, margin)):
        return ""
    wider = margins.deciding(clusters)
    give = f"a margin of {wider:g}, " if wider < describe.LARGE_MARGIN else ""
    return f"{whose}{why}; give {give}more items, or no floor"


def _only_lossy(experiment: Experiment) -> list[str]:
    """The levers of the run where each arm beside the baseline is a draft under a lossy rule; else nothing."""
    sets = experiment.lever_sets()
    lossy = [name for name, lever in experiment.levers.items() if (draft := lever.draft()) is not None and draft.lossy]
    return [only for (only, *_) in sets] if sets and all(len(s) == 1 and s[0] in lossy for s in sets) else []


def example(one: PlannedEval) -> str:
    """The margin to propose for an eval that has none, as a line to write, or why its items allow none."""
    return margins.proposed(one.asked.name, one.clusters, binary=one.metric.binary, items=len(one.items)).words


def large(experiment: Experiment, one: PlannedEval) -> Iterator[str]:
    """A word on each margin that lets half of all answers go wrong."""
    for key, margin in experiment.floor.quality.items():
        if split(key)[0] == one.asked.name and margin >= describe.LARGE_MARGIN and one.metric.binary:
            lost = describe.points(margin)
            yield f'floor.quality "{key}" = {margin}: a lever may lose {lost} of 100; 0.02 is 2 points'
