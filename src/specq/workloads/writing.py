"""A workload as a file of specq's own prompts, which experiments read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from specq.core import jsonl
from specq.core.errors import ConfigError, PromptError
from specq.workloads.request import Request


def check_target(out: Path) -> None:
    """Refuse a file that is there already, before anything is read for it. Raises ConfigError."""
    if out.exists():
        raise ConfigError(f"{out} is there already; nothing is written over: name another --out, or move it away")


def write(requests: Sequence[Request], out: Path) -> dict[str, int]:
    """Write the prompts; returns why some of them were left out, and how many by each reason.

    Raises:
        ConfigError: the file is there already. PromptError: there is no prompt that the format can hold.
        DiskFull, RunFolderError, RunFailed: it cannot be written.
    """
    check_target(out)
    left_out: Counter[str] = Counter()
    lines = list(_lines(requests, left_out))
    if not lines:
        told = "; ".join(f"{reason} ({count})" for reason, count in left_out.items()) or "no prompts"
        raise PromptError(f"{out} was not written, for no prompt can stand in it: {told}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise jsonl.disk_error(error, out) from error
    jsonl.write_lines_whole(out, lines)
    return dict(left_out)


def _lines(requests: Sequence[Request], left_out: Counter[str]) -> Iterator[dict[str, Any]]:
    for one in requests:
        if one.foreign or not (one.messages or one.prompt):
            left_out[one.foreign or "a time and lengths, but no text"] += 1
            continue
        line: dict[str, Any] = {"id": one.id}
        if one.messages:
            line["messages"] = [{"role": m["role"], "content": m["content"]} for m in one.messages]
        else:
            line["prompt"] = one.prompt
        yield {**line, "tags": list(one.tags)} if one.tags else line
