"""vLLM's server: always a process of its own, for its pins exclude those of this Python.

Sources, of vLLM 0.32: https://docs.vllm.ai/en/v0.32.0/serving/online_serving/openai_compatible_server/ and
vllm/entrypoints/openai/completion/protocol.py for requests, .../features/per_request_metrics/ and
.../features/speculative_decoding/acceptance_metrics/ for a request's numbers, .../usage/metrics/ for counters,
.../features/speculative_decoding/ for drafts.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from specq.core.errors import Unsupported
from specq.core.types import CacheType, DraftSpec, Prompt, Rule, Sampling
from specq.engines.served.exposition import Grown, samples
from specq.engines.served.kinds import drafts, metrics, weights
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
    found_in,
    of_usage,
    or_else,
    positions,
    whole,
    word,
)
from specq.engines.served.kinds.openai import TEXT, post, text_of
from specq.engines.served.request import Asked, Streamed

NAME = "vllm"
TITLE = "vLLM"
HEALTH = "/health"
METRICS = "/metrics"
ASKS = ("/v1/models", "/version", METRICS, "/server_info?config_format=json")
TOKENS: TokenCounts = "ids"
PYTHON = "SPECQ_VLLM_PYTHON"
_CACHES: dict[CacheType, str] = {"q8": "fp8"}
MODEL_RULES: tuple[Rule, ...] = ("greedy_draft", "rejection", "block")
COUNTERS = {
    "requests": "vllm:request_success",
    "prompt_tokens": "vllm:prompt_tokens",
    "cached_tokens": "vllm:prefix_cache_hits",
    "new_tokens": "vllm:generation_tokens",
    "draft_steps": "vllm:spec_decode_num_drafts",
    "proposed": "vllm:spec_decode_num_draft_tokens",
    "accepted": "vllm:spec_decode_num_accepted_tokens",
    "accepted_by_position": "vllm:spec_decode_num_accepted_tokens_per_pos",
    "queue_s": "vllm:request_queue_time_seconds_sum",
    "prefill_s": "vllm:request_prefill_time_seconds_sum",
    "decode_s": "vllm:request_decode_time_seconds_sum",
    "ttft_s": "vllm:time_to_first_token_seconds_sum",
    "e2e_s": "vllm:e2e_request_latency_seconds_sum",
}
# "Using FLASH_ATTN attention backend out of ...", in earlier versions "Using Flash Attention backend" and the like.
_ATTENTION = re.compile(r"Using (?:AttentionBackendEnum\.)?([A-Z][A-Z0-9_]+) (?:attention )?backend")
# What the server was started with, and how it was configured: the log of one that was started here has both.
_SLOTS = re.compile(r"non-default args: \{.*'max_num_seqs': (\d+)")
_METHOD = re.compile(r"speculative_config=(?:SpeculativeConfig\(method=')?(None|[a-z]\w*)")
_BY_LENGTH = "acceptance_histogram"
_OWNED = {
    "--model": "write target.model",
    "--host": "take it out, the server listens on this machine alone",
    "--port": "take it out, a free port is found",
    "--served-model-name": "take it out",
    "--seed": "write workload.seed",
    "--dtype": "write dtype in [engine]",
    "--max-model-len": "write context in [engine]",
    "--max-num-seqs": "write slots in [engine]",
    "--kv-cache-dtype": 'write a lever of kind "kv_cache"',
    "--speculative-config": 'write a lever of kind "draft"',
    "-sc": 'write a lever of kind "draft"',
    "--enable-prefix-caching": 'write a lever of kind "prefix_cache"',
    "--no-enable-prefix-caching": 'write a lever of kind "prefix_cache"',
    "--api-key": "take it out, nobody else can reach the server",
}


def request(prompt: Prompt, sampling: Sampling, *, id: str, model: str, cold: str | None = None) -> Asked:
    """A streaming completion of token ids, which come back as ids too.

    A cold prompt is salted, so that no block of an earlier one fits it.
    """
    given: dict[str, Any] = {"model": model, "prompt": list(prompt.ids) or text_of(prompt)}
    given |= {"stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True}
    given |= {"max_tokens": sampling.max_new_tokens, "min_tokens": sampling.min_new_tokens, "seed": sampling.seed}
    given |= {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}
    given |= {"min_p": sampling.min_p, "repetition_penalty": sampling.repetition_penalty}
    if sampling.stop and not sampling.ignore_eos:
        given["stop"] = list(sampling.stop)
    # End tokens that are told stand in the place of the model's own.
    given["ignore_eos"] = sampling.ignore_eos or sampling.eos_ids is not None
    if sampling.eos_ids is not None and not sampling.ignore_eos:
        given["stop_token_ids"] = list(sampling.eos_ids)
    if cold is not None:
        # It takes 128 characters at most, and no "/" or "@", which names of arms and prompts may have.
        given["cache_salt"] = hashlib.sha256(cold.encode()).hexdigest()
    return post(id, TEXT, given)


def differs(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What vLLM does in its own way."""
    found = []
    if sampling.temperature > 0 and sampling.min_p > 0 and sampling.top_p < 1:
        found.append("vLLM cuts by min_p before top_p, specq after it: the two together keep other tokens")
    if served.target.kv_cache == "q8":
        found.append("vLLM keeps an 8-bit cache as floats (fp8), not as blocks of whole numbers with a scale")
    if served.draft is not None and served.draft.method == "lookup" and served.draft.match == "suffix":
        found.append("vLLM's suffix draft weighs by how often a text went on so, and may propose fewer than k tokens")
    return tuple(found)


def cannot(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What vLLM cannot do for an arm."""
    draft = served.draft
    rules = MODEL_RULES if draft is not None and draft.method == "model" else ("greedy_draft",)
    return (
        *drafts.unable(TITLE, draft, ("model", "lookup"), rules),
        *_no_min_p(draft, sampling),
        *drafts.no_cache(TITLE, served.target.kv_cache, tuple(_CACHES)),
        *weights.only_folders(TITLE, served, mlx=False),
        *clashes(NAME, served.args, _OWNED),
    )


def _no_min_p(draft: DraftSpec | None, sampling: Sampling) -> tuple[str, ...]:
    """Refuse min_p beside a draft: each request would fail (SamplingParams._validate_spec_decode of vLLM).

    At temperature 0 vLLM drops min_p before it looks.
    """
    if draft is None or sampling.min_p == 0 or sampling.temperature == 0:
        return ()
    return (f"min_p = {sampling.min_p}: {TITLE} refuses it in every request where there is a draft; write min_p = 0.0",)


def verified(draft: DraftSpec, sampling: Sampling, args: Sequence[str] = ()) -> Verified:
    """How vLLM verifies a draft: proposals of one token are accepted with its chance, sampled ones by p over q."""
    rule: Rule = draft.rule if draft.rule in MODEL_RULES else "greedy_draft"
    how = {
        "greedy_draft": "a proposal is the draft's likeliest token, accepted with its chance under the target; where "
        "it is refused, the rest is drawn from",
        "rejection": "proposals are sampled (draft_sample_method probabilistic) and accepted by p over q",
        "block": "sampled proposals are accepted by the block, as arXiv 2403.10444 has it",
    }
    source = "vllm/v1/sample/rejection_sampler.py and docs/features/speculative_decoding/README.md of vLLM"
    return Verified(exactness="exact", rule=rule, reason=how[rule], source=source)


def speculation(draft: DraftSpec, draft_weights: str | None) -> dict[str, Any]:
    """The value of --speculative-config for a draft."""
    config: dict[str, Any] = {"num_speculative_tokens": draft.k}
    if draft.method == "model":
        config |= {"method": "draft_model", "model": draft_weights}
        if draft.rule in ("rejection", "block"):
            config["draft_sample_method"] = "probabilistic"
        if draft.rule == "block":
            config["rejection_sample_method"] = "block"
    elif draft.match == "suffix":
        # Texts of other requests would make an answer's speed depend on what was asked before it.
        config |= {"method": "suffix", "suffix_decoding_max_cached_requests": 0}
    else:
        config |= {"method": "ngram", "prompt_lookup_max": draft.max_ngram, "prompt_lookup_min": draft.min_ngram}
    return config


def executable(environ: Mapping[str, str]) -> tuple[str, ...]:
    """How `vllm serve` is started: by $SPECQ_VLLM_PYTHON, else from the PATH.

    Raises:
        Unsupported: there is neither.
    """
    if python := environ.get(PYTHON):
        return (python, "-m", "vllm.entrypoints.cli.main", "serve")
    if found := shutil.which("vllm", path=environ.get("PATH")):
        return (found, "serve")
    raise Unsupported(
        f'kind = "vllm": no vLLM found; set {PYTHON} to a Python that has it (an environment of its own), put vllm on '
        'the PATH, or attach with url = "http://HOST:PORT" in [engine]'
    )


def command(served: Served, port: int, *, environ: Mapping[str, str]) -> Command:
    """`vllm serve` with everything that the arm asks for.

    The model folder's sampling defaults stay: requests name every field that they would set, and without them vLLM
    would not know a model's further end tokens.

    Raises:
        Unsupported: vLLM is not installed.
    """
    argv = [*executable(environ), served.loads, "--host", HOST, "--port", str(port)]
    argv += ["--served-model-name", served.loads, "--seed", str(served.seed)]
    argv += ["--max-num-seqs", str(served.slots), "--enable-per-request-metrics"]
    argv += ["--enable-prompt-tokens-details"]  # cached tokens in each request's usage
    argv += ["--enable-prefix-caching" if served.prefix_cache else "--no-enable-prefix-caching"]
    if served.context is not None:
        argv += ["--max-model-len", str(served.context)]
    if served.dtype is not None:
        argv += ["--dtype", served.dtype]
    if served.target.kv_cache is not None:
        argv += ["--kv-cache-dtype", _CACHES[served.target.kv_cache]]
    if served.draft is not None:
        argv += ["--speculative-config", json.dumps(speculation(served.draft, served.draft_weights))]
        argv += ["--per-request-spec-decode-metrics", "summary"]
    env = {} if served.threads is None else {"OMP_NUM_THREADS": str(served.threads)}
    return Command(argv=(*argv, *served.args), env=env)


def settings(told: Mapping[str, Any]) -> Settings:
    """From the model list, /version, vllm:cache_config_info, /server_info where it is open, and the log."""
    models = first_of(told.get("/v1/models"), "data")
    one = models[0] if isinstance(models, list) and models else None
    cache: dict[str, str] = {}
    with suppress(ValueError):
        # A page that is no scrape tells nothing.
        scrape = samples(str(told.get(METRICS, "")))
        cache = next((dict(of) for name, of, _ in scrape if name == "vllm:cache_config_info"), {})
    config = first_of(told.get("/server_info?config_format=json"), "vllm_config")
    attention = first_of(first_of(config, "attention_config"), "backend")
    draft = first_of(config, "speculative_config")
    caching = {"True": True, "False": False}.get(cache.get("enable_prefix_caching", ""))
    return Settings(
        model=word(first_of(one, "root", "id")),
        version=word(first_of(told.get("/version"), "version")),
        window=whole(first_of(one, "max_model_len")),
        slots=whole(first_of(first_of(config, "scheduler_config"), "max_num_seqs") or found_in(told, _SLOTS)),
        cache_type=word(cache.get("cache_dtype")),
        attention=word(attention) if attention is not None else found_in(told, _ATTENTION),
        prefix_cache=UNKNOWN if caching is None else caching,
        speculation=word(first_of(draft, "method") or found_in(told, _METHOD).replace("None", "none")),
    )


def numbers(streamed: Streamed) -> Numbers:
    """A request's usage and its `metrics`, which the server adds with --enable-per-request-metrics."""
    values = Values(first_of(streamed.server, "metrics"))
    spec = values.inside("speculative_decoding")
    histogram = _histogram(first_of(first_of(first_of(streamed.server, "metrics"), "speculative_decoding"), _BY_LENGTH))
    queue, first, decode = (
        values.number(f"{name}_ms", 1e-3) for name in ("queue_time", "time_to_first_token", "generation_time")
    )
    told = Numbers(
        queue_s=queue,
        # Its time to the first token begins when the request was scheduled, after the queue.
        prefill_s=first,
        decode_s=decode,
        ttft_s=None if first is None else first + (queue or 0.0),
        e2e_s=None if first is None or decode is None else first + decode + (queue or 0.0),
        draft_steps=spec.count("num_spec_steps"),
        proposed=spec.count("num_draft_tokens"),
        accepted=spec.count("num_accepted_draft_tokens"),
        accepted_by_position=None if histogram is None else positions(histogram),
        damaged=tuple(values.damaged),
    )
    return or_else(told, of_usage(streamed.usage))


def between(before: str, after: str) -> Numbers:
    """What the counters grew by between two scrapes of /metrics, over all requests that ended in between.

    Raises:
        ValueError: a scrape is no text of Prometheus' format.
    """
    return metrics.over(Grown(before, after), COUNTERS)


def _histogram(told: Any) -> tuple[int, ...] | None:
    """Steps that accepted 0, 1, 2, ... proposals, told as a list or as an object; None for anything else."""
    if isinstance(told, Mapping) and all(str(j).isascii() and str(j).isdigit() for j in told):
        told = [told.get(str(j), 0) for j in range(1 + max(map(int, told), default=0))]
    counts = isinstance(told, list) and all(type(one) is int and one >= 0 for one in told)
    return tuple(told) if counts and told else None
