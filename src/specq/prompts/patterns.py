"""How protected fields are written: amounts, currencies, dates, rates, thresholds, sources and versions.

Currency codes are of ISO 4217. Words are English; months, currencies and the commonest modal verbs are German, French
and Spanish too.
"""

from __future__ import annotations

import re

_SYMBOL = r"[$\u20ac\u00a3\u00a5\u20b9\u20a9\u20bd\u20ba\u20bf\u0e3f\u20ab\u20aa\u20b4\u00a2]"
_CODES = (
    "USD|EUR|GBP|JPY|CNY|CHF|AUD|CAD|NZD|SEK|NOK|DKK|ISK|PLN|CZK|HUF|RON|BGN|RUB|UAH|ILS|INR|PKR|BDT|LKR|IDR|MYR|SGD|"
    "THB|VND|PHP|KRW|TWD|HKD|AED|SAR|QAR|KWD|EGP|MAD|NGN|KES|GHS|ZAR|BRL|ARS|CLP|COP|PEN|MXN|KZT|GEL|BTC|ETH"
)
_MONEY_WORDS = (
    r"(?:US |Canadian |Australian )?(?:dollars?|euros?|pounds?(?: sterling)?|cents?|pence|yen|yuan|renminbi|francs?|"
    r"francos?|"
    r"rupees?|kron(?:a|or|e|er)|zlotys?|z\u0142oty|pesos?|rubles?|roubles?|won|franken|d\u00f3lares)"
)
CURRENCY = rf"(?:{_SYMBOL}|\b(?:{_CODES})\b|\b{_MONEY_WORDS}\b)"
_SPELLED = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|seventy|"
    "eighty|ninety|hundred|thousand|half|dozen"
)
_DIGITS = (
    r"(?:\d{1,3}(?:[,'\u2019\u00a0\u202f]\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d{1,2})?(?!\d)|\d+(?:[.,]\d+)?)"
)
NUMBER = rf"(?:(?<![\w.,])[-+\u2212\u00b1]?{_DIGITS}|\b(?:{_SPELLED})(?:[ -](?:{_SPELLED}))*\b)"
_SCALE = r"(?:\s?(?:million|billion|trillion|thousand|mn|bn|m|k|Mio\.?|Mrd\.?)\b)?"
_UNIT = (
    r"(?:[kmc\u00b5]?m|km/h|mph|[km\u00b5]?g|lbs?|oz|tonnes?|tons?|[mc]?l|lit(?:er|re)s?|gallons?|m[23\u00b2\u00b3]|"
    r"[kMGT]i?[Bb]|[kMGT]?Hz|[kMG]?Wh?|[kmM]?V|m?A|bar|[kM]?Pa|\u00b0\s?[CF]?|degrees?|[m\u00b5n]?s|"
    r"seconds?|minutes?|mins?|hours?|hrs?|h|days?|weeks?|months?|years?|quarters?|(?:business|working|calendar) days|"
    r"pieces?|pcs|units?|items?|shares?|people|persons?|employees|users?|seats?|licen[cs]es|points?|tokens?|requests?|"
    r"times|met(?:er|re)s?|kilomet(?:er|re)s?|miles?|feet|ft|inch(?:es)?|acres?|hectares?|kilograms?|grams?|pages?|"
    r"Tage?n?|Monate?n?|Jahre?n?|Wochen?|Stunden?|jours?|mois|ans?|d\u00edas?|meses|a\u00f1os?)"
)
_MONEY = (
    rf"(?:{CURRENCY}\s?{NUMBER}{_SCALE}|{NUMBER}{_SCALE}\s?{CURRENCY}|\b[A-Z]{{3}}\s?{NUMBER}|{NUMBER}\s[A-Z]{{3}}\b)"
)
_PERCENT = r"\s?(?:%|\u2030|per\s?cent\b|percent(?:age points?)?\b|pp\b|bps?\b|basis points?\b|p\.\s?a\.|Prozent\b)"
AMOUNTS = (
    _MONEY,
    rf"{NUMBER}{_SCALE}[\s-]?{_UNIT}(?!\w)",
    r"(?<![\w.,])[-+\u2212]?(?:\d{1,3}(?:[,'\u2019\u00a0\u202f]\d{3})+(?:\.\d+)?|\d+[.,]\d+)(?![\w]|[.,]\d)",
    rf"{NUMBER}\s?(?:million|billion|trillion)\b",
)
_MONTH = (
    r"(?:jan(?:uary|uar|vier)?|enero|feb(?:ruary|ruar|rero)?|f\u00e9vrier|mar(?:ch|s|zo)?|m\u00e4rz|apr(?:il)?|avril|"
    r"abril|"
    r"may|mai|mayo|jun[ei]?|juin|junio|jul[yi]?|juillet|julio|aug(?:ust)?|ao\u00fbt|agosto|sept?(?:ember|embre|"
    r"iembre)?|"
    r"o[ck]t(?:ober|obre|ubre)?|nov(?:ember|embre|iembre)?|de[cz](?:ember|embre|iembre)?|d\u00e9cembre)\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th|\.)?"
DATES = (
    r"(?<![\w.])\d{4}-\d{1,2}(?:-\d{1,2})?(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?!\w)",
    r"(?<![\w.])\d{1,2}([./-])\d{1,2}\1\d{2,4}(?!\w)",
    r"(?<![\w.])\d{4}/\d{1,2}/\d{1,2}(?!\w)",
    rf"(?i:\b{_DAY}\s(?:of\s|de\s)?{_MONTH}(?:,?\s(?:de\s)?\d{{4}})?\b)",
    rf"(?i:\b{_MONTH}\s(?:{_DAY}(?:,?\s\d{{4}})?|\d{{4}})(?!\w))",
    r"\d{4}\u5e74(?:\d{1,2}\u6708(?:\d{1,2}\u65e5)?)?",
    r"\bQ[1-4](?:[ /]?(?:FY)?\d{2,4})?\b",
    # The year of a copyright notice dates nothing that is asked about.
    r"(?<!\u00a9 )(?<!\u00a9)(?<!\([cC]\) )(?<![Cc]opyright )(?<![\w.,/-])(?:19|20)\d{2}(?![\w/-]|[.,]\d)",
    r"(?<![\w:.])\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]\.?m\b)?(?![\w:])",
    r"(?<!\w)\d{1,2}\s?[apAP]\.?[mM]\b",
)
RATES = (
    rf"{NUMBER}{_PERCENT}",
    rf"(?:{CURRENCY}\s?)?{NUMBER}(?:\s?{CURRENCY}|\s\w{{1,12}}|\w{{1,6}})?\s?(?:/|\b(?:per|each|pro|par|"
    rf"por)\b)\s?[^\W\d_]+",
    r"\bper annum\b",
)
_COMPARED = (
    r"at least|at most|at the latest|not? (?:more|less|fewer|later|earlier|sooner|greater|lower|higher) than|"
    r"(?:more|less|fewer|later|earlier|sooner|greater|lower|higher|older|younger) than|up to|(?:not )?exceed(?:s|"
    r"ing)?|below|"
    r"above|under|over|beyond|within|before|after|by|until|till|from|since|between|minimum(?: of)?|maximum(?: of)?|"
    r"min\.?|"
    r"max\.?|limit(?:ed)? (?:of|to)|capped at|mindestens|h\u00f6chstens|bis zu|au moins|au plus|al menos|"
    r"como m\u00e1ximo"
)
THRESHOLDS = (
    rf"(?i:\b(?:{_COMPARED})\s(?:(?:the|a|an|of|about)\s)?)(?:{_MONEY}|{NUMBER}(?:{_PERCENT}|[\s-]?{_UNIT}(?!\w))?)",
    rf"(?:[\u2264\u2265<>]=?|\u2260|~)\s?(?:{_MONEY}|{NUMBER}(?:{_PERCENT}|\s?{_UNIT}(?!\w))?)",
    rf"{NUMBER}(?:\s\w+)?\s(?i:or (?:more|less|fewer|above|below|over|under|older|younger|later|earlier))\b",
)
LINKS = (
    r"(?i:\b(?:https?|ftp)://[^\s<>\"'`\u300c\u300d]+)",
    r"(?i:\bwww\.[^\s<>\"'`]+)",
    r"(?i:\bdoi:\s?10\.\d{4,}/[^\s<>\"']+)",
    r"(?i:\barXiv:\s?\d{4}\.\d{4,5}(?:v\d+)?)",
)
SOURCES = (
    r"\u00a7{1,2}\s?\d[\w.()-]*",
    r"(?i:\b(?:art(?:icles?|\.)|section|sec\.|clause|annex|schedule|appendix|chapter|exhibit|artikel|"
    r"abs\.))\s?\d[\w.()-]*",
)
VERSIONS = (
    r"(?<!\w)[vV]\d+(?:\.\d+)*(?:-[\w.]+)?\b",
    r"(?i:\b(?:version|ver\.|release|revision|rev\.|edition|draft)\s(?:no\.?\s)?\d[\w.-]*)",
    r"(?i:\b\d+(?:st|nd|rd|th)?\s(?:edition|revision|version|release)\b)",
    r"(?<![\w.])\d+\.\d+\.\d+(?:[-.+][\w.]+)?\b",
    r"(?i:\bsha(?:1|256|512)[:-][0-9a-f]{7,})",
    r"@[0-9a-f]{7,40}\b",
)
OBLIGATIONS = re.compile(
    r"\b(?:must|shall|may not|may only|cannot|can not|ought to|(?:is|are|be|being) (?:required|obliged|obligated)|"
    r"required to|"
    r"(?:has|have|had|needs?) to|mandatory|(?:is|are) (?:prohibited|forbidden|not (?:permitted|allowed))|do not|never|"
    r"muss|m\u00fcssen|m\u00fcsste|darf|d\u00fcrfen|soll|sollen|doit|doivent|ne peut|debe|deben|no puede)\b",
    re.IGNORECASE,
)
EXCEPTIONS = re.compile(
    r"\b(?:unless|except(?:ing|ions?)?|excluding|excluded|excludes|other than|save (?:for|where|as)|notwithstanding|"
    r"provided that|subject to|only if|but not|apart from|does not apply|exempt(?:ed|ion|ions)?|au\u00dfer|es sei denn|"
    r"sofern nicht|ausgenommen|sauf|except\u00e9|salvo|excepto)\b",
    re.IGNORECASE,
)
