"""One server as a load run sees it: requests of its kind, its settings, its counters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from specq.core.errors import ConfigError
from specq.core.types import Prompt, Sampling
from specq.engines.served import control
from specq.engines.served.client import Client
from specq.engines.served.faults import Retry
from specq.engines.served.kinds import KINDS
from specq.engines.served.kinds.base import UNKNOWN, Numbers, Served, Settings
from specq.engines.served.request import Asked as Request
from specq.engines.served.request import Streamed
from specq.load.asked import Asked, Server

_SCRAPE_S = 5.0


class Target:
    """A server with a client of its own; `settings` are what it told of itself, `unanswered` why some is unknown."""

    def __init__(self, server: Server, asked: Asked) -> None:
        self.server = server
        self.kind = KINDS[server.kind]
        self.sampling = Sampling(
            temperature=asked.temperature,
            max_new_tokens=asked.max_tokens,
            ignore_eos=asked.ignore_eos,
            seed=asked.seed,
        )
        self._asked = asked
        self.settings = Settings()
        self.unanswered: dict[str, str] = {}

    def check(self) -> None:
        """Refuse what this kind of server cannot be asked.

        Raises:
            ConfigError: in the kind's own words.
        """
        # What is wrong with weights is none of a load's business: the server has what it has.
        served = Served(weights=self.server.model)
        usual = set(self.kind.cannot(served, Sampling()))
        if wrong := [one for one in self.kind.cannot(served, self.sampling) if one not in usual]:
            raise ConfigError(f"{self.server.name}: {wrong[0]}".replace('lengths = "natural"', "no --ignore-eos"))

    def client(self) -> Client:
        """A client for the running event loop."""
        asked = self._asked
        retry = Retry(tries=asked.tries)
        return Client(self.server.base, key_env=self.server.key_env, limit_s=asked.limit_s, retry=retry)

    def learn(self) -> None:
        """Ask the server how it is set; what it does not tell stays unknown."""
        told, self.unanswered = control.ask(self.server.base, self.kind.ASKS, key_env=self.server.key_env)
        self.settings = self.kind.settings(told)

    @property
    def speculates(self) -> bool | None:
        """Whether the server says that it drafts; None where it does not say."""
        told = self.settings.speculation
        return None if told == UNKNOWN else told != "none"

    def request(self, id: str, prompt: Prompt, cold: str | None) -> Request:
        """The request for a prompt; with `cold`, a word no other request has, nothing comes from a prefix cache."""
        made = self.kind.request(prompt, self.sampling, id=id, model=self.server.model, cold=cold)
        if not self._asked.body:
            return made
        body = {**json.loads(made.body), **self._asked.body}
        return replace(made, body=json.dumps(body, ensure_ascii=False).encode())

    def numbers(self, streamed: Streamed) -> Numbers:
        """The server's own numbers of a request."""
        return self.kind.numbers(streamed)

    async def scrape(self) -> str | None:
        """The server's counters as they stand, None where it has none or does not give them."""
        path = getattr(self.kind, "METRICS", None)
        if path is None:
            return None

        def ask() -> Mapping[str, Any]:
            return control.ask(self.server.base, (path,), key_env=self.server.key_env, limit_s=_SCRAPE_S)[0]

        # In a thread: a slow answer must make no stream late.
        told = (await asyncio.to_thread(ask)).get(path)
        return told if isinstance(told, str) else None

    def grown(self, before: str | None, after: str | None) -> tuple[dict[str, Any], tuple[str, ...]]:
        """What the counters grew by between two scrapes, and notes; empty where there are none."""
        if before is None or after is None:
            return {}, ()
        try:
            numbers: Numbers = self.kind.between(before, after)  # type: ignore[attr-defined]
        except ValueError as error:
            return {}, (f"the counters of {self.server.name} cannot be read: {error}",)
        notes = (f"{self.server.name} restarted while it was measured",) if numbers.restarted else ()
        return {name: value for name, value in asdict(numbers).items() if value not in (None, (), False)}, notes

    def to_json(self) -> dict[str, Any]:
        """What run.json holds of it."""
        return {**asdict(self.server), "settings": asdict(self.settings), "unanswered": self.unanswered}
