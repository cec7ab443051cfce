"""Invoices, receipts and contracts, all invented, and questions for one field of each."""

from __future__ import annotations

import datetime
import json
import random
from typing import Any

from makers.invoice_words import (
    ASKED,
    EXAMPLE,
    EXAMPLES,
    FIRMS,
    GOODS,
    LAYOUTS,
    MONTHS,
    SHOPS,
    TASK,
    WARES,
    WORKS,
)

Values = dict[str, Any]

CURRENCIES = {"en": ("EUR", "USD", "GBP", "CHF"), "tr": ("TL", "EUR", "USD")}
DOCUMENTS = {"en": 34, "tr": 10}
ITEMS_A_DOCUMENT = 2
# A wrong amount to pay or a wrong last day to pay is what a reader of invoices must not let through.
CRITICAL = {"total", "due_date"}
CRITICALS = {"en": 8, "tr": 2}


def items(language: str, rng: random.Random) -> dict[str, list[Values]]:
    """Items of one language by kind, two of each document. An item asks for one field, fields take turns."""
    left = CRITICALS[language]
    made: dict[str, list[Values]] = {}
    for kind, layouts in LAYOUTS[language].items():
        asked = list(ASKED[language][kind])
        made[kind] = []
        for number in range(DOCUMENTS[language]):
            values = _values(language, rng)
            style = rng.randrange(3)
            text = _text(language, layouts[(number + number // len(asked)) % len(layouts)], values, style)
            for step in range(ITEMS_A_DOCUMENT):
                # Half the fields lie between the two of one document.
                key = asked[(number + step * (len(asked) // 2)) % len(asked)]
                item = _item(language, kind, key, f"{language}-{kind}-{number + 1:02d}", text, values)
                if left and kind == "invoice" and key in CRITICAL:
                    item["critical"] = True
                    left -= 1
                made[kind].append(item)
    return made


def _values(language: str, rng: random.Random) -> Values:
    """What a document of any kind may say: amounts in hundredths, dates, names."""
    first = datetime.date(2019, 1, 1) + datetime.timedelta(days=rng.randrange(2000))
    net, rate = rng.randrange(200, 9000) * 100, rng.choice((5, 10, 20))
    prices = [rng.randrange(120, 3900) for _ in range(2)]
    paid = (sum(prices) // 1000 + 1) * 1000
    fee = rng.randrange(12, 240) * 1000
    seller, buyer = rng.sample(FIRMS[language], 2)
    wares = rng.sample(WARES[language], 2)
    return {
        "no": f"{rng.choice('ABDEHKMRT')}{rng.randrange(1000, 9999)}",
        "currency": rng.choice(CURRENCIES[language]),
        **{"seller": seller, "buyer": buyer, "supplier": seller, "client": buyer, "shop": rng.choice(SHOPS[language])},
        **{"goods": rng.choice(GOODS[language]), "works": rng.choice(WORKS[language])},
        **{"ware_1": wares[0], "ware_2": wares[1], "price_1": prices[0], "price_2": prices[1]},
        **{"invoice_date": first, "date": first, "start_date": first},
        "due_date": first + datetime.timedelta(days=rng.choice((14, 21, 30, 45, 60))),
        "end_date": first + datetime.timedelta(days=rng.choice((182, 364, 729))),
        **{"net": net, "rate": str(rate), "tax": net * rate // 100, "gross": net + net * rate // 100},
        **{"sum": sum(prices), "paid": paid, "change": paid - sum(prices)},
        **{"fee": fee, "deposit": fee * rng.choice((2, 3)) + 5000},
    }


def _text(language: str, layout: str, values: Values, style: int) -> str:
    shown = {key: _shown(language, value, style) for key, value in values.items()}
    shown["total"] = shown["gross" if "{net}" in layout else "sum"]
    return layout.format_map(shown)


def _shown(language: str, value: Any, style: int) -> str:
    """A value as the document writes it. Dates of a document are all in one style."""
    if isinstance(value, datetime.date):
        month = MONTHS[language][value.month - 1]
        if language == "tr":
            return (f"{value.day} {month} {value.year}", f"{value:%d.%m.%Y}", f"{value:%d.%m.%Y}")[style]
        return (f"{value.day} {month} {value.year}", f"{month} {value.day}, {value.year}", value.isoformat())[style]
    if isinstance(value, int):
        plain = f"{value / 100:,.2f}"
        return plain.translate(str.maketrans(",.", ".,")) if language == "tr" else plain
    return str(value)


def _item(language: str, kind: str, key: str, name: str, text: str, values: Values) -> Values:
    value = values[key] if key != "total" else values["gross" if kind == "invoice" else "sum"]
    if isinstance(value, datetime.date):
        sort, right = "date", value.isoformat()
    elif isinstance(value, int):
        sort, right = "amount", value / 100
    else:
        sort, right = "currency" if key == "currency" else "party", value
    shown = EXAMPLES[language][sort]
    return {
        "id": f"{name}-{key}",
        "messages": [
            {"role": "user", "content": _asked(language, EXAMPLE[language], shown[1], shown[0])},
            {"role": "assistant", "content": json.dumps({shown[0]: shown[2]}, ensure_ascii=False)},
            {"role": "user", "content": _asked(language, text, ASKED[language][kind][key], key)},
        ],
        "reference": {key: right},
        "tags": list(dict.fromkeys([language, kind, sort, key])),
        "cluster": name,
    }


def _asked(language: str, text: str, what: str, key: str) -> str:
    return TASK[language].format(text=text, what=what, key=key)
