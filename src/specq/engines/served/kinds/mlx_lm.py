"""mlx-lm's server, a process of this Python.

Source: mlx_lm/server.py, mlx_lm/generate.py (speculative_generate_step) and mlx_lm/sample_utils.py of mlx-lm 0.32.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from specq.core.types import CacheType, DraftSpec, Prompt, Sampling
from specq.engines.served.kinds import drafts, weights
from specq.engines.served.kinds.base import (
    HOST,
    Command,
    Numbers,
    Served,
    Settings,
    TokenCounts,
    Verified,
    clashes,
    first_of,
    of_usage,
    word,
)
from specq.engines.served.kinds.openai import TEXT, no_equal_lengths, post, text_of
from specq.engines.served.request import Asked, Streamed

NAME = "mlx_lm"
TITLE = "mlx_lm.server"
HEALTH = "/health"
"""It answers while the weights are still being read, so that the first request waits for them."""
ASKS = ("/v1/models",)
TOKENS: TokenCounts = "usage"
MODEL = "default_model"
"""The name that requests give to the model of the command line."""
_BITS: dict[CacheType, int] = {"q8": 8, "q4": 4}
_SEEDS = 2**32
# A logit that is lowered so far is never drawn.
_NEVER = -1e9
_OWNED = {
    "--model": "write target.model",
    "--draft-model": 'write a lever of kind "draft"',
    "--num-draft-tokens": 'write a lever of kind "draft"',
    "--host": "take it out, the server listens on this machine alone",
    "--port": "take it out, a free port is found",
    "--kv-bits": 'write a lever of kind "kv_cache"',
    "--prompt-cache-size": 'write a lever of kind "prefix_cache"',
    "--decode-concurrency": "write slots in [engine]",
}


def request(prompt: Prompt, sampling: Sampling, *, id: str, model: str, cold: str | None = None) -> Asked:
    """A streaming completion of the rendered text.

    A seed is only sent where something is drawn, for the server batches no request that has one. It is never told to
    go on after an end token, so end tokens that are named are made impossible there.
    """
    text = text_of(prompt) if cold is None else f"{cold}\n{text_of(prompt)}"
    given: dict[str, Any] = {"model": model, "prompt": text, "stream": True, "stream_options": {"include_usage": True}}
    given |= {"max_tokens": sampling.max_new_tokens, "temperature": sampling.temperature}
    given |= {"top_k": sampling.top_k, "top_p": sampling.top_p, "min_p": sampling.min_p}
    if sampling.temperature > 0:
        given["seed"] = sampling.seed % _SEEDS
    if sampling.repetition_penalty != 1.0:
        given["repetition_penalty"] = sampling.repetition_penalty
        given["repetition_context_size"] = len(prompt.ids) + sampling.max_new_tokens
    if sampling.ignore_eos and sampling.eos_ids:
        given["logit_bias"] = {str(one): _NEVER for one in sampling.eos_ids}
    if sampling.stop and not sampling.ignore_eos:
        given["stop"] = list(sampling.stop)
    return post(id, TEXT, given)


def differs(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What mlx_lm.server does in its own way."""
    found = ["mlx_lm.server takes text and turns it into tokens itself; its own counts are used"]
    if sampling.temperature not in (0.0, 1.0) and (sampling.top_p < 1 or sampling.min_p > 0):
        found.append(
            "mlx_lm.server cuts by top_p and min_p before the temperature, specq after it: other tokens remain"
        )
    if sampling.ignore_eos:
        found.append(
            "mlx_lm.server never draws the end token where it is to go on after it; specq draws it and goes on"
        )
    if sampling.temperature > 0 or served.draft is not None or served.target.kv_cache is not None:
        found.append("mlx_lm.server runs requests one at a time where there is a seed, a draft or a quantized cache")
    return tuple(found)


def cannot(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What mlx_lm.server cannot do for an arm."""
    found = [
        *drafts.unable(TITLE, served.draft, ("model",), ("match",)),
        *weights.only_folders(TITLE, served, mlx=True),
        *drafts.no_keys(TITLE, sampling, ("min_new_tokens",)),
        *drafts.no_settings(TITLE, served, ("context", "dtype", "threads")),
    ]
    if not sampling.eos_ids:
        found += no_equal_lengths(TITLE, sampling)
    return (*found, *clashes(NAME, served.args, _OWNED))


def verified(draft: DraftSpec, sampling: Sampling, args: Sequence[str] = ()) -> Verified:
    """It draws from the target and keeps going while the draft drew the same."""
    return Verified(
        exactness="exact_by_match",
        rule="match",
        reason="each token is drawn from the target, and a sampled proposal saves a pass while it is the same",
        source="speculative_generate_step in mlx_lm/generate.py of mlx-lm 0.32",
    )


def command(served: Served, port: int, *, environ: Mapping[str, str]) -> Command:
    """`mlx_lm.server` of this Python; a quantized cache begins with the first token."""
    argv = [sys.executable, "-m", "mlx_lm", "server", "--model", served.loads]
    argv += ["--host", HOST, "--port", str(port), "--decode-concurrency", str(served.slots)]
    if not served.prefix_cache:
        argv += ["--prompt-cache-size", "0"]
    if served.target.kv_cache is not None:
        bits = str(_BITS[served.target.kv_cache])
        argv += ["--kv-bits", bits, "--kv-group-size", "64", "--quantized-kv-start", "0"]
    if served.draft is not None:
        argv += ["--draft-model", str(served.draft_weights), "--num-draft-tokens", str(served.draft.k)]
    return Command(argv=(*argv, *served.args))


def settings(told: Mapping[str, Any]) -> Settings:
    """The server lists the models of the cache of downloads, and tells nothing of how it runs them."""
    models = first_of(told.get("/v1/models"), "data")
    one = models[0] if isinstance(models, list) and len(models) == 1 else None
    return Settings(model=word(first_of(one, "id")))


def numbers(streamed: Streamed) -> Numbers:
    """The counts of its usage; it tells no times and counts no proposals."""
    return of_usage(streamed.usage)
