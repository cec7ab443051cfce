"""Sizes, rates and counts as people write them, and back. GB is 10^9 bytes, GiB is 2^30; nothing is guessed."""

from __future__ import annotations

import math
import re

from specq.core.errors import ConfigError

_DECIMAL = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_SPELLED = re.compile(r"B|[KMGT]B|[KMGT]iB|kB|kiB|b|[kmgt]b|[kmgt]ib")
_NUMBER = re.compile(r"(\d+(?:,\d{3})+|\d*\.?\d+(?:[eE][+]?\d{1,2})?)\s*(.*)", re.DOTALL)
_FLOPS = re.compile(r"([MGTP]?)(?:FLOPS?(?:/s)?|flops?(?:/s)?|OPS)?")
_SCALE = {"": 1.0, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_TIMES = {"": 1, "k": 1 << 10, "K": 1 << 10, "m": 1 << 20, "M": 1 << 20}
# A count of bytes below it that has no unit is a forgotten unit; above a petabyte it is a slip.
_LEAST_BARE, _MOST = 10**6, 10**15


def size(option: str, given: str | float) -> int:
    """Bytes of text such as "24GB" (24e9) or "24 GiB" (24 x 2^30); a bare number is bytes from 1e6 on.

    Raises:
        ConfigError: it is no such text, not above 0 or beyond 1,000 TB.
    """
    allowed = "allowed is a number with its unit, as 24GB (24e9 bytes) or 24GiB (24 x 2^30 bytes), up to 1,000 TB"
    number, unit = _split(option, given, allowed)
    if unit and not _SPELLED.fullmatch(unit):
        bits = "; b is taken for bits beside a large letter" if re.fullmatch("[KMGT]i?b", unit) else ""
        raise ConfigError(f'{option} "{given}": the unit {unit!r} is not known{bits}; {allowed}')
    if not unit and number < _LEAST_BARE:
        raise ConfigError(f'{option} "{given}" has no unit; {allowed}')
    count = number * {**_DECIMAL, **_BINARY}[unit.upper() or "B"]
    if not 1 <= count <= _MOST:
        raise ConfigError(f'{option} "{given}" is {count:.3g} bytes; {allowed}')
    return round(count)


def rate(option: str, given: str | float) -> float:
    """Bytes a second of text such as "380GB/s" or "3.35TB/s".

    Raises:
        ConfigError: as for `size`.
    """
    text = given.strip().removesuffix("/s").strip() if isinstance(given, str) else given
    try:
        return float(size(option, text))
    except ConfigError as error:
        raise ConfigError(
            f'{option} "{given}": allowed is a number with its unit, as 380GB/s or 3.35TB/s, up to 1,000 TB/s'
        ) from error


def flops(option: str, given: str | float) -> float:
    """FLOP/s of text such as "989TFLOP/s", "989T" or "989e12".

    Raises:
        ConfigError: it is no such text, or not from 1e9 to 1e18.
    """
    allowed = "allowed is FLOP a second, as 989TFLOP/s, 989T or 989e12, from 1e9 to 1e18"
    number, unit = _split(option, given, allowed)
    match = _FLOPS.fullmatch(unit)
    if match is None:
        raise ConfigError(f'{option} "{given}": the unit {unit!r} is not known; {allowed}')
    value = number * _SCALE[match[1]]
    if not 1e9 <= value <= 1e18:
        raise ConfigError(f'{option} "{given}" is {value:.3g} FLOP/s; {allowed}')
    return value


def tokens(option: str, given: str | int) -> int:
    """A number of tokens of text such as "32768", "32,768" or "32k" (k is 1,024).

    Raises:
        ConfigError: it is no whole number above 0.
    """
    allowed = "allowed is a whole number of tokens from 1 on, as 32768 or 32k (k is 1,024)"
    match = re.fullmatch(r"(\d+(?:,\d{3})*)\s*([kKmM]?)", str(given).strip())
    if match is None or (count := int(match[1].replace(",", "")) * _TIMES[match[2]]) < 1:
        raise ConfigError(f'{option} "{given}": {allowed}')
    return count


def weights(option: str, given: str | float) -> int:
    """A number of weights of text such as "3.2e9", "3.2B" or "135M".

    Raises:
        ConfigError: it is no such number, or not from 1,000 to 1e15.
    """
    allowed = "allowed is a number of weights, as 3.2e9, 3.2B (billions) or 135M"
    number, unit = _split(option, given, allowed)
    scale = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}.get(unit.upper())
    if scale is None or not 1e3 <= number * scale <= 1e15:
        raise ConfigError(f'{option} "{given}": {allowed}')
    return round(number * scale)


def margin(option: str, given: str | float) -> tuple[float, int]:
    """A share of what is held, and bytes beside it: "10%" is (0.1, 0), "2GB" is (0, 2e9).

    Raises:
        ConfigError: it is neither, or a share that is not from 0 to 99 per cent.
    """
    text = str(given).strip()
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text)
    if match is not None and float(match[1]) < 100:
        return float(match[1]) / 100, 0
    try:
        return 0.0, 0 if text == "0" else size(option, given)
    except ConfigError as error:
        raise ConfigError(f'{option} "{given}": allowed is 0% to 99%, or bytes with their unit, as 2GB') from error


def _split(option: str, given: str | float, allowed: str) -> tuple[float, str]:
    match = None if isinstance(given, bool) else _NUMBER.fullmatch(str(given).strip().removeprefix("+"))
    if match is None or not math.isfinite(number := float(match[1].replace(",", ""))):
        raise ConfigError(f'{option} "{given}": {allowed}')
    return number, match[2].strip()


def gib(count: float) -> str:
    """Bytes in GiB (2^30), without the unit."""
    return _decimals(count / 2**30)


def gb(count: float) -> str:
    """Bytes in GB (10^9), without the unit."""
    return _decimals(count / 1e9)


def kib(count: float) -> str:
    """Bytes in KiB with one decimal, without the unit."""
    return f"{count / 1024:,.1f}"


def per_second(value: float) -> str:
    """Tokens a second: whole from 10 on, else two digits."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:,.2g}"


def times(value: float) -> str:
    """A ratio: one decimal from 1 on, else two; what would round to nothing is said to be below that."""
    if 0 < value < 0.005:
        return "<0.01"
    return f"{value:,.1f}" if value >= 0.995 else f"{value:.2f}"


def billions(count: float) -> str:
    """A number of weights in billions or millions."""
    return f"{count / 1e9:,.2f} billion" if count >= 1e9 else f"{count / 1e6:,.1f} million"


def bandwidth(value: float) -> str:
    """Bytes a second in TB/s or GB/s."""
    return f"{value / 1e12:.3g} TB/s" if value >= 1e12 else f"{value / 1e9:.4g} GB/s"


def _decimals(value: float) -> str:
    """Two decimals; below a hundredth two digits that are not 0, so that small models do not read as nothing."""
    return f"{value:,.2f}" if value >= 0.01 or value == 0 else f"{value:.2g}" if value >= 1e-4 else f"{value:.1e}"
