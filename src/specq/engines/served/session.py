"""A server that is ready to be asked: of a kind, by its URL or started here, with all that its kind knows of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from specq.core import jsonl
from specq.core.errors import ServerGone, Unsupported
from specq.core.types import Prompt, Sampling
from specq.engines.served import control, launch
from specq.engines.served.client import LIMIT_S, Client
from specq.engines.served.faults import Retry
from specq.engines.served.key import Key
from specq.engines.served.kinds import KINDS, mlx_lm, ollama
from specq.engines.served.kinds.base import LOG, UNKNOWN, Command, Kind, Served, Settings
from specq.engines.served.launch import Server
from specq.engines.served.request import Asked

METRICS = "/metrics"
_LISTS = "/v1/models"
_NAMED_SHOWN = 5
# Kinds that serve one model, loaded from a path or a hub id.
_ONE_MODEL = ("vllm", "llamacpp", "sglang")
# Kinds whose command says whether a prefix cache is kept, and whose own words for it no `args` may have.
_SWITCH_CACHE = ("vllm", "llamacpp", "sglang", "mlx_lm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """How to come to a server: `url` of one that runs, or None to start one, whose log goes to `log`.

    `key_env` names the environment variable with its key. `start_s` is how long it may take to load its weights,
    `limit_s` how long it may be silent in an answer.
    """

    url: str | None = None
    key_env: str | None = None
    log: Path | None = None
    start_s: float = launch.LIMIT_S
    limit_s: float = LIMIT_S


class Session:
    """A server of a kind that serves an arm; a context manager, which stops it where it was started here.

    `kind` translates, `served` says what it serves, `server` is where it answers, and `model` is the name that requests
    give to its model. `command` is what started it, None for one that was attached to.
    """

    def __init__(
        self, *, kind: Kind, served: Served, where: Where, on_wait: Callable[[float], None] | None = None
    ) -> None:
        self.kind, self.served, self.where = kind, served, where
        self._on_wait = on_wait
        self.command: Command | None = None
        self.server: Server
        self.model = _asked_for(kind, served)

    @classmethod
    def open(
        cls, kind: str, served: Served, where: Where, *, on_wait: Callable[[float], None] | None = None
    ) -> Session:
        """Attach to the server, or start it and wait until it is healthy; `on_wait` as in launch.start.

        Raises:
            UserError: nobody answers, the server has another model, is not installed, or its key is not set.
            ServerGone: it ended, or was not healthy in time.
            DiskFull: there is no room for its log.
        """
        session = cls(kind=KINDS[kind], served=served, where=where, on_wait=on_wait)
        session._open()
        return session

    def _open(self) -> None:
        if self.where.url is not None:
            self.server = launch.attach(self.where.url, self.kind.HEALTH, key_env=self.where.key_env)
            self._need_model()
            return
        log = self.where.log
        if log is None:
            raise Unsupported(f'kind = "{self.kind.NAME}": a server that is started needs a file for its log')
        port = launch.free_port()
        self.command = self.kind.command(self.served, port, environ=os.environ)
        self.server = launch.start(
            self.command,
            port=port,
            health=self.kind.HEALTH,
            log=log,
            limit_s=self.where.start_s,
            on_wait=self._on_wait,
            hide=Key(self.where.key_env).hide,
        )
        if self.kind.NAME == ollama.NAME:
            try:
                self._take_in(port, log)
            except BaseException:
                self.server.stop()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server where it was started here."""
        self.server.stop()

    def restart(self) -> None:
        """Start it anew, most likely on another port; one that was attached to is looked for where it was.

        Raises:
            UserError, ServerGone, DiskFull: as `open`.
        """
        self.server.stop()
        self._open()

    @property
    def attached(self) -> bool:
        """Whether somebody else started it."""
        return not self.server.started_here

    @property
    def url(self) -> str:
        """Where it answers now."""
        return self.server.url

    def healthy(self) -> bool:
        """Whether it answers, and, where it was started here, still runs."""
        return self.server.ended() is None and control.healthy(
            self.url, self.kind.HEALTH, key_env=self.where.key_env, limit_s=control.LIMIT_S
        )

    def client(self, retry: Retry | None = None) -> Client:
        """A client that finds the server on whichever port it is."""
        return Client(lambda: self.url, key_env=self.where.key_env, limit_s=self.where.limit_s, retry=retry)

    def request(self, prompt: Prompt, sampling: Sampling, *, id: str, nonce: str | None = None) -> Asked:
        """The streaming request. It is read cold unless the server serves from its prefix cache.

        A server without a switch for that gets a `nonce` before the prompt; None: made of the request's id.
        """
        cold = None if self.served.prefix_cache or not self.needs_cold else nonce or id
        return self.kind.request(prompt, sampling, id=id, model=self.model, cold=cold)

    @property
    def needs_cold(self) -> bool:
        """Whether requests must say that no cache may serve them; mlx_lm.server is started without one."""
        return self.attached or self.kind.NAME != mlx_lm.NAME

    def scrape(self) -> str | None:
        """The text of the server's /metrics; None where it has none."""
        answers, _ = control.ask(self.url, (METRICS,), key_env=self.where.key_env)
        text = answers.get(METRICS)
        return text if isinstance(text, str) else None

    def settings(self) -> Settings:
        """How the server says that it runs; "unknown" for what it does not say.

        What it leaves open of one that was started here is what its command sets.
        """
        told, _ = control.ask(self.url, self.kind.ASKS, key_env=self.where.key_env)
        if self.server.log is not None:
            told[LOG] = self.server.log.read_text(encoding="utf-8", errors="replace")
        found = self.kind.settings(told)
        if self.attached:
            return found
        if found.prefix_cache == UNKNOWN and self.kind.NAME in _SWITCH_CACHE:
            found = replace(found, prefix_cache=self.served.prefix_cache)
        if found.speculation == UNKNOWN:
            draft = self.served.draft
            found = replace(found, speculation="none" if draft is None else f"{draft.method}, k = {draft.k}")
        return found

    def _need_model(self) -> None:
        """Refuse a server that lists its models, and this one not among them."""
        told, _ = control.ask(self.url, (_LISTS,), key_env=self.where.key_env)
        names = model_names(told.get(_LISTS))
        # llama.cpp answers whatever name it is given.
        if not names or self.model in names or self.kind.NAME == "llamacpp":
            return
        if self.served.name is None and len(names) == 1 and self.kind.NAME in _ONE_MODEL:
            # What is loaded here for its tokens has a path, and over there another one.
            self.model = names[0]
            return
        some = ", ".join(f'"{name}"' for name in names[:_NAMED_SHOWN])
        key = "target.model" if self.kind.NAME in ("openai", ollama.NAME) else "served_name in [engine]"
        raise Unsupported(f'the server at {self.url} has no model "{self.model}": it has {some}; write one as {key}')

    def _take_in(self, port: int, log: Path) -> None:
        """Make a GGUF file known to an Ollama that has started."""
        modelfile = log.with_suffix(".modelfile")
        command = ollama.creation(self.served, port, modelfile, environ=os.environ)
        if command is None:
            return
        jsonl.write_text_whole(modelfile, ollama.modelfile_of(self.served))
        try:
            with log.open("ab") as file:
                code = subprocess.run(
                    command.argv, env={**os.environ, **command.env}, stdout=file, stderr=file, check=False
                ).returncode
        except OSError as error:
            raise Unsupported(f"cannot run {command.argv[0]} create: {error.strerror}; is Ollama whole?") from error
        if code:
            raise ServerGone(f"ollama create ended with exit code {code}; {' | '.join(launch.last_lines(log, 3))}")


def _asked_for(kind: Kind, served: Served) -> str:
    """The name that requests give to the model."""
    if served.name is not None:
        return served.name
    if kind.NAME == mlx_lm.NAME:
        return mlx_lm.MODEL
    return ollama.name_of(served) if kind.NAME == ollama.NAME else served.loads


def model_names(told: Any) -> list[str]:
    """The models of a list as the OpenAI API has it."""
    data = told.get("data") if isinstance(told, Mapping) else None
    return [str(one["id"]) for one in data or () if isinstance(one, Mapping) and one.get("id")]
