"""Ollama: models by the names that it knows, or a GGUF file that it is told to take in.

Sources: docs/api.md (requests, durations in nanoseconds), docs/faq.md (OLLAMA_KV_CACHE_TYPE, OLLAMA_NUM_PARALLEL,
OLLAMA_CONTEXT_LENGTH) and docs/modelfile.md of ollama/ollama; its issue 5800 on drafts.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specq.core.errors import Unsupported
from specq.core.types import CacheType, DraftSpec, Prompt, Sampling
from specq.engines.served.kinds import drafts, weights
from specq.engines.served.kinds.base import (
    HOST,
    UNKNOWN,
    Command,
    Numbers,
    Served,
    Settings,
    TokenCounts,
    Values,
    Verified,
    first_of,
    whole,
    word,
)
from specq.engines.served.kinds.openai import no_equal_lengths, post, text_of
from specq.engines.served.request import Asked, Streamed

NAME = "ollama"
TITLE = "Ollama"
HEALTH = "/api/version"
ASKS = ("/api/version", "/api/ps")
TOKENS: TokenCounts = "usage"
GENERATE = "/api/generate"
_CACHES: dict[CacheType, str] = {"q8": "q8_0", "q4": "q4_0"}
_SEEDS = 2**31
_NS = 1e-9


def request(prompt: Prompt, sampling: Sampling, *, id: str, model: str, cold: str | None = None) -> Asked:
    """A streaming completion of the rendered text, to which no template of Ollama's is applied."""
    text = text_of(prompt) if cold is None else f"{cold}\n{text_of(prompt)}"
    options: dict[str, Any] = {"num_predict": sampling.max_new_tokens, "temperature": sampling.temperature}
    options |= {"top_k": sampling.top_k, "top_p": sampling.top_p, "min_p": sampling.min_p}
    options |= {"seed": sampling.seed % _SEEDS, "repeat_penalty": sampling.repetition_penalty}
    if sampling.repetition_penalty != 1.0:
        options["repeat_last_n"] = len(prompt.ids) + sampling.max_new_tokens
    if sampling.stop:
        options["stop"] = list(sampling.stop)
    given = {"model": model, "prompt": text, "raw": True, "stream": True, "options": options, "keep_alive": -1}
    return post(id, GENERATE, given)


def differs(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What Ollama does in its own way."""
    return (
        "Ollama takes text and turns it into tokens itself; its own counts are used",
        "Ollama keeps the caches of earlier prompts and has no switch: a cold prompt begins with a nonce and so has "
        "some tokens more",
    )


def cannot(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What Ollama cannot do for an arm."""
    found = list(drafts.unable(TITLE, served.draft, (), ()))
    if served.target.recipe is not None or served.loads != served.weights:
        found += weights.only_gguf(TITLE, served)
    if served.args:
        found.append(f"[engine] args = {json.dumps(list(served.args))}: ollama serve takes none; set its variables")
    found += drafts.no_keys(TITLE, sampling, ("min_new_tokens", "eos_ids"))
    found += drafts.no_settings(TITLE, served, ("dtype", "threads"))
    return (*found, *no_equal_lengths(TITLE, sampling))


def verified(draft: DraftSpec, sampling: Sampling, args: Sequence[str] = ()) -> Verified:
    """It drafts nothing that it could be told of."""
    return Verified(
        exactness=UNKNOWN,
        reason="Ollama has no setting for a draft",
        source="docs/api.md and issue 5800 of ollama/ollama",
    )


def executable(environ: Mapping[str, str]) -> str:
    """Where Ollama is.

    Raises:
        Unsupported: it is not on the PATH.
    """
    if found := shutil.which("ollama", path=environ.get("PATH")):
        return found
    raise Unsupported(
        'kind = "ollama": no ollama on the PATH; install it, or attach with url = "http://HOST:PORT" in [engine]'
    )


def command(served: Served, port: int, *, environ: Mapping[str, str]) -> Command:
    """`ollama serve`; cache, window and slots are its environment's, for all of its models.

    Raises:
        Unsupported: Ollama is not installed.
    """
    return Command(argv=(executable(environ), "serve"), env=_env(served, port))


def creation(served: Served, port: int, modelfile: Path, *, environ: Mapping[str, str]) -> Command | None:
    """What makes a GGUF file known to a server that has started; None for a name that it is to have already.

    The file `modelfile` holds what `modelfile_of` says.

    Raises:
        Unsupported: Ollama is not installed.
    """
    if not served.loads.endswith(weights.GGUF):
        return None
    argv = (executable(environ), "create", name_of(served), "-f", str(modelfile))
    return Command(argv=argv, env=_env(served, port))


def name_of(served: Served) -> str:
    """The name that requests give to the model."""
    given = served.loads
    return f"specq-{Path(given).stem.lower()}" if given.endswith(weights.GGUF) else given


def modelfile_of(served: Served) -> str:
    """The Modelfile of a GGUF file: the weights and nothing else."""
    return f"FROM {Path(served.loads).absolute()}\n"


def settings(told: Mapping[str, Any]) -> Settings:
    """From /api/version and the model that /api/ps has in memory; Ollama tells nothing of cache, slots or kernels."""
    running = first_of(told.get("/api/ps"), "models")
    one = running[0] if isinstance(running, list) and len(running) == 1 else None
    return Settings(
        model=word(first_of(one, "name", "model")),
        version=word(first_of(told.get("/api/version"), "version")),
        window=whole(first_of(one, "context_length")),
    )


def numbers(streamed: Streamed) -> Numbers:
    """The durations of the last object. Where the whole prompt came from a cache, it leaves the prompt's out."""
    values = Values(streamed.server)
    load, first = values.number("load_duration", _NS), values.number("prompt_eval_duration", _NS)
    return Numbers(
        prompt_tokens=values.count("prompt_eval_count"),
        new_tokens=values.count("eval_count"),
        load_s=load,
        prefill_s=first,
        decode_s=values.number("eval_duration", _NS),
        ttft_s=None if first is None else first + (load or 0.0),
        e2e_s=values.number("total_duration", _NS),
        damaged=tuple(values.damaged),
    )


def _env(served: Served, port: int) -> dict[str, str]:
    env = {"OLLAMA_HOST": f"{HOST}:{port}", "OLLAMA_NUM_PARALLEL": str(served.slots), "OLLAMA_KEEP_ALIVE": "-1"}
    if served.context is not None:
        env["OLLAMA_CONTEXT_LENGTH"] = str(served.context)
    if served.target.kv_cache is not None:
        # Quantized values need flash attention.
        env |= {"OLLAMA_FLASH_ATTENTION": "1", "OLLAMA_KV_CACHE_TYPE": _CACHES[served.target.kv_cache]}
    return env
