"""Text made comparable: Unicode form, case, articles, punctuation, whitespace, in English, German and Turkish."""

from __future__ import annotations

import string
import unicodedata
from typing import Literal

import regex

Language = Literal["en", "de", "tr"]
Form = Literal["none", "NFC", "NFKC"]

_ARTICLES = {
    "en": ("a", "an", "the"),
    "de": ("der", "die", "das", "den", "dem", "des", "ein", "eine", "einen", "einem", "einer", "eines"),
    # Turkish has none.
    "tr": (),
}
_WORDS = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_PUNCTUATION = regex.compile(r"[\p{P}]")
_SPACE = regex.compile(r"\s+")
# In Turkish the dot of i is part of the letter.
_TURKISH = str.maketrans({"\u0130": "i", "I": "\u0131"})


def lower(text: str, language: Language = "en") -> str:
    """Text without case: Unicode case folding; in Turkish I is the capital of dotless ı and İ that of i."""
    composed = unicodedata.normalize("NFC", text)
    return (composed.translate(_TURKISH) if language == "tr" else composed).casefold()


def normalised(
    text: str,
    *,
    case: bool = False,
    punctuation: bool = False,
    whitespace: bool = False,
    articles: bool = False,
    form: Form = "NFC",
    language: Language = "en",
) -> str:
    """Text without what is named: case, punctuation (all of Unicode's, taken out), articles, differences of blanks.

    `whitespace` makes each run of blanks one and takes off those at the ends. Articles are taken out as words,
    in any case, and the blanks around them made one.
    """
    text = text if form == "none" else unicodedata.normalize(form, text)
    text = lower(text, language) if case else text
    text = _PUNCTUATION.sub("", text) if punctuation else text
    text = without_articles(text, language) if articles else text
    return _SPACE.sub(" ", text).strip() if whitespace or articles else text


def without_articles(text: str, language: Language) -> str:
    """Text in which a blank stands for each article."""
    if not _ARTICLES[language]:
        return text
    return str(regex.sub(rf"\b(?:{'|'.join(_ARTICLES[language])})\b", " ", text, flags=regex.IGNORECASE))


def words(text: str, language: Language = "en") -> list[str]:
    """The words of a text without case: runs of letters, their marks, and digits of any script."""
    return _WORDS.findall(lower(text, language))


def squad_tokens(text: str, language: Language = "en") -> list[str]:
    """Tokens as SQuAD's evaluation script makes them (Rajpurkar et al. 2016, arXiv 1606.05250).

    Lower case, ASCII punctuation and articles out, cut at blanks. Other languages than English get their own case
    and articles, and lose the punctuation of all of Unicode.
    """
    if language == "en":
        bare = "".join(character for character in text.lower() if character not in string.punctuation)
        return str(regex.sub(r"\b(a|an|the)\b", " ", bare)).split()
    return normalised(text, case=True, punctuation=True, articles=True, language=language).split()
