"""The metric number_match: a number in an answer, with its unit, against the reference's."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field

from specq.evals import numbers
from specq.evals.items import Item
from specq.evals.metric import RIGHT, Score, quoted, wrong
from specq.evals.options import Options


class NumberMatch(Options):
    """Options of number_match; both tolerances are allowed deviations from the reference, the larger one counts."""

    decimal: numbers.Decimals = "auto"
    language: numbers.Language = "en"
    which: Literal["first", "last", "any"] = "first"
    units: Literal["compare", "require", "ignore"] = "compare"
    relative: float = Field(default=0.0, ge=0, lt=1)
    absolute: float = Field(default=0.0, ge=0)


def number_misfit(options: NumberMatch, item: Item) -> str | None:
    """Why a reference is no number: each of its texts must hold exactly one."""
    if item.kind == "number":
        return None
    if not item.texts:
        return f"the reference is of kind {item.kind}, allowed is a number or texts that hold one each"
    for text in item.texts:
        if (count := len(_numbers(options, text))) != 1:
            return f"the reference {quoted(text)} holds {count or 'no'} numbers, allowed is one"
    return None


def number_match(options: NumberMatch, item: Item, answer: str) -> Score:
    """1 where the first, the last or any number of the answer is the reference's."""
    found = _numbers(options, answer)
    if not found:
        return wrong(f"no number in {quoted(answer)}")
    chosen = {"first": found[:1], "last": found[-1:], "any": found}[options.which]
    wanted = [numbers.Number(value=Decimal(str(item.reference)), unit="", text="")] if item.kind == "number" else []
    wanted += [number for text in item.texts for number in _numbers(options, text)]
    if any(same_number(options, one, right) for one in chosen for right in wanted):
        return RIGHT
    said = ", ".join(quoted(one.text) for one in chosen[:3])
    return wrong(f"{said} for {quoted(str(item.reference if item.kind == 'number' else item.texts[0]))}")


def same_number(options: NumberMatch, given: numbers.Number, wanted: numbers.Number) -> bool:
    """Whether a number is another within the tolerances, and their units agree as the options ask."""
    if options.units == "require" and given.unit != wanted.unit and wanted.unit:
        return False
    if options.units == "compare" and given.unit and wanted.unit and given.unit != wanted.unit:
        return False
    if given.value == wanted.value:
        return True
    allowed = max(Decimal(str(options.absolute)), Decimal(str(options.relative)) * abs(wanted.value))
    return abs(given.value - wanted.value) <= allowed


def _numbers(options: NumberMatch, text: str) -> tuple[numbers.Number, ...]:
    return numbers.read(text, decimal=options.decimal, language=options.language)
