"""Any server that speaks OpenAI's API, by its URL: what they all have, and nothing more.

Source: https://platform.openai.com/docs/api-reference/chat/create and .../completions/create.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from specq.core.errors import Unsupported
from specq.core.types import DraftSpec, Prompt, Sampling
from specq.engines.served.kinds import drafts
from specq.engines.served.kinds.base import (
    UNKNOWN,
    Command,
    Numbers,
    Served,
    Settings,
    TokenCounts,
    Verified,
    first_of,
    of_usage,
    whole,
    word,
)
from specq.engines.served.request import Asked, Streamed

NAME = "openai"
TITLE = "an OpenAI-compatible server"
HEALTH = "/v1/models"
ASKS = ("/v1/models",)
TOKENS: TokenCounts = "usage"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def body(prompt: Prompt, sampling: Sampling, *, model: str, cold: str | None) -> dict[str, Any]:
    """The fields that every such server takes. Messages go out as they are, and text where there are none."""
    given: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if prompt.messages:
        given["messages"] = with_nonce(prompt.messages, cold)
    else:
        given["prompt"] = text_of(prompt) if cold is None else f"{cold}\n{text_of(prompt)}"
    given |= {"max_tokens": sampling.max_new_tokens, "temperature": sampling.temperature, "top_p": sampling.top_p}
    given["seed"] = sampling.seed
    if sampling.stop and not sampling.ignore_eos:
        given["stop"] = list(sampling.stop)
    return given


def request(prompt: Prompt, sampling: Sampling, *, id: str, model: str, cold: str | None = None) -> Asked:
    """A streaming chat, or a streaming completion of a prompt without messages."""
    given = body(prompt, sampling, model=model, cold=cold)
    return post(id, CHAT if "messages" in given else TEXT, given)


def differs(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What such a server does in its own way."""
    return (
        "prompts go out as messages, which the server's own chat template turns into tokens; its own counts are used",
        "a seed need not give the same text twice, and nothing tells whether prompts were cached unless usage does",
        "a prompt that must be read cold begins with a nonce, so that it has some tokens more",
    )


def cannot(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What cannot be asked of it: it serves what it serves."""
    found = list(drafts.unable(TITLE, served.draft, (), ()))
    if served.target.recipe is not None or served.loads != served.weights:
        found.append(
            f"{TITLE} serves the weights that it has: an arm with other weights needs a server of its own, of kind "
            '"vllm", "llamacpp", "sglang" or "mlx_lm"'
        )
    found += drafts.no_cache(TITLE, served.target.kv_cache)
    found += drafts.no_settings(TITLE, served, ("context", "dtype", "threads"))
    found += drafts.no_keys(TITLE, sampling, ("top_k", "min_p", "repetition_penalty", "min_new_tokens", "eos_ids"))
    found += no_equal_lengths(TITLE, sampling)
    return tuple(found)


def verified(draft: DraftSpec, sampling: Sampling, args: Sequence[str] = ()) -> Verified:
    """Nothing is known of how it verifies."""
    return Verified(exactness=UNKNOWN, reason="the API does not tell whether the server drafts, or how", source=TEXT)


def command(served: Served, port: int, *, environ: Mapping[str, str]) -> Command:
    """There is none: such a server is attached to by its URL.

    Raises:
        Unsupported: always.
    """
    raise Unsupported('kind = "openai" attaches to a running server: write url = "http://HOST:PORT" in [engine]')


def settings(told: Mapping[str, Any]) -> Settings:
    """The model's name and, where the server adds it, its window."""
    models = first_of(told.get("/v1/models"), "data")
    one = models[0] if isinstance(models, list) and len(models) == 1 else None
    return Settings(model=word(first_of(one, "id")), window=whole(first_of(one, "max_model_len", "context_length")))


def numbers(streamed: Streamed) -> Numbers:
    """The counts of its usage; it tells no times."""
    return of_usage(streamed.usage)


def post(id: str, path: str, given: Mapping[str, Any]) -> Asked:
    """A request with a JSON body."""
    return Asked(
        id=id,
        path=path,
        body=json.dumps(given, ensure_ascii=False).encode(),
        headers={"Content-Type": "application/json"},
    )


def text_of(prompt: Prompt) -> str:
    """The rendered text of a prompt.

    Raises:
        Unsupported: it has token ids alone, and the server takes text.
    """
    if not prompt.text:
        raise Unsupported(
            f'prompt "{prompt.id}" has token ids alone, and this kind of server takes text: give prompts with text or '
            "messages"
        )
    return prompt.text


def with_nonce(messages: Sequence[Mapping[str, str]], nonce: str | None) -> list[dict[str, str]]:
    """The messages, the first of them begun with the nonce."""
    copied = [dict(one) for one in messages]
    if nonce is not None:
        copied[0]["content"] = f"{nonce}\n{copied[0].get('content', '')}"
    return copied


def no_equal_lengths(title: str, sampling: Sampling) -> tuple[str, ...]:
    """Refuse answers of equal lengths, for a server that always stops at the end token."""
    if not sampling.ignore_eos:
        return ()
    return (f'lengths = "equal": {title} cannot be told to go on after the end token; write lengths = "natural"',)
