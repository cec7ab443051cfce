"""Measures one point after another, and writes down each request as it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specq.core import clock
from specq.core.clock import utc_stamp
from specq.core.errors import ConfigError, RunFailed, ServerGone, SpecqError
from specq.core.nouns import counted
from specq.core.types import Prompt
from specq.engines.served.client import Client
from specq.load import arrivals, drive, garbage, rows
from specq.load.asked import REQUESTS, Asked, Point
from specq.load.device import Watch
from specq.load.folder import Folder
from specq.load.judging import Judging
from specq.load.phases import Job, Phases
from specq.load.prompts import Prompts
from specq.load.rows import Began, Measured
from specq.load.target import Target

GIVE_UP = 50
"""Requests in a row that fail before one is answered, after which a server is taken to be gone."""
REFUSED = 5
"""First requests of a level of which a server refuses every one, after which no other is asked."""
_LOOK_S = 0.02
_END_S = 1.0
_GONE = ("refused", "reset", "cut")
"""What requests meet whose server has ended."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is sent, beside what was asked: prompts, the times of a trace, long prompts to inject, a judge."""

    asked: Asked
    prompts: Prompts
    at_s: tuple[float, ...] | None = None
    injected: tuple[Prompt, ...] = ()
    judging: Judging | None = None


def measure(
    plan: Plan, points: Sequence[tuple[Point, int]], targets: Mapping[str, Target], folder: Folder, say: Progress
) -> None:
    """Measure points, each with the number of its attempt, one after another.

    A server that is started here is there for its own points alone, so that no two hold the memory at once, and is
    stopped at the end, however that comes.

    Raises:
        RunFailed: a server answers no request any more, is gone, or does not start. DiskFull: no space. All that was
            recorded is kept.
        ConfigError: prompts of random tokens, and a server that drafts. UserError: a server cannot be started here.
    """
    try:
        for place, (point, attempt) in enumerate(points, start=1):
            target = targets[point.server]
            for other in targets.values():
                if other is not target:
                    other.stop()
            if (started := target.start(folder.path)) is not None:
                folder.append(started)
                say(f"{point.server}: started in {started.seconds:.1f} s, its log is {folder.path / started.log}")
            run = _Run(plan, point, attempt, target, folder)
            try:
                with garbage.left(), asyncio.Runner() as runner:
                    runner.get_loop().set_exception_handler(_told)
                    runner.run(run.run())
            except ExceptionGroup as group:
                # Whatever stopped one request has stopped them all; what specq says of it is one line.
                raise next((one for one in _flat(group) if isinstance(one, SpecqError)), group) from None
            say(f"[{place}/{len(points)}] {run.said}")
    finally:
        for target in targets.values():
            target.stop()


def _told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say nothing of a task that a stop ended: the stop is told in one line."""
    if not isinstance(context.get("exception"), KeyboardInterrupt):
        loop.default_exception_handler(context)


def _flat(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for one in group.exceptions:
        found += _flat(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found


class _Run:
    """One attempt at one point."""

    def __init__(self, plan: Plan, point: Point, attempt: int, target: Target, folder: Folder) -> None:
        self._plan, self._point, self._attempt = plan, point, attempt
        self._target, self._folder = target, folder
        asked = plan.asked
        requests = asked.requests
        if requests is None and asked.duration_s is None:
            requests = REQUESTS
        due = None if plan.at_s is None else len(plan.at_s)
        warm_up = asked.warm_ups(point.level, due)
        self._phases = Phases(warm_up=warm_up, requests=requests, duration_s=asked.duration_s, due=due)
        self._began_s = 0.0
        self._failing = self._done = self._failed = 0
        self._readers: set[asyncio.Task[None]] = set()
        self._broken: BaseException | None = None
        self._answers: list[tuple[str, str, str]] = []
        self.said = ""

    async def run(self) -> None:
        """Send everything, and write down what came of it."""
        began = Began(point=self._point.id, attempt=self._attempt, began=utc_stamp(), url=self._target.base)
        self._folder.append(began)
        async with self._target.client() as client:
            self._client = client
            self._began_s = clock.now()
            watching = asyncio.create_task(self._watch())
            injecting = asyncio.create_task(self._inject())
            try:
                await self._drive()
                injected = await injecting
                found = await watching
                while self._readers:
                    await asyncio.gather(*self._readers)
                self._raise()
            finally:
                for task in (watching, injecting, *self._readers):
                    task.cancel()
        # Nothing is timed any more.
        if self._plan.judging is not None:
            for judged in self._plan.judging.judged(self._answers, self._point.id, self._attempt):
                self._folder.append(judged)
        asked = len(self._plan.injected)
        if injected < asked:
            late = f"only {injected} of {counted(asked, 'long prompt')} went out: the level was over before the others"
            found = replace(found, notes=(*found.notes, late))
        self._folder.append(found)
        self.said = f"{self._point.id}: {self._done} requests" + (f", {self._failed} failed" if self._failed else "")

    async def _drive(self) -> None:
        asked, level = self._plan.asked, self._point.level
        if asked.arrivals == "closed":
            await drive.closed(int(level), self._phases, self._send)
            return
        if asked.arrivals == "trace":
            due = arrivals.trace(self._plan.at_s or (), level if asked.levels else None)
        else:
            due = arrivals.steady(level) if asked.arrivals == "steady" else arrivals.poisson(level, asked.seed)
        await drive.open_loop(due, self._phases, self._send)

    async def _inject(self) -> int:
        count = len(self._plan.injected)
        return await drive.inject([(place + 1) / (count + 1) for place in range(count)], self._phases, self._send)

    async def _send(self, job: Job) -> bool:
        self._raise()
        prompt = self._plan.injected[job.number] if job.phase == "inject" else self._prompt(job.number)
        kind = "i" if job.phase == "inject" else "r"
        id = f"{self._point.id}/{self._attempt}/{kind}{job.number}"
        cold = None if self._plan.asked.warm_prefix else f"[{self._folder.path.name} {id}]"
        received = await self._client.receive(self._target.request(id, prompt, cold))
        # The next request goes out at once; what this one said is read and written in a task of its own.
        task = asyncio.create_task(self._write(self._client, received, job, prompt))
        self._readers.add(task)
        task.add_done_callback(self._written)
        return received.fault is None

    def _prompt(self, number: int) -> Prompt:
        return self._plan.prompts.at(number, self._plan.asked.seed)

    async def _write(self, client: Client, received: object, job: Job, prompt: Prompt) -> None:
        streamed = await client.read(received)  # type: ignore[arg-type]
        numbers = self._target.numbers(streamed)
        judging = self._plan.judging
        row = rows.requested(
            streamed,
            numbers,
            job,
            point=self._point.id,
            attempt=self._attempt,
            prompt=prompt.id,
            tags=prompt.tags,
            began_s=self._began_s,
            schema=None if judging is None or streamed.error else judging.fits(prompt.id, streamed.text),
        )
        self._folder.output(streamed)
        self._folder.append(row)
        if job.phase == "steady" and streamed.error is None:
            self._answers.append((row.id, prompt.id, streamed.text))
        self._done += 1
        self._failed += streamed.error is not None
        self._failing = self._failing + 1 if streamed.error is not None else 0
        if streamed.error == "wrong_model" and self._done == self._failed:
            # No other request of this run can be answered either.
            raise ConfigError(
                f"{self._target.server.name}: the server has no model {self._target.model!r} ({streamed.said}); "
                f"{self._target.offers()}"
            )
        if streamed.error == "tls" and self._done == self._failed:
            raise RunFailed(f"{self._target.server.name}: {streamed.said}")
        if streamed.error == "http_4xx" and self._done == self._failed >= REFUSED:
            raise RunFailed(
                f"{self._target.server.name}: the server refused each of the first {REFUSED} requests, the last with "
                f"{streamed.said}"
            )
        if streamed.error in _GONE:
            await self._still_there()
        if self._failing >= GIVE_UP:
            raise RunFailed(
                f"{self._target.server.name} at {self._target.base}: {GIVE_UP} requests in a row failed, the "
                f"last with {streamed.error}: {streamed.said}"
            )
        if (numbers.proposed or 0) > 0:
            refuse_random(self._plan.prompts, f"{self._target.server.name} drafts")

    async def _still_there(self) -> None:
        """Raise where nobody listens for a moment, or where the process started here ends, which may take one."""
        if self._target.group is None:
            if not await self._target.reachable(_END_S):
                raise ServerGone(f"{self._target.server.name} at {self._target.base} does not answer any more")
            return
        until = clock.now() + _END_S
        while self._target.group is not None and clock.now() < until:
            if (ended := self._target.ended()) is not None:
                raise RunFailed(ended)
            await asyncio.sleep(_LOOK_S)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._readers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken = self._broken or error

    def _raise(self) -> None:
        if self._broken is not None:
            raise self._broken

    async def _watch(self) -> Measured:
        """The counters, the processor time and the device, from the beginning of the steady state to its end."""
        phases = self._phases
        # In a thread: it looks through all processes, and no stream is to be late for it.
        watch = await asyncio.to_thread(Watch, self._target.base, self._target.group)
        await _until(lambda: phases.start_s is not None or phases.end_s is not None)
        watch.start()
        drafted = await asyncio.to_thread(self._target.drafted)
        cpu_s, wall_s = time.process_time(), clock.now()
        before = await self._target.scrape()
        await _until(lambda: phases.end_s is not None)
        cpu_s, wall_s = time.process_time() - cpu_s, clock.now() - wall_s
        device = watch.found()
        numbers, notes = self._target.grown(before, await self._target.scrape())
        numbers |= await asyncio.to_thread(self._target.drafted_since, drafted)
        start_s = phases.start_s if phases.start_s is not None else phases.end_s
        assert start_s is not None
        assert phases.end_s is not None
        return Measured(
            point=self._point.id,
            attempt=self._attempt,
            server=self._point.server,
            level=self._point.level,
            repeat=self._point.repeat,
            start_at_s=start_s - self._began_s,
            end_at_s=phases.end_s - self._began_s,
            client_cpu_s=cpu_s,
            client_wall_s=wall_s,
            numbers=numbers,
            device=device,
            notes=notes,
        )


async def _until(there: Callable[[], bool]) -> None:
    while not there():
        await asyncio.sleep(_LOOK_S)


def refuse_random(prompts: Prompts, why: str) -> None:
    """Refuse prompts of random tokens; `why` says who drafts, or may.

    Raises:
        ConfigError: there is such a prompt.
    """
    if (made := prompts.random) is not None:
        raise ConfigError(
            f'prompt "{made}" is made of random tokens, after which acceptance means nothing, and {why}: '
            "give prompts of real text (specq workload TEXT --tokens N without --shuffled)"
        )
