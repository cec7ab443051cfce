"""Amounts, prices, counts and seconds of a priced month in words."""

from __future__ import annotations

from specq.report.words import NOTHING, number

TOKENS = {
    "input": "prompt, not cached",
    "cache_write": "prompt, written",
    "cached": "prompt, cached",
    "output": "output",
}
LEVERS = {
    "half_prompt": "half the prompt",
    "prompt_40_less": "40 % less prompt",
    "half_output": "half the output",
}
WHOLE_FROM = 1000.0
"""From here on cents say nothing."""


def amount(value: float, among: float | None = None) -> str:
    """An amount of money: to the cent, or whole where `among` (the largest of its table, else itself) is large."""
    digits = 0 if abs(value if among is None else among) >= WHOLE_FROM else 2
    if digits and 0 < abs(value) < 0.005 and among is None:
        return number(value)
    # What rounds to nothing has no sign.
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def price(value: float | None) -> str:
    """A price of a million tokens or of an hour: to the cent, with more digits where it has some."""
    if value is None:
        return NOTHING
    return f"{value:,.2f}" if abs(round(value, 2) - value) < 1e-9 or value >= 100 else number(value)


def count(value: float) -> str:
    """Tokens or requests, which may be a mean: whole, or with what they have after the point."""
    if 0 < value < 0.005:
        return number(value)
    return f"{value:,.0f}" if value >= WHOLE_FROM else f"{value:,.2f}".rstrip("0").rstrip(".")


def percent(value: float) -> str:
    """A share that somebody gave: as many digits as it has, one after the point at most."""
    return f"{round(100 * value, 1):g} %"


def seconds(value: float) -> str:
    """Seconds of a request: to the millisecond below 10."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def hours(value: float) -> str:
    """Machine-hours, with a decimal below 100."""
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"
