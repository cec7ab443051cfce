"""Many streams at once from a stub server in a process of its own: lost events, how late each is stamped, CPU time.

The stub writes into each event when it sent it, on the clock that both processes share; what an event is late is from
there to its stamp. The canary is a timer of the same pace with nothing to read: what it is late is the machine's.
`--by client` asks the client alone and reads afterwards; `--by load` runs `specq load` itself, which reads, judges and
writes one answer while others stream: its CPU time is what it records of its steady state, its lateness that of all
requests, ramp and tail too, by the bytes that the client kept.
Prints a table and one JSON line; ends with 1 where an event is lost. On a busy machine several events come with one
read: that makes each late and all cheap, so such a run says what was lost and nothing else, and is marked so.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console
from rich.table import Table

from specq import cli
from specq.core import clock
from specq.engines.served import stub
from specq.engines.served.client import Client
from specq.engines.served.events import DONE
from specq.engines.served.faults import Retry
from specq.engines.served.reading import Received
from specq.engines.served.request import Asked
from specq.engines.served.stub_events import CHAT, text_of
from specq.load import rows
from specq.load.rows import Measured, Requested

QUIET_MS = 2.0
"""What the canary may be late at p99 where times and CPU shares are to be read."""
STRETCHED = 1.05
"""How much longer than its tokens' own time a run may take there."""


def asked(number: int, rate: float, tokens: int) -> Asked:
    """One stream of `tokens` tokens at `rate` tokens/s, an event each."""
    body = {"stream": True, "stub": {"tokens": tokens, "rate": rate, "ids": True}}
    return Asked(id=f"s{number}", path=CHAT, body=json.dumps(body).encode())


def late_ms(received: Received) -> list[float]:
    """Milliseconds from the sending of each event with a token to its stamp."""
    assert received.reply is not None
    told = [(json.loads(event.data), event.stamp_s) for event in received.reply.events() if event.data != DONE]
    return [1000 * (stamp_s - one["sent_s"]) for one, stamp_s in told if "sent_s" in one]


async def canary(rate: float, seconds: float) -> list[float]:
    """Milliseconds by which a timer alone is late."""
    late = []
    until = clock.now() + seconds
    while clock.now() < until:
        due = clock.now() + 1 / rate
        await asyncio.sleep(1 / rate)
        late.append(1000 * (clock.now() - due))
    return late


async def run(url: str, streams: int, rate: float, tokens: int) -> dict[str, Any]:
    """All streams at once; the CPU seconds of receiving, and of reading what was received."""
    alone = await canary(rate, 1.0)
    async with Client(url, retry=Retry(tries=1)) as client:
        # The first request opens what all others find open: imports, the stub's first lines.
        await client.stream(asked(-1, 0.0, 4))
        wall, cpu = clock.now(), time.process_time()
        received = await asyncio.gather(*(client.receive(asked(n, rate, tokens)) for n in range(streams)))
        received_s, received_cpu = clock.now() - wall, time.process_time() - cpu
        cpu = time.process_time()
        found = [await client.read(one) for one in received]
        read_cpu = time.process_time() - cpu
    lost = sum(tokens - len(one.event_s) for one in found)
    text, ids = text_of(0, tokens), tuple(range(tokens))
    # Events that share a read of their stream share its stamp.
    reads = sum(len(set(one.event_s)) for one in found)
    late = np.array([value for one in received for value in late_ms(one)])
    nominal_s = (tokens - 1) / rate
    return {
        "streams": streams,
        "rate": rate,
        "events": sum(len(one.event_s) for one in found),
        "reads": reads,
        "lost": lost,
        "wrong": sum((one.text, one.token_ids, one.error) != (text, ids, None) for one in found),
        "errors": sorted({f"{one.error}: {one.said}" for one in found if one.error}),
        "late_ms": dict(zip(("p50", "p99", "most"), _percentiles(late), strict=True)),
        "canary_ms": dict(zip(("p50", "p99", "most"), _percentiles(np.array(alone)), strict=True)),
        "seconds": received_s,
        # Every stream takes tokens / rate; what all took beyond it is the stub's lag, and no event's lateness.
        "nominal_s": nominal_s,
        "quiet": _percentiles(np.array(alone))[1] <= QUIET_MS and received_s <= STRETCHED * nominal_s,
        "receive_cpu_s": received_cpu,
        "read_cpu_s": read_cpu,
        "cpu_share": (received_cpu + read_cpu) / received_s,
    }


def by_load(url: str, streams: int, rate: float, tokens: int) -> dict[str, Any]:
    """As `run`, of the command: as many streams as its level has, a request each in the steady state."""
    alone = asyncio.run(canary(rate, 1.0))
    received: list[Received] = []
    receive = Client.receive

    async def keep(self: Client, asked: Asked) -> Received:
        found = await receive(self, asked)
        received.append(found)
        return found

    with tempfile.TemporaryDirectory() as folder:
        prompts = Path(folder) / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"id": f"p{n}", "prompt": f"Say {n}."}) + "\n" for n in range(streams)))
        body = {"stub": {"tokens": tokens, "rate": rate}}
        words = ["load", url, "--prompts", str(prompts), "--concurrency", str(streams), "--requests", str(streams)]
        words += ["--model", "m", "--max-tokens", str(tokens), "--body", json.dumps(body), "--out", folder]
        with mock.patch.object(Client, "receive", keep), redirect_stdout(io.StringIO()):
            if code := cli.main(words):
                sys.exit(f"specq load ended with exit code {code}")
        (path,) = Path(folder).glob("load/*/records.jsonl")
        told = rows.read(path)[0]
        outputs = [json.loads(line) for line in (path.parent / "outputs.jsonl").read_text().splitlines()]
    asked_of = [row for row in told if isinstance(row, Requested)]
    (level,) = [row for row in told if isinstance(row, Measured)]
    texts = {one["id"]: one["text"] for one in outputs}
    kept = {one.id: one for one in received}
    text = text_of(0, tokens)
    stamps = {one.id: len(set(one.events_at_s)) for one in asked_of}
    late = np.array([value for one in received if one.reply is not None for value in late_ms(one)])
    nominal_s = (tokens - 1) / rate
    seconds = level.end_at_s - level.start_at_s
    return {
        "streams": streams,
        "rate": rate,
        "requests": len(asked_of),
        "events": sum(len(one.events_at_s) for one in asked_of),
        "reads": sum(stamps.values()),
        # An event that is in no record, a request that has none, or one that has two.
        "lost": sum(abs(tokens - len(one.events_at_s)) for one in asked_of) + tokens * abs(len(kept) - len(asked_of)),
        "wrong": sum((texts.get(one.id), one.output_tokens, one.error) != (text, tokens, None) for one in asked_of),
        "errors": sorted({f"{one.error}: {one.said}" for one in asked_of if one.error}),
        "late_ms": dict(zip(("p50", "p99", "most"), _percentiles(late), strict=True)),
        "canary_ms": dict(zip(("p50", "p99", "most"), _percentiles(np.array(alone)), strict=True)),
        "seconds": seconds,
        "nominal_s": nominal_s,
        "quiet": _percentiles(np.array(alone))[1] <= QUIET_MS and seconds <= STRETCHED * nominal_s,
        "receive_cpu_s": level.client_cpu_s,
        "read_cpu_s": 0.0,
        "cpu_share": level.client_cpu_s / level.client_wall_s,
    }


def _percentiles(values: np.ndarray) -> list[float]:
    return [float(value) for value in np.percentile(values, (50, 99, 100))] if len(values) else [float("nan")] * 3


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows as they are printed."""
    shown = Table(
        "by",
        "streams",
        "events",
        "reads",
        "lost",
        "wrong",
        "late ms p50",
        "p99",
        "most",
        "canary p99",
        "s",
        "CPU of a core",
    )
    for row in rows:
        late = [f"{row['late_ms'][name]:.2f}" for name in ("p50", "p99", "most")]
        parts = f" ({row['receive_cpu_s']:.2f} s receiving, {row['read_cpu_s']:.2f} s reading)"
        share = f"{row['cpu_share']:.1%}{parts if row['by'] == 'client' else ' (all of it)'}"
        counts = [str(row[name]) for name in ("streams", "events", "reads", "lost", "wrong")]
        shown.add_row(row["by"], *counts, *late, f"{row['canary_ms']['p99']:.2f}", f"{row['seconds']:.1f}", share)
    return shown


def main() -> None:
    """Parse, run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[16, 256], help="how many at once, one run each")
    parser.add_argument("--rate", type=float, default=50.0, help="tokens/s of each stream")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each stream takes")
    parser.add_argument("--by", nargs="+", choices=("client", "load"), default=["client", "load"])
    parser.add_argument("--repeats", type=int, default=1, help="how often all is run")
    told = parser.parse_args()
    tokens = max(2, round(told.rate * told.seconds))
    found = []
    with stub.started() as (url, _):
        for _ in range(told.repeats):
            for by, streams in itertools.product(told.by, told.streams):
                if by == "client":
                    found.append({"by": by, **asyncio.run(run(url, streams, told.rate, tokens))})
                else:
                    found.append({"by": by, **by_load(url, streams, told.rate, tokens)})
    Console(width=160).print(table(found))
    if not all(row["quiet"] for row in found):
        print(
            f"not quiet: the canary was later than {QUIET_MS:g} ms at p99, or a run took over {STRETCHED:g} times its "
            "tokens' own time; lateness and CPU shares are no measurement: run again where nothing else runs"
        )
    print(json.dumps({"rows": found}))
    if any(row["lost"] or row["wrong"] for row in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
