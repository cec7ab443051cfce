"""A prompt while it is changed: its texts, where their characters came from, and what may not happen to them."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specq.prompts import protected, turns
from specq.prompts.types import Count, Deletion, Kept, Message, Protected, Reason, Step, content_of

SYSTEM = ("system", "developer")
QUESTION = "the question"
MARK = re.compile(r"\(\d+ times\)")
"""What the transform puts in the place of equal lines; a prompt may hold it of its own accord too."""
SHOWN_FIELDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Characters `start` to `end` of the present text of message `part`, and what takes their place."""

    part: int
    start: int
    end: int
    put: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change that is made as a whole or not at all.

    Where it is not, `finer` are its parts, each tried by itself. `whole` are messages that it takes away, `calls` are
    tool calls, each with its message, that go with their results.
    """

    reason: Reason
    pieces: tuple[Piece, ...]
    finer: tuple[Edit, ...] = ()
    whole: tuple[int, ...] = ()
    calls: tuple[tuple[int, str], ...] = ()


@dataclass(slots=True, kw_only=True)
class Part:
    """One message: its place before the transform, its present text, and the place of each character before it."""

    index: int
    message: Message
    text: str
    origins: array[int]
    gone: bool = False
    dropped_calls: set[str] = field(default_factory=set)

    @property
    def role(self) -> str:
        """Who speaks."""
        return str(self.message["role"])

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        """The tool calls that are left."""
        return [one for one in self.message.get("tool_calls") or () if one.get("id") not in self.dropped_calls]

    @property
    def told(self) -> str:
        """The present text, blanks in the place of each mark that the transform put: no field of the prompt's own."""
        return unmarked(self.text, self.origins)

    def made(self) -> dict[str, Any]:
        """The message as it stands now; keys that were not changed are those that were given."""
        out = dict(self.message)
        if isinstance(self.message.get("content"), str):
            out["content"] = self.text
        if self.dropped_calls:
            out["tool_calls"] = self.calls
            if not self.calls:
                del out["tool_calls"]
        return out


class Work:
    """The messages of one prompt, what was done to them and what was refused.

    `question` gives the stretches (part, start, end) of the present texts that no step may touch.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        count: Count,
        *,
        question: Callable[[Work], tuple[tuple[int, int, int], ...]],
    ) -> None:
        texts = [content_of(message) for message in messages]
        self.parts = [
            Part(index=i, message=message, text=text, origins=array("q", range(len(text))))
            for i, (message, text) in enumerate(zip(messages, texts, strict=True))
        ]
        self.count = count
        self.find_question = question
        self.deletions: list[Deletion] = []
        self.kept: list[Kept] = []
        self.before: Counter[Protected] = protected.changed(texts, ())

    def open_parts(self) -> Iterator[tuple[int, Part]]:
        """The messages that a step may touch, with their places: all but system instructions."""
        for place, part in enumerate(self.parts):
            if not part.gone and part.role not in SYSTEM:
                yield place, part

    def fields(self) -> Counter[Protected]:
        """The protected fields that are there now."""
        return protected.changed([part.told for part in self.parts], ())

    def all_of(self, place: int) -> Piece:
        """The whole text of a message."""
        return Piece(part=place, start=0, end=len(self.parts[place].text))

    def text_after(self, place: int, edits: Iterable[Edit]) -> str:
        """The text of a message as edits would leave it."""
        return _text(self.parts[place].text, _of(edits, place))

    def told_after(self, place: int, edits: Iterable[Edit]) -> str:
        """As text_after, without the transform's own marks."""
        pieces = [replace(one, put="") if MARK.fullmatch(one.put.strip()) else one for one in _of(edits, place)]
        return _text(self.parts[place].told, pieces)

    def settle(self, step: Step, edits: Iterable[Edit]) -> bool:
        """Make all changes that lose nothing protected; log them, and those that were refused with why.

        Halves are tried where the whole loses something, so that few losses cost few tries. Returns whether anything
        was changed.
        """
        apart = list(_apart(edits))
        if not apart:
            return False
        question = self.find_question(self)
        free, taken = list[Edit](), list[Edit]()
        for edit in apart:
            blocked = self._touches(edit, question)
            finer = [one for one in edit.finer if not self._touches(one, question)]
            if not blocked:
                free.append(edit)
            elif finer:
                free += finer
            else:
                self._keep(step, edit, (QUESTION,))
        there = self.fields()
        todo = [free]
        while todo:
            some = todo.pop()
            if not some:
                continue
            lost = self.lost_by([*taken, *some], there)
            if not lost and len(some) == 1 and (why := self._empties([*taken, *some])):
                self._keep(step, some[0], (why,))
            elif not lost and not self._empties([*taken, *some]):
                taken += some
            elif len(some) > 1:
                # The later half waits below the earlier one.
                half = len(some) // 2
                todo += [some[half:], some[:half]]
            elif some[0].finer:
                todo.append(list(some[0].finer))
            else:
                more = [f"and {len(lost) - SHOWN_FIELDS} more"] if len(lost) > SHOWN_FIELDS else []
                self._keep(step, some[0], (*map(str, lost[:SHOWN_FIELDS]), *more))
        self._commit(step, taken)
        return bool(taken)

    def _touches(self, edit: Edit, question: Sequence[tuple[int, int, int]]) -> bool:
        return any(
            piece.part == part and piece.start < end and start < piece.end
            for piece in edit.pieces
            for part, start, end in question
        )

    def lost_by(self, edits: Sequence[Edit], there: Counter[Protected]) -> list[Protected]:
        """What changes would take the last of, with the transform's own marks or without them.

        A mark is no copy of an amount of the prompt; and where a passage before it goes, it may join a clause.
        """
        places = {piece.part for edit in edits for piece in edit.pieces}
        net = protected.changed(
            [self.parts[place].told for place in places], [self.told_after(place, edits) for place in places]
        )
        found = [one for one, fall in net.items() if fall > 0 and 0 < there[one] <= fall]
        if any("times)" in self.text_after(place, edits) for place in places):
            old, new = [part.text for part in self.parts], [part.text for part in self.parts]
            for place in places:
                new[place] = self.text_after(place, edits)
            after = protected.changed(new, ())
            found += [one for one in protected.changed(old, ()) if one in self.before and not after[one]]
        return list(dict.fromkeys(found))

    def _empties(self, edits: Sequence[Edit]) -> str:
        """Why the messages that these changes empty or take away must stay; "" where they may go."""
        whole = {place for edit in edits for place in edit.whole}
        for place in {piece.part for edit in edits for piece in edit.pieces} - whole:
            text = self.parts[place].text
            if text.strip() and not self.text_after(place, edits).strip():
                return "the last of its message"
        for place in {place for edit in edits for place, _ in edit.calls} - whole:
            dropped = {call for edit in edits for at, call in edit.calls if at == place}
            if not self.parts[place].text.strip() and all(one.get("id") in dropped for one in self.parts[place].calls):
                return "the last of its message"
        gone = whole | {place for place, part in enumerate(self.parts) if part.gone}
        roles = [part.role for part in self.parts]
        return "" if not whole or turns.still_take_turns(roles, gone) else "speakers take turns"

    def _keep(self, step: Step, edit: Edit, because: tuple[str, ...]) -> None:
        part, start, end, text, put = self._described(edit)
        characters, tokens = len(text) - len(put), self.count(text) - self.count(put)
        self.kept.append(
            Kept(
                step=step, reason=edit.reason, message=part.index, start=start, end=end, characters=characters,
                tokens=tokens, text=text, because=because,
            )
        )  # fmt: skip

    def _described(self, edit: Edit) -> tuple[Part, int, int, str, str]:
        """Message, place before the transform, text that goes and text that is put."""
        first = edit.pieces[0]
        part = self.parts[first.part]
        last = max((piece for piece in edit.pieces if piece.part == first.part), key=lambda piece: piece.end)
        gone = "".join(self.parts[piece.part].text[piece.start : piece.end] for piece in edit.pieces)
        put = "".join(piece.put for piece in edit.pieces)
        if first.start == last.end:
            return part, 0, 0, gone, put
        return part, part.origins[first.start], part.origins[last.end - 1] + 1, gone, put

    def _commit(self, step: Step, edits: Sequence[Edit]) -> None:
        for edit in edits:
            part, start, end, text, put = self._described(edit)
            self.deletions.append(
                Deletion(
                    step=step, reason=edit.reason, message=part.index, start=start, end=end,
                    characters=len(text) - len(put), tokens=self.count(text) - self.count(put), text=text, put=put,
                )
            )  # fmt: skip
        for place, part in enumerate(self.parts):
            pieces = _of(edits, place)
            for piece in reversed(pieces):
                here = part.origins[piece.start] if piece.start < len(part.origins) else 0
                part.origins[piece.start : piece.end] = array("q", [here] * len(piece.put))
            part.text = _text(part.text, pieces)
        for edit in edits:
            for place in edit.whole:
                self.parts[place].gone = True
            for place, call in edit.calls:
                self.parts[place].dropped_calls.add(call)


def unmarked(text: str, origins: Sequence[int]) -> str:
    """A text of the same length without the marks whose characters all come from one place: those are put in."""

    def blank(match: re.Match[str]) -> str:
        start, last = match.start(), match.end() - 1
        own = last < len(origins) and origins[start] == origins[last]
        return " " * len(match[0]) if own else match[0]

    return MARK.sub(blank, text) if "times)" in text else text


def _of(edits: Iterable[Edit], place: int) -> list[Piece]:
    return sorted((p for edit in edits for p in edit.pieces if p.part == place), key=lambda piece: piece.start)


def _text(text: str, pieces: Sequence[Piece]) -> str:
    told, at = [], 0
    for piece in pieces:
        told += [text[at : piece.start], piece.put]
        at = piece.end
    return "".join([*told, text[at:]])


def _apart(edits: Iterable[Edit]) -> Iterator[Edit]:
    """Edits without those that reach into an earlier one: their turn comes in the next round."""
    taken: dict[int, list[tuple[int, int]]] = {}
    for edit in edits:
        reach = {place: _of([edit], place) for place in dict.fromkeys(piece.part for piece in edit.pieces)}
        spans = {place: (pieces[0].start, max(p.end for p in pieces)) for place, pieces in reach.items()}
        clash = any(a < end and start < b for place, (a, b) in spans.items() for start, end in taken.get(place, ()))
        if clash or not spans:
            continue
        for place, span in spans.items():
            taken.setdefault(place, []).append(span)
        yield edit
