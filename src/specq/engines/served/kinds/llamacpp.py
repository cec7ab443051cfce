"""llama.cpp's server: llama-server, or the same server out of the Python package xllamacpp.

Sources: tools/server/README.md of ggml-org/llama.cpp for requests, `timings`, /props, /slots, /metrics and options,
its docs/speculative.md for drafts, its pull request 27694 for sampled proposals, and common/sampling.cpp
(common_sampler_sample_and_accept_n) for how proposals are matched.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specq.core.errors import Unsupported
from specq.core.types import CacheType, DraftSpec, Prompt, Rule, Sampling
from specq.engines.served.exposition import Grown
from specq.engines.served.kinds import drafts, metrics, weights
from specq.engines.served.kinds.base import (
    HOST,
    UNKNOWN,
    Command,
    Drafted,
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
    whole,
    word,
)
from specq.engines.served.kinds.openai import post, text_of
from specq.engines.served.request import Asked, Streamed

NAME = "llamacpp"
TITLE = "llama.cpp"
HEALTH = "/health"
METRICS = "/metrics"
ASKS = ("/props", "/slots", "/v1/models")
TOKENS: TokenCounts = "ids"
COMPLETION = "/completion"
SERVER = "SPECQ_LLAMA_SERVER"
HOSTED = Path(__file__).with_name("xllamacpp_host.py")
"""The server out of xllamacpp, as a script: it takes llama-server's options and needs nothing of specq."""
_CACHES: dict[CacheType, str] = {"q8": "q8_0", "q4": "q4_0"}
MODEL_RULES: tuple[Rule, ...] = ("greedy_draft", "rejection")
# The seed that means a random one.
_NO_SEED = 2**32 - 1
COUNTERS = {
    "prompt_tokens": "llamacpp:prompt_tokens",
    "cached_tokens": "llamacpp:prompt_tokens_cached",
    "new_tokens": "llamacpp:tokens_predicted",
    "prefill_s": "llamacpp:prompt_seconds",
    "decode_s": "llamacpp:tokens_predicted_seconds",
    "draft_steps": "llamacpp:spec_decode_num_drafts",
    "proposed": "llamacpp:spec_decode_num_draft_tokens",
    "accepted": "llamacpp:spec_decode_num_accepted_tokens",
    "accepted_by_position": "llamacpp:spec_decode_num_accepted_tokens_per_pos",
}
# Lines of llama_kv_cache and llama_context, those of the target first.
_KEYS, _VALUES = (
    re.compile(r"llama_kv_cache: size = .* K \((\w+)\)"),
    re.compile(r"llama_kv_cache: size = .* V \((\w+)\)"),
)
# What one way to draft did since the server started, after each request: how often and in how many milliseconds it
# began, generated and accepted.
_DRAFTED_BY = re.compile(
    r"statistics +(\S+): #calls\(b,g,a\) = +\d+ +(\d+) +\d+,.*dur\(b,g,a\) = ([\d.]+), ([\d.]+), ([\d.]+) ms"
)
_FLASH = re.compile(r"llama_context: flash_attn\s*= (\w+)")
_DRAFTED = 'write a lever of kind "draft"'
_OWNED = {
    **dict.fromkeys(("-m", "--model", "-hf", "--hf-repo"), "write target.model"),
    **dict.fromkeys(("--host", "--port", "--api-key"), "take it out, it listens on a free port of this machine alone"),
    **dict.fromkeys(("-c", "--ctx-size"), "write context in [engine]"),
    **dict.fromkeys(("-np", "--parallel"), "write slots in [engine]"),
    **dict.fromkeys(("-t", "--threads", "-tb", "--threads-batch"), "write threads in [engine]"),
    **dict.fromkeys(("-s", "--seed"), "write workload.seed"),
    **dict.fromkeys(("-ctk", "--cache-type-k", "-ctv", "--cache-type-v"), 'write a lever of kind "kv_cache"'),
    **dict.fromkeys(("--cache-prompt", "--no-cache-prompt"), 'write a lever of kind "prefix_cache"'),
    **dict.fromkeys(("-md", "--model-draft", "--spec-draft-model", "--spec-type", "--spec-default"), _DRAFTED),
    **dict.fromkeys(("--spec-draft-n-max", "--spec-draft-n-min", "--spec-draft-p-min"), _DRAFTED),
    **dict.fromkeys(("--spec-draft-sampling", "--draft-p-min"), _DRAFTED),
    **dict.fromkeys(("--spec-synth-len", "--spec-synth-rates"), "take it out, it accepts whatever the draft says"),
}


def request(prompt: Prompt, sampling: Sampling, *, id: str, model: str, cold: str | None = None) -> Asked:
    """A streaming completion of token ids, which come back as ids too.

    Its filters run in this project's order: the server's own applies the temperature last, which is another law.
    """
    given: dict[str, Any] = {"prompt": list(prompt.ids) or text_of(prompt), "model": model, "stream": True}
    given |= {"n_predict": sampling.max_new_tokens, "cache_prompt": cold is None, "return_tokens": True}
    given |= {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}
    given |= {"min_p": sampling.min_p, "seed": sampling.seed % _NO_SEED, "ignore_eos": sampling.ignore_eos}
    filters = ["temperature", "top_k", "top_p", "min_p"]
    if sampling.repetition_penalty != 1.0:
        filters.insert(0, "penalties")
        given["repeat_penalty"] = sampling.repetition_penalty
        given["repeat_last_n"] = len(prompt.ids) + sampling.max_new_tokens
    given["samplers"] = filters
    if sampling.stop and not sampling.ignore_eos:
        given["stop"] = list(sampling.stop)
    return post(id, COMPLETION, given)


def differs(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What llama.cpp does in its own way."""
    if not sampling.ignore_eos:
        return ()
    return ("llama.cpp never draws the end token where it is to go on after it; specq draws it and goes on",)


def cannot(served: Served, sampling: Sampling) -> tuple[str, ...]:
    """What llama.cpp cannot do for an arm."""
    draft = served.draft
    found: list[str] = []
    if draft is not None:
        rules = MODEL_RULES if draft.method == "model" else ("greedy_draft",)
        found += drafts.unable(TITLE, draft, ("model", "lookup"), rules)
        found += drafts.no_suffix(TITLE, draft) or drafts.one_length(TITLE, draft)
    found += drafts.no_keys(TITLE, sampling, ("min_new_tokens", "eos_ids"))
    found += drafts.no_settings(TITLE, served, ("dtype",))
    if served.target.batch > 1 and served.context is None:
        found.append(
            f"{TITLE} shares the model's own window out among {served.slots} slots: write context in [engine], the "
            "tokens of one request"
        )
    return (*found, *weights.only_gguf(TITLE, served), *clashes(NAME, served.args, _OWNED))


def verified(draft: DraftSpec, sampling: Sampling, args: Sequence[str] = ()) -> Verified:
    """How llama.cpp verifies a draft: it draws from the target and keeps going while the draft has the same."""
    if draft.method == "model" and draft.rule == "rejection":
        return Verified(
            exactness="exact",
            rule="rejection",
            reason="proposals are sampled (--spec-draft-sampling probabilistic) and accepted by p over q",
            source="pull request 27694 of ggml-org/llama.cpp",
        )
    return Verified(
        exactness="exact_by_match",
        rule="greedy_draft",
        reason="each token is drawn from the target, and a proposal saves a pass while it is the same",
        source="common_sampler_sample_and_accept_n in common/sampling.cpp of ggml-org/llama.cpp",
    )


def speculation(draft: DraftSpec, draft_weights: str | None) -> tuple[str, ...]:
    """The options for a draft: always k proposals of a model, or a lookup of n-grams of one length.

    With stop_below a model's proposals end before the first token that it gives less, the nearest that there is here.
    """
    if draft.method == "lookup":
        size = "--spec-ngram-simple-size"
        found = ["--spec-type", "ngram-simple", f"{size}-n", str(draft.max_ngram), f"{size}-m", str(draft.k)]
        return (*found, "--spec-ngram-simple-min-hits", "1")
    found = ["--spec-type", "draft-simple", "--spec-draft-model", str(draft_weights)]
    least, sure = (draft.k, 0) if draft.stop_below is None else (0, draft.stop_below)
    found += ["--spec-draft-n-max", str(draft.k), "--spec-draft-n-min", str(least), "--spec-draft-p-min", str(sure)]
    return (*found, "--spec-draft-sampling", "probabilistic") if draft.rule == "rejection" else tuple(found)


def executable(environ: Mapping[str, str]) -> tuple[str, ...]:
    """How the server is started: $SPECQ_LLAMA_SERVER, llama-server from the PATH, or xllamacpp in this Python.

    $SPECQ_LLAMA_SERVER names a llama-server, or a Python that has xllamacpp.

    Raises:
        Unsupported: there is none of them.
    """
    if given := environ.get(SERVER):
        return (given, str(HOSTED)) if Path(given).name.startswith("python") else (given,)
    if found := shutil.which("llama-server", path=environ.get("PATH")):
        return (found,)
    if importlib.util.find_spec("xllamacpp") is not None:
        return (sys.executable, str(HOSTED))
    raise Unsupported(
        f'kind = "llamacpp": no llama.cpp found; put llama-server on the PATH, set {SERVER} to it or to a Python that '
        'has xllamacpp, type pip install xllamacpp, or attach with url = "http://HOST:PORT" in [engine]'
    )


def command(served: Served, port: int, *, environ: Mapping[str, str]) -> Command:
    """The server with everything that the arm asks for, slots with a context of their own, no prompts kept in memory.

    Raises:
        Unsupported: there is no llama.cpp.
    """
    argv = [*executable(environ), "--model", served.loads, "--host", HOST, "--port", str(port)]
    argv += ["--parallel", str(served.slots), "--seed", str(served.seed % _NO_SEED), "--metrics"]
    # At this level the log has the cache's type and the attention kernel, and a few lines a request.
    argv += ["--log-verbosity", "4"]
    # The context is shared out among the slots; 0 is the model's own.
    argv += ["--ctx-size", str((served.context or 0) * served.slots)]
    if not served.prefix_cache:
        argv += ["--no-cache-prompt", "--cache-ram", "0"]
    if served.threads is not None:
        argv += ["--threads", str(served.threads), "--threads-batch", str(served.threads)]
    if served.target.kv_cache is not None:
        # Quantized values need flash attention.
        kind = _CACHES[served.target.kv_cache]
        argv += ["--flash-attn", "on", "--cache-type-k", kind, "--cache-type-v", kind]
    if served.draft is not None:
        argv += speculation(served.draft, served.draft_weights)
    return Command(argv=(*argv, *served.args))


def settings(told: Mapping[str, Any]) -> Settings:
    """From /props and /slots; the cache's type and the attention kernel stand in the log alone."""
    props, slots = told.get("/props"), told.get("/slots")
    slot = slots[0] if isinstance(slots, list) and slots else None
    defaults = first_of(props, "default_generation_settings")
    speculative = first_of(slot, "speculative")
    keys, values, flash = (found_in(told, pattern) for pattern in (_KEYS, _VALUES, _FLASH))
    return Settings(
        model=word(first_of(props, "model_path", "model_alias")),
        version=word(first_of(props, "build_info")),
        window=whole(first_of(slot, "n_ctx") or first_of(defaults, "n_ctx")),
        slots=whole(first_of(props, "total_slots") or (len(slots) if isinstance(slots, list) else None)),
        cache_type=keys if keys == values else f"{keys} keys, {values} values",
        attention=UNKNOWN if flash == UNKNOWN else f"flash attention {flash}",
        speculation=UNKNOWN if speculative is None else "some draft" if speculative else "none",
    )


def drafted(log: str) -> Drafted | None:
    """What the log says last of each way to draft (common_speculative_print_stats in common/speculative.cpp).

    Verifying is what a pass takes beside it. None where the log says nothing.
    """
    last = {found[1]: found for found in _DRAFTED_BY.finditer(log)}
    if not last:
        return None
    seconds = sum(float(found[place]) for found in last.values() for place in (3, 4, 5)) / 1000
    return Drafted(calls=max(int(found[2]) for found in last.values()), seconds=seconds)


def numbers(streamed: Streamed) -> Numbers:
    """A request's `timings`: `prompt_n` counts the tokens that were read, those of the cache not.

    Without a draft, or where nothing was proposed, the server leaves its counts out. It counts no steps.
    """
    values = Values(first_of(streamed.server, "timings"))
    read, cached = values.count("prompt_n"), values.count("cache_n")
    first, decode = values.number("prompt_ms", 1e-3), values.number("predicted_ms", 1e-3)
    drafted = "draft_n" in values or "draft_n_accepted" in values
    told = Numbers(
        prompt_tokens=None if read is None else read + (cached or 0),
        cached_tokens=cached,
        new_tokens=values.count("predicted_n"),
        prefill_s=first,
        decode_s=decode,
        ttft_s=first,
        e2e_s=None if first is None or decode is None else first + decode,
        proposed=values.count("draft_n") if drafted else 0 if read is not None else None,
        accepted=values.count("draft_n_accepted") if drafted else 0 if read is not None else None,
        damaged=tuple(values.damaged),
    )
    return or_else(told, of_usage(streamed.usage))


def between(before: str, after: str) -> Numbers:
    """What the counters grew by between two scrapes of /metrics; it counts no requests.

    Raises:
        ValueError: a scrape is no text of Prometheus' format.
    """
    told = metrics.over(Grown(before, after), COUNTERS)
    # Its counter of prompts leaves out what came from the cache.
    read = None if told.prompt_tokens is None else told.prompt_tokens + (told.cached_tokens or 0)
    return replace(told, prompt_tokens=read)
