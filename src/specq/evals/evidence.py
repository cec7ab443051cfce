"""The metric evidence: a quote that stands word for word in the right version of the right document."""

from __future__ import annotations

from typing import Literal

import regex
from pydantic import Field

from specq.evals import strict_json, texts
from specq.evals.item_values import Source
from specq.evals.items import Item
from specq.evals.metric import RIGHT, Score, quoted, wrong
from specq.evals.options import Options
from specq.evals.text_metrics import stands_in

_KEYS = {"source", "version", "answer"}
_MARKED = regex.compile(
    r"\"([^\"]+)\"|\u201c([^\u201d]+)\u201d|\u201e([^\u201c\u201d]+)[\u201c\u201d]|\u00ab([^\u00bb]+)\u00bb"
)
_ENDS = "\"'\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019` "


class Evidence(Options):
    """Options of evidence.

    `quote` tells which part of the answer is the quote: the "whole", its longest part in quotation "marks", or the
    key quote of a "json" object, whose keys source and version, where given, must be right too. `least_words` is
    how long a quote must be.
    """

    quote: Literal["whole", "marks", "json"] = "whole"
    ignore_case: bool = False
    least_words: int = Field(default=1, ge=1)
    language: texts.Language = "en"

    def bare(self, text: str) -> str:
        """Text with its blanks made one, and without case where that is ignored."""
        return texts.normalised(text, case=self.ignore_case, whitespace=True, language=self.language)


def evidence_misfit(options: Evidence, item: Item) -> str | None:
    """Why an item has no sources, or its reference names none of them, or an answer that the source lacks."""
    if not item.sources:
        return "there are no sources"
    reference = item.reference
    if not isinstance(reference, dict) or not {"source", "version"} <= set(reference) <= _KEYS:
        return "the reference is no object with source, version and, if wanted, answer"
    source = _right(item)
    if source is None:
        known = ", ".join(f"{one.id} {one.version}" for one in item.sources)
        return f"the reference names {reference['source']} {reference['version']}, which is no source; sources: {known}"
    answer = reference.get("answer")
    if answer is None:
        return None
    if not isinstance(answer, str) or not answer.strip():
        return "the reference's answer is no text, or empty"
    if not stands_in(options.bare(answer), options.bare(source.text), whole_words=True):
        return f"the reference's answer {quoted(answer)} does not stand in {source.id} {source.version}"
    return None


def evidence(options: Evidence, item: Item, answer: str) -> Score:
    """1 where the quote stands in the right source and version, and holds the reference's answer if there is one.

    Blanks are made one, and nothing else is changed: words, case and signs must be those of the source. A quote may
    lack the end of a sentence but not of a word; quotation marks around it and one full stop too many are let pass.
    """
    source = _right(item)
    assert source is not None
    try:
        quote = options.bare(_quote(options, item, answer)).strip(_ENDS)
    except ValueError as error:
        return wrong(str(error))
    words = len(texts.words(quote))
    if words < options.least_words:
        return wrong(f"a quote of {words} words, wanted are at least {options.least_words}")
    if not _stands(options, quote, source):
        return wrong(_elsewhere(options, item, quote, source))
    wanted = item.reference.get("answer")
    if wanted is not None and not stands_in(options.bare(wanted), quote, whole_words=True):
        return wrong(f"the quote stands in the right version, but does not hold {quoted(wanted)}")
    return RIGHT


def _right(item: Item) -> Source | None:
    name = (str(item.reference["source"]), str(item.reference["version"]))
    return next((one for one in item.sources if (one.id, one.version) == name), None)


def _quote(options: Evidence, item: Item, answer: str) -> str:
    if options.quote == "whole":
        return answer
    if options.quote == "marks":
        marked = ["".join(parts) for parts in _MARKED.findall(answer)]
        if not marked:
            raise ValueError("nothing in quotation marks")
        return max(marked, key=len)
    value = strict_json.find(answer, "fenced")
    if not isinstance(value, dict) or not isinstance(value.get("quote"), str):
        raise ValueError('no JSON object with a text "quote"')
    for key in ("source", "version"):
        if key in value and str(value[key]) != str(item.reference[key]):
            raise ValueError(f"names {key} {quoted(str(value[key]))} for {quoted(str(item.reference[key]))}")
    return value["quote"]


def _stands(options: Evidence, quote: str, source: Source) -> bool:
    text = options.bare(source.text)
    return any(stands_in(one, text, whole_words=True) for one in (quote, quote.removesuffix(".")) if one)


def _elsewhere(options: Evidence, item: Item, quote: str, source: Source) -> str:
    others = [one for one in item.sources if one is not source and _stands(options, quote, one)]
    for one in sorted(others, key=lambda other: other.id != source.id):
        where = f"only in version {one.version}" if one.id == source.id else f"in {one.id} {one.version}"
        return f"the quote stands {where}, wanted is {source.id} {source.version}"
    return f"{quoted(quote)} stands in no source"
