"""How much a passage has to do with a question: BM25 over the passages of one prompt."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

# Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), section 3.5: the usual values.
K1 = 1.2
B = 0.75
# Scripts that are written without spaces are read character by character.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]|[^\W_\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]+")
_COMMON_WORDS = (
    "a an the of to in on at by for with from and or but if is are was were be been being it its this that these "
    "those as i you he she we they me my your our their his her do does did done can could would should will "
    "shall may might must what which who whom whose when where why how not no please there here about into than "
    "then so such have has had der die das den dem des ein eine und oder ist sind im zu von mit auf le la les un "
    "une et ou est sont du de el los las y o es son en"
)
_COMMON = frozenset(_COMMON_WORDS.split())


def terms(text: str) -> list[str]:
    """The words of a text as they are compared: no case, no common words, no plural s."""
    words = (word for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()) if word not in _COMMON)
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]


def scores(question: str, passages: Sequence[str]) -> list[float]:
    """The BM25 score of each passage, 0 where it shares no word with the question.

    The weight of a word is ln(1 + (N - n + 0.5) / (n + 0.5)) for n of N passages that hold it, which is never
    negative; a word that the question has twice counts once.
    """
    counted = [Counter(terms(passage)) for passage in passages]
    lengths = [sum(words.values()) for words in counted]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    asked = dict.fromkeys(terms(question))
    found = {word: sum(word in words for words in counted) for word in asked}
    weights = {word: math.log(1 + (len(passages) - n + 0.5) / (n + 0.5)) for word, n in found.items()}
    return [
        math.fsum(
            weights[word] * words[word] * (K1 + 1) / (words[word] + K1 * (1 - B + B * length / mean))
            for word in asked
            if word in words
        )
        for words, length in zip(counted, lengths, strict=True)
    ]
