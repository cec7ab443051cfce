"""Makes run folders whose numbers are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from specq.core import records
from specq.core.hashes import of_ids, seed_of
from specq.core.records import Done, Generated, LoadedModel, Machine, Output, Record
from specq.run.folder import config_sha256

Counts = Sequence[tuple[int, int, int]]


def generated(
    arm: str,
    prompt: str,
    counts: Counts,
    *,
    repeat: int = 0,
    process: int = 0,
    step_s: float = 0.05,
    ttft_s: float = 0.1,
    prompt_tokens: int = 10,
    parts: tuple[float, float, float, float] = (0.2, 0.6, 0.1, 0.1),
    output: str = "same",
    **changes: Any,
) -> Generated:
    """A generation from its steps' (proposed, accepted, emitted); each step lasts `step_s`."""
    context, steps = prompt_tokens, []
    for proposed, accepted, emitted in counts:
        seconds = tuple(step_s * part for part in parts)
        steps.append((context, proposed, accepted, emitted, *seconds))
        context += emitted
    made = Generated(
        process=process,
        arm=arm,
        prompt=prompt,
        repeat=repeat,
        order=0,
        prompt_tokens=prompt_tokens,
        new_tokens=1 + sum(emitted for _, _, emitted in counts),
        finish="eos",
        ttft_s=ttft_s,
        e2e_s=ttft_s + step_s * len(counts),
        rule="greedy_draft" if any(proposed for proposed, _, _ in counts) else None,
        steps=tuple(steps),
        past_stop=0,
        repeated_share=0.25,
        prompt_sha256=f"hash of {prompt}",
        output_sha256=output,
    )
    return replace(made, **changes)


PLAIN: Counts = [(0, 0, 1)] * 12
DRAFTED: Counts = [(3, 2, 3)] * 4


def info(arms: Sequence[str], prompts: Mapping[str, Sequence[str]], **config: Any) -> dict[str, Any]:
    """run.json for arms by id and prompts with their tags; keyword tables are merged into the config."""
    tables: dict[str, dict[str, Any]] = {
        "engine": {"kind": "hf", "dtype": "auto", "compile": False},
        "workload": {"temperature": 0.0, "repeats": 2, "processes": 1, "max_new_tokens": 64, "memory": False},
        "audit": {"enabled": True},
        "canary": {"drift_limit": 0.15},
        "objective": {"minimise": "tpot_s"},
    }
    for name, table in config.items():
        tables[name] = {**tables.get(name, {}), **table}
    return {
        "specq": "0.1.0",
        "question": "Which draft?",
        "experiment": "toy",
        "config": tables,
        "config_sha256": config_sha256(tables),
        "arms": [
            {
                "id": arm,
                "levers": [] if arm.startswith("baseline") else [arm.split("#")[0]],
                "replica": int(arm.split("#")[1]),
                "draft": None if arm.startswith("baseline") else {"method": "lookup", "k": 3},
            }
            for arm in arms
        ],
        "prompts": [
            {"id": prompt, "tags": list(tags), "tokens": 10, "prompt_sha256": f"hash of {prompt}"}
            for prompt, tags in prompts.items()
        ],
        "provenance": {"python": "3.11"},
        "notes": [],
        "model_notes": ["weights were quantized before: Q4_1"],
    }


MACHINE: tuple[Record, ...] = (
    Machine(process=0, bandwidth_bytes_per_s=20e9, threads=2, device="cpu", imports_bytes=10**8),
    LoadedModel(
        process=0,
        role="target",
        name="toy-model",
        weight_bytes=2 * 10**8,
        bytes_per_token=2 * 10**8,
        cache_bytes_per_token=1000,
        parameters=10**8,
        dtype="bfloat16",
        sha256="ab",
    ),
)
FINISHED: tuple[Record, ...] = (Done(process=0, task="measure"), Done(process=0, task="audit"))


def outputs_of(lines: Sequence[Record]) -> tuple[list[Output], list[Record]]:
    """An output for each generation, of ids that its output_sha256 seeds, and the records with their hash."""
    outputs, made = [], []
    for record in lines:
        if isinstance(record, Generated):
            ids = tuple(seed_of(record.output_sha256, place) % 1000 for place in range(record.new_tokens))
            turn = {"process": record.process, "arm": record.arm, "prompt": record.prompt, "repeat": record.repeat}
            outputs.append(Output(**turn, ids=ids, text="hello"))
            record = replace(record, output_sha256=of_ids(ids))
        made.append(record)
    return outputs, made


def write_run(
    folder: Path, about: Mapping[str, Any], lines: Sequence[Record], *, done: bool = True, tail: bytes = b""
) -> Path:
    """Write a run folder; `tail` is a torn last line of records.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(about))
    answers, lines = outputs_of(lines)
    text = "".join(json.dumps(records.to_json(record)) + "\n" for record in lines)
    (folder / "records.jsonl").write_bytes(text.encode() + tail)
    (folder / "outputs.jsonl").write_text("".join(json.dumps(asdict(output)) + "\n" for output in answers))
    if done:
        (folder / "done.json").write_text("{}")
    return folder


PROMPTS = {
    "e1": ["extraction"],
    "e2": ["extraction"],
    "e3": ["extraction"],
    "w1": ["writing"],
    "w2": ["writing"],
    "w3": ["writing"],
}
ARMS = ("baseline#1", "baseline#2", "lookup#1")


def turns(
    change: Callable[[Generated], Generated | None] = lambda g: g,
    *,
    prompts: Mapping[str, Sequence[str]] = PROMPTS,
    repeats: int = 2,
    processes: int = 1,
) -> list[Record]:
    """All generations of ARMS: lookup takes 4 steps of 3 tokens on extraction and is even on writing.

    Step times differ a little by prompt and by arm, so that intervals have a width. `change`
    sees every generation and may replace it or, with None, drop it.
    """
    found: list[Record] = []
    for process in range(processes):
        for repeat in range(repeats):
            for i, (prompt, tags) in enumerate(prompts.items()):
                for a, arm in enumerate(ARMS):
                    drafted = arm == "lookup#1"
                    slow = 0.05 * (1 + 0.004 * ((i * 7 + a * 5 + repeat * 3 + process) % 6 - 2.5))
                    counts = (DRAFTED if "extraction" in tags else [(3, 0, 1)] * 12) if drafted else PLAIN
                    made = change(generated(arm, prompt, counts, repeat=repeat, process=process, step_s=slow))
                    if made is not None:
                        found.append(made)
    return found


def noise_and_audits(arms: Sequence[str] = ARMS[1:], **gaps: Sequence[tuple[int, float]]) -> list[Record]:
    """Noise whose gaps move by at most 0.1 logits, and an audit of each arm at each prompt.

    `gaps` maps a prompt to the gaps of the last arm there.
    """
    noise = [
        records.GapNoise(prompt=prompt, rows=4, positions=100, ties=1, moves=(0.02, 0.05, 0.1)) for prompt in PROMPTS
    ]
    audits = [
        records.Audited(
            arm=arm,
            prompt=prompt,
            positions=13,
            first_difference=own[0][0] if (own := tuple(gaps.get(prompt, ())) if arm == arms[-1] else ()) else None,
            gaps=own,
        )
        for arm in arms
        for prompt in PROMPTS
    ]
    return [*noise, *audits]


def whole_run(folder: Path, *, more: Sequence[Record] = (), **config: Any) -> Path:
    """A finished, audited run of ARMS."""
    lines = [*MACHINE, *turns(), *noise_and_audits(), *more, *FINISHED]
    return write_run(folder, info(ARMS, PROMPTS, **config), lines)
