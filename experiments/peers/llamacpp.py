"""llama.cpp in this process, through the package xllamacpp: an arm of `kernels.py`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def server_arm(gguf: Path, threads: int, tokens: int, longest: int) -> Callable[[Sequence[int]], dict[str, Any]] | str:
    """Greedy decoding of a GGUF file with so many threads, or the reason why there is none.

    The seconds are llama.cpp's own: of the prompt with its first token, and of the tokens after that. Its count
    of predicted tokens holds the first one too.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        return "llama.cpp is left out: the package xllamacpp is not installed (pip install xllamacpp)"
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.n_ctx = longest + tokens + 8
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)

    def run(ids: Sequence[int]) -> dict[str, Any]:
        answer = server.handle_completions(
            {
                "prompt": list(ids),
                "max_tokens": tokens,
                "temperature": 0.0,
                "ignore_eos": True,
                "cache_prompt": False,
            }
        )
        timings = answer["timings"]
        return {
            "prefill_s": timings["prompt_ms"] / 1000,
            "decode_s": timings["predicted_ms"] / 1000,
            "decoded": int(timings["predicted_n"]) - 1,
        }

    return run
