"""The joint grid: every target with every draft, forecast on one scale.

A study is made of each target with its drafts, one target after the other: its own cost curves, its own texts, its own
replay. What each makes of its own plain decoding is put on the scale of the plain target by their plain steps, measured
in turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from specq.core.clock import now
from specq.experiment.schema import Experiment
from specq.forecast import drift, joint_plan, making, of_file, scale
from specq.forecast import study as studies
from specq.forecast.cost import Curve
from specq.forecast.joint_plan import Laid
from specq.forecast.predict import Forecast, one_a_draft
from specq.forecast.scale import Plain
from specq.forecast.study import On, Say, Study
from specq.report import forecast_grid
from specq.report.forecast_grid import BASELINE, GridCell
from specq.report.interplay import ONE, Interplay, Rate, times
from specq.run import engines
from specq.run.runner import OnProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All cells as forecast, those that can run first and the fastest first.

    `studies` holds the study of each target that has drafts, `plain` the plain decoding of each target. `pairs` says
    how each changed target and each draft go together by the forecast. `seconds` is what each part took.
    """

    laid: Laid
    studies: Mapping[str, Study]
    plain: Mapping[str, Plain]
    cells: tuple[GridCell, ...]
    pairs: Mapping[tuple[str, str], Interplay]
    seconds: Mapping[str, float]

    @property
    def experiment(self) -> Experiment:
        """What was asked, each lever an arm."""
        return self.laid.asked.experiment

    def cell(self, target: str, draft: str | None) -> GridCell:
        """The cell of a target and a draft.

        Raises:
            KeyError: there is none.
        """
        for one in self.cells:
            if (one.target, one.draft) == (target, draft):
                return one
        raise KeyError(f"{target}, {draft}")

    def drift(self) -> dict[str, str]:
        """What is to say of targets whose plain steps lie far apart between their measurements."""
        said = {name: drift.told(one.curves, [self.plain[name].step_s]) for name, one in self.studies.items()}
        return {name: words for name, words in said.items() if words}

    def rows(self, arms: Mapping[joint_plan.Key, str]) -> list[dict[str, Any]]:
        """The cells as a run's forecast.json has them, with the arms that measure some of them."""
        return [asdict(replace(one, arm=arms.get((one.target, one.draft)))) for one in self.cells]


def study(
    experiment: Experiment,
    *,
    ks: Sequence[int],
    say: Say,
    ceilings: Callable[[str, dict[str, Curve]], None],
    contexts: Sequence[int] = (),
    on_progress: OnProgress | None = None,
) -> Grid:
    """Forecast every target with every draft.

    Args:
        experiment: its quantize and model levers are the targets beside its own, its draft levers the drafts.
        ks: how many tokens a step may propose.
        say: told what is being done.
        ceilings: gets each target's name and its curves, before the target generates anything.
        contexts: after how many tokens the seconds of a step are measured; none: where the prompts are.
        on_progress: told of models that are quantized first.

    Raises:
        UserError: what can be refused before weights are loaded; memory holds not even the plain target.
        RunFailed, DiskFull: a model could not be quantized.
    """
    asked = of_file.ask(experiment, targets=True)
    for note in asked.notes:
        say(note)
    laid = joint_plan.lay(asked, free=joint_plan.free_bytes(asked.experiment))
    for (target, draft), why in laid.why_not.items():
        say(f"{target} with {draft or 'no draft'} is left out: {why}")
    begun, spent = now(), dict[str, float]()

    def took(what: str) -> None:
        nonlocal begun
        spent[what], begun = spent.get(what, 0.0) + now() - begun, now()

    made = making.folders(laid.plan.experiment, say, on_progress)
    took("quantizing")
    specs = {
        name: making.of_folder(joint_plan.target_spec(asked, name), made, asked.experiment) for name in laid.targets
    }
    # Another model reads the same messages through its own template.
    prompts = {name: laid.plan.prompts_of(spec.source) for name, spec in specs.items()}
    say(f"measuring plain decoding of {', '.join(specs)} in turns")
    plain = scale.measure(
        engines.make_engine(asked.experiment), asked.experiment, specs, prompts, together=laid.together
    )
    took("scale")
    found: dict[str, Study] = {}
    for name, spec in specs.items():
        drafts = {
            own: making.of_folder(joint_plan.draft_spec(asked, name, own), made, asked.experiment)
            for own in laid.drafts(name)
        }
        if drafts:
            found[name] = studies.study(
                asked.experiment,
                ks=ks,
                say=partial(_say_of, say, name),
                ceilings=partial(ceilings, name),
                on=On(plan=replace(laid.plan, prompts=prompts[name]), target=spec, drafts=drafts),
                contexts=contexts,
            )
            took(name)
    cells = forecast_cells(laid, found, plain)
    return Grid(
        laid=laid,
        studies=found,
        plain=plain,
        cells=cells,
        pairs=forecast_grid.of_cells(cells),
        seconds=spent,
    )


def forecast_cells(laid: Laid, found: Mapping[str, Study], plain: Mapping[str, Plain]) -> tuple[GridCell, ...]:
    """Every cell on the scale of the plain target, the fastest first, then those that cannot be run.

    The best k and rule of each draft on each target; its interval joins, in quadrature of logarithms, the draft's over
    its target and the target's over the plain one.
    """
    second = plain[BASELINE].step_s
    cells = []
    for target in laid.targets:
        whole = plain[target].speedup
        cells.append(_made(GridCell(target=target, draft=None), whole, ONE, second, laid))
        if target not in found:
            continue
        for one in one_a_draft(found[target].ranking.forecasts):
            cells.append(_of_draft(target, one, whole, second, laid))
    pairs = forecast_grid.of_cells(cells)
    named = [
        replace(
            one,
            interplay=None if one.draft is None or (two := pairs.get((one.target, one.draft))) is None else two.kind,
        )
        for one in cells
    ]
    named.sort(key=lambda one: -(one.speedup or math.nan))
    return (*named, *(GridCell(target=t, draft=d, why_not=why) for (t, d), why in laid.why_not.items()))


def _of_draft(target: str, one: Forecast, whole: Rate, second: float, laid: Laid) -> GridCell:
    own = Rate.of(one.speedup, one.low, one.high)
    cell = GridCell(
        target=target, draft=one.cell.draft, k=one.cell.k, rule=one.cell.rule, tokens_per_step=one.tokens_per_step
    )
    return _made(cell, times(whole, own), own, second, laid)


def _made(cell: GridCell, rate: Rate, own: Rate, second: float, laid: Laid) -> GridCell:
    return replace(
        cell,
        speedup=rate.value,
        low=rate.low,
        high=rate.high,
        over_target=own.value,
        over_low=own.low,
        over_high=own.high,
        tokens_per_step=cell.tokens_per_step or 1.0,
        tpot_s=second / rate.value,
        bytes=laid.bytes[cell.target, cell.draft],
    )


def _say_of(say: Say, target: str, line: str) -> None:
    say(f"{target}: {line}")
