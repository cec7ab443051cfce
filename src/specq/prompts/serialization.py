"""JSON in a text with fewer characters: tables for repeated keys, no empty fields, no white space. Literals stay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from specq.prompts.blocks import blocks
from specq.prompts.work import Edit, Piece, Work

LEAST_ROWS = 3
_DEEPEST = 64
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"{}\[\],:]+|[{}\[\],:]')
_EMPTY = ("null", '""')
# A schema says with an empty field what is allowed.
_SCHEMA_KEYS = ('"$schema"', '"properties"', '"$ref"')


@dataclass(slots=True, kw_only=True)
class _Node:
    """A value from `start` to `end` of the text; of an object `keys` and `values`, of a list `values` alone."""

    start: int
    end: int = 0
    opened: str = ""
    keys: list[tuple[int, int]] = field(default_factory=list)
    values: list[_Node] = field(default_factory=list)
    commas: list[int] = field(default_factory=list)


def _documents(work: Work) -> Iterator[tuple[int, str, _Node]]:
    for place, part in work.open_parts():
        for block in blocks(part.text):
            if block.kind == "json" and (root := _parse(part.text, block.start, block.end)) is not None:
                yield place, part.text, root


def _parse(text: str, start: int, end: int) -> _Node | None:
    """The tree of a document that is known to be JSON; None where it is nested too deep to be read here."""
    top = _Node(start=start)
    stack, named = [top], None
    for match in _TOKEN.finditer(text, start, end):
        here, token = stack[-1], match[0]
        if token in "{[":
            here.values.append(_Node(start=match.start(), opened=token))
            stack.append(here.values[-1])
            if len(stack) > _DEEPEST:
                return None
        elif token in "}]":
            stack.pop().end = match.end()
        elif token == ",":
            here.commas.append(match.start())
        elif token == ":":
            here.keys.append(named or (0, 0))
            # What was read as a value was the key.
            here.values.pop()
        else:
            named = match.span()
            here.values.append(_Node(start=match.start(), end=match.end()))
    return top.values[0]


def _walk(node: _Node) -> Iterator[_Node]:
    yield node
    for value in node.values:
        yield from _walk(value)


def tables(work: Work) -> Iterator[Edit]:
    """Lists of objects with the same keys as one object of `columns` and `rows`, where that is shorter."""
    for place, text, root in _documents(work):
        behind = -1
        for node in _walk(root):
            if node.start >= behind and (put := _table(text, node)) is not None and len(put) < node.end - node.start:
                behind = node.end
                yield Edit(reason="JSON table", pieces=(Piece(part=place, start=node.start, end=node.end, put=put),))


def _table(text: str, node: _Node) -> str | None:
    if node.opened != "[" or len(node.values) < LEAST_ROWS or any(row.opened != "{" for row in node.values):
        return None
    names = [[text[start:end] for start, end in row.keys] for row in node.values]
    if not names[0] or any(other != names[0] for other in names) or len(set(names[0])) < len(names[0]):
        return None
    rows = ",\n".join(f"[{','.join(_compact(text, cell) for cell in row.values)}]" for row in node.values)
    return f'{{"columns":[{",".join(names[0])}],"rows":[\n{rows}]}}'


def _compact(text: str, node: _Node) -> str:
    return "".join(_TOKEN.findall(text, node.start, node.end))


def empty_fields(work: Work) -> Iterator[Edit]:
    """Fields of objects that are null or hold nothing; not of forms to fill in, where they are more than half."""
    for place, text, root in _documents(work):
        if any(text[start:end] in _SCHEMA_KEYS for node in _walk(root) for start, end in node.keys):
            continue
        pieces = [piece for node in _walk(root) if node.opened == "{" for piece in _fields(text, place, node)]
        if pieces:
            yield Edit(
                reason="empty field",
                pieces=tuple(pieces),
                finer=tuple(Edit(reason="empty field", pieces=(piece,)) for piece in pieces) if len(pieces) > 1 else (),
            )


def _fields(text: str, place: int, node: _Node) -> Iterator[Piece]:
    empty = [_is_empty(text, value) for value in node.values]
    if 2 * sum(empty) > len(empty) or not empty:
        return
    first = empty.index(False)
    for i, gone in enumerate(empty):
        if gone and i < first:
            # Those before the first that stays go with the comma after them.
            yield Piece(part=place, start=node.keys[i][0], end=node.keys[i + 1][0])
        elif gone:
            yield Piece(part=place, start=node.commas[i - 1], end=node.values[i].end)


def _is_empty(text: str, node: _Node) -> bool:
    return text[node.start : node.end] in _EMPTY or (node.opened != "" and not node.values)


def white_space(work: Work) -> Iterator[Edit]:
    """The space between the tokens of a document; rows of a table keep their lines."""
    for place, text, root in _documents(work):
        found, at = [], root.start
        for match in _TOKEN.finditer(text, root.start, root.end):
            if match.start() > at and not _row_break(text, at, match.start()):
                found.append(Piece(part=place, start=at, end=match.start()))
            at = match.end()
        if found:
            yield Edit(reason="JSON whitespace", pieces=tuple(found))


def _row_break(text: str, start: int, end: int) -> bool:
    return text[start:end] == "\n" and text[start - 1] in ",[" and text[end] == "["
