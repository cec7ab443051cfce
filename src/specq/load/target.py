"""One server as a load run sees it: started for its points or there already, its requests, settings and counters."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from specq.core import clock
from specq.core.clock import utc_stamp
from specq.core.errors import ConfigError
from specq.core.types import Prompt, Sampling
from specq.engines.served import control, launch, scheme
from specq.engines.served.client import Client
from specq.engines.served.faults import Retry
from specq.engines.served.kinds import KINDS
from specq.engines.served.kinds.base import UNKNOWN, Drafted, Numbers, Served, Settings
from specq.engines.served.request import Asked as Request
from specq.engines.served.request import Streamed
from specq.engines.served.session import Session, Where, model_names
from specq.load.asked import Asked, Server
from specq.load.rows import Started
from specq.run.provenance import hide_home, tidy_command

LOGS = "servers"
"""Where in a run's folder the logs of started servers lie."""
_SCRAPE_S = 5.0
_KNOCK_S = 0.1
_LISTS = "/v1/models"
_SHOWN = 3
_TAIL_BYTES = 1 << 20
"""Of a log, which grows by some lines a request; what it counts stands in each of them."""


class Target:
    """A server with a client of its own; `settings` are what it told of itself, `unanswered` why some is unknown."""

    def __init__(self, server: Server, asked: Asked) -> None:
        self.server = server
        self.kind = KINDS[server.kind]
        more: dict[str, Any] = {
            name: tuple(value) if name == "stop" else value for name, value in asked.sampling.items()
        }
        self.sampling = Sampling(
            temperature=asked.temperature,
            max_new_tokens=asked.max_tokens,
            ignore_eos=asked.ignore_eos,
            seed=asked.seed,
            **more,
        )
        self._asked = asked
        self._session: Session | None = None
        self.settings = Settings()
        self.unanswered: dict[str, str] = {}

    def check(self) -> None:
        """Refuse what this kind of server cannot be asked.

        Raises:
            ConfigError: in the kind's own words.
        """
        if self.server.start is not None:
            served = self.server.start.served(self.kind.NAME, warm_prefix=self._asked.warm_prefix)
            usual: set[str] = set()
        else:
            # What is wrong with weights is none of a load's business: the server has what it has.
            served = Served(weights=self.server.model)
            usual = set(self.kind.cannot(served, Sampling()))
        if wrong := [one for one in self.kind.cannot(served, self.sampling) if one not in usual]:
            raise ConfigError(f"{self.server.name}: {wrong[0]}".replace('lengths = "natural"', "no --ignore-eos"))

    def start(self, folder: Path) -> Started | None:
        """Start the server, with its log in a run's folder; None where it runs already.

        Raises:
            UserError: it is not installed, or cannot load such weights. RunFailed: it ended, or was not ready in time.
        """
        start = self.server.start
        if start is None or self._session is not None:
            return None
        served = start.served(self.kind.NAME, warm_prefix=self._asked.warm_prefix)
        names = (folder / LOGS / f"{number}.log" for number in range(1, 10_000))
        log = next(one for one in names if not one.exists())
        where = Where(log=log, start_s=start.start_s, limit_s=self._asked.limit_s)
        began, began_s = utc_stamp(), clock.now()
        session = Session.open(self.kind.NAME, served, where)
        self._session = session
        seconds = clock.now() - began_s
        self.settings = session.settings()
        command = session.command
        assert command is not None
        draft = start.draft
        verified = None if draft is None else self.kind.verified(draft, self.sampling, served.args)
        return Started(
            server=self.server.name,
            began=began,
            url=session.url,
            model=hide_home(session.model),
            command=tidy_command([*(f"{key}={value}" for key, value in command.env.items()), *command.argv]),
            log=f"{LOGS}/{log.name}",
            seconds=seconds,
            settings=hide_home(asdict(self.settings)),
            exactness="" if verified is None else "lossy" if draft is not None and draft.lossy else verified.exactness,
            reason="" if verified is None else verified.reason,
            source="" if verified is None else verified.source,
        )

    def stop(self) -> None:
        """Stop the server where it was started here."""
        if self._session is not None:
            self._session.close()
        self._session = None

    @property
    def group(self) -> int | None:
        """The process group of a server that was started here."""
        return None if self._session is None else self._session.server.pid

    @property
    def base(self) -> str:
        """Where it answers now, without the API's version."""
        return self.server.base if self._session is None else self._session.url

    @property
    def model(self) -> str:
        """What requests call its model."""
        return self.server.model if self._session is None else self._session.model

    def ended(self) -> str | None:
        """In words, that a server which was started here has ended; None where it runs, as far as is known."""
        if self._session is None or (code := self._session.server.ended()) is None:
            return None
        log = self._session.server.log
        said = [] if log is None else launch.last_lines(log, _SHOWN)
        return f"{self.server.name}: the server ended with exit code {code}; the end of {log}: {' | '.join(said)}"

    def client(self) -> Client:
        """A client for the running event loop."""
        asked = self._asked
        retry = Retry(tries=asked.tries)
        return Client(self.base, key_env=self.server.key_env, limit_s=asked.limit_s, retry=retry)

    def learn(self) -> None:
        """Ask a server that runs already how it is set; what it does not tell stays unknown.

        Raises:
            UserError: it speaks http and its address says TLS, or the other way round.
        """
        if self.server.start is not None:
            return
        told, self.unanswered = control.ask(self.base, self.kind.ASKS, key_env=self.server.key_env)
        if not told:
            scheme.check_silent(self.server.url, self.unanswered)
        self.settings = self.kind.settings(told)

    def offers(self) -> str:
        """The names of its models in words, as it lists them, and what to type."""
        told, _ = control.ask(self.base, (_LISTS,), key_env=self.server.key_env, limit_s=_SCRAPE_S)
        names = [f'"{name}"' for name in model_names(told.get(_LISTS))[:_SHOWN]]
        return f"it has {', '.join(names)}: name one with --model" if names else "name another with --model"

    @property
    def speculates(self) -> bool | None:
        """Whether the server says that it drafts; None where it does not say."""
        if self.server.start is not None:
            return self.server.start.draft is not None
        told = self.settings.speculation
        return None if told == UNKNOWN else told != "none"

    def request(self, id: str, prompt: Prompt, cold: str | None) -> Request:
        """The request for a prompt; with `cold`, a word no other request has, nothing comes from a prefix cache."""
        if self._session is not None and not self._session.needs_cold:
            cold = None
        made = self.kind.request(prompt, self.sampling, id=id, model=self.model, cold=cold)
        if not self._asked.body:
            return made
        body = {**json.loads(made.body), **self._asked.body}
        return replace(made, body=json.dumps(body, ensure_ascii=False).encode())

    def numbers(self, streamed: Streamed) -> Numbers:
        """The server's own numbers of a request."""
        return self.kind.numbers(streamed)

    async def reachable(self, limit_s: float) -> bool:
        """Whether somebody listens at the server's address, or does so before `limit_s` are over."""
        at = urlsplit(self.base)
        until = clock.now() + limit_s
        while (left := until - clock.now()) > 0:
            try:
                port = at.port or (443 if at.scheme == "https" else 80)
                _, writer = await asyncio.wait_for(asyncio.open_connection(at.hostname, port), left)
            except (OSError, TimeoutError):
                await asyncio.sleep(min(_KNOCK_S, left))
            else:
                writer.close()
                return True
        return False

    async def scrape(self) -> str | None:
        """The server's counters as they stand, None where it has none or does not give them."""
        path = getattr(self.kind, "METRICS", None)
        if path is None:
            return None

        def ask() -> Mapping[str, Any]:
            return control.ask(self.base, (path,), key_env=self.server.key_env, limit_s=_SCRAPE_S)[0]

        # In a thread: a slow answer must make no stream late.
        told = (await asyncio.to_thread(ask)).get(path)
        return told if isinstance(told, str) else None

    def drafted(self) -> Drafted | None:
        """What a server that was started here wrote of its drafting until now, None where it writes nothing of it."""
        read = getattr(self.kind, "drafted", None)
        log = None if self._session is None else self._session.server.log
        if read is None or log is None or self.server.start is None or self.server.start.draft is None:
            return None
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            found: Drafted | None = read(file.read().decode("utf-8", errors="replace"))
        return found

    def drafted_since(self, before: Drafted | None) -> dict[str, Any]:
        """Rounds of drafting and their seconds since then; nothing where they are not known."""
        now = self.drafted()
        if now is None:
            return {}
        calls, seconds = (0, 0.0) if before is None else (before.calls, before.seconds)
        return {"draft_calls": now.calls - calls, "draft_s": now.seconds - seconds}

    def grown(self, before: str | None, after: str | None) -> tuple[dict[str, Any], tuple[str, ...]]:
        """What the counters grew by between two scrapes, empty where they cannot be read, and notes on that."""
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
