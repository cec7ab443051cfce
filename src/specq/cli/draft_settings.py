"""The winner of `specq drafts` in each engine: what to paste, and what was forecast for the rule that runs there."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from specq.cli.views import table, text
from specq.core.types import Rule
from specq.forecast import settings
from specq.forecast.predict import Forecast
from specq.forecast.study import Study
from specq.report.words import NOTHING, ratio


def of_winner(found: Study, best: Forecast) -> list[tuple[settings.Way, Forecast | None]]:
    """The winner in each engine, by each rule with the k that is best for it, and what was forecast of that."""
    greedy = found.experiment.workload.temperature == 0
    own = [one for one in found.ranking.forecasts if one.cell.draft == best.cell.draft]
    ks: dict[Rule, int] = {}
    for one in own:
        ks.setdefault(one.cell.rule, one.cell.k)
    draft = found.drafts[best.cell.draft]
    ways = settings.ways(
        found.experiment.target.model,
        best.cell.draft,
        draft,
        best.cell.rule,
        ks | {best.cell.rule: best.cell.k},
        greedy=greedy,
    )
    known = {(one.cell.rule, one.cell.k): one for one in own}

    def forecast(way: settings.Way) -> Forecast | None:
        if way.rule is None or way.k is None or not way.foreseen:
            return None
        # Without chance all rules do the same, those too that this engine lacks.
        return known.get((best.cell.rule if greedy else way.rule, way.k))

    return [(way, forecast(way)) for way in ways]


def pasted(found: Study, best: Forecast) -> Iterator[RenderableType]:
    """The winner in each engine: its rule there, the best k under it, and the tokens per step forecast for both."""
    ways = of_winner(found, best)
    rows = [
        (
            way.engine,
            way.rule or NOTHING,
            NOTHING if way.k is None else str(way.k),
            NOTHING if one is None else ratio(one.tokens_per_step),
            way.why_not or way.note or NOTHING,
        )
        for way, one in ways
    ]
    yield text(
        f"{best.cell.draft} elsewhere: the rule decides the tokens of a step; k is the best by the seconds here."
    )
    yield from table(("engine", "rule", "k", "tokens/step", "remark"), rows, prose=("remark",))
    for way, _ in ways:
        if way.paste:
            yield text(f"{way.engine} ({way.rule}):")
            yield from (text(line) for line in way.paste.split("\n"))
            yield ""
