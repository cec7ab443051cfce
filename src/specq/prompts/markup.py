"""Markup and blobs: elements that hold nothing, and base64, of which a name is left."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from specq.prompts.blocks import blocks
from specq.prompts.work import Edit, Piece, Work

# Attributes that say how a thing looks. An element with others says something.
_LOOKS = (
    r"(?:\s+(?:class|style|align|valign|width|height|border|bgcolor|color|role|dir)\s*=\s*"
    r"(?:\"[^\"]*\"|'[^']*'|[^\s\"'>]+))*"
)
# Lines, cells and places that a reader counts stay, however empty they are.
_COUNTED = frozenset(("br", "hr", "wbr", "td", "th", "tr", "li", "col", "option", "input", "textarea", "img"))
_EMPTY = re.compile(rf"<([A-Za-z_][\w:.-]*){_LOOKS}\s*(?:/>|>\s*</\1\s*>)")
_FULL = re.compile(r"<([A-Za-z_][\w:.-]*)(?:\s[^<>]*)?>[^<]*[^\s<][^<]*</\1\s*>")
LEAST_BLOB = 200
_DATA_URI = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(?P<data>[A-Za-z0-9+/_=-]{64,})")
_BLOB = re.compile(
    rf"(?<![A-Za-z0-9+/_=-])(?:[A-Za-z0-9+/_-]{{{LEAST_BLOB},}}|"
    rf"[A-Za-z0-9+/]{{60,76}}(?:\r?\n[A-Za-z0-9+/]{{60,76}}){{2,}}"
    r"(?:\r?\n[A-Za-z0-9+/]{1,76})?)={0,2}(?![A-Za-z0-9+/_=-])"
)


def empty_tags(work: Work) -> Iterator[Edit]:
    """Elements without content and without attributes but those of looks, among elements that have some.

    Where no element holds anything they are a form to fill in, and within a sentence they are spoken of.
    """
    for place, part in work.open_parts():
        text = part.text
        for block in blocks(text):
            if block.is_code or block.kind == "json" or not _FULL.search(text, block.start, block.end):
                continue
            for match in _EMPTY.finditer(text, block.start, block.end):
                before = text[block.start : match.start()].rstrip(" \t")[-1:]
                after = text[match.end() : block.end].lstrip(" \t")[:1]
                if match[1].casefold() in _COUNTED or before not in ("", "\n", ">") or after not in ("", "\n", "<"):
                    continue
                yield Edit(reason="empty tag", pieces=(_line_or_span(text, place, match.start(), match.end()),))


def _line_or_span(text: str, place: int, start: int, end: int) -> Piece:
    """A stretch, with its line where it is all that stands there."""
    begun = text.rfind("\n", 0, start) + 1
    if end < len(text) and text[end] == "\n" and not text[begun:start].strip():
        return Piece(part=place, start=begun, end=end + 1)
    return Piece(part=place, start=start, end=end)


def blobs(work: Work) -> Iterator[Edit]:
    """Runs of base64: a name of each stays in its place, with its type where one is told and its length."""
    for place, part in work.open_parts():
        text = part.text
        code = [(block.start, block.end) for block in blocks(text) if block.is_code]
        found = [(match.span(), match["type"] or "data") for match in _DATA_URI.finditer(text)]
        inside = [span for span, _ in found]
        for match in _BLOB.finditer(text):
            if not any(a < match.end() and match.start() < b for a, b in inside) and _is_base64(match[0]):
                found.append((match.span(), "data"))
        for (start, end), kind in sorted(found):
            if not any(a < end and start < b for a, b in code):
                put = f"[base64 left out: {kind}, {end - start} characters]"
                yield Edit(reason="base64", pieces=(Piece(part=place, start=start, end=end, put=put),))


def _is_base64(text: str) -> bool:
    bare = "".join(text.split()).translate(str.maketrans("-_", "+/")).rstrip("=")
    kinds = (any(map(str.isupper, bare)), any(map(str.islower, bare)), any(map(str.isdecimal, bare)))
    if not all(kinds):
        return False
    try:
        base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
