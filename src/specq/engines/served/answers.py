"""Answers of a server as generations: what came over the wire, the server's own numbers, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from specq.core import hashes
from specq.core.errors import ModelError, RequestFailed, ServerGone
from specq.core.served import ServedAnswer
from specq.core.types import Finish, Generation, OnStep, Prompt, Sampling
from specq.engines.base import one_each
from specq.engines.served.reading import Received
from specq.engines.served.request import Asked, Streamed
from specq.engines.served.session import Session

_SPENT = ("length", "limit")
_BROKE_OFF = ("refused", "reset", "cut", "hung", "tls")
_BUSY = (429, 503)
# Readings of a clock, to the microsecond.
_DIGITS = 6
_TRIES = 2


class ServedDecoder:
    """Asks one server, one prompt at a time or several at once.

    `told` hears of a server that had to be started again, and of an answer that was asked for twice.
    """

    def __init__(self, session: Session, *, eos_ids: Sequence[int], told: Callable[[str], None]) -> None:
        self.session = session
        self._eos, self._told = frozenset(eos_ids), told
        self._runner = asyncio.Runner()
        self._client = session.client()
        self._starts = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing is done to a draft's weights here."""
        return ()

    def warm_up(self, tokens: int) -> float:
        """There is nothing to compile that requests would not."""
        return 0.0

    def close(self) -> None:
        """Stop the server where it was started here."""
        try:
            self._runner.run(self._client.close())
        finally:
            self._runner.close()
            self.session.close()

    def generate(
        self,
        prompts: Sequence[Prompt],
        sampling: Sampling | Sequence[Sampling],
        *,
        on_step: OnStep | None = None,
        batch_size: int = 1,
    ) -> list[Generation]:
        """Ask prompt by prompt, or `batch_size` prompts at once; answers come in the order of the prompts.

        Prompts that all fit into one batch are a wave: its answers tell its own time, and where one of them breaks off
        all are asked again. Of more prompts, what breaks off is asked again alone. No step is told.

        Raises:
            RequestFailed: one was answered wrongly, or not to its end.
            ServerGone: nobody answers any more, or only that there is no time.
            ModelError: the server has no such model.
            Interrupted, DiskFull: as the settings' `waited` and a restart raise them.
        """
        each = one_each(sampling, prompts)
        asked = [
            self.session.request(prompt, one, id=prompt.id, nonce=_nonce(prompt, one))
            for prompt, one in zip(prompts, each, strict=True)
        ]
        if 1 < len(asked) <= batch_size:
            wave, tried = self._wave(asked)
            own = _of_wave(wave)
            return [
                replace(self._generation(prompt, one, came, tried), **own)
                for prompt, one, came in zip(prompts, each, wave, strict=True)
            ]
        starts = self._starts
        first: Sequence[Streamed | None] = [None] * len(asked)
        if batch_size > 1:
            first = self._runner.run(self._at_once(asked, batch_size))
        return [
            self._generation(prompt, one, *self._answer(request, came, starts))
            for prompt, one, request, came in zip(prompts, each, asked, first, strict=True)
        ]

    def _wave(self, asked: Sequence[Asked]) -> tuple[list[Streamed], int]:
        """Answers to requests that are sent at once, each to its end, and how often all had to be asked again."""
        for tried in range(_TRIES):
            starts = self._starts
            came = self._runner.run(self._at_once(asked, len(asked)))
            failed = [one for one in came if one.error is not None]
            if not failed:
                return came, tried
            self._mend(failed[0], failed[0].id, starts, last=tried == _TRIES - 1)
        raise AssertionError("the last try returns or raises")

    async def _at_once(self, asked: Sequence[Asked], most: int) -> list[Streamed]:
        """What comes of each request, `most` of them at a time."""
        room = asyncio.Semaphore(most)

        async def one(request: Asked) -> Received:
            async with room:
                return await self._client.receive(request)

        # Read when the last has come, so that reading one delays no other's clock.
        received = await asyncio.gather(*map(one, asked))
        return [await self._client.read(one) for one in received]

    def _answer(self, asked: Asked, came: Streamed | None, starts: int) -> tuple[Streamed, int]:
        """An answer to its end, and how often it had to be asked again.

        `came` is what came of asking once, after so many `starts` of the server; None: it was not asked yet.
        """
        for tried in range(_TRIES):
            if came is None:
                starts = self._starts
                came = self._runner.run(self._client.stream(asked))
            if came.error is None:
                return came, tried
            self._mend(came, asked.id, starts, last=tried == _TRIES - 1)
            came = None
        raise AssertionError("the last try returns or raises")

    def _mend(self, streamed: Streamed, prompt: str, starts: int, *, last: bool) -> None:
        """Make sure that asking again makes sense; else raise."""
        session, said = self.session, f"{streamed.error}: {streamed.said}"
        where = f"the server at {session.url}"
        if streamed.error == "wrong_model":
            raise ModelError(f'{where} has no model "{session.model}": {said}; write the name that it knows')
        if streamed.status in _BUSY:
            raise ServerGone(
                f"{where} is busy and was asked {streamed.retries + 1} times: {said}; try when it has time"
            )
        if streamed.error not in _BROKE_OFF:
            raise RequestFailed(f'prompt "{prompt}": {said}')
        up = session.healthy()
        if session.attached and not up:
            raise ServerGone(f"{where} does not answer any more: {said}; start it again")
        if last:
            lost = "" if up else "; the server was started again in between and was lost again"
            raise RequestFailed(f'prompt "{prompt}", asked {_TRIES} times: {said}{lost}')
        # Of several that hung together, the first had it started again.
        if not session.attached and (not up or (streamed.error == "hung" and starts == self._starts)):
            self._restart(said)
            self._told(f'the server was lost on prompt "{prompt}" ({said}) and started again; the prompt is asked anew')
        else:
            self._told(f'the answer to prompt "{prompt}" broke off ({said}); it is asked anew')

    def _restart(self, said: str) -> None:
        self._starts += 1
        try:
            self.session.restart()
        except ServerGone as error:
            raise ServerGone(f"the server was lost ({said}) and could not be started again: {error}") from error

    def _generation(self, prompt: Prompt, sampling: Sampling, streamed: Streamed, repeats: int) -> Generation:
        numbers = self.session.kind.numbers(streamed)
        sent = streamed.asked_s if streamed.sent_s is None else streamed.sent_s
        # An answer without a token is over when its stream is.
        whole_s = streamed.end_s - sent
        ids = streamed.token_ids if streamed.counted == "ids" and streamed.token_ids is not None else ()
        return Generation(
            prompt_id=prompt.id,
            ids=ids,
            text=streamed.text,
            finish=self._finish(streamed, sampling, ids),
            ttft_s=whole_s if streamed.ttft_s is None else streamed.ttft_s,
            e2e_s=whole_s if streamed.e2e_s is None else streamed.e2e_s,
            served=ServedAnswer(
                tokens=streamed.tokens or 0,
                counted=streamed.counted,
                finish=streamed.finish,
                prompt_tokens=numbers.prompt_tokens,
                cached_tokens=numbers.cached_tokens,
                queue_s=numbers.queue_s,
                prefill_s=numbers.prefill_s,
                decode_s=numbers.decode_s,
                draft_steps=numbers.draft_steps,
                proposed=numbers.proposed,
                accepted=numbers.accepted,
                accepted_by_position=numbers.accepted_by_position,
                event_s=tuple(round(one - sent, _DIGITS) for one in streamed.event_s),
                event_tokens=streamed.event_tokens,
                retries=streamed.retries,
                repeats=repeats,
            ),
        )

    def _finish(self, streamed: Streamed, sampling: Sampling, ids: Sequence[int]) -> Finish:
        """Why an answer ended, in the words of a generation."""
        if streamed.finish in _SPENT:
            return "length"
        if streamed.finish == "word":
            return "stop"
        if not sampling.stop or streamed.finish == "eos" or (ids and ids[-1] in self._eos):
            return "eos"
        return "stop"


def _of_wave(streamed: Sequence[Streamed]) -> dict[str, Any]:
    """How many requests were sent at once, and the seconds from the first of them to the last token of all."""
    sent = min(one.asked_s if one.sent_s is None else one.sent_s for one in streamed)
    ends = max(one.end_s if one.last_token_s is None else one.last_token_s for one in streamed)
    return {"batch": len(streamed), "batch_s": ends - sent}


def _nonce(prompt: Prompt, sampling: Sampling) -> str:
    """What makes a prompt cold where the server has no switch: the same for all arms, another one for each turn."""
    return hashes.of_json([prompt.id, sampling.seed])[:16]


def serving(decoder: Any) -> Session | None:
    """The server behind a decoder; None of an engine of this process."""
    return decoder.session if isinstance(decoder, ServedDecoder) else None
