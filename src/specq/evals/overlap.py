"""Metrics that count what an answer shares with the reference: token_f1 and rouge_l."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from specq.evals import texts
from specq.evals.items import Item
from specq.evals.metric import Score, no_texts, quoted
from specq.evals.options import Options


class TokenF1(Options):
    """Options of token_f1."""

    language: texts.Language = "en"


class RougeL(Options):
    """Options of rouge_l."""

    language: texts.Language = "en"


def token_misfit(options: TokenF1, item: Item) -> str | None:
    """Why a reference has no tokens to share."""
    return no_texts(item) or _empty(item, lambda text: texts.squad_tokens(text, options.language))


def word_misfit(options: RougeL, item: Item) -> str | None:
    """Why a reference has no words to share."""
    return no_texts(item) or _empty(item, lambda text: texts.words(text, options.language))


def _empty(item: Item, parts: Callable[[str], list[str]]) -> str | None:
    empty = next((text for text in item.texts if not parts(text)), None)
    return None if empty is None else f"the reference {quoted(empty)} has no words"


def token_f1(options: TokenF1, item: Item, answer: str) -> Score:
    """F1 of the answer's and a reference's tokens, the best of several references.

    As SQuAD's evaluation script counts (Rajpurkar et al. 2016, arXiv 1606.05250): 2PR / (P + R) over tokens with
    their multiplicity; where one side has no tokens, 1 if both have none, else 0.
    """
    given = texts.squad_tokens(answer, options.language)
    best = max(_f1(given, texts.squad_tokens(text, options.language)) for text in item.texts)
    return Score(value=best, why="" if best == 1 else f"{quoted(answer)} shares tokens only in part")


def _f1(given: list[str], wanted: list[str]) -> float:
    if not given or not wanted:
        return float(given == wanted)
    shared = (Counter(given) & Counter(wanted)).total()
    return 2.0 * shared / (len(given) + len(wanted))


class _Words:
    """The tokeniser that rouge_score asks for; its own drops every letter outside of a to z."""

    def __init__(self, language: texts.Language) -> None:
        self.language = language

    def tokenize(self, text: str) -> list[str]:
        """The words of a text."""
        return texts.words(text, self.language)


def rouge_l(options: RougeL, item: Item, answer: str) -> Score:
    """F-measure of the longest common subsequence of words (Lin 2004), the best of several references."""
    best = float(_scorer(options.language).score_multi(item.texts, answer)["rougeL"].fmeasure)
    return Score(value=best, why="" if best == 1 else f"{quoted(answer)} shares words only in part")


@lru_cache(maxsize=3)
def _scorer(language: texts.Language) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=_Words(language))
