"""How protected fields are written: amounts, dates, rates, thresholds, sources, versions, obligations and exceptions.

The words stand in fields.toml, in English, German, French, Spanish and a dozen other languages; what is here is how
they stand beside numbers.
"""

from __future__ import annotations

from specq.prompts.numbers import FRACTION, NUMBER
from specq.prompts.tables import BEGIN, END, NO_LETTER, TABLES, choice, languages

_RATE, _THRESHOLD, _DATE, _SOURCE, _VERSION = (
    TABLES[kind] for kind in ("rate", "threshold", "date", "source", "version")
)
AMOUNTS = (rf"{BEGIN}\d+/\d+(?![/\d]|{NO_LETTER})",)
_MONTHS = rf"(?:{'|'.join(sorted(_DATE['months'], key=len, reverse=True))})\.?"
_ROMAN = r"(?i:I{1,3}|IV|VI{0,3}|IX|XI{0,2})"
_DAY = r"\d{1,2}(?:st|nd|rd|th|er|\u00ba|\.)?"
DATES = (
    rf"{BEGIN}\d{{4}}-W?\d{{1,2}}(?:-\d{{1,2}})?"
    rf"(?:[T ]\d{{2}}:\d{{2}}(?::\d{{2}}(?:\.\d+)?)?(?:Z|[+-]\d{{2}}:?\d{{2}})?)?{END}",
    rf"{BEGIN}\d{{1,2}}([./-])\d{{1,2}}\1\d{{2,4}}{END}",
    rf"{BEGIN}\d{{4}}([./])\d{{1,2}}\1\d{{1,2}}\.?{END}",
    # "EUR 90.00." is an amount at the end of a sentence.
    rf"{BEGIN}(?:0?[1-9]|[12]\d|3[01])\.\s?(?:0?[1-9]|1[0-2])\.(?:\s?\d{{2,4}}{END})?",
    rf"{BEGIN}\d{{1,2}}([./-]|\.?\s){_ROMAN}\1\d{{2,4}}{END}",
    rf"{BEGIN}\d{{4}}([./-]|\.?\s){_ROMAN}\1\d{{1,2}}\.?{END}",
    rf"{BEGIN}\d{{4}}\.\s\d{{1,2}}\.\s\d{{1,2}}\.?",
    rf"(?i:{BEGIN}{_DAY}[\s./-](?:of\s|de\s)?{_MONTHS}(?:,?[\s./-](?:de\s|del\s)?(?:\d{{4}}|'?\d{{2}})(?!\d))?{END})",
    rf"(?i:{BEGIN}{_MONTHS}[\s/-](?:{_DAY}(?:(?:,?\s|/)\d{{4}})?|(?:de\s|del\s)?\d{{4}}){END})",
    rf"(?:(?:{_DATE['eras']})\s?)?[\d\u5143\u3007\u96f6\u4e00-\u4e5d]{{1,4}}\s?[\u5e74\ub144](?:\u5ea6)?"
    r"(?:\s?\d{1,2}\s?[\u6708\uc6d4](?:\s?\d{1,2}\s?[\u65e5\u53f7\u865f\uc77c])?)?",
    r"(?<!\d)\d{1,2}\s?[\u6708\uc6d4](?:\s?\d{1,2}\s?[\u65e5\u53f7\u865f\uc77c])?",
    r"[\u4e00-\u4e5d\u5341]{1,2}\u6708(?:[\u4e00-\u4e5d\u5341]{1,3}[\u65e5\u53f7\u865f])?",
    rf"{BEGIN}(?:Q[1-4]|H[12])(?:[ /]?(?:FY)?\d{{2,4}})?{END}",
    rf"{BEGIN}(?:FY|CY)\s?'?\d{{2,4}}{END}",
    # The year of a copyright notice dates nothing that is asked about.
    r"(?<!\u00a9 )(?<!\u00a9)(?<!\([cC]\) )(?<![Cc]opyright )"
    rf"(?<![.,/-]){BEGIN}(?:19|20)\d{{2}}(?:[/\u2013-]\d{{2,4}})?(?![/-]|{NO_LETTER}|[.,]\d)",
    rf"(?<![:.]){BEGIN}\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:\s?[ap]\.?m\b)?(?![:\d])",
    rf"{BEGIN}\d{{1,2}}\s?[apAP]\.?[mM]{END}",
    rf"{BEGIN}\d{{1,2}}(?:\s?h\s?\d{{2}}|[.:]?\d{{0,2}}\s(?:Uhr|uur)){END}",
    r"(?:\u5348\u524d|\u5348\u5f8c|\u4e0a\u5348|\u4e0b\u5348|\uc624\uc804|\uc624\ud6c4)?\s?\d{1,2}\s?[\u6642\u65f6\u70b9\u9ede\uc2dc](?:\s?\d{1,2}\s?[\u5206\ubd84]|\u534a)?",
)
RATES = (
    rf"{choice(_RATE['percent_before'])}{NUMBER}",
    # "A quarter percent" and "a quarter of a percent" name no number before the fraction.
    rf"(?i:{BEGIN}(?:(?:an?|one|eine?|une?|un[oa]?|uma?)\s)?(?:{FRACTION})\s(?:of\s(?:an?|one)\s|an?\s)?)"
    rf"{choice(_RATE['percent'], begin='')}",
    choice(_RATE["whole"]),
    rf"{BEGIN}\d+(?:[.,]\d+)?\s?[x\u00d7]{END}",
    rf"{BEGIN}\d+(?:[.,]\d+)?\s?:\s?\d+(?:[.,]\d+)?(?![:\d])",
)
RATE_BEFORE = choice(_RATE["each_before"], begin="", end="") + r"\s?"
RATE_AFTER = rf"(?:(?:\s{choice(_RATE['per'], begin='', end='')}\s|\s?/\s?)[^\W\d_]+|\s{choice(_RATE['out_of'])}\s\d+)"
"""What makes a rate of the quantity that ends before it."""
THRESHOLDS = (rf"{BEGIN}\d+(?:[.,]\d+)?\+(?!\d)",)
THRESHOLD_BEFORE = (
    rf"(?:{choice(_THRESHOLD['before'])}\s?(?:(?:the|an?|of|about|zu|de|den|del)\s)?|[{_THRESHOLD['signs']}]=?\s?)"
)
THRESHOLD_AFTER = choice(_THRESHOLD["after"], begin="")
_ENDS_LINK = r"\s<>\"'`\u3001\u3002\uff0c\uff08\uff09\u300c\u300d\u300e\u300f\u201c\u201d"
LINKS = (
    rf"(?i:\b[a-z][a-z0-9+-]{{1,20}}://[^{_ENDS_LINK}]+)",
    rf"(?i:\bwww\.[^{_ENDS_LINK}]+)",
    rf"(?i:\bdoi:\s?10\.\d{{4,}}/[^{_ENDS_LINK}]+)",
    rf"(?i:(?<![\w/.])10\.\d{{4,}}/[^{_ENDS_LINK}]+)",
    r"(?i:\barXiv:\s?\d{4}\.\d{4,5}(?:v\d+)?)",
    rf"(?i:(?<![\w@.-])(?:[a-z0-9-]{{1,63}}\.){{1,8}}(?:{_SOURCE['domains']})(?![\w.-]*\w)(?:/[^{_ENDS_LINK}]*)?)",
)
SOURCES = (
    r"\u00a7{1,2}\s?\d[\w.()-]*",
    rf"(?i:\b(?:{'|'.join(sorted(_SOURCE['parts'], key=len, reverse=True))})[\s:-]?\d[\w.()/:-]*)",
    r"\u7b2c\s?[\d\u3007\u4e00-\u4e5d\u5341\u767e\u5343]+\s?[\u6761\u689d\u7ae0\u7bc0\u8282\u9805\u9879\u6b3e\u53f7\u865f]|\uc81c\s?\d+\s?[\uc870\ud56d\uc7a5]",
)
VERSIONS = (
    rf"{BEGIN}[vV]\d+(?:\.\d+)*(?:-[\w.]+)?\b",
    rf"(?i:{choice(_VERSION['words'], end='')}\s?(?:no\.?\s|n[\u00ba\u00b0]\s)?\d[\w.-]*)",
    r"(?i:\b\d+(?:st|nd|rd|th)?\.?\s(?:edition|revision|version|release|auflage|\u00e9dition|edici\u00f3n))",
    r"\u7b2c\s?[\d\u4e00-\u4e5d\u5341]+\s?\u7248|\uc81c\s?\d+\s?\ud310",
    r"(?<![\w.])\d+\.\d+\.\d+(?:[-.+][\w.]+)?\b",
    r"(?i:\bsha(?:1|256|512)[:-][0-9a-f]{7,})",
    r"@[0-9a-f]{7,40}\b",
)
OBLIGATIONS = languages("obligation")
EXCEPTIONS = languages("exception")
