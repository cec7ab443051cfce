"""One scale for several targets: the seconds of a plain step of each, measured in turns with the plain target's.

A study knows its drafts against its own target's plain step. What parts the targets themselves is measured here: they
decode short texts one after the other, forwards and then backwards, so that both sides of each ratio come from the same
minutes. Where memory holds one at a time each is loaded twice, forwards and backwards too, and only a steady drift of
the machine cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specq.core.types import Prompt, Sampling, TargetSpec
from specq.engines.base import Engine, LoadedTarget
from specq.experiment.schema import Experiment
from specq.report.interplay import Rate
from specq.run.engines import Targets
from specq.stats.intervals import t_interval

TURNS = 8
"""Even, for turns go forwards and backwards."""
_TOKENS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """Plain decoding of a target: the median seconds of a step, and its speed-up over the first target.

    The interval of the speed-up goes over turns; the first target's is 1.
    """

    step_s: float
    speedup: Rate
    turns: int


def measure(
    engine: Engine,
    experiment: Experiment,
    targets: Mapping[str, TargetSpec],
    prompts: Mapping[str, Sequence[Prompt]],
    *,
    together: bool,
) -> dict[str, Plain]:
    """The plain steps of all targets, the first of which the others are held against.

    Args:
        engine: opens them.
        experiment: whose sampling is used, stops ignored.
        targets: by name, recipes already made folders.
        prompts: as each target reads them; turns take them one after the other.
        together: whether memory holds all targets at once.
    """
    sampling = experiment.sampling()
    seconds: dict[str, list[float]] = {name: [] for name in targets}
    if together:
        with Targets(engine, experiment) as opened:
            found = {name: opened.of(spec) for name, spec in targets.items()}
            for name, target in found.items():
                _step_s(target, prompts[name][0], sampling)
            for turn in range(TURNS):
                for name in list(found) if turn % 2 == 0 else list(found)[::-1]:
                    seconds[name].append(_step_s(found[name], _of_turn(prompts[name], turn), sampling))
    else:
        for names, turns in ((list(targets), range(TURNS // 2)), (list(targets)[::-1], range(TURNS // 2, TURNS))):
            for name in names:
                with Targets(engine, experiment) as opened:
                    target = opened.of(targets[name])
                    _step_s(target, prompts[name][0], sampling)
                    seconds[name] += [_step_s(target, _of_turn(prompts[name], turn), sampling) for turn in turns]
    return scaled(seconds)


def scaled(seconds: Mapping[str, Sequence[float]]) -> dict[str, Plain]:
    """The plain steps of targets from their seconds turn by turn, [turns] each, the first target first."""
    first = np.array(next(iter(seconds.values())))
    found = {}
    for place, (name, own) in enumerate(seconds.items()):
        logs = t_interval(np.log(first / np.array(own)))
        low, high = (None if end is None else math.exp(end) for end in (logs.low, logs.high))
        rate = Rate.of(1.0, 1.0, 1.0) if place == 0 else Rate.of(math.exp(logs.value), low, high)
        found[name] = Plain(step_s=float(np.median(own)), speedup=rate, turns=len(own))
    return found


def _of_turn(prompts: Sequence[Prompt], turn: int) -> Prompt:
    return prompts[turn % len(prompts)]


def _step_s(target: LoadedTarget, prompt: Prompt, sampling: Sampling) -> float:
    """The median seconds of the plain steps of a short text, but its first, which warms up."""
    most = min(_TOKENS, sampling.max_new_tokens)
    short = replace(sampling, max_new_tokens=most, ignore_eos=True, stop=(), min_new_tokens=0)
    (one,) = target.decoder(None).generate([prompt], short)
    steps = [step.draft_s + step.verify_s + step.sample_s + step.rest_s for step in one.steps]
    return float(np.median(steps[1:] or steps))
