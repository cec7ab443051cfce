"""SGLang's server, a process of an environment of its own.

Sources, of SGLang 0.5: docs/basic_usage/sampling_params.md (/generate), docs/advanced_features/server_arguments.md,
quantized_kv_cache.md, speculative_decoding.md and deterministic_inference.md, and
python/sglang/srt/managers/tokenizer_manager.py for `meta_info`, of sgl-project/sglang.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from specq.core.errors import Unsupported
from specq.core.types import CacheType, DraftSpec, Prompt, Rule, Sampling
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
    clashes,
    first_of,
    of_usage,
    or_else,
    positions,
    whole,
    word,
)
from specq.engines.served.kinds.openai import post, text_of
from specq.engines.served.meta_info import ACCEPTED, HISTOGRAM, PROPOSED, STEPS
from specq.engines.served.request import Asked, Streamed

NAME = "sglang"
TITLE = "SGLang"
HEALTH = "/health"
ASKS = ("/server_info", "/get_server_info", "/v1/models")
TOKENS: TokenCounts = "ids"
GENERATE = "/generate"
PYTHON = "SPECQ_SGLANG_PYTHON"
_CACHES: dict[CacheType, str] = {"q8": "fp8_e4m3", "q4": "fp4_e2m1"}
_RULES: tuple[Rule, ...] = ("greedy_draft",)
_SEEDS = 2**31
_DRAFTED = 'write a lever of kind "draft"'
_OWNED = {
    **dict.fromkeys(("--model-path", "--model"), "write target.model"),
    **dict.fromkeys(("--host", "--port", "--api-key"), "take it out, it listens on a free port of this machine alone"),
    "--served-model-name": "take it out",
    "--random-seed": "write workload.seed",
    "--dtype": "write dtype in [engine]",
    "--context-length": "write context in [engine]",
    "--max-running-requests": "write slots in [engine]",
    "--kv-cache-dtype": 'write a lever of kind "kv_cache"',
    "--disable-radix-cache": 'write a lever of kind "prefix_cache"',
    **dict.fromkeys(("--speculative-algorithm", "--speculative-draft-model-path"), _DRAFTED),
    **dict.fromkeys(("--speculative-num-steps", "--speculative-eagle-topk"), _DRAFTED),
    "--speculative-num-draft-tokens": _DRAFTED,
}
_LOSSY = ("--speculative-accept-threshold-single", "--speculative-accept-threshold-acc")
_SEEDED = "--enable-deterministic-inference"


def request(prompt: Prompt, sampling: Sampling, *, id: str, model: str, cold: str | None = None) -> Asked:
    """A streaming /generate of token ids, which come back as ids too; a cold prompt has a cache of its own."""
    params: dict[str, Any] = {"max_new_tokens": sampling.max_new_tokens, "min_new_tokens": sampling.min_new_tokens}
    params |= {"temperature": sampling.temperature, "top_k": sampling.top_k or -1, "top_p": sampling.top_p}
    params |= {"min_p": sampling.min_p, "repetition_penalty": sampling.repetition_penalty}
    params |= {"sampling_seed": sampling.seed % _SEEDS}
    # End tokens that are told stand in the place of the model's own.
    params["ignore_eos"] = sampling.ignore_eos or sampling.eos_ids is not None
    if sampling.eos_ids is not None and not sampling.ignore_eos:
        params["stop_token_ids"] = list(sampling.eos_ids)
    if sampling.stop and not sampling.ignore_eos:
        params["stop"] = list(sampling.stop)
    given: dict[str, Any] = {"input_ids": list(prompt.ids)} if prompt.ids else {"text": text_of(prompt)}
    given |= {"sampling_params": params, "stream": True}
    if cold is not None:
        given["extra_key"] = cold
    return post(id, GENERATE, given)


def differs(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What SGLang does in its own way."""
    found = []
    if served.target.kv_cache is not None:
        bits = {"q8": "8-bit", "q4": "4-bit"}[served.target.kv_cache]
        found.append(f"SGLang keeps a {bits} cache as floats, not as blocks of whole numbers with a scale")
    if served.draft is not None and served.draft.method == "lookup":
        found.append("SGLang looks n-grams up in what it answered before, other requests too, and not in the prompt")
    if sampling.temperature > 0 and _SEEDED not in served.args:
        found.append(f'SGLang heeds a request\'s seed only with args = ["{_SEEDED}"] in [engine]')
    return tuple(found)


def cannot(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What SGLang cannot do for an arm."""
    found = list(drafts.unable(TITLE, served.draft, ("model", "lookup"), _RULES))
    if served.draft is not None:
        found += drafts.no_suffix(TITLE, served.draft)
    found += weights.only_folders(TITLE, served, mlx=False)
    return (*found, *clashes(NAME, served.args, _OWNED))


def verified(draft: DraftSpec, sampling: Sampling, args: Sequence[str] = ()) -> Verified:
    """How SGLang verifies a draft: as exact at temperature 0 as its kernels; above it, that hangs on the device."""
    source = "python/sglang/srt/speculative/eagle_utils.py and docs/advanced_features/speculative_decoding.md of SGLang"
    given = [flag for flag in _LOSSY if any(arg.partition("=")[0].replace("_", "-") == flag for arg in args)]
    if given:
        reason = f"{given[0]} lets proposals through that the target would have refused"
        return Verified(exactness="lossy", rule="greedy_draft", reason=reason, source=source)
    if sampling.temperature == 0:
        reason = "a proposal is kept while it is the target's likeliest token"
        return Verified(exactness="exact", rule="greedy_draft", reason=reason, source=source)
    reason = (
        "on CUDA a proposal is accepted with its chance under the target; on other devices the likeliest token is taken"
    )
    return Verified(exactness=UNKNOWN, rule="greedy_draft", reason=reason, source=source)


def speculation(draft: DraftSpec, draft_weights: str | None) -> tuple[str, ...]:
    """The options for a draft: one chain of k proposals, by a model or from n-grams of answers."""
    block = ["--speculative-num-draft-tokens", str(draft.k + 1)]
    if draft.method == "lookup":
        window, breadth = "--speculative-ngram-{}-match-window-size", "--speculative-ngram-{}-bfs-breadth"
        found = ["--speculative-algorithm", "NGRAM", *block]
        found += [window.format("min"), str(draft.min_ngram), window.format("max"), str(draft.max_ngram)]
        return (*found, breadth.format("min"), "1", breadth.format("max"), "1")
    found = ["--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", str(draft_weights)]
    return (*found, "--speculative-num-steps", str(draft.k), "--speculative-eagle-topk", "1", *block)


def executable(environ: Mapping[str, str]) -> tuple[str, ...]:
    """How the server is started: by $SPECQ_SGLANG_PYTHON, else from the PATH.

    Raises:
        Unsupported: there is neither.
    """
    if python := environ.get(PYTHON):
        return (python, "-m", "sglang.launch_server")
    if found := shutil.which("sglang", path=environ.get("PATH")):
        return (found, "serve")
    raise Unsupported(
        f'kind = "sglang": no SGLang found; set {PYTHON} to a Python that has it, put sglang on the PATH, or attach '
        'with url = "http://HOST:PORT" in [engine]'
    )


def command(served: Served, port: int, *, environ: Mapping[str, str]) -> Command:
    """SGLang's server with everything that the arm asks for.

    Raises:
        Unsupported: SGLang is not installed.
    """
    argv = [*executable(environ), "--model-path", served.loads, "--host", HOST]
    argv += ["--port", str(port), "--served-model-name", served.loads, "--random-seed", str(served.seed % _SEEDS)]
    argv += ["--max-running-requests", str(served.slots)]
    if not served.prefix_cache:
        argv += ["--disable-radix-cache"]
    if served.context is not None:
        argv += ["--context-length", str(served.context)]
    if served.dtype is not None:
        argv += ["--dtype", served.dtype]
    if served.target.kv_cache is not None:
        argv += ["--kv-cache-dtype", _CACHES[served.target.kv_cache]]
    if served.draft is not None:
        argv += speculation(served.draft, served.draft_weights)
    env = {} if served.threads is None else {"OMP_NUM_THREADS": str(served.threads)}
    return Command(argv=(*argv, *served.args), env=env)


def settings(told: Mapping[str, Any]) -> Settings:
    """From the server's arguments, under the path that its version has for them, and the model list."""
    info = first_of(told, "/server_info", "/get_server_info")
    models = first_of(told.get("/v1/models"), "data")
    one = models[0] if isinstance(models, list) and models else None
    off = first_of(info, "disable_radix_cache")
    algorithm = first_of(info, "speculative_algorithm")
    window = first_of(one, "max_model_len") or first_of(info, "context_length")
    return Settings(
        model=word(first_of(info, "model_path")),
        version=word(first_of(info, "version")),
        window=whole(window),
        slots=whole(first_of(info, "max_running_requests")),
        cache_type=word(first_of(info, "kv_cache_dtype")),
        attention=word(first_of(info, "attention_backend", "decode_attention_backend")),
        prefix_cache=UNKNOWN if off is None else not off,
        speculation=word(algorithm) if algorithm is not None else UNKNOWN if info is None else "none",
    )


def numbers(streamed: Streamed) -> Numbers:
    """A request's `meta_info`. Its `spec_verify_ct` counts every pass after the prompt's, drafted or not."""
    meta = first_of(streamed.server, "meta_info")
    values = Values(meta)

    def first(names: Sequence[str]) -> int | None:
        return next((values.count(name) for name in names if name in values), None)

    histogram = first_of(meta, *HISTOGRAM)
    counted = isinstance(histogram, list) and all(type(one) is int and one >= 0 for one in histogram)
    told = Numbers(
        prompt_tokens=values.count("prompt_tokens"),
        cached_tokens=values.count("cached_tokens"),
        new_tokens=values.count("completion_tokens"),
        ttft_s=values.number("first_token_latency"),
        e2e_s=values.number("e2e_latency"),
        draft_steps=values.count(STEPS),
        proposed=first(PROPOSED),
        accepted=first(ACCEPTED),
        accepted_by_position=positions(histogram) if counted else None,
        damaged=tuple(values.damaged),
    )
    return or_else(told, of_usage(streamed.usage))
