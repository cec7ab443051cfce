"""Prompts that are drawn from a seed: prose, data, boilerplate and protected fields in many scripts."""

from __future__ import annotations

import json
import random
from typing import Any

PROSE = (
    "The garden lies behind the house and is shared by all.",
    "Birds sing there in the morning, and the trees are old.",
    "Our office moved to the second floor of the same building.",
    "Ein Satz steht hier ohne besonderen Grund.",
    "\u6771\u4eac\u306e\u5ead\u306f\u3068\u3066\u3082\u9759\u304b\u3067\u3059\u3002\u6728\u304c\u591a\u3044\u3002",
    "\U0001f600 Everybody was happy about the news \U0001f680.",
    "Le jardin est derri\u00e8re la maison.",
    "\u0644\u0643\u0644 \u0645\u0642\u0627\u0645 \u0645\u0642\u0627\u0644.",
)
PROTECTED = (
    "The rent is EUR 1,250.00 a month.",
    "The loan bears 3.5% per annum until 31 December 2027.",
    "The tenant must pay by the third working day.",
    "Pets are allowed unless they are loud.",
    "Refunds are limited to 40 units, at most \u00a3300.",
    "See https://example.org/terms?id=7 (version 2.1.3).",
    "Der Mieter muss bis 3.4.2025 zahlen, au\u00dfer im Urlaub.",
    "Der Preis ist 1.299,00 \u20ac pro Jahr.",
    "\u671f\u9650\u306f2024\u5e743\u67085\u65e5\u3067\u3059\u3002",
    "Section 4.2 of the contract applies; see rev. 7.",
    "It may not exceed 12 kg or 3 months.",
    "Q3 2024 closed at $4.2 million, up from $3.9 million.",
)
BOILERPLATE = (
    "Home | Products | Pricing | Support | Contact",
    "Kind regards,\nAnn Smith\nAcme Homes",
    "This message is confidential and intended solely for the addressee. If you are not the intended recipient, "
    "delete it.",
    "-- \nBob, tel. 030 1234",
    "On 3 May 2024 Ann Smith wrote:\n> The price is EUR 5 until Friday.\n> Thanks",
    "<div class='x'></div>\n<p>Some text stands here.</p>\n<span></span>",
    "<nav><a>Home</a></nav>",
    "Back to top",
)
DATA = (
    "| item | price |\n|---|---|\n| rope | EUR 3.50 |\n| lamp | EUR 12.00 |",
    "- pay EUR 40 by 1 May 2025\n- tell the office\n- keep the keys",
    "The tenant must:\n- clean the stairs\n- lock the door",
    "```\ntotal = 3.5 * rate\n```",
    "name: Ann\nplace: Leeds\ndue: 2025-02-01",
)
QUESTIONS = (
    "What is the rent?",
    "Question: How long does it last?",
    "List all prices.",
    "\u3044\u304f\u3089\u3067\u3059\u304b\uff1f",
)


def _json(draw: random.Random) -> str:
    rows = [
        {"id": i, "price": draw.choice(["EUR 5.00", "3.5%", "12 kg"]), "due": draw.choice([None, "", "2024-05-06"])}
        for i in range(draw.randint(1, 5))
    ]
    return json.dumps(draw.choice([rows, {"rows": rows, "note": None, "more": []}]), indent=draw.choice([None, 2, 4]))


def _block(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.45:
        return " ".join(draw.choices((*PROSE, *PROTECTED), k=draw.randint(1, 5)))
    if kind < 0.6:
        return _json(draw)
    return draw.choice((*BOILERPLATE, *DATA))


def text(draw: random.Random) -> str:
    """A text of up to ten blocks, some of them twice, cut at a random character now and then."""
    blocks = [_block(draw) for _ in range(draw.randint(1, 7))]
    blocks += draw.choices(blocks, k=draw.randint(0, 3))
    draw.shuffle(blocks)
    whole = draw.choice(["\n\n", "\n\n", "\n", "\n\n\n", "\r\n\r\n", "\u2028", " "]).join(blocks)
    return whole[draw.randint(0, len(whole)) :] if draw.random() < 0.1 else whole


def prompt(seed: int) -> list[dict[str, Any]]:
    """Messages with speakers that take turns, some of them with calls of tools."""
    draw = random.Random(seed)
    found: list[dict[str, Any]] = []
    if draw.random() < 0.4:
        found.append({"role": "system", "content": text(draw)})
    for turn in range(draw.randint(1, 3)):
        if turn:
            found.append({"role": "assistant", "content": text(draw)})
        found.append({"role": "user", "content": text(draw)})
    if draw.random() < 0.3:
        found += [*_call(draw, "a"), *_call(draw, "b"), {"role": "user", "content": "And now?"}]
    found[-1]["content"] += "\n\n" + draw.choice(QUESTIONS)
    return found


def _call(draw: random.Random, ident: str) -> list[dict[str, Any]]:
    city = draw.choice(["Leeds", "York"])
    asked = {"id": ident, "type": "function", "function": {"name": "rent", "arguments": json.dumps({"city": city})}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": ident, "content": f"EUR {draw.randint(1, 3)} in {city}"},
    ]
