"""mlx-lm's GenerationResponse objects as JSON lines: one for each token, or only the last one of each answer.

Source: GenerationResponse and stream_generate in mlx_lm/generate.py of mlx-lm 0.32. It counts no proposals. A step
ends with the target's own token (`from_draft` false), so steps and accepted tokens follow from the lines; the first
pass reads the end of the prompt and verifies a block at once. `prompt_tps` is prompt_tokens over the time to the first
token, `generation_tps` all tokens over the time after the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specq.imports.checks import check
from specq.imports.entry import Entry, Object, finish
from specq.imports.record import Flag, Imported, Said, by_position
from specq.imports.source import objects

SOURCE = "mlx-lm"
KEYS = frozenset(
    (
        *("text", "token", "logprobs", "from_draft", "prompt_tokens", "prompt_tps", "generation_tokens"),
        *("generation_tps", "peak_memory", "finish_reason"),
    )
)
_MOST_K = 4096


def read(path: Path) -> Iterator[Imported | Flag]:
    """A record for each answer, each followed by its flags."""
    answer: _Answer | None = None
    place = 0
    for line, value in objects(path):
        here = Entry(path, line)
        here.known("the line", value, KEYS)
        tokens = here.count("generation_tokens", value.get("generation_tokens"))
        if answer is not None and (answer.ended or tokens is None or tokens <= answer.tokens):
            yield from answer.close()
            answer = None
        if answer is None:
            place += 1
            answer = _Answer(Entry(path, line, f"#{place}"))
        answer.take(value, tokens, here)
    if answer is not None:
        yield from answer.close()


class _Answer:
    """One answer, a line at a time."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.tokens = 0
        self.ended = False
        self._lines = 0
        self._gap = False
        self._any_draft = False
        self._run = 0
        # How many steps accepted 0, 1, 2, ... proposals.
        self._accepted: dict[int, int] = {}
        self._last: Object = {}

    def take(self, value: Object, tokens: int | None, here: Entry) -> None:
        """Count one line."""
        self._lines += 1
        self.entry.flags += here.flags
        self._gap = self._gap or tokens != self.tokens + 1
        self.tokens = self.tokens if tokens is None else tokens
        self._last = value
        self.ended = value.get("finish_reason") is not None
        from_draft = value.get("from_draft")
        if not isinstance(from_draft, bool):
            raise here.refuse(f"from_draft is {from_draft!r}", "allowed is true or false")
        if from_draft:
            self._any_draft = True
            self._run = min(self._run + 1, _MOST_K)
        else:
            self._end_step()

    def _end_step(self) -> None:
        self._accepted[self._run] = self._accepted.get(self._run, 0) + 1
        self._run = 0

    def close(self) -> Iterator[Imported | Flag]:
        """The record of the answer, and its flags."""
        cut = self._run > 0
        if cut:
            # A stop or the budget came before the target's own token of the last step.
            self._end_step()
        if not self.ended:
            self.entry.flag("unfinished", f"no line with a finish_reason; the last is token {self.tokens}")
        only_last = self._gap and self._lines == 1
        if self._gap and not only_last:
            self.entry.flag("unfinished", f"{self._lines} lines for {self.tokens} tokens: steps cannot be counted")
        record = self._record()
        check(self.entry, record, Said(first_in_step=self._any_draft, open=self._gap or cut))
        yield record
        yield from self.entry.flags

    def _record(self) -> Imported:
        entry, last = self.entry, self._last
        prompt = entry.count("prompt_tokens", last.get("prompt_tokens"))
        ttft = _seconds(entry, "prompt_tps", last, prompt)
        decode = _seconds(entry, "generation_tps", last, self.tokens)
        drafts: dict[str, Any] = {}
        if not self._gap:
            passes = sum(self._accepted.values())
            histogram = tuple(self._accepted.get(j, 0) for j in range(max(self._accepted, default=0) + 1))
            drafts = {"accepted": sum(j * n for j, n in enumerate(histogram)), "steps_from": "counted"}
            # Without a draft the prompt's pass gave the first token and is no step.
            drafts["steps"] = passes if self._any_draft else max(self.tokens - 1, 0)
            if self._any_draft:
                drafts |= {"draft_steps": passes, "accepted_by_position": by_position(histogram)}
        return Imported(
            source=SOURCE,
            line=entry.line,
            request=entry.request,
            prompt_tokens=prompt,
            new_tokens=self.tokens,
            finish=finish(last.get("finish_reason")),
            ttft_s=ttft,
            e2e_s=None if ttft is None or decode is None else ttft + decode,
            **drafts,
        )


def _seconds(entry: Entry, key: str, last: Object, tokens: int | None) -> float | None:
    rate = entry.number(key, last.get(key))
    return tokens / rate if rate and tokens is not None else None
