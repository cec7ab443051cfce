"""Experiments on stub servers: attached to by URL, or started as if they were vLLM. Run as a program, it is that vLLM.

As vLLM it takes its command line, and plays as the JSON in STUB_PLAYS says: of "plain", or of "draft" where it is told
to draft.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import forked

from specq.core.records import Machine
from specq.experiment import config
from specq.experiment.schema import Experiment
from specq.run import process, serving, worker

NEW = 6
LOOKUP = """
[levers.lookup]
kind = "draft"
method = "lookup"
k = 2
max_ngram = 2
min_ngram = 2
"""
VLLM = {"kind": "vllm", "args": ["--enforce-eager"], "context": 64}


def be_vllm(argv: list[str]) -> None:
    """Serve on the port of the command line until a signal ends it."""
    from specq.engines.served.stub import Stub

    plays = json.loads(os.environ["STUB_PLAYS"])

    async def serve() -> None:
        drafts = "--speculative-config" in argv
        async with Stub(port=int(argv[argv.index("--port") + 1]), plays=plays["draft" if drafts else "plain"]):
            await asyncio.Event().wait()

    asyncio.run(serve())


def install(folder: Path, monkeypatch: Any, **plays: dict[str, Any]) -> None:
    """Let SPECQ_VLLM_PYTHON name a program that starts the stub, which plays as told."""
    program = folder / "vllm-python"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {[str(Path(__file__).parent)]!r}\n"
        "import served_stubs\nserved_stubs.be_vllm(sys.argv)\n",
        encoding="utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("SPECQ_VLLM_PYTHON", str(program))
    own = {"ids": True, "tokens": NEW}
    monkeypatch.setenv("STUB_PLAYS", json.dumps({name: own | plays.get(name, {}) for name in ("plain", "draft")}))


def quick(monkeypatch: Any) -> None:
    """Let runs fork their workers and measure no bandwidth."""
    real = process.command
    monkeypatch.setattr(process, "command", lambda store, task: [sys.executable, "worker", *real(store, task)[3:]])
    forked.forks(monkeypatch.setattr, worker.main)

    def machine(job: Any) -> Machine:
        return Machine(process=job.process, bandwidth_bytes_per_s=0.0, threads=0, device="server", imports_bytes=1)

    monkeypatch.setattr(serving, "machine", machine)


def experiment(
    folder: Path, engine: dict[str, Any], *, model: str = "stub", prompts: int = 2, more: str = "", **load: Any
) -> Experiment:
    """An experiment on a server, written to `folder` and loaded; `more` is TOML that stands at its end."""
    lines = [json.dumps({"id": f"p{n}", "prompt": f"the cat number {n} sat"}) for n in range(prompts)]
    (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    workload = {"repeats": 2, "memory": False, "max_new_tokens": NEW, "lengths": "natural"} | load
    text = ["[target]", f"model = {json.dumps(model)}", "[engine]"]
    text += [f"{key} = {json.dumps(value)}" for key, value in engine.items()]
    text += ["[workload]", f"prompts = {json.dumps(str(folder / 'prompts.jsonl'))}"]
    text += [f"{key} = {json.dumps(value)}" for key, value in workload.items()]
    path = folder / "served.toml"
    path.write_text("\n".join([*text, more]) + "\n", encoding="utf-8")
    return config.load(path)
