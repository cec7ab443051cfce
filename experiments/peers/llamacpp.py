"""llama.cpp as an arm of `kernels.py`, through the package xllamacpp: in a process that sleeps between its turns.

In one process with torch its threads wait for work by spinning, and the other arms take twice as long.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
MISSING = "llama.cpp is left out: the package xllamacpp is not installed (pip install xllamacpp)"


def installed() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("xllamacpp") is not None


def server_arm(gguf: Path, threads: int, tokens: int, longest: int) -> Callable[[Sequence[int]], dict[str, Any]]:
    """Greedy decoding of a GGUF file with so many threads.

    The seconds are llama.cpp's own: of the prompt with its first token, and of the tokens after that. Its count
    of predicted tokens holds the first one too.
    """
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    child = context.Process(target=_serve, args=(its, gguf, threads, tokens, longest), daemon=True)
    child.start()
    _receive(mine, child)
    pid = child.pid
    assert pid is not None
    # A stopped process does not hear that it should end, and this one would wait for it.
    atexit.register(child.kill)
    os.kill(pid, signal.SIGSTOP)

    def run(ids: Sequence[int]) -> dict[str, Any]:
        os.kill(pid, signal.SIGCONT)
        mine.send(list(ids))
        answer = _receive(mine, child)
        os.kill(pid, signal.SIGSTOP)
        timings = answer["timings"]
        return {
            "prefill_s": timings["prompt_ms"] / 1000,
            "decode_s": timings["predicted_ms"] / 1000,
            "decoded": int(timings["predicted_n"]) - 1,
        }

    return run


def _receive(pipe: Connection, child: Any) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        child.join()
        raise RuntimeError(f"llama.cpp's process ended with exit code {child.exitcode}") from None


def _serve(pipe: Connection, gguf: Path, threads: int, tokens: int, longest: int) -> None:
    import xllamacpp

    if sys.platform == "linux":
        # Stopped, it would outlive a parent that is killed: the kernel ends it then.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.n_ctx = longest + tokens + 8
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    pipe.send("ready")
    while True:
        asked = {
            "prompt": pipe.recv(),
            "max_tokens": tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "cache_prompt": False,
        }
        pipe.send(server.handle_completions(asked))
