"""What answers under load were worth, and whether another server's are worth less: speed and quality of one request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from specq.load.measures import Attempt
from specq.load.rows import Judged
from specq.stats import scores
from specq.stats.scores import Difference, Paired, Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Scores of a level's steady requests, over items: several answers to one count as their mean.

    `score` is None where no answer could be judged; `failed` are those that could not, and requests that failed.
    """

    metric: str
    score: Rate | None
    answers: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """Another server's scores less the first's at one level, paired by item."""

    server: str
    level: float
    difference: Difference


def quality(attempts: Sequence[Attempt]) -> Quality | None:
    """The scores of a level; None where nothing was judged."""
    judged = [row for one in attempts for row in one.judged]
    if not judged:
        return None
    by_item = _by_item(attempts)
    known = [_mean(of) for of in by_item.values()]
    lost = sum(row.error is not None for one in attempts for row in one.steady)
    return Quality(
        metric=judged[0].metric,
        score=scores.rate(known, [of[0].cluster for of in by_item.values()], binary=_binary(known)) if known else None,
        answers=len(judged),
        failed=sum(row.score is None for row in judged) + lost,
    )


def worth(base: Sequence[Attempt], other: Sequence[Attempt]) -> Worth | None:
    """The other server's scores against the first's; None where no item was judged on both."""
    mine, theirs = _by_item(base), _by_item(other)
    both = [item for item in mine if item in theirs]
    if not both:
        return None
    before, after = (tuple(_mean(of[item]) for item in both) for of in (mine, theirs))
    clusters = tuple(mine[item][0].cluster for item in both)
    pairs = Paired(before=before, after=after, clusters=clusters, binary=_binary((*before, *after)))
    return Worth(server=other[0].point.server, level=other[0].point.level, difference=scores.difference(pairs))


def _by_item(attempts: Sequence[Attempt]) -> dict[str, list[Judged]]:
    found: dict[str, list[Judged]] = defaultdict(list)
    for one in attempts:
        for row in one.judged:
            if row.score is not None:
                found[row.prompt].append(row)
    return found


def _mean(rows: Sequence[Judged]) -> float:
    return sum(row.score or 0.0 for row in rows) / len(rows)


def _binary(values: Sequence[float]) -> bool:
    return all(value in (0.0, 1.0) for value in values)
