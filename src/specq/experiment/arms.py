"""Levers to arms. An arm's id is its levers and its replica number, whatever the order they are written in."""

from __future__ import annotations

from dataclasses import dataclass

from specq.core.types import DraftSpec
from specq.experiment.schema import Experiment

BASELINE = "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The baseline plus a set of levers; the baseline has none."""

    id: str
    levers: tuple[str, ...]
    replica: int
    draft: DraftSpec | None


def arms(experiment: Experiment) -> tuple[Arm, ...]:
    """The arms of an experiment: "baseline#1", its A/A twin "baseline#2", then one for each set of levers."""
    twins = [Arm(id=f"{BASELINE}#{n}", levers=(), replica=n, draft=None) for n in (1, 2)]
    return (*twins, *(_arm(experiment, levers) for levers in experiment.lever_sets()))


def _arm(experiment: Experiment, levers: tuple[str, ...]) -> Arm:
    # The schema allows one draft an arm, and a draft is the only kind of lever that it allows.
    (lever,) = (experiment.levers[name] for name in levers)
    return Arm(id=f"{'+'.join(levers)}#1", levers=levers, replica=1, draft=lever.draft())
