"""Sends the requests of one level: in a closed loop by as many users as it says, in an open loop when they are due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from specq.core import clock
from specq.load.phases import Job, Phases

PAUSE_S = 0.1
"""How long a user of a closed loop waits after a failure: one that is refused at once would else do nothing but ask."""
_LOOK_S = 0.02

Send = Callable[[Job], Awaitable[bool]]
"""Sends a request and waits for its end; whether it went well."""


async def closed(users: int, phases: Phases, send: Send) -> None:
    """Keep `users` requests under way until the level is over, then wait for those that are left."""

    async def user() -> None:
        while (job := phases.next(clock.now())) is not None:
            well = await send(job)
            phases.ended(job, clock.now())
            if not well:
                await asyncio.sleep(PAUSE_S)

    async with asyncio.TaskGroup() as group:
        for _ in range(users):
            group.create_task(user())


async def open_loop(due: Iterator[float], phases: Phases, send: Send) -> None:
    """Send each request when it is due, whatever is still under way, then wait for those that are left."""

    async def one(job: Job) -> None:
        await send(job)
        phases.ended(job, clock.now())

    began_s = clock.now()
    async with asyncio.TaskGroup() as group:
        for offset in due:
            await _until(began_s + offset, phases)
            job = phases.next(began_s + offset)
            if job is None:
                return
            group.create_task(one(job))
        phases.exhausted(clock.now())


async def _until(due_s: float, phases: Phases) -> None:
    """Sleep until a time, or until the level is over."""
    while (left := due_s - clock.now()) > 0 and phases.end_s is None:
        # The end of the level may come long before the next request of a slow trace.
        await asyncio.sleep(min(left, 1.0))


async def inject(shares: Sequence[float], phases: Phases, send: Send) -> int:
    """Send one long prompt as the steady state reaches each of `shares`, one after another; how many were sent.

    Those whose turn has not come when the level is over are not sent: there would be no stream beside them.
    """
    for number, share in enumerate(shares):
        while phases.share < share and phases.end_s is None:
            await asyncio.sleep(_LOOK_S)
        if phases.end_s is not None:
            return number
        phases.injecting += 1
        job = Job(number=number, phase="inject", due_s=clock.now())
        await send(job)
        phases.ended(job, clock.now())
    return len(shares)
