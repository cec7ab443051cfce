"""llama.cpp's server out of the Python package xllamacpp: a script of its own, which takes llama-server's options.

It imports nothing of specq, so that any Python with xllamacpp can run it. Options as tools/server/README.md of
ggml-org/llama.cpp has them; fields as xllamacpp's CommonParams has them, which has no reader of command lines.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from typing import Any


def parser() -> argparse.ArgumentParser:
    """The options that this server knows, under llama-server's names."""
    known = argparse.ArgumentParser(prog="xllamacpp", allow_abbrev=False, description=__doc__)
    known.add_argument("-m", "--model", required=True)
    known.add_argument("--host", default="127.0.0.1")
    known.add_argument("--port", type=int, required=True)
    known.add_argument("-a", "--alias", default=None)
    known.add_argument("-c", "--ctx-size", type=int, default=0)
    known.add_argument("-np", "--parallel", type=int, default=1)
    known.add_argument("-b", "--batch-size", type=int, default=None)
    known.add_argument("-ub", "--ubatch-size", type=int, default=None)
    known.add_argument("-ngl", "--gpu-layers", "--n-gpu-layers", type=int, default=None)
    known.add_argument("-t", "--threads", type=int, default=None)
    known.add_argument("-tb", "--threads-batch", type=int, default=None)
    known.add_argument("--poll", type=int, default=None)
    known.add_argument("-s", "--seed", type=int, default=None)
    known.add_argument("--metrics", action="store_true")
    known.add_argument("--no-cache-prompt", action="store_true")
    known.add_argument("-cram", "--cache-ram", type=int, default=None)
    known.add_argument("--no-warmup", action="store_true")
    known.add_argument("-lv", "--log-verbosity", type=int, default=None)
    known.add_argument("-fa", "--flash-attn", choices=("on", "off", "auto"), default="auto")
    known.add_argument("-ctk", "--cache-type-k", default="f16")
    known.add_argument("-ctv", "--cache-type-v", default="f16")
    known.add_argument("-md", "--model-draft", "--spec-draft-model", default=None)
    known.add_argument("--spec-type", choices=("draft-simple", "ngram-simple"), default=None)
    known.add_argument("--spec-draft-n-max", type=int, default=None)
    known.add_argument("--spec-draft-n-min", type=int, default=None)
    known.add_argument("--spec-draft-p-min", type=float, default=None)
    known.add_argument("--spec-draft-sampling", choices=("greedy", "probabilistic"), default="greedy")
    known.add_argument("--spec-ngram-simple-size-n", type=int, default=None)
    known.add_argument("--spec-ngram-simple-size-m", type=int, default=None)
    known.add_argument("--spec-ngram-simple-min-hits", type=int, default=None)
    return known


def fill(params: Any, given: argparse.Namespace, xllamacpp: Any) -> None:
    """Set the fields of a CommonParams to what was given."""
    params.model.path, params.hostnames, params.port = given.model, [given.host], given.port
    params.model_alias = {given.alias} if given.alias else params.model_alias
    params.n_ctx, params.n_parallel = given.ctx_size, given.parallel
    for field, value in (
        ("n_batch", given.batch_size),
        ("n_ubatch", given.ubatch_size),
        ("n_gpu_layers", given.gpu_layers),
        ("cache_ram_mib", given.cache_ram),
        ("verbosity", given.log_verbosity),
    ):
        if value is not None:
            setattr(params, field, value)
    if given.seed is not None:
        params.sampling.seed = given.seed
    params.endpoint_metrics = given.metrics
    params.cache_prompt = not given.no_cache_prompt
    params.warmup = not given.no_warmup
    flash = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[given.flash_attn]
    params.flash_attn_type = getattr(xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{flash}")
    params.cache_type_k = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{given.cache_type_k.upper()}")
    params.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{given.cache_type_v.upper()}")
    draft = params.speculative.draft
    # Nothing passes the threads on to the draft here, as llama-server's reader of options does.
    for cpu, threads in (
        (params.cpuparams, given.threads),
        (draft.cpuparams, given.threads),
        (params.cpuparams_batch, given.threads_batch or given.threads),
        (draft.cpuparams_batch, given.threads_batch or given.threads),
    ):
        if threads is not None:
            cpu.n_threads = threads
        if given.poll is not None:
            cpu.poll = given.poll
    fill_draft(params.speculative, given, xllamacpp)


def fill_draft(speculative: Any, given: argparse.Namespace, xllamacpp: Any) -> None:
    """Set what proposes tokens, and how many."""
    draft, ngram = speculative.draft, speculative.ngram_simple
    kind = given.spec_type or ("draft-simple" if given.model_draft else "none")
    of = xllamacpp.common_speculative_type
    speculative.types = [getattr(of, f"COMMON_SPECULATIVE_TYPE_{kind.replace('-', '_').upper()}")]
    if given.model_draft:
        draft.mparams.path = given.model_draft
    draft.probabilistic = given.spec_draft_sampling == "probabilistic"
    for target, field, value in (
        (draft, "n_max", given.spec_draft_n_max),
        (draft, "n_min", given.spec_draft_n_min),
        (draft, "p_min", given.spec_draft_p_min),
        (ngram, "size_n", given.spec_ngram_simple_size_n),
        (ngram, "size_m", given.spec_ngram_simple_size_m),
        (ngram, "min_hits", given.spec_ngram_simple_min_hits),
    ):
        if value is not None:
            setattr(target, field, value)


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until a signal ends the process."""
    given = parser().parse_args(argv)
    import xllamacpp

    params = xllamacpp.CommonParams()
    fill(params, given, xllamacpp)
    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
