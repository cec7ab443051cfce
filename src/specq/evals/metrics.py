"""The metrics by name, as TOML writes them, and whether one fits a set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError, PromptError, nearest
from specq.evals import evidence, fields, functions, json_metrics, likelihoods, number_match, overlap, text_metrics
from specq.evals.items import Item
from specq.evals.metric import Metric, Output, Score
from specq.evals.options import Options, read

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    options: type[Options]
    misfit: Callable[[Any, Item], str | None]
    judge: Callable[[Any, Item, Any], Score]
    output: Output = "text"
    binary: bool = True


_KINDS = {
    "exact_match": _Kind(
        options=text_metrics.ExactMatch, misfit=text_metrics.text_misfit, judge=text_metrics.exact_match
    ),
    "contains": _Kind(options=text_metrics.Contains, misfit=text_metrics.text_misfit, judge=text_metrics.contains),
    "regex": _Kind(options=text_metrics.Regex, misfit=text_metrics.regex_misfit, judge=text_metrics.regex),
    "number_match": _Kind(
        options=number_match.NumberMatch, misfit=number_match.number_misfit, judge=number_match.number_match
    ),
    "token_f1": _Kind(options=overlap.TokenF1, misfit=overlap.token_misfit, judge=overlap.token_f1, binary=False),
    "rouge_l": _Kind(options=overlap.RougeL, misfit=overlap.word_misfit, judge=overlap.rouge_l, binary=False),
    "json_schema": _Kind(
        options=json_metrics.JsonSchema, misfit=json_metrics.schema_misfit, judge=json_metrics.json_schema
    ),
    "fields": _Kind(options=fields.Fields, misfit=fields.fields_misfit, judge=fields.fields, binary=False),
    "tool_call": _Kind(options=json_metrics.ToolCall, misfit=json_metrics.call_misfit, judge=json_metrics.tool_call),
    "evidence": _Kind(options=evidence.Evidence, misfit=evidence.evidence_misfit, judge=evidence.evidence),
    "choice": _Kind(
        options=likelihoods.Choice, misfit=likelihoods.choice_misfit, judge=likelihoods.choice, output="choice"
    ),
    "loglikelihood": _Kind(
        options=likelihoods.Loglikelihood,
        misfit=likelihoods.likelihood_misfit,
        judge=likelihoods.loglikelihood,
        output="loglikelihood",
        binary=False,
    ),
}
NAMES = tuple(_KINDS)
# The first that fits all items is proposed: what knows most of an item's form comes first.
_TO_START_WITH = ("choice", "evidence", "tool_call", "fields", "json_schema", "number_match", "contains")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A metric to start with, ready for `[[evals]]`, and in a few words what its options do."""

    name: str
    options: Mapping[str, Any]
    about: str = ""


def to_start_with(fits: Sequence[str]) -> Proposal | None:
    """The metric to propose for a set, of the built-in ones that fit all its items; None where none does."""
    name = next((name for name in _TO_START_WITH if name in fits), next(iter(fits), None))
    if name is None:
        return None
    # A share of right fields takes a floor of its own unit; every field right is a count of items.
    if name == "fields":
        return Proposal(name=name, options={"all": True}, about="0 or 1: every field right")
    return Proposal(name=name, options={})


def make(name: str, options: Mapping[str, Any] | None = None, *, folder: Path = Path()) -> Metric:
    """A metric from its name and its options, or from "file.py:function" with the file looked for from `folder`.

    Raises:
        ConfigError: no such metric, option, value, file or function.
    """
    given = options or {}
    if functions.is_function(name):
        return functions.load(name, read(functions.Function, given, name), folder)
    if name not in _KINDS:
        raise ConfigError(
            f'no metric "{name}"{nearest(name, NAMES) or ";"} allowed: {", ".join(NAMES)} or "file.py:function"'
        )
    kind = _KINDS[name]
    chosen = read(kind.options, given, name)
    return Metric(
        name=name,
        output=kind.output,
        binary=kind.binary or bool(getattr(chosen, "all", False)),
        misfit=partial(kind.misfit, chosen),
        judge=partial(kind.judge, chosen),
        options=chosen.model_dump(mode="json"),
    )


def options_of(name: str) -> dict[str, Any]:
    """The options of a built-in metric with their defaults."""
    return _KINDS[name].options().model_dump(mode="json")


def misfits(metric: Metric, items: Iterable[Item]) -> dict[str, str]:
    """Why a metric cannot judge items, by their ids; empty where it fits all."""
    return {item.id: why for item in items if (why := metric.check(item)) is not None}


def check(metric: Metric, items: Iterable[Item], path: Path) -> None:
    """Do nothing where a metric fits all items of a set.

    Raises:
        PromptError: it does not; the message names the first such item's line and reason, and the ids of others.
    """
    listed = tuple(items)
    wrong = misfits(metric, listed)
    if not wrong:
        return
    first = next(item for item in listed if item.id in wrong)
    others = [ident for ident in wrong if ident != first.id]
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    also = f"; nor does it fit {', '.join(others[:_NAMED])}{more}" if others else ""
    fitting = [name for name in NAMES if not misfits(make(name), listed)]
    allowed = f"metrics that fit all items: {', '.join(fitting)}" if fitting else "no built-in metric fits all items"
    raise PromptError(
        f'{path}:{first.line}: metric "{metric.name}" does not fit item "{first.id}": '
        f"{wrong[first.id]}{also}; {allowed}"
    )
