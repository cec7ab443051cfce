"""From a reply that has come, with its stamps, to what came of the request: parsed after the timing, not in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from specq.core.served import Counted
from specq.engines.served import contents, faults
from specq.engines.served.contents import Content, Malformed
from specq.engines.served.events import DONE, Event
from specq.engines.served.faults import Fault
from specq.engines.served.key import Key
from specq.engines.served.request import Attempt, Streamed
from specq.engines.served.wire import Reply

SHOWN = 80
"""Characters of a malformed event that are shown."""
_SPENT = ("length", "limit")
"""How servers say that an answer ended because its tokens were used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request's bytes and stamps, not yet read: `read` gives what they say.

    `reply` is that of the last try, None where no connection opened; `fault` is what the socket or the status told.
    """

    id: str
    key: Key
    asked_s: float
    end_s: float
    reply: Reply | None
    fault: Fault | None
    tries: tuple[Attempt, ...] = ()

    def read(self) -> Streamed:
        """All at once."""
        reader = Reader(self)
        for _ in reader.steps():
            pass
        return reader.streamed()


class Reader:
    """Reads one reply; `steps` parses an event at a time, so that others may have their turn between them."""

    def __init__(self, received: Received) -> None:
        self._received = received
        self._contents: list[tuple[Content, float]] = []
        self._events = self._malformed = self._unknown = 0
        self._ended = False
        # The first thing that an event told of; how the connection ended comes after it, and often follows from it.
        self._fault: Fault | None = None
        self._hide = received.key.hide

    def steps(self) -> Iterator[None]:
        """Parse event by event."""
        reply = self._received.reply
        if reply is None or reply.framing.status // 100 != 2:
            return
        for event in reply.events():
            self._take(event)
            yield

    def _take(self, event: Event) -> None:
        self._events += 1
        if event.data == DONE:
            self._ended = True
            return
        try:
            content = contents.read(event.data)
        except Malformed as error:
            self._malformed += 1
            shown = self._hide(event.data.decode("utf-8", errors="backslashreplace"))[:SHOWN]
            self._fail(Fault(kind="malformed", said=f"event {self._events} of the stream is {error}: {shown!r}"))
            return
        if content.refused is not None:
            self._fail(faults.of_event(content.refused, self._hide))
            return
        self._ended = self._ended or content.ends
        self._unknown += not content.known
        self._contents.append((content, event.stamp_s))

    def _fail(self, fault: Fault) -> None:
        self._fault = self._fault or fault

    def streamed(self) -> Streamed:
        """What came of it, once all steps are done."""
        received, reply = self._received, self._received.reply
        framing = None if reply is None else reply.framing
        finish, usage, server = self._told()
        texts = self._texts()
        ids = self._ids()
        stamps, counts, total, counted = self._counts(ids, usage)
        fault = self._verdict(finish)
        answered = bool(stamps) or fault is None
        notes: tuple[faults.Kind, ...] = ("no_usage",) if counted == "events" and fault is None else ()
        hide_in = received.key.hide_in
        return Streamed(
            id=received.id,
            status=framing.status or None if framing is not None else None,
            asked_s=received.asked_s,
            sent_s=None if reply is None else reply.sent_s,
            connect_s=None if reply is None else reply.connect_s,
            first_byte_s=None if framing is None else framing.first_s,
            first_token_s=stamps[0] if stamps else None,
            last_token_s=stamps[-1] if stamps else None,
            end_s=received.end_s,
            text=texts[0],
            reasoning=texts[1],
            calls=texts[2],
            token_ids=ids,
            event_s=stamps,
            event_tokens=counts,
            tokens=total if answered else None,
            counted=counted,
            finish=None if finish is None else self._hide(finish),
            usage=hide_in(usage),
            server=hide_in(server),
            tries=received.tries,
            error=None if fault is None else fault.kind,
            said="" if fault is None else faults.one_line(fault.said, self._hide),
            notes=notes,
            events=self._events,
            malformed=self._malformed,
            torn_bytes=0 if reply is None else reply.torn_bytes,
        )

    def _told(self) -> tuple[str | None, dict[str, Any] | None, dict[str, Any]]:
        """The finish, the usage and the server's own values: of each, the last that was told."""
        finish: str | None = None
        usage: Any = None
        server: dict[str, Any] = {}
        for content, _ in self._contents:
            finish = content.finish or finish
            usage = content.usage if content.usage is not None else usage
            server.update(content.server)
        return finish, usage, server

    def _texts(self) -> tuple[str, ...]:
        """Text, reasoning and calls."""
        said = [content for content, _ in self._contents]
        texts = [one.text for one in said]
        # Such a server repeats the text with every event, unless it was started to stream only what is new.
        repeats = bool(said) and said[0].whole and all(then.startswith(first) for first, then in pairwise(texts))
        text = texts[-1] if repeats else "".join(texts)
        reasoning, calls = "".join(one.reasoning for one in said), "".join(one.calls for one in said)
        return tuple(_mended(self._hide(one)) for one in (text, reasoning, calls))

    def _ids(self) -> tuple[int, ...] | None:
        """The token ids that were told; None where none were."""
        told = [(content.ids, content.total) for content, _ in self._contents if content.ids is not None]
        if not told:
            return None
        last, total = told[-1]
        repeats = self._contents[0][0].whole and all(ids is not None and len(ids) == count for ids, count in told)
        if repeats and last is not None and len(last) == total:
            return last
        return tuple(one for ids, _ in told for one in ids or ())

    def _counts(
        self, ids: tuple[int, ...] | None, usage: dict[str, Any] | None
    ) -> tuple[tuple[float, ...], tuple[int, ...], int, Counted]:
        """Stamps and tokens of the events with output, the count of all tokens, and where that is from."""
        saying = [content for content, _ in self._contents if content.says]
        # A total that stands in the last event alone says nothing of the events before it.
        running = bool(saying) and all(content.total is not None for content in saying)
        told = _total(self._contents, usage)
        stamps: list[float] = []
        counts: list[int] = []
        before = 0
        for content, stamp_s in self._contents:
            if running:
                count = max(0, (content.total or 0) - before)
                before += count
            elif content.ids is not None:
                count = len(content.ids)
            else:
                count = 1 if content.says else 0
                # The token that ends an answer has no text; where the server counted one more, that is it. An answer
                # that its budget ended has no such token.
                ended = content.finish is not None and content.finish not in _SPENT
                if ended and not count and ids is None and told is not None and told > sum(counts):
                    count = 1
            if count:
                stamps.append(stamp_s)
                counts.append(count)
        if ids is not None and (told is None or told == len(ids)):
            return tuple(stamps), tuple(counts), len(ids), "ids"
        if told is not None:
            return tuple(stamps), tuple(counts), told, "usage"
        return tuple(stamps), tuple(counts), sum(counts), "events"

    def _verdict(self, finish: str | None) -> Fault | None:
        """What is wrong with it: the server's last word outweighs how the connection ended."""
        if self._fault is not None:
            return self._fault
        fault = self._received.fault
        if fault is not None:
            # What came after the server's own last word belongs to no answer.
            return None if self._ended and fault.kind in ("cut", "hung") else fault
        if self._unknown and self._unknown == len(self._contents):
            return Fault(kind="malformed", said=f"none of its {self._unknown} events is of an API that specq reads")
        if not self._ended and finish is None:
            said = f"the stream ended after {self._events} events without saying that it was done"
            return Fault(kind="cut", said=said)
        return None


def _total(told: list[tuple[Content, float]], usage: dict[str, Any] | None) -> int | None:
    """The server's count of all tokens."""
    of_usage = (usage or {}).get("completion_tokens")
    totals = [content.total for content, _ in told if content.total is not None]
    return of_usage if type(of_usage) is int and of_usage >= 0 else max(totals, default=None)


def _mended(text: str) -> str:
    """Text without halves of characters: those that a server cut in two, and wrote as two escapes, are joined."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
