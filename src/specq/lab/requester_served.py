"""Requests to a server, through the client that stamps every event as it comes off the socket."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from specq.core.errors import RunFailed, Unsupported
from specq.core.types import Prompt, Sampling
from specq.engines.served import control, scheme
from specq.engines.served.client import LIMIT_S, Client
from specq.engines.served.faults import Retry
from specq.engines.served.kinds import KINDS
from specq.engines.served.kinds.base import UNKNOWN, Settings
from specq.engines.served.request import Asked, Streamed
from specq.lab.requester import Answer

if TYPE_CHECKING:
    from specq.models.light_tokenizer import LightTokenizer

_SECONDS = ("queue_s", "prefill_s", "decode_s", "ttft_s", "e2e_s")


class ServedRequester:
    """A server as a requester. Close it; it closes no server.

    `model` is the name that requests carry, None: the one that the server says. `settings` are how it runs, where more
    is known than it answers; None: as it answers. With a `tokenizer` prompts go out as token ids where the kind takes
    them; without one as text. `edit` changes the body of each request, which a server that can be told more than its
    kind knows has use for. A request is asked once: a retry would be timed with it.
    """

    def __init__(
        self,
        url: str,
        kind: str,
        *,
        name: str | None = None,
        model: str | None = None,
        settings: Settings | None = None,
        tokenizer: LightTokenizer | None = None,
        key_env: str | None = None,
        limit_s: float = LIMIT_S,
        edit: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        """Ask the server for its settings; nothing else is sent.

        Raises:
            UserError: the address or the key's variable is none, or it speaks http and the address says TLS, or the
                other way round.
            Unsupported: no name is given and the server tells none, or several.
        """
        self.name, self.kind = name or url, kind
        self._kind, self._tokenizer, self._edit = KINDS[kind], tokenizer, edit
        told, self._untold = control.ask(url, self._kind.ASKS, key_env=key_env)
        if not told:
            scheme.check_silent(url, self._untold)
        self.settings: Settings = settings or self._kind.settings(told)
        self._model = model or _listed(told) or self.settings.model
        if self._model == UNKNOWN:
            raise Unsupported(f"{url} names no model, or several: give --served-as NAME, the one to ask")
        self.slots = None if self.settings.slots == UNKNOWN else int(self.settings.slots)
        self._client = Client(url, key_env=key_env, limit_s=limit_s, retry=Retry(tries=1))
        self._loop = asyncio.Runner()
        self._asked = 0

    def close(self) -> None:
        """Close the connections."""
        self._loop.run(self._client.close())
        self._loop.close()

    def prompt(self, id: str, text: str, *, special: bool = True, messages: Sequence[Mapping[str, str]] = ()) -> Prompt:
        """The text, with its ids where a tokenizer was given, and the messages for servers of chats."""
        ids = () if self._tokenizer is None else tuple(self._tokenizer.ids(text, special=special))
        said = tuple(map(dict, messages)) or ({"role": "user", "content": text},)
        return Prompt(id=id, ids=ids, text=text, messages=said)

    def ask(self, prompt: Prompt, max_tokens: int, *, cached: bool = False, streamed: bool = True) -> Answer:
        """One request; a cold one carries a nonce that no other has."""
        asked = self._request(prompt, max_tokens, cached=cached)
        if not streamed:
            asked = _whole(asked)
        return self._answer(prompt, self._loop.run(self._client.stream(asked)), streamed=streamed)

    def ask_together(self, prompts: Sequence[Prompt], max_tokens: int) -> list[Answer]:
        """All at once: their answers are read when the last has come."""
        asked = [self._request(prompt, max_tokens, cached=False) for prompt in prompts]

        async def all_of_them() -> list[Streamed]:
            received = await asyncio.gather(*map(self._client.receive, asked))
            return [await self._client.read(one) for one in received]

        found = self._loop.run(all_of_them())
        return [self._answer(prompt, one, streamed=True) for prompt, one in zip(prompts, found, strict=True)]

    def describe(self) -> dict[str, Any]:
        """The server's settings as it tells them, and which of its paths told nothing."""
        return {"model": self._model, "settings": asdict(self.settings), "untold": dict(self._untold)}

    def _request(self, prompt: Prompt, max_tokens: int, *, cached: bool) -> Asked:
        self._asked += 1
        # A kind that knows no such setting leaves it out, and the answer ends where the model ends it.
        sampling = Sampling(max_new_tokens=max_tokens, ignore_eos=True)
        cold = None if cached else secrets.token_hex(8)
        asked = self._kind.request(prompt, sampling, id=f"lab-{self._asked}", model=self._model, cold=cold)
        return asked if self._edit is None else _with(asked, self._edit(json.loads(asked.body)))

    def _answer(self, prompt: Prompt, got: Streamed, *, streamed: bool) -> Answer:
        if got.error is not None:
            raise RunFailed(f"{self.name}: a request failed ({got.error}): {got.said}")
        if got.sent_s is None or got.e2e_s is None or not got.tokens:
            raise RunFailed(f"{self.name}: an answer has no token; ask it for longer ones")
        numbers = self._kind.numbers(got)
        prompt_tokens = numbers.prompt_tokens or len(prompt.ids)
        if not prompt_tokens:
            raise RunFailed(
                f"{self.name} does not tell how many tokens a prompt has: give its tokenizer with --model MODEL"
            )
        told = {name: value for name in _SECONDS if (value := getattr(numbers, name)) is not None}
        return Answer(
            sent_s=got.sent_s,
            ttft_s=got.ttft_s if streamed else None,
            e2e_s=got.e2e_s,
            stamps_s=tuple(stamp - got.sent_s for stamp in got.event_s) if streamed else (),
            stamp_tokens=got.event_tokens if streamed else (),
            prompt_tokens=prompt_tokens,
            cached_tokens=numbers.cached_tokens,
            output_tokens=got.tokens,
            told=told,
        )


def _listed(told: dict[str, Any]) -> str | None:
    """The one model that the server lists by OpenAI's API, under the name that requests carry."""
    models = told.get("/v1/models")
    listed = models.get("data") if isinstance(models, dict) else None
    names = [one.get("id") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return names[0] if len(names) == 1 and isinstance(names[0], str) else None


def _whole(asked: Asked) -> Asked:
    """The same request, to be answered in one piece."""
    body = json.loads(asked.body)
    body["stream"] = False
    body.pop("stream_options", None)
    return _with(asked, body)


def _with(asked: Asked, body: dict[str, Any]) -> Asked:
    return replace(asked, body=json.dumps(body, ensure_ascii=False).encode())
