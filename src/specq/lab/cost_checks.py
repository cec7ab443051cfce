"""Numbers of a workload, of prices and of rates: what is allowed, and what to type where one will not do."""

from __future__ import annotations

import math
from typing import Any

from specq.core.errors import ConfigError

EXAMPLES = {
    "prompt_tokens": "890",
    "cached_share": "0.6",
    "output_tokens": "53",
    "requests_per_month": "2000000",
    "written_share": "0.1",
    "input_price": "1.00",
    "cached_price": "0.10",
    "output_price": "4.00",
    "cache_write_price": "1.25",
    "per_hour": "2.50",
    "prefill_tokens_per_s": "2025",
    "decode_tokens_per_s": "190",
    "warm_s": "0.015",
    "measured_context": "4096",
    "correct_share": "0.85",
    "correct_n": "200",
}
"""Every number that can be given, with one that shows how it is typed."""
SHARES = ("cached_share", "written_share", "correct_share")
# 0 of these leaves nothing to price, or divides by nothing.
ABOVE_ZERO = (
    *("prompt_tokens", "requests_per_month", "per_hour", "prefill_tokens_per_s", "decode_tokens_per_s"),
    *("measured_context", "correct_n"),
)
# Figures are products and quotients of a few numbers: within these bounds none of them is infinite, or nothing.
SMALLEST, LARGEST = 1e-12, 1e15


def option(name: str, value: str | None = None) -> str:
    """A number as it is typed on the command line, with an example or a value."""
    return f"--{name.replace('_', '-')} {EXAMPLES[name] if value is None else value}"


def number(name: str, value: Any, *, typed: str | None = None) -> float:
    """The value as a float, if it is one that `name` may have; `typed` says how to give it elsewhere than in options.

    Raises:
        ConfigError: it is no finite number, or out of range.
    """
    how = typed if typed is not None else option(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} = {value!r}: allowed is {_allowed(name)}; type {how}")
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if name in SHARES and 1 < value <= 100:
        raise ConfigError(
            f"{name} = {value:g}: allowed is {_allowed(name)}; for {value:g} % type {option(name, f'{value / 100:g}')}"
        )
    least = name not in ABOVE_ZERO
    if (
        not math.isfinite(value)
        or not (value >= 0 if least else value > 0)
        or (name in SHARES and value > 1)
        or (name == "correct_n" and value != int(value))
    ):
        raise ConfigError(f"{name} = {value:g}: allowed is {_allowed(name)}; type {how}")
    if value > LARGEST or 0 < value < SMALLEST:
        kind = f"{SMALLEST:g} to {LARGEST:g}" if name in ABOVE_ZERO else f"0, or {SMALLEST:g} to {LARGEST:g}"
        raise ConfigError(f"{name} = {value:g}: allowed is {kind}; type {how}")
    return value


def _allowed(name: str) -> str:
    if name in SHARES:
        return "a share from 0 to 1"
    if name == "correct_n":
        return "a whole number from 1 on"
    return "a number above 0" if name in ABOVE_ZERO else "0 or more"
