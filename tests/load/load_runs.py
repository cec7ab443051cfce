"""Rows of made-up load runs, and small real ones against the stub server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specq.load.asked import Asked, Server
from specq.load.found import Found, find
from specq.load.measures import Attempt
from specq.load.rows import Began, Measured, Requested, to_json

URL = "http://127.0.0.1:1"


def request(number: int = 0, **given: Any) -> Requested:
    """A request that was due and sent at 0 s and had its tokens at 1, 2 and 3 s, unless told otherwise."""
    values: dict[str, Any] = {
        "point": "server@1#1",
        "attempt": 1,
        "number": number,
        "phase": "steady",
        "prompt": f"p{number}",
        "tags": (),
        "due_at_s": 0.0,
        "sent_at_s": 0.0,
        "connect_s": 0.0,
        "first_byte_at_s": 0.5,
        "events_at_s": (1.0, 2.0, 3.0),
        "event_tokens": (),
        "counted": "usage",
        "finish": "stop",
        "error": None,
        "said": "",
        "status": 200,
        "retries": 0,
        "notes": (),
        "output_sha256": f"{number}",
    }
    values |= given
    events = values["events_at_s"]
    values.setdefault("first_token_at_s", events[0] if events else None)
    values.setdefault("last_token_at_s", events[-1] if events else None)
    values.setdefault("end_at_s", events[-1] if events else 1.0)
    values.setdefault("output_tokens", sum(values["event_tokens"]) or len(events))
    names = ("prompt_tokens", "cached_tokens", "queue_s", "prefill_s", "decode_s", "server_ttft_s")
    for name in (*names, "draft_steps", "proposed", "accepted", "schema"):
        values.setdefault(name, None)
    values.setdefault("id", f"{values['point']}/{values['attempt']}/r{number}")
    return Requested(**values)


def measured(**given: Any) -> Measured:
    """A point whose steady state was from 0 to 10 s, unless told otherwise."""
    values: dict[str, Any] = {
        "point": "server@1#1",
        "attempt": 1,
        "server": "server",
        "level": 1.0,
        "repeat": 1,
        "start_at_s": 0.0,
        "end_at_s": 10.0,
        "client_cpu_s": 0.1,
        "client_wall_s": 10.0,
    }
    return Measured(**(values | given))


def attempt(*rows: Requested, **point: Any) -> Attempt:
    """A complete measurement with these requests."""
    return Attempt(point=measured(**point), rows=rows)


def server(**given: Any) -> Server:
    """A server, of OpenAI's kind unless told otherwise."""
    values: dict[str, Any] = {"name": "server", "url": URL, "kind": "openai", "model": "m"}
    return Server(**(values | given))


def found(folder: Path, attempts: list[Attempt], **asked: Any) -> Found:
    """What a folder with these attempts says."""
    names = list(dict.fromkeys(one.point.server for one in attempts)) or ["server"]
    levels = tuple(dict.fromkeys(one.point.level for one in attempts)) or (1.0,)
    given: dict[str, Any] = {"servers": tuple(server(name=name) for name in names), "levels": levels}
    info = {"asked": Asked(**(given | asked)).to_json(), "question": "What?", "servers": [], "notes": []}
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for one in attempts:
        point = one.point
        lines.append(to_json(Began(point=point.point, attempt=point.attempt, began="20260101T000000Z", url=URL)))
        lines += [to_json(row) for row in one.rows]
        lines.append(to_json(point))
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "run.json").write_text(json.dumps({"experiment": "load", **info}))
    return find(folder, info)


def prompts(folder: Path, count: int = 6, **more: Any) -> Path:
    """A file of short prompts."""
    file = folder / "prompts.jsonl"
    lines = [
        {"id": f"p{n}", "prompt": f"Say {n}.", "tags": ["even" if n % 2 == 0 else "odd"]} | more for n in range(count)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file
