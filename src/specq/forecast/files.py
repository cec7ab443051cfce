"""Drafts ranked from files of log-probabilities alone: tokens per step, and speed-ups where seconds are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specq.core.errors import ConfigError, PromptError
from specq.core.types import EXACT_RULES
from specq.forecast import imported, predict
from specq.forecast.cost import Curve, Point
from specq.forecast.imported import Between
from specq.forecast.predict import Cell, Ranking


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A number that the files fix (`least` equals `most`) or bound, and a 95 % interval over texts around both ends."""

    least: float
    most: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One cell from files: the tokens per step, and the speed-up over plain decoding where seconds were given."""

    cell: Cell
    tokens_per_step: Span
    speedup: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """What steps take where the model is served: a plain step, a pass over so many tokens, a drafted token, the rest.

    `verify` maps the tokens of a pass (k + 1) to its seconds; without it every pass takes `plain`.
    """

    plain: float
    draft: Mapping[str, float]
    verify: Mapping[int, float]
    rest: float = 0.0


def rank(
    target: Path,
    drafts: Mapping[str, Path],
    *,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    most: int = 8,
    seconds: Seconds | None = None,
) -> tuple[Replayed, ...]:
    """Replay every draft's file along the target's, with every k up to `most` and every exact rule; the best first.

    The best has the highest speed-up, or the most tokens a step where no seconds are given, at the lower end.

    Raises:
        PromptError: a file is none, or is of other texts than the target's.
        ConfigError: seconds of a draft that has no file, or none for one that has.
    """
    if not drafts:
        raise ConfigError("replay: no draft is given; type --draft NAME=FILE")
    if seconds is not None and set(seconds.draft) != set(drafts):
        raise ConfigError(
            f"replay: seconds are given for {', '.join(seconds.draft) or 'no draft'}, files for {', '.join(drafts)}: "
            "give --draft-s NAME=SECONDS for each of them"
        )
    wanted = imported.load(target)
    texts: dict[str, list[Between]] = {}
    for name, path in drafts.items():
        own = imported.load(path)
        if lacks := [id for id in wanted if id not in own]:
            raise PromptError(
                f'{path}: lacks {len(lacks)} of the texts of {target} (first: "{lacks[0]}"): score the same texts'
            )
        texts[name] = [
            imported.pair(one, own[id], temperature=temperature, top_k=top_k, top_p=top_p) for id, one in wanted.items()
        ]
    ks = range(1, most + 1)
    unit = {name: _curve(Seconds(plain=1.0, draft={name: 0.0}, verify={}), name) for name in drafts}
    steps = _ends(texts, unit, ks)
    speeds = None if seconds is None else _ends(texts, {name: _curve(seconds, name) for name in drafts}, ks)
    cells = [one.cell for one in steps[0].forecasts]
    found = [
        Replayed(
            cell=cell,
            tokens_per_step=_span(steps, cell),
            speedup=None if speeds is None else _span(speeds, cell),
        )
        for cell in cells
    ]
    order = {rule: place for place, rule in enumerate(EXACT_RULES)}
    return tuple(
        sorted(
            found,
            key=lambda one: (
                -round((one.speedup or one.tokens_per_step).least, 9),
                one.cell.k,
                order[one.cell.rule],
            ),
        )
    )


def _ends(
    texts: Mapping[str, Sequence[Between]], curves: Mapping[str, Curve], ks: Sequence[int]
) -> tuple[Ranking, Ranking]:
    """The forecasts with the most steps and with the fewest."""
    slow = {name: [one.most for one in some] for name, some in texts.items()}
    fast = {name: [one.fewest for one in some] for name, some in texts.items()}
    return predict.rank(slow, curves, ks=ks), predict.rank(fast, curves, ks=ks)


def _span(ends: tuple[Ranking, Ranking], cell: Cell) -> Span:
    slow, fast = ends[0].of(cell), ends[1].of(cell)
    return Span(least=slow.speedup, most=fast.speedup, low=slow.low, high=fast.high)


def _curve(seconds: Seconds, name: str) -> Curve:
    """Steps as the seconds say; passes of sizes that are not given lie on lines between those that are."""
    passes = {1: seconds.plain} | dict(seconds.verify)
    if len(passes) == 1:
        passes[2] = seconds.plain
    points = [
        Point(
            proposed=rows - 1,
            draft_s=seconds.draft[name] * (rows - 1),
            verify_s=passes[rows],
            rest_s=seconds.rest,
            n=1,
            spread=0.0,
        )
        for rows in sorted(passes)
        if rows > 1
    ]
    plain = Point(proposed=0, draft_s=0.0, verify_s=seconds.plain, rest_s=0.0, n=1, spread=0.0)
    return Curve(plain=plain, points=tuple(points), context=0, measured_s=0.0)
