"""Which format a file has, from its first object or its first lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError, nearest
from specq.imports import (
    aiperf,
    llamacpp,
    llamacpp_log,
    mlx_lm,
    prometheus,
    sglang,
    spec_bench,
    vllm,
    vllm_bench,
)
from specq.imports.entry import refusal, short
from specq.imports.record import Flag, Imported
from specq.imports.source import objects, raw_lines, text_lines

AUTO = "auto"
READERS: dict[str, Callable[[Path], Iterator[Imported | Flag]]] = {
    "vllm": vllm.read,
    "vllm-bench": vllm_bench.read,
    "prometheus": prometheus.read,
    "sglang": sglang.read,
    "llama.cpp": llamacpp.read,
    "llama.cpp-log": llamacpp_log.read,
    "mlx-lm": mlx_lm.read,
    "spec-bench": spec_bench.read,
    "aiperf": aiperf.read,
}
# A log begins with what was loaded, which names no request.
_MOST_LINES = 50_000


def reader(path: Path, format: str, before: Path | None) -> tuple[str, Iterator[Imported | Flag]]:
    """The name of the format, and its records and flags as they are read.

    Raises:
        ConfigError: no such format, or a `before` for a format that has no counters to subtract.
        UserError: the file cannot be read, or its format cannot be told; later, as it is read, a damaged line.
    """
    if format not in (AUTO, *READERS):
        known = nearest(format, READERS) or ";"
        raise ConfigError(f"import: no format {format}{known} allowed: {', '.join((AUTO, *READERS))}")
    name = detect(path) if format == AUTO else format
    if before is None:
        return name, READERS[name](path)
    if name != prometheus.SOURCE:
        raise ConfigError(f"import: --before is for two scrapes of Prometheus text, and {path} is {name}; leave it out")
    return name, prometheus.read(path, before)


def detect(path: Path) -> str:
    """The format of a file.

    Raises:
        UserError: it has none that is known; the message says what its first line is.
    """
    for number, line in raw_lines(path):
        if line.lstrip()[:1] in (b"{", b"["):
            return _of_object(path)
        return _of_text(path, number, line)
    # Reads it once more, for the error of an empty file.
    return _of_object(path)


def _of_object(path: Path) -> str:
    line, value = next(objects(path), (1, {}))
    found = [name for name, fits in _SIGNS.items() if fits(value)]
    if found:
        return found[0]
    keys = ", ".join(sorted(value)[:8]) or "no keys"
    raise refusal(path, line, f"an object with {short(keys)}", _KNOWN)


def _of_text(path: Path, number: int, line: bytes) -> str:
    for at, text in text_lines(path):
        if text.startswith(("vllm:", "# HELP vllm:", "# TYPE vllm:")):
            return prometheus.SOURCE
        if any(mark in text for mark in llamacpp_log.MARKS):
            return llamacpp_log.SOURCE
        if at > _MOST_LINES:
            break
    raise refusal(path, number, f"the text {short(line.decode('utf-8', 'replace').strip())}", _KNOWN)


def _choice(value: dict[str, Any]) -> dict[str, Any]:
    choices = value.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _is_vllm(value: dict[str, Any]) -> bool:
    # A server without the metrics is still one with usage, and RequestOutput has its outputs.
    told = "metrics" in value and ("choices" in value or "outputs" in value)
    return told or "spec_decode_metrics" in value or ("outputs" in value and "prompt_token_ids" in value)


_SIGNS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "spec-bench": lambda value: "turns" in _choice(value) and "question_id" in value,
    "sglang": lambda value: "meta_info" in value or "meta_info" in _choice(value),
    "llama.cpp": lambda value: isinstance(value.get("timings"), dict),
    "mlx-lm": lambda value: {"from_draft", "generation_tokens"} <= value.keys(),
    "aiperf": lambda value: (
        {"metadata", "metrics"} <= value.keys()
        or ("schema_version" in value and ("request_latency" in value or "request_count" in value))
    ),
    "vllm-bench": lambda value: (
        {"duration", "completed", "total_output_tokens", "total_token_throughput"} <= value.keys()
    ),
    "vllm": _is_vllm,
}
_KNOWN = f"no known format; known are {', '.join(READERS)}, and --format NAME says which"
