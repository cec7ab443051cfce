"""Which requests of a level count: warm-up, steady state, and the tail that keeps the load up until the end.

The steady state begins as its first request is sent, with all warm-up requests sent before, and ends as the last of
its requests ends; until then more requests, the tail, keep the server as busy as before. What arrives between the two
is the throughput, whoever asked for it; latencies are those of the steady state's own requests. Neither the ramp nor
the drain is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specq.core import clock

Phase = Literal["warm", "steady", "tail", "inject"]
TAIL_LEAST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request to send: its number among those of its level, from 0 (long prompts that are injected count alone)."""

    number: int
    phase: Phase
    due_s: float


class Phases:
    """Hands out the requests of one level; `start_s` and `end_s` are the steady state's, None until they are known.

    A tail has at most as many requests as the steady state (or TAIL_LEAST, if that is more): on a server that never
    keeps up it would go on for ever. The steady state then ends with the tail. `due` is how many requests a trace has,
    which ends the level too.
    """

    def __init__(self, *, warm_up: int, requests: int | None, duration_s: float | None, due: int | None = None) -> None:
        self.start_s: float | None = None
        self.end_s: float | None = None
        self.injecting = 0
        self._warm_left = warm_up
        self._of_trace = None if due is None else due - warm_up
        self._requests, self._duration_s = requests, duration_s
        self._given = self._steady = self._ended = self._tail = 0
        self._closed = False

    def next(self, now: float) -> Job | None:
        """The request that is to be sent at `now`; None when the level is over."""
        if self.end_s is not None:
            return None
        phase = self._phase(now)
        if phase is None:
            self.end_s = now
            return None
        job = Job(number=self._given, phase=phase, due_s=now)
        self._given += 1
        return job

    def _phase(self, now: float) -> Phase | None:
        if self._warm_left:
            self._warm_left -= 1
            return "warm"
        if self.start_s is None:
            self.start_s = now
        if not self._closed and self._more(now):
            self._steady += 1
            return "steady"
        self._closed = True
        if self._over:
            return None
        if self._tail < max(TAIL_LEAST, self._steady):
            self._tail += 1
            return "tail"
        return None

    def _more(self, now: float) -> bool:
        if self._duration_s is not None:
            return now - (self.start_s or 0.0) < self._duration_s
        return self._requests is None or self._steady < self._requests

    def ended(self, job: Job, now: float) -> None:
        """A request has ended, well or not; the last of the steady state ends it."""
        if job.phase == "inject":
            self.injecting -= 1
        elif job.phase == "steady":
            self._ended += 1
        self._look(now)

    def exhausted(self, now: float) -> None:
        """No more requests are due: a trace has come to its end, and with it the load."""
        self._closed = True
        self.end_s = now if self.end_s is None else self.end_s

    def _look(self, now: float) -> None:
        if self._requests is not None and self._steady >= self._requests:
            self._closed = True
        if self._closed and self._over and self.end_s is None:
            self.end_s = now

    @property
    def _over(self) -> bool:
        return self._ended >= self._steady and not self.injecting

    @property
    def share(self) -> float:
        """How far the steady state has come, from 0 to 1."""
        if self.start_s is None:
            return 0.0
        shares = [0.0]
        if self._duration_s is not None:
            shares.append((clock.now() - self.start_s) / self._duration_s)
        elif self._requests:
            shares.append(self._ended / self._requests)
        if self._of_trace:
            # A trace may be over before that, and is over as its last request is sent.
            shares.append(self._steady / self._of_trace)
        return min(1.0, max(shares))
