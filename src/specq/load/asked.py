"""What a load run is asked to do, as data: servers, levels, how long, what is sent, and the floors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from specq.core.errors import ConfigError, UserError, nearest
from specq.core.nouns import counted
from specq.engines.served.address import address_of, base_of
from specq.engines.served.kinds import KINDS
from specq.load import start as starting
from specq.load.start import Start
from specq.workloads import secrets

Arrivals = Literal["closed", "poisson", "steady", "trace"]
FLOORS = tuple(f"{name}_{which}" for name in ("ttft_s", "tpot_s", "e2e_s") for which in ("p95", "p99"))
REQUESTS = 100
"""Requests of a level unless somebody says otherwise: the fewest that a p99 is told of."""
_MOST = 100_000
# As `secrets` calls what it finds.
_KEY = "api_key"
_LOOKS = (
    "has what looks like a key, and a run's folder shows it; put the key into an environment variable and name that "
    "with --key-env (key_env)"
)
# As fields that hold keys are called or end, without what stands between words; max_tokens is none.
_NAMES = ("apikey", "accesskey", "secretkey", "privatekey", "authorization", "token", "secret", "password", "passwd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server under load: the name that it has in the report, where it is, and the name of its model.

    `start` says how it is started; one that runs already has none, and its `url` says where.
    """

    name: str
    url: str
    kind: str
    model: str
    key_env: str | None = None
    start: Start | None = None

    @property
    def base(self) -> str:
        """Its address without the API's version, which every path begins with."""
        return base_of(self.url)

    @property
    def where(self) -> str:
        """Where it is, in words."""
        return "started here" if self.start is not None else self.url


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measurement: a server at a level, for the `repeat`-th time."""

    id: str
    server: str
    level: float
    repeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of one run. The first server is what the others are held against.

    `arrivals` "closed" keeps as many requests under way as a level says; the others send as many a second, whatever
    comes back. `levels` is empty for a trace at its own pace. A level lasts for `requests` of the steady state, or for
    `duration_s` seconds, whichever is given; `warm_up` requests before it do not count (None: one a stream in a closed
    loop, a tenth in an open one, and of a trace that has fewer requests a tenth of them). `body` is added to each
    request's JSON as it is. `sampling` has fields of core.types.Sampling beside `temperature`.
    """

    servers: tuple[Server, ...]
    arrivals: Arrivals = "closed"
    levels: tuple[float, ...] = (1.0,)
    requests: int | None = None
    duration_s: float | None = None
    warm_up: int | None = None
    repeats: int = 1
    max_tokens: int = 128
    temperature: float = 0.0
    sampling: Mapping[str, Any] = field(default_factory=dict)
    ignore_eos: bool = False
    warm_prefix: bool = False
    seed: int = 0
    limit_s: float = 300.0
    tries: int = 1
    body: Mapping[str, Any] = field(default_factory=dict)
    floors: Mapping[str, float] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what cannot be done.

        Raises:
            ConfigError: a value is none. UserError: an address is none, or it or the body carries a key.
        """
        if _named(self.body):
            raise UserError(f"body {_LOOKS}")
        _refuse_keys("body", json.dumps(dict(self.body), ensure_ascii=False))
        for server in self.servers:
            if server.start is None:
                check_address(server.url)
            if server.kind not in KINDS:
                raise ConfigError(
                    f'kind "{server.kind}"{nearest(server.kind, KINDS) or ";"} allowed: {", ".join(KINDS)}'
                )
        if len({server.name for server in self.servers}) < len(self.servers):
            raise ConfigError("two servers of one name: give each its own with --name and --against-name")
        word = "concurrency" if self.arrivals == "closed" else "rate"
        for level in self.levels:
            whole = self.arrivals != "closed" or level == int(level)
            if not (0 < level <= _MOST and whole):
                allowed = "whole numbers" if self.arrivals == "closed" else "requests a second"
                raise ConfigError(f"{word} {level:g}: allowed are {allowed} above 0, up to {_MOST:,}: --{word} 1,2,4,8")
        if len(set(self.levels)) < len(self.levels):
            raise ConfigError(f"{word} names a level twice; --repeats N measures each N times")
        if not self.levels and self.arrivals != "trace":
            raise ConfigError(f"no level; type --{word} 1,2,4,8")
        if self.requests is not None and self.duration_s is not None:
            raise ConfigError("--requests and --duration exclude each other: a level ends by one of them; give one")
        counts = (("requests", self.requests, 1), ("warm_up", self.warm_up, 0), ("repeats", self.repeats, 1))
        for name, value, least in (*counts, ("max_tokens", self.max_tokens, 1), ("tries", self.tries, 1)):
            if value is not None and value < least:
                raise ConfigError(f"{name} {value}: allowed is a whole number of {least} or more")
        seconds = {"duration": self.duration_s, "limit": self.limit_s, **self.floors}
        for name, given in seconds.items():
            if given is not None and not (given > 0 and math.isfinite(given)):
                raise ConfigError(f"{name} {given:g}: allowed are seconds above 0")
        if not (self.temperature >= 0 and math.isfinite(self.temperature)):
            raise ConfigError(f"temperature {self.temperature:g}: allowed is 0 or more")
        for name in self.floors:
            if name not in FLOORS:
                raise ConfigError(f'floor "{name}"{nearest(name, FLOORS) or ";"} allowed: {", ".join(FLOORS)}')

    @property
    def unit(self) -> str:
        """What a level counts."""
        return "concurrency" if self.arrivals == "closed" else "requests/s"

    def warm_ups(self, level: float, due: int | None = None) -> int:
        """Requests before the steady state of a level; `due` is how many a trace has, of which some are left."""
        if self.warm_up is not None:
            return self.warm_up
        if self.arrivals == "closed":
            return int(level)
        expected = (self.requests or REQUESTS) if self.duration_s is None else level * self.duration_s
        return max(1, round(0.1 * (expected if due is None else min(expected, due))))

    def fits_trace(self, due: int) -> tuple[str, ...]:
        """What there is to say of a trace of `due` requests: that fewer count than were asked for.

        Raises:
            ConfigError: all of them are warm-up.
        """
        if self.warm_up is not None and self.warm_up >= due:
            trace = f"the trace has {counted(due, 'request')}"
            raise ConfigError(f"--warm-up {self.warm_up}: {trace}, so that none would count; give fewer")
        wanted = self.requests or REQUESTS
        if self.duration_s is not None or (left := due - self.warm_ups(1.0, due)) >= wanted:
            return ()
        said = f"--requests {wanted}" if self.requests else f"the {wanted} of a level"
        return (f"the trace has {due:,} requests: {left:,} count after the warm-up, and not {said}",)

    def points(self, levels: tuple[float, ...] | None = None) -> tuple[Point, ...]:
        """All measurements in their order: at each level the servers take turns, back and forth over the repeats."""
        found = []
        turn = 0
        for level in self.levels if levels is None else levels:
            for repeat in range(self.repeats):
                names = [server.name for server in self.servers]
                for name in names if turn % 2 == 0 else reversed(names):
                    found.append(
                        Point(id=f"{name}@{level:g}#{repeat + 1}", server=name, level=level, repeat=repeat + 1)
                    )
                turn += 1
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON values; there is no key in it."""
        return asdict(self)


def from_json(value: Mapping[str, Any]) -> Asked:
    """What `to_json` made, back.

    Raises:
        TypeError: a key is missing or unknown.
    """
    given = dict(value)
    given["servers"] = tuple(
        Server(**{**one, "start": None if one["start"] is None else starting.from_json(one["start"])})
        for one in given["servers"]
    )
    given["levels"] = tuple(float(one) for one in given["levels"])
    return Asked(**given)


def check_address(url: str) -> None:
    """Refuse what is no server's address, and one that carries a key; the message never has it.

    Raises:
        UserError: it is one of these.
    """
    address_of(url)
    _refuse_keys("the server's address", url)


def _refuse_keys(what: str, text: str) -> None:
    """Refuse what has the form of a key: both are written into a run's folder as they are."""
    if any(kind == _KEY for _, _, kind in secrets.found(text)):
        raise UserError(f"{what} {_LOOKS}")


def _named(value: Any) -> bool:
    """Whether a field anywhere in a JSON value has a name that only keys have, and a text of whatever form in it."""
    if isinstance(value, Mapping):
        return any(
            _named(one) or (bool(one) and isinstance(one, str) and _is_name(name)) for name, one in value.items()
        )
    return isinstance(value, list | tuple) and any(map(_named, value))


def _is_name(name: str) -> bool:
    letters = "".join(letter for letter in name.lower() if letter.isalnum())
    return letters.endswith(_NAMES)
