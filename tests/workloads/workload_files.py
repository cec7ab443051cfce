"""Small files of each format, and reading them without ceremony."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specq.workloads import reading


def lines(path: Path, *rows: Any) -> Path:
    """Rows as JSON lines; a text stands as it is."""
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def read(path: Path, **how: Any) -> reading.Read:
    """What is read of a file, with personal data kept unless told otherwise."""
    return reading.read(path, reading.How(**{"keep_personal_data": True, **how}))


def body(*said: str, **more: Any) -> dict[str, Any]:
    """A chat request whose messages are user's and assistant's in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(said)]
    return {"model": "m", "messages": messages, **more}


def talk(*said: str, **more: Any) -> dict[str, Any]:
    """A ShareGPT conversation that a human begins."""
    speakers = ("human", "gpt")
    return {"conversations": [{"from": speakers[n % 2], "value": text} for n, text in enumerate(said)], **more}
