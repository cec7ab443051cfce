"""A requester with known laws: what it answers is computed, so that what the lab finds must come out exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from specq.core.errors import RunFailed
from specq.core.types import Prompt
from specq.decoding.prefix import shared
from specq.lab.bench import Bench, Settings
from specq.lab.requester import Answer
from specq.workloads import counting, synthetic

LENGTHS = (40, 80, 120, 160, 240, 320)
BASE, READ, WRITE = 0.020, 0.001, 0.010


def linear(tokens: int) -> float:
    """Seconds to the first token of so many tokens that are read."""
    return BASE + READ * tokens


def quadratic(tokens: int) -> float:
    """As `linear`, with attention that grows with the square: half of the time of 320 tokens."""
    return linear(tokens) + linear(320) * (tokens / 320) ** 2


class Fake:
    """Reads by `ttft` and writes a token in `tpot(context)` seconds, in a batch of B in `step(B)` times that.

    `slots` texts are held. `tells` False: it says nothing of cached tokens. `lies` are cached tokens that it makes up,
    `in_turn` prompts of a batch are read one after the other, and what was read first waits; `one_slot` answers them
    one after the other. `late` seconds are what an answer in one piece takes longer, `drifts` what each request does.
    """

    def __init__(
        self,
        ttft: Callable[[int], float] = linear,
        tpot: Callable[[int], float] = lambda context: WRITE,
        *,
        step: Callable[[int], float] = lambda batch: 1.0,
        slots: int = 1,
        tells: bool = True,
        lies: int = 0,
        late: float = 0.0,
        drifts: float = 0.0,
        fails: Sequence[int] = (),
        in_turn: bool = False,
        one_slot: bool = False,
    ) -> None:
        self.name, self.kind = "fake", "fake"
        self.slots: int | None = slots
        self._ttft, self._tpot, self._step = ttft, tpot, step
        self._tells, self._lies, self._late, self._drifts, self._fails = tells, lies, late, drifts, fails
        self._in_turn, self._one_slot = in_turn, one_slot
        self._held: list[Sequence[int]] = [()] * slots
        self._now = 0.0
        self.asked: list[tuple[Prompt, bool]] = []

    def prompt(self, id: str, text: str, **how: Any) -> Prompt:
        """One id a word."""
        return Prompt(id=id, ids=tuple(hash(word) for word in text.split()), text=text)

    def ask(self, prompt: Prompt, max_tokens: int, *, cached: bool = False, streamed: bool = True) -> Answer:
        """An answer by the laws."""
        self.asked.append((prompt, cached))
        if len(self.asked) in self._fails:
            raise RunFailed("fake: a request failed (hung): planted")
        reused = self._reuse(prompt.ids) if cached else 0
        return self._answer(prompt, max_tokens, reused, 1, streamed=streamed)

    def ask_together(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Answer]:
        """All of them from one moment on."""
        self.asked += [(prompt, False) for prompt in prompts]
        before, found = self._now, []
        for prompt in prompts:
            self._now = before
            found.append(self._answer(prompt, max_tokens, 0, len(prompts), streamed=True))
        if self._one_slot:
            found = [_later(one, place * one.e2e_s, place * one.e2e_s) for place, one in enumerate(found)]
        elif self._in_turn:
            last = (len(found) - 1) * (found[0].ttft_s or 0.0)
            found = [_later(one, place * (one.ttft_s or 0.0), last) for place, one in enumerate(found)]
        self._now = before + max(one.e2e_s for one in found)
        return found

    def describe(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def _reuse(self, ids: Sequence[int]) -> int:
        best = max(range(len(self._held)), key=lambda slot: shared(self._held[slot], ids))
        reused = min(shared(self._held[best], ids), len(ids) - 1)
        # What was used last goes to the end: the first slot is the one to throw out.
        self._held.pop(best if reused else 0)
        self._held.append(ids)
        return reused

    def _answer(self, prompt: Prompt, tokens: int, reused: int, batch: int, *, streamed: bool) -> Answer:
        sent_s, slower = self._now, self._drifts * len(self.asked)
        ttft = self._ttft(len(prompt.ids) - reused) + slower
        stamps = [ttft]
        for _ in range(tokens - 1):
            stamps.append(stamps[-1] + self._tpot(len(prompt.ids)) * self._step(batch))
        e2e = stamps[-1] + (0.0 if streamed else self._late)
        self._now += e2e
        return Answer(
            sent_s=sent_s,
            ttft_s=ttft if streamed else None,
            e2e_s=e2e,
            stamps_s=tuple(stamps) if streamed else (),
            stamp_tokens=(1,) * len(stamps) if streamed else (),
            prompt_tokens=len(prompt.ids),
            cached_tokens=reused + self._lies if self._tells else None,
            output_tokens=tokens,
        )


def _later(one: Answer, first_s: float, rest_s: float) -> Answer:
    """An answer whose first token comes so much later, and the rest by so much."""
    assert one.ttft_s is not None
    stamps = (one.stamps_s[0] + first_s, *(stamp + rest_s for stamp in one.stamps_s[1:]))
    return replace(one, ttft_s=stamps[0], e2e_s=stamps[-1], stamps_s=stamps)


def bench(fake: Fake, lengths: Sequence[int] = LENGTHS, **how: Any) -> Bench:
    """A bench on a fake, with prompts of words out of the Python manual."""
    settings = Settings(lengths=tuple(lengths), output_tokens=16, repeats=2, seed=3)
    return Bench(fake, settings, counter=counting.counter(), text=synthetic.text_of(synthetic.MANUAL), **how)
