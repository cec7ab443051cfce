"""The command that prices a month of requests, by tokens and by machine-hours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from specq.cli.options import Json
from specq.core.errors import ConfigError


def _option(name: str, help: str, metavar: str = "N") -> Any:
    return typer.Option(f"--{name}", metavar=metavar, help=help)


def cost(
    prompt_tokens: Annotated[str, _option("prompt-tokens", "Of a request, in the mean.")],
    output_tokens: Annotated[str, _option("output-tokens", "Of an answer, in the mean.")],
    requests_per_month: Annotated[str, _option("requests-per-month", "How many.")],
    cached_share: Annotated[
        str, _option("cached-share", "Of prompt tokens, read from the cache; 0.6 is 60 %.", "S")
    ] = "0",
    written_share: Annotated[
        str | None, _option("written-share", "Of prompt tokens, written to the cache at a price.", "S")
    ] = None,
    prices: Annotated[
        list[str] | None,
        typer.Option("--prices", metavar="NAME|FILE", help="A sheet of configs/prices; repeatable."),
    ] = None,
    input_price: Annotated[str | None, _option("input-price", "Of a million prompt tokens.", "P")] = None,
    cached_price: Annotated[str | None, _option("cached-price", "Of a million that the cache has.", "P")] = None,
    output_price: Annotated[str | None, _option("output-price", "Of a million tokens of answers.", "P")] = None,
    cache_write_price: Annotated[
        str | None, _option("cache-write-price", "Of a million written to the cache.", "P")
    ] = None,
    currency: Annotated[str | None, _option("currency", "Of all prices; USD unless a sheet says.", "CODE")] = None,
    per_hour: Annotated[str | None, _option("per-hour", "Price of an hour of your own machine.", "P")] = None,
    prefill_tokens_per_s: Annotated[
        str | None, _option("prefill-tokens-per-s", "Prompt tokens a second of your machine.")
    ] = None,
    decode_tokens_per_s: Annotated[
        str | None, _option("decode-tokens-per-s", "Answer tokens a second of your machine.")
    ] = None,
    warm_s: Annotated[str | None, _option("warm-s", "Seconds to pick up a warm cache; 0.", "S")] = None,
    measured_context: Annotated[
        str | None, _option("measured-context", "Tokens at which both rates were measured.")
    ] = None,
    correct_share: Annotated[
        str | None, _option("correct-share", "Of answers that are right; 0.85 is 85 %.", "S")
    ] = None,
    correct_n: Annotated[str | None, _option("correct-n", "Items that the share was counted on.")] = None,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Also write a page whose values can be moved.")
    ] = None,
    json: Json = False,
) -> None:
    """Price a month of requests by tokens and by machine-hours; what fewer tokens or a warmer cache would save."""
    given = {key: value for key, value in locals().items() if key not in ("prices", "currency", "page", "json")}
    numbers: dict[str, Any] = {key: parsed(key, value) for key, value in given.items() if value is not None}
    from specq import api
    from specq.cli import output

    if page is not None:
        # Here, for pages are made by a package that takes long to import.
        from specq.core import jsonl
        from specq.lab import cost_page

        cost_page.check_target(page)
    found = api.price_requests(prices=prices or (), currency=currency, **numbers)
    if page is not None:
        jsonl.write_text_whole(page, cost_page.render(found))
    if json:
        output.print_json(found.to_json())
    else:
        from specq.cli import costing_views

        output.show(costing_views.shown(found))


_PER_CENT = re.compile(r"([\d.]+) ?%")
_THOUSANDS = re.compile(r"\d{1,3}([, ']\d{3})+(\.\d+)?")
_COMMA = re.compile(r"\d*,\d+")
_SIZES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6}


def parsed(name: str, text: str) -> float:
    """A number as it was typed; its range is checked with the others.

    Raises:
        ConfigError: it is none; says what to type where it can be told what was meant.
    """
    try:
        return float(text)
    except ValueError:
        pass
    from specq.lab.cost_checks import option

    meant = _meant(text.strip())
    hint = option(name) if meant is None else option(name, f"{meant:.15g}")
    raise ConfigError(f'{name} = "{text}": allowed is a number with a point and without signs; type {hint}')


def _meant(text: str) -> float | None:
    """What a number in another notation says, None where that cannot be told."""
    try:
        if match := _PER_CENT.fullmatch(text):
            return float(match[1]) / 100
        if text[-1:] in _SIZES:
            return float(text[:-1]) * _SIZES[text[-1]]
        if text[:1] in ("$", "\u20ac"):
            return float(text[1:])
    except ValueError:
        return None
    if _THOUSANDS.fullmatch(text):
        return float(re.sub(r"[, ']", "", text))
    return float(text.replace(",", ".")) if _COMMA.fullmatch(text) else None
