"""Card numbers by the digits that their issuers begin with, their lengths, their groups and their check digit.

First digits and lengths are those that the schemes publish (ISO/IEC 7812). One number in ten has a right check digit by
chance; with a known beginning, length and grouping, few that are no cards are left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SHAPES = (
    r"\d{4}([ .-])\d{4}(?:\1\d{4}){2}\1\d{3}",
    r"\d{4}([ .-])\d{4}(?:\1\d{4}){2}",
    r"\d{4}([ .-])\d{6}\1\d{4,5}",
    r"\d{12,19}",
)
_ALONE = r"(?!\w)(?![.,]\d{1,2}(?!\d))"
_CARDS = tuple(re.compile(shape + _ALONE) for shape in _SHAPES)
_STARTS = re.compile(r"(?<!\w)(?<!\d[.])(?=[2-6]\d{3}(?:[ .-]\d{4}|\d{8}))")
# Visa, Mastercard, American Express, Diners, Discover, UnionPay, JCB, Maestro, Mir: beginning, then how long it may be.
_SCHEMES = (
    (re.compile(r"4"), (13, 16, 19)),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),
    (re.compile(r"3[47]"), (15,)),
    (re.compile(r"30[0-5]|3095|3[689]"), (14, 16, 17, 18, 19)),
    (re.compile(r"6011|64[4-9]|65|62|352[89]|35[3-8]|220[0-4]"), (16, 17, 18, 19)),
    (re.compile(r"5018|5020|5038|5893|6304|6759|676[1-3]"), tuple(range(12, 20))),
)


def found(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each card number, also of those that stand beside one another."""
    end = 0
    for start in _STARTS.finditer(text):
        if start.start() < end:
            continue
        for shape in _CARDS:
            match = shape.match(text, start.start())
            if match and _is_card(re.sub(r"\D", "", match[0])):
                end = match.end()
                yield match.span()
                break


def _is_card(digits: str) -> bool:
    """Whether a scheme has such numbers and the check digit is right (Luhn, ISO/IEC 7812-1)."""
    if not any(begins.match(digits) and len(digits) in lengths for begins, lengths in _SCHEMES):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0
