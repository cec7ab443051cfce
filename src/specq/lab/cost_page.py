"""A priced month as one HTML page whose values can be moved; it computes everything again, and needs no network.

`cost_page.js` has the formulas of `cost` and `cost_time` once more, for a browser has no Python; tests hold both
against each other.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError
from specq.core.jsonl import disk_error
from specq.lab import cost
from specq.lab.cost_found import Cost
from specq.lab.cost_words import LEVERS, TOKENS, amount, count, hours, price, seconds
from specq.report.templates import style, template
from specq.report.words import NOTHING, number, share

TEMPLATE = Path(__file__).parent / "cost_page.html.jinja"
NAMES = {**TOKENS, **LEVERS, "hit_rate_60": f"a {share(cost.HIT_RATE)} hit rate"}
_REACH = 4
"""How many times its value a slider reaches to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """One value that can be moved to `most`, from 0, or from one step where 0 is no value.

    The field beside it takes any number from `least` on. What is shown is `over` times the value that is computed with.
    """

    key: str
    label: str
    value: float
    most: float
    step: float
    least: float = 0.0
    over: float = 1.0


_TITLE = "<title>What a month of requests costs</title>"


def check_target(file: Path) -> None:
    """Refuse what is there already, unless it is a page that `render` made.

    Raises:
        ConfigError: there is no such folder, or something else is there. RunFolderError: it cannot be read.
    """
    if not file.parent.is_dir():
        raise ConfigError(f"{file}: cannot be written (no such folder); type --page price.html")
    if not file.exists():
        return
    try:
        with file.open("rb") if file.is_file() else io.BytesIO() as there:
            own = _TITLE.encode() in there.read(4096)
    except OSError as error:
        raise disk_error(error, file) from error
    if not own:
        raise ConfigError(
            f"{file} is there already, and is no page of specq cost; nothing is written over: name another --page, or "
            "move it away"
        )


def render(found: Cost) -> str:
    """The page; its tables stand in it as the command prints them, so that it can be read without scripts too."""
    return template(TEMPLATE).render(
        css=style(),
        script=_script(),
        said=[*_sources(found), *found.warnings, *(f"With the values given: {note}" for note in found.notes)],
        currency=found.currency,
        sliders=list(sliders(found)),
        bill=list(_bill(found)),
        savings=list(_savings(found)),
        answer="" if found.bill is None else number(found.bill.amount / found.workload.requests_per_month),
        times=_times(found),
        start=_json(values(found)),
        names=_json(NAMES),
    )


def values(found: Cost) -> dict[str, float | None]:
    """What the page's script computes with; None where a value is not known."""
    work, prices, rates = found.workload, found.prices, found.rates
    return {
        "prompt": work.prompt_tokens,
        "cached": work.cached_share,
        "written": work.written_share,
        "output": work.output_tokens,
        "requests": work.requests_per_month,
        "input_price": None if prices is None else prices.input_price,
        "cached_price": None if prices is None else prices.cached_price,
        "output_price": None if prices is None else prices.output_price,
        "write_price": None if prices is None else prices.cache_write_price,
        "prefill": None if rates is None else rates.prefill_tokens_per_s,
        "decode": None if rates is None else rates.decode_tokens_per_s,
        "warm": None if rates is None else rates.warm_s,
        "per_hour": found.per_hour,
    }


def sliders(found: Cost) -> Iterator[Slider]:
    """One of each value that is known; a month has at least one request, and a machine some speed."""
    labels = {
        "prompt": "prompt tokens",
        "cached": "cached share, %",
        "output": "output tokens",
        "requests": "requests a month",
        "input_price": f"{found.currency} a million, prompt",
        "cached_price": f"{found.currency} a million, cached",
        "write_price": f"{found.currency} a million, written",
        "output_price": f"{found.currency} a million, output",
        "prefill": "prompt tokens a second",
        "decode": "answer tokens a second",
        "warm": "seconds to pick up a cache",
        "per_hour": f"{found.currency} a machine-hour",
    }
    known = values(found)
    for key, label in labels.items():
        value = known[key]
        if value is None:
            continue
        if key == "cached":
            most = 100.0 * (1 - (known["written"] or 0.0))
            yield Slider(key=key, label=label, value=_plain(100 * value), most=_plain(most), step=1, over=100)
            continue
        most = _REACH * value if value else 1.0
        least = 1.0 if key == "requests" else most / 1000 if key in ("prefill", "decode") else 0.0
        yield Slider(key=key, label=label, value=value, most=most, step=most / 400, least=least)


def _plain(value: float) -> float:
    """Without the digits that binary adds, as in 100 x 0.57."""
    return float(f"{value:.12g}")


def _sources(found: Cost) -> Iterator[str]:
    for sheet in found.sheets:
        yield f"Prices: {sheet.model}, {sheet.date}, {sheet.source}"


def _bill(found: Cost) -> Iterator[tuple[str, ...]]:
    if found.bill is None or found.uncached_bill is None:
        return
    of = found.bill.amount
    most = max(of, found.uncached_bill.amount)
    for row in found.bill.rows:
        yield (
            NAMES[row.name],
            count(row.tokens),
            price(row.price),
            amount(row.amount, most),
            share(row.amount / of) if of else NOTHING,
        )
    yield "together", count(found.bill.tokens), "", amount(of, most), ""
    yield "without the cache", "", "", amount(found.uncached_bill.amount, most), ""


def _savings(found: Cost) -> Iterator[tuple[str, ...]]:
    of: cost.Bill | None = found.bill
    for one in found.savings(uncached=False):
        part = NOTHING if one.share is None else share(one.share)
        yield NAMES[one.lever], amount(one.saves, None if of is None else of.amount), part


def _times(found: Cost) -> dict[str, str] | None:
    if found.times is None:
        return None
    part = found.times.prefill_share
    own = found.hosted
    return {
        "e2e": seconds(found.times.e2e_s),
        "prefill": f"{seconds(found.times.prefill_s)} ({NOTHING if part is None else share(part)})",
        "saves": seconds(found.times.cache_saves_s),
        "hours": hours(found.times.machine_hours),
        "busy": "" if own is None else amount(own.busy_amount),
        "rented": "" if own is None else f"{amount(own.rented_amount)} for {own.machines}",
    }


def _json(value: Any) -> str:
    """JSON that can stand in a script element: no text in it ends the element."""
    return json.dumps(value).replace("<", "\\u003c")


@cache
def _script() -> str:
    return TEMPLATE.with_name("cost_page.js").read_text(encoding="utf-8")
