"""Asks and writes down: each request one row at once, a canary through the run, prompts that no earlier one began as.

The order of what is asked is shuffled by a seed, so that a machine that gets slower is in all lengths alike; the
canary, one fixed prompt read cold every few requests, shows by how much it did.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specq.core.clock import now, utc_stamp
from specq.core.errors import RunFailed
from specq.core.hashes import seed_of
from specq.core.types import Prompt
from specq.lab import rows as records
from specq.lab.requester import Answer, Requester
from specq.lab.rows import Ended, Note, Prediction, Record, Resumed, Row
from specq.workloads import synthetic
from specq.workloads.counting import Counter

CANARY = "canary"
CANARY_EVERY = 8
CANARY_TOKENS = (64, 16)
"""Prompt and output of the canary; a longest length below that shortens it."""
MOST_FAILED = 3
DRIFT = 0.10
"""By how much the canary's slowest half may lie over its fastest before the run is flagged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the lab measures: `lengths` of prompts in the counter's unit, tokens of an answer, repeats of each case."""

    lengths: tuple[int, ...]
    output_tokens: int = 32
    repeats: int = 3
    seed: int = 0


class Bench:
    """A requester, the text that prompts are cut from, and the rows so far.

    `write` gets each record as it comes, `say` what is being done.
    """

    def __init__(
        self,
        requester: Requester,
        settings: Settings,
        *,
        counter: Counter,
        text: str,
        write: Callable[[dict[str, Any]], None] = lambda line: None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.requester, self.settings, self.say = requester, settings, say
        self.counter, self._text, self._write = counter, text, write
        self.rows: list[Row] = []
        self.predictions: list[Prediction] = []
        self.notes: list[Note] = []
        self._canary: Prompt | None = None
        self.place = 0
        self._since, self._groups, self._failures = 0, 0, 0
        self._began_s = now()

    def go_on(self, before: Sequence[Record], parts: Sequence[str], *, torn_bytes: int, changed: Sequence[str]) -> None:
        """Take up what an earlier process recorded, and write down that it is, with the parts that were broken off.

        Numbers and times go on from there, and the canary is due: another process may find another machine.
        """
        ended = {one.part for one in before if isinstance(one, Ended)}
        begun = {records.part_of(one) for one in records.counting(before)}
        cut = tuple(part for part in parts if part in begun and part not in ended)
        resumed = Resumed(utc=utc_stamp(), cut=cut, torn_bytes=torn_bytes, changed=tuple(changed))
        self._write(records.line(resumed))
        rows = [one for one in before if isinstance(one, Row)]
        kept = records.counting([*before, resumed])
        self.rows = [one for one in kept if isinstance(one, Row)]
        self.predictions = [one for one in kept if isinstance(one, Prediction)]
        self.notes = [one for one in kept if isinstance(one, Note)]
        self.place = max((row.place + 1 for row in rows), default=0)
        self._groups = max((row.group for row in rows), default=0)
        self._since = CANARY_EVERY
        self._began_s = now() - max((row.at_s + (row.e2e_s or 0.0) for row in rows), default=0.0)

    def texts(self, part: str, lengths: Sequence[int]) -> list[str]:
        """A text of each length; no two begin with the same unit.

        Raises:
            PromptError: the text that they are cut from is too short.
        """
        made = synthetic.make(self._text, lengths, 1, self.counter, seed=seed_of(self.settings.seed, "lab", part))
        return [one.messages[0]["content"] for one in made]

    def rng(self, part: str) -> random.Random:
        """The order of a part."""
        return random.Random(seed_of(self.settings.seed, "order", part))

    def group(self) -> int:
        """A number for rows that belong together."""
        self._groups += 1
        return self._groups

    def warm_up(self) -> None:
        """Ask once for the shortest and for the longest length before anything counts."""
        lengths = sorted({min(self.settings.lengths), max(self.settings.lengths)})
        for length, text in zip(lengths, self.texts("warm-up", lengths), strict=True):
            prompt = self.requester.prompt("warm-up", text)
            self._one(prompt, self.settings.output_tokens, part="warm-up", what="warm-up", length=length)

    def ask(
        self,
        prompt: Prompt,
        max_tokens: int,
        *,
        part: str,
        what: str,
        length: int,
        repeat: int = 0,
        group: int = 0,
        cached: bool = False,
        streamed: bool = True,
        tags: tuple[str, ...] = (),
        shared_tokens: int | None = None,
        alone: bool = True,
    ) -> Row:
        """One request, written down; before it the canary, where its turn has come and the request stands `alone`."""
        if alone:
            self.canary(due=True)
        return self._one(
            prompt,
            max_tokens,
            part=part,
            what=what,
            length=length,
            repeat=repeat,
            group=group,
            cached=cached,
            streamed=streamed,
            tags=tags,
            shared_tokens=shared_tokens,
        )

    def ask_together(
        self, prompts: Sequence[Prompt], max_tokens: int, *, part: str, what: str, length: int, repeat: int
    ) -> list[Row]:
        """Requests at once, a row each, all of one group."""
        self.canary(due=True)
        how: dict[str, Any] = {"part": part, "what": what, "length": length, "repeat": repeat, "group": self.group()}
        how["batch"] = len(prompts)
        asked_s = now()
        try:
            answers = self.requester.ask_together(prompts, max_tokens)
        except RunFailed as error:
            return [self._failed(error, asked_s, how)]
        self._since += 1
        return [self._row(answer, how) for answer in answers]

    def predict(self, prediction: Prediction) -> None:
        """Write down what is expected of a length that has not been asked."""
        self.predictions.append(prediction)
        self._write(records.line(prediction))

    def note(self, part: str, text: str) -> None:
        """Write down what is to be told of a part, once."""
        note = Note(part=part, text=text)
        if note in self.notes:
            return
        self.notes.append(note)
        self._write(records.line(note))
        self.say(f"{part}: {text}")

    def ended(self, part: str) -> None:
        """Write down that a part came to its end."""
        self._write(records.line(Ended(part=part)))

    def canary(self, *, due: bool = False) -> None:
        """Ask the canary, cold; with `due` only where its turn has come."""
        if due and self._since < CANARY_EVERY and any(row.part == CANARY for row in self.rows):
            return
        length = min(CANARY_TOKENS[0], max(self.settings.lengths))
        if self._canary is None:
            self._canary = self.requester.prompt(CANARY, self.texts(CANARY, [length])[0])
        output = min(CANARY_TOKENS[1], self.settings.output_tokens)
        self._one(self._canary, output, part=CANARY, what=CANARY, length=length)
        self._since = 0

    def _one(
        self, prompt: Prompt, max_tokens: int, *, cached: bool = False, streamed: bool = True, **labels: Any
    ) -> Row:
        how = {"repeat": 0, "group": 0, **labels, "cached": cached, "streamed": streamed}
        asked_s = now()
        try:
            answer = self.requester.ask(prompt, max_tokens, cached=cached, streamed=streamed)
        except RunFailed as error:
            return self._failed(error, asked_s, how)
        self._since += 1
        return self._row(answer, how)

    def _row(self, answer: Answer, how: dict[str, Any]) -> Row:
        return self._keep(
            Row(
                place=self.place,
                at_s=answer.sent_s - self._began_s,
                ttft_s=answer.ttft_s,
                e2e_s=answer.e2e_s,
                stamps_s=answer.stamps_s,
                stamp_tokens=answer.stamp_tokens,
                prompt_tokens=answer.prompt_tokens,
                cached_tokens=answer.cached_tokens,
                output_tokens=answer.output_tokens,
                told=dict(answer.told),
                **how,
            )
        )

    def _failed(self, error: RunFailed, asked_s: float, how: dict[str, Any]) -> Row:
        row = self._keep(Row(place=self.place, at_s=asked_s - self._began_s, error=str(error), **how))
        # Those of an earlier process say nothing of a server that may have been mended since.
        self._failures += 1
        if self._failures > MOST_FAILED:
            raise error
        return row

    def _keep(self, row: Row) -> Row:
        self.rows.append(row)
        self.place += 1
        self._write(records.line(row))
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What the canary did: its time over the run, and the medians of its first and last half, last over first less 1.

    `moved` is None where it was asked less than four times.
    """

    e2e_s: records.Spread | None
    moved: float | None

    @property
    def flagged(self) -> bool:
        """Whether the machine moved by more than the limit."""
        return self.moved is not None and abs(self.moved) > DRIFT


def drift(rows: Sequence[Row]) -> Drift:
    """The canary's drift over a run."""
    times = [row.e2e_s for row in records.of(rows, CANARY) if row.e2e_s is not None]
    moved = None
    if len(times) >= 4:
        half = len(times) // 2
        first, last = records.spread(times[:half]), records.spread(times[-half:])
        assert first is not None
        assert last is not None
        moved = last.median / first.median - 1
    return Drift(e2e_s=records.spread(times), moved=moved)
