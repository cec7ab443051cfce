"""Which metrics of a task are a number for one document, and how that becomes a score that is higher when better."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specq.core.errors import ConfigError, nearest
from specq.evals.metric import Score, failed

# Those that lm-eval itself scores with 0 or 1.
_ZERO_OR_ONE = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match")
_SHOWN = 60


def _number(value: Any) -> float:
    if isinstance(value, str | list | tuple | dict) or value is None:
        raise TypeError
    return float(value)


def _weighted(value: Any) -> float:
    logprob, weight = value
    return float(logprob) / float(weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    read: Callable[[Any], float]
    what: str


# By the name of the aggregation: only of these is the value of one document a part.
_PARTS = {
    "mean": _Part(read=_number, what=""),
    "nanmean": _Part(read=_number, what=""),
    "median": _Part(read=_number, what=""),
    "perplexity": _Part(read=_number, what="log-probability, nats"),
    "weighted_perplexity": _Part(read=_weighted, what="log-probability a {unit}, nats"),
    "bits_per_byte": _Part(read=lambda value: _weighted(value) / math.log(2), what="log-probability a byte, bits"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A metric of a task, read document by document.

    `what` says what the score is where that is not the metric itself. `filter` is the task's filter that answers
    pass before they are judged. `binary`: each score is 0 or 1. `negated`: lm-eval's value is lower when better.
    """

    metric: str
    filter: str
    what: str
    binary: bool
    negated: bool
    part: Callable[[Any], float]

    def score(self, values: Mapping[str, Any]) -> Score:
        """The score of one document from what the task makes of its answer."""
        if self.metric not in values:
            return failed(f"the task gives {', '.join(map(str, values)) or 'nothing'}, and not {self.metric}")
        try:
            value = self.part(values[self.metric])
        except (TypeError, ValueError, ZeroDivisionError):
            return failed(f"{self.metric} is {repr(values[self.metric])[:_SHOWN]}, which is no number")
        if not math.isfinite(value):
            return failed(f"{self.metric} is {value}")
        return Score(value=-value if self.negated else value)


def choose(name: str, built: Any, wanted: str | None) -> tuple[Reading, str | None]:
    """The metric that is asked for, as "metric" or "metric,filter", or else the first that a document has.

    The second value is a note where the task's first metric had to be passed over.

    Raises:
        ConfigError: no such metric or filter, or one that no single document has a value of.
    """
    filters = [one.name for one in built._filters]
    asked, _, sieve = (wanted or "").partition(",")
    if sieve and sieve not in filters:
        raise ConfigError(
            f'task "{name}": no filter "{sieve}"{nearest(sieve, filters) or ";"} allowed: {", ".join(filters)}'
        )
    readings, refused = _readings(built, sieve or filters[0])
    allowed = f"allowed: {', '.join(readings)}" if readings else "no metric of this task is a number for one document"
    if asked in refused:
        raise ConfigError(f'task "{name}": metric "{asked}" {refused[asked]}; {allowed}')
    if asked and asked not in readings:
        raise ConfigError(f'task "{name}": no metric "{asked}"{nearest(asked, readings) or ";"} {allowed}')
    if not readings:
        why = "; ".join(f'metric "{metric}" {reason}' for metric, reason in refused.items())
        raise ConfigError(f'task "{name}": {why or "it has no metrics"}: nothing can be compared item by item')
    chosen = asked or next(iter(readings))
    first = next(iter(built.aggregation()))
    passed = None if asked or first == chosen else f'metric "{first}" {refused[first]}: {chosen} is taken'
    return readings[chosen], passed


def _readings(built: Any, sieve: str) -> tuple[dict[str, Reading], dict[str, str]]:
    """Metrics that can be read, and why others cannot, in the task's order."""
    from lm_eval.api.registry import AGGREGATION_REGISTRY

    names = {id(AGGREGATION_REGISTRY[one]): one for one in _PARTS}
    higher, tried = built.higher_is_better(), _tried(built)
    own = callable(built.config.process_results)
    readings, refused = {}, {}
    for metric, aggregation in built.aggregation().items():
        kind = names.get(id(aggregation))
        if kind is None:
            refused[metric] = "is made of all documents together: one document has no value of it"
        elif isinstance(tried, Mapping) and _unreadable(tried, metric, kind):
            refused[metric] = f"is no number for one document of a {built.OUTPUT_TYPE} task"
        elif not _PARTS[kind].what and higher.get(metric) is None:
            refused[metric] = "does not say whether higher is better: write higher_is_better in the YAML"
        else:
            number = not _PARTS[kind].what
            readings[metric] = Reading(
                metric=metric,
                filter=sieve,
                what=_PARTS[kind].what.format(unit="byte" if metric.startswith("byte") else "word"),
                binary=number and metric in _ZERO_OR_ONE and not own,
                negated=number and not higher[metric],
                part=_PARTS[kind].read,
            )
    return readings, refused


def _unreadable(tried: Mapping[str, Any], metric: str, kind: str) -> bool:
    try:
        _PARTS[kind].read(tried[metric])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return True
    return False


def _tried(built: Any) -> Any:
    """What the task makes of an empty or an unlikely answer to its first document; None where it can make nothing.

    So a metric that would fail on every document is found before any weights are loaded.
    """
    doc = built.task_docs[0]
    answers: dict[str, list[Any]] = {
        "generate_until": [""],
        "loglikelihood": [(-1.0, False)],
        "loglikelihood_rolling": [-1.0],
    }
    try:
        return built.process_results(doc, answers.get(built.OUTPUT_TYPE) or [(-1.0, False)] * _choices(built, doc))
    except (Exception, SystemExit):  # noqa: BLE001 - a task's code may raise anything on an empty answer
        return None


def _choices(built: Any, doc: Any) -> int:
    context = [""] * built.multiple_input or ""
    return len(built.construct_requests(doc=doc, ctx=context, metadata=("", 0, 1)))
