"""specq load beside guidellm: the same server, prompts and concurrency, taking turns; medians and how far they part.

guidellm runs in an environment of its own, whose python is named; nothing is imported from it. The server is one that
runs (`--url`), or a stub with a set rate. Prompts are `--prompts` as single messages, once each in every turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

import specq
from specq.engines.served import stub
from specq.experiment import prompts as reading
from specq.load import rows
from specq.load.rows import Requested

MEASURES = ("ttft_s", "tpot_s", "e2e_s", "tokens_per_s")
APART = 0.05
"""What the medians may part by, as a share."""


def texts(file: Path, limit: int) -> list[str]:
    """The prompts as single texts."""
    found = reading.load(file)[:limit]
    return [one.prompt or "\n".join(message["content"] for message in one.messages) for one in found]


def by_specq(url: str, told: argparse.Namespace, said: Sequence[str], folder: Path) -> dict[str, float]:
    """Medians of one turn of specq; prompts are not made cold, for guidellm's are not."""
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"id": f"p{n}", "prompt": text}) + "\n" for n, text in enumerate(said)))
    messages = folder / "messages.jsonl"
    asks = [{"id": f"p{n}", "messages": [{"role": "user", "content": text}]} for n, text in enumerate(said)]
    messages.write_text("".join(json.dumps(one) + "\n" for one in asks))
    found = specq.measure_load(
        url,
        messages,
        model=told.model,
        concurrency=[told.concurrency],
        requests=len(said),
        max_tokens=told.tokens,
        warm_prefix=True,
        keep_personal_data=True,
        body=told.body,
        out=folder / "specq",
    )
    (level,) = found.levels
    counted = [row for row in rows.read(found.run / "records.jsonl")[0] if isinstance(row, Requested)]
    if bad := [row.said for row in counted if row.error]:
        sys.exit(f"specq: {len(bad)} of {len(counted)} requests failed, the first: {bad[0]}")
    latency = level.latency
    medians = {"ttft_s": latency.ttft_s.p50, "tpot_s": latency.tpot_s.p50, "e2e_s": latency.e2e_s.p50}
    return {**{name: float(value or 0.0) for name, value in medians.items()}, "tokens_per_s": level.rates.tokens_per_s}


def by_guidellm(url: str, told: argparse.Namespace, said: Sequence[str], folder: Path) -> dict[str, float]:
    """Medians of one turn of guidellm, from its own report; its time between tokens is specq's tpot_s."""
    data, report = folder / "data.jsonl", folder / "report.json"
    data.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in said))
    body = {"temperature": 0.0, "max_tokens": told.tokens, **told.body}
    backend = {"kind": "openai_http", "target": url, "model": told.model, "validate_backend": False, "http2": False}
    spec = {
        "backend": {**backend, "max_tokens": told.tokens, "extras": {"body": body}},
        "profile": {"kind": "concurrent", "streams": [told.concurrency]},
        "constraints": [{"kind": "max_requests", "count": len(said)}],
        "data": [{"kind": "json_file", "path": str(data)}],
        "outputs": [{"kind": "json", "path": str(report)}],
    }
    config = folder / "scenario.json"
    config.write_text(json.dumps({"spec": spec}))
    command = [told.python, "-m", "guidellm", "run", "--config", str(config), "--disable-console"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not report.is_file():
        sys.exit(f"guidellm ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-1500:]}")
    (one,) = json.loads(report.read_text())["benchmarks"]
    metrics: Mapping[str, Any] = one["metrics"]

    def of(name: str, which: str = "median") -> float:
        return float(metrics[name]["successful"][which])

    return {
        "ttft_s": of("time_to_first_token_ms") / 1000,
        "tpot_s": of("inter_token_latency_ms") / 1000,
        "e2e_s": of("request_latency"),
        "tokens_per_s": of("output_tokens_per_second", "mean"),
    }


def main() -> None:
    """Parse, run in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="the python of an environment with guidellm")
    parser.add_argument("--url", help="a running server that speaks OpenAI's API; else a stub")
    parser.add_argument("--model", default="stub", help="as the server calls it")
    parser.add_argument("--prompts", type=Path, default=Path("evals/chat.jsonl"))
    parser.add_argument("--limit", type=int, default=24, help="the first so many prompts")
    parser.add_argument("--concurrency", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=32, help="of an answer at most")
    parser.add_argument("--rate", type=float, default=50.0, help="tokens/s of a stream of the stub")
    parser.add_argument("--repeats", type=int, default=2, help="turns of each")
    parser.add_argument("--body", type=json.loads, default={}, help="JSON added to each request of both")
    told = parser.parse_args()
    said = texts(told.prompts, told.limit)
    if told.url is None:
        told.body = {"stub": {"tokens": told.tokens, "rate": told.rate}, **told.body}
    ways = {"specq": by_specq, "guidellm": by_guidellm}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    with nullcontext((told.url, None)) if told.url else stub.started() as (url, _):
        for turn in range(told.repeats):
            for name in ways if turn % 2 == 0 else reversed(ways):
                with tempfile.TemporaryDirectory() as folder:
                    found[name].append(ways[name](str(url), told, said, Path(folder)))
    table = Table("measure", "specq", "guidellm", "specq / guidellm", "turns of specq", "turns of guidellm")
    result = {}
    for measure in MEASURES:
        turns = {name: [one[measure] for one in of] for name, of in found.items()}
        middle = {name: median(of) for name, of in turns.items()}
        ratio = middle["specq"] / middle["guidellm"] if middle["guidellm"] else float("nan")
        shown = (", ".join(f"{value:.4g}" for value in turns[name]) for name in ways)
        table.add_row(measure, f"{middle['specq']:.5g}", f"{middle['guidellm']:.5g}", f"{ratio:.3f}", *shown)
        result[measure] = {**middle, "ratio": ratio, "turns": turns}
    Console(width=140).print(table)
    apart = [name for name, one in result.items() if not abs(one["ratio"] - 1) <= APART]
    print(f"apart by more than {APART:.0%}: {', '.join(apart) or 'nothing'}")
    print(json.dumps({"concurrency": told.concurrency, "requests": len(said), "measures": result}))


if __name__ == "__main__":
    main()
