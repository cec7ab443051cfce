"""The metric fields: an extracted object against the reference, field by field, each compared by its type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field

from specq.evals import dates, numbers, strict_json, texts
from specq.evals.items import Item
from specq.evals.metric import RIGHT, Score, quoted, wrong
from specq.evals.number_match import NumberMatch, same_number
from specq.evals.options import Options

Type = Literal["number", "date", "text", "exact"]
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_SHOWN = 5


class Fields(Options):
    """Options of fields.

    `all` scores 1 where every field is right, else 0. `types` says how named fields are compared; the others go by
    the reference: numbers as numbers, "2024-03-05" as a date, other texts without case, punctuation and extra
    blanks. `surplus` fields count as wrong ones unless ignored. `where` in the answer the JSON may stand.
    """

    all: bool = False
    types: dict[str, Type] = Field(default_factory=dict)
    surplus: Literal["count", "ignore"] = "count"
    where: strict_json.Where = "fenced"
    decimal: numbers.Decimals = "auto"
    language: texts.Language = "en"
    day_first: bool = True
    units: Literal["compare", "require", "ignore"] = "compare"
    relative: float = Field(default=0.0, ge=0, lt=1)
    absolute: float = Field(default=0.0, ge=0)

    def numeric(self) -> NumberMatch:
        """How numbers are read and compared."""
        return NumberMatch(
            decimal=self.decimal,
            language=self.language,
            units=self.units,
            relative=self.relative,
            absolute=self.absolute,
        )


def fields_misfit(options: Fields, item: Item) -> str | None:
    """Why a reference is no object whose fields can be compared as the options say."""
    if not isinstance(item.reference, dict):
        return f"the reference is of kind {item.kind}, allowed is an object of fields"
    for name, value in flat(item.reference).items():
        for one in value if isinstance(value, list) else [value]:
            kind = _type(options, name, one)
            unread = (kind == "number" and _number(options, one) is None) or (
                kind == "date" and _date(options, one) is None
            )
            if unread and not _empty(one):
                return f'the reference\'s field "{name}" = {_words(one)} is no {kind}'
    return None


def fields(options: Fields, item: Item, answer: str) -> Score:
    """The share of fields that are right: right ones over those of the reference and surplus ones together.

    A field whose reference is null is right where it is null, empty or missing.
    """
    try:
        given = strict_json.find(answer, options.where)
    except ValueError as error:
        return wrong(f"not JSON: {error}")
    if not isinstance(given, dict):
        return wrong("JSON, but no object")
    wanted, found = flat(item.reference), flat(given)
    missing = [name for name in wanted if _empty(found.get(name)) and not _empty(wanted[name])]
    surplus = [name for name in found if name not in wanted and not _empty(found[name])]
    false = [
        name
        for name, value in wanted.items()
        if name not in missing and not same(options, name, found.get(name), value)
    ]
    counted = surplus if options.surplus == "count" else []
    right = len(wanted) - len(missing) - len(false)
    share = right / (len(wanted) + len(counted))
    if share == 1:
        return RIGHT
    parts = [f"{right} of {len(wanted)} right"]
    parts += [
        f"wrong: {_listed(f'{name} ({_words(found[name])} for {_words(wanted[name])})' for name in false)}"
    ] * bool(false)
    parts += [f"missing: {_listed(missing)}"] * bool(missing)
    parts += [f"surplus: {_listed(counted)}"] * bool(counted)
    return Score(value=0.0 if options.all else share, why="; ".join(parts))


def flat(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Fields by their names, those of nested objects as "buyer.name"."""
    found: dict[str, Any] = {}
    for name, inside in value.items():
        if isinstance(inside, dict) and inside:
            found |= flat(inside, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = inside
    return found


def same(options: Fields, name: str, given: Any, wanted: Any) -> bool:
    """Whether a field's value is right. Lists are, where their values are in some order."""
    if _empty(wanted):
        return _empty(given)
    if isinstance(wanted, list):
        return isinstance(given, list) and len(given) == len(wanted) and _paired(options, name, given, wanted)
    if isinstance(wanted, bool) or isinstance(given, bool):
        return given is wanted
    kind = _type(options, name, wanted)
    if kind == "number":
        one, right = _number(options, given), _number(options, wanted)
        return one is not None and right is not None and same_number(options.numeric(), one, right)
    if kind == "date":
        return _date(options, given) == _date(options, wanted)
    if not isinstance(given, str | int | float) or not isinstance(wanted, str | int | float):
        return bool(given == wanted)
    if kind == "exact":
        return str(given) == str(wanted)
    return _bare(options, str(given)) == _bare(options, str(wanted))


def _paired(options: Fields, name: str, given: list[Any], wanted: list[Any]) -> bool:
    left = list(given)
    for value in wanted:
        place = next((i for i, one in enumerate(left) if same(options, name, one, value)), None)
        if place is None:
            return False
        left.pop(place)
    return True


def _type(options: Fields, name: str, wanted: Any) -> Type:
    if name in options.types:
        return options.types[name]
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        return "number"
    return "date" if isinstance(wanted, str) and _ISO.fullmatch(wanted.strip()) else "text"


def _number(options: Fields, value: Any) -> numbers.Number | None:
    """A JSON number, or the one number that a text holds."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if not isinstance(value, str):
        return numbers.Number(value=Decimal(str(value)), unit="", text=str(value))
    found = numbers.read(value, decimal=options.decimal, language=options.language)
    return found[0] if len(found) == 1 else None


def _date(options: Fields, value: Any) -> Any:
    return dates.read(value, day_first=options.day_first) if isinstance(value, str) else None


def _bare(options: Fields, text: str) -> str:
    bare = texts.normalised(text, case=True, punctuation=True, whitespace=True, form="NFKC", language=options.language)
    # A text of signs alone is compared as it stands.
    return bare or text.strip()


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value in ([], {})


def _words(value: Any) -> str:
    return quoted(value if isinstance(value, str) else str(value))


def _listed(names: Any) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
