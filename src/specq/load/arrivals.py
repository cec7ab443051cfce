"""When the requests of an open loop are due: Poisson, evenly spaced, or at a trace's own times.

An open loop sends at its times whatever the server does; a latency counts from the time a request was due, so that a
stall is charged to all requests that it made wait, and not only to the one it met ("coordinated omission", Gil Tene).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count

from specq.core.errors import ConfigError
from specq.core.hashes import seed_of


def steady(rate: float) -> Iterator[float]:
    """Seconds at which `rate` evenly spaced requests a second are due, without end."""
    return (number / rate for number in count())


def poisson(rate: float, seed: int) -> Iterator[float]:
    """Seconds at which the requests of a Poisson process of `rate` a second are due, without end.

    One seed gives the same times up to the scale at every rate, and to every server.
    """
    rng = random.Random(seed_of("arrivals", seed))
    at = 0.0
    while True:
        yield at
        at += rng.expovariate(1.0) / rate


def trace(at_s: Sequence[float], rate: float | None) -> Iterator[float]:
    """The times of a trace from its first on, stretched so that `rate` requests a second come on average.

    None keeps its own pace. It ends where the trace does.

    Raises:
        ConfigError: fewer than two times, or all of them the same.
    """
    times = sorted(at_s)
    own = rate_of(times)
    scale = 1.0 if rate is None else own / rate
    first = times[0]
    return ((at - first) * scale for at in times)


def rate_of(at_s: Sequence[float]) -> float:
    """Requests a second of a trace: gaps over the time that they span.

    Raises:
        ConfigError: fewer than two times, or all of them the same.
    """
    if len(at_s) < 2 or max(at_s) == min(at_s):
        raise ConfigError(f"a trace of {len(at_s)} times in one moment has no rate; give rows with different times")
    return (len(at_s) - 1) / (max(at_s) - min(at_s))
