"""A tiny deterministic engine, and processes that use it in place of the real one.

Run as a program it is a worker (`worker ARGS`) or a parent (`parent JSON`). The environment
variable FAKE holds a JSON object: sleep_s a sample, fail (arm to failure text, "audit", "logits" or the
folder of a target), fail_on (a prompt's text: only there), error (the failure's class), kill_after (samples
before the worker kills itself), kill_at (a prompt's id: the worker kills itself as its kept logits are read),
broken (the baseline always fails), full_after (lines before the disk is full), slow_plan (planning takes a
minute), context (tokens that a text may have), blocks and logits_bytes (of the plan), log (a file: a line a target).
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forked
import numpy as np

from specq.core import hashes, jsonl
from specq.core.errors import NonFiniteLogits, PromptError, SpecqError
from specq.core.records import Audited, Divergence, FirstTokens, GapNoise, Machine, Sampled
from specq.core.types import Generation, Prompt, Step
from specq.engines.base import one_each
from specq.experiment import config
from specq.experiment.schema import Experiment
from specq.run import engines, inputs, measure, memory, process, runner, worker

REAL_COMMAND = process.command
ERRORS = {kind.__name__: kind for kind in (NonFiniteLogits, RuntimeError, ValueError)}
LEVERS = {
    "lookup": {"kind": "draft", "method": "lookup", "k": 4},
    "exit": {"kind": "draft", "method": "early_exit", "layers": 2, "k": 2},
    "w": {"kind": "quantize", "model": "w-folder"},
    "v": {"kind": "quantize", "model": "v-folder"},
    "q8": {"kind": "kv_cache", "type": "q8"},
}
# What a fake quantized target adds to the logits of the baseline's.
SHIFTS = {"fake": 0.0, "w-folder": 0.5, "v-folder": 0.25}


def settings() -> dict[str, Any]:
    return json.loads(os.environ.get("FAKE", "{}"))


def step(context: int) -> Step:
    return Step(context=context, proposed=0, accepted=0, emitted=1, draft_s=0.0, verify_s=0.1, sample_s=0.0, rest_s=0.0)


class FakeDecoder:
    samples = 0
    notes: tuple[str, ...] = ()

    def __init__(self, draft: Any, model: str) -> None:
        self.draft, self.model = draft, model

    def warm_up(self, tokens: int) -> float:
        return 0.0

    def generate(self, prompts: Any, sampling: Any, *, on_step: Any = None, batch_size: int = 1) -> list[Generation]:
        wants = settings()
        (prompt,), (sampling,) = prompts, one_each(sampling, prompts)
        if self.draft is None and "broken" in wants:
            raise NonFiniteLogits(wants["broken"])
        if len(prompt.ids) + sampling.max_new_tokens > wants.get("context", 1 << 20):
            raise PromptError(f"prompt {prompt.id!r} does not fit")
        measured = sampling.max_new_tokens == 6
        if measured:
            time.sleep(wants.get("sleep_s", 0))
            method = self.draft.method if self.draft else "plain"
            for who in (method, self.model):
                if who in wants.get("fail", {}) and wants.get("fail_on", prompt.text) == prompt.text:
                    raise ERRORS[wants.get("error", "NonFiniteLogits")](wants["fail"][who])
            FakeDecoder.samples += 1
            if FakeDecoder.samples == wants.get("kill_after"):
                os.kill(os.getpid(), signal.SIGKILL)
        seed = sampling.seed if sampling.temperature else 0
        ids = tuple(hashes.seed_of(prompt.ids, seed, place) % 50 for place in range(sampling.max_new_tokens))
        steps = tuple(step(len(prompt.ids) + place) for place in range(1, len(ids)))
        e2e_s = 0.1 * len(ids)
        return [
            Generation(
                prompt_id=prompt.id,
                ids=ids,
                text="text",
                finish="length",
                ttft_s=0.1,
                e2e_s=e2e_s,
                steps=steps,
            )
        ]


class FakeTarget:
    eos_ids = (2,)

    def __init__(self, model: str = "fake") -> None:
        self.model = model
        self._log("open")

    def _log(self, what: str) -> None:
        if "log" in settings():
            with Path(settings()["log"]).open("a") as log:
                log.write(f"{os.getpid()} {what} {self.model}\n")

    def __enter__(self) -> FakeTarget:
        return self

    def __exit__(self, *error: Any) -> None:
        self._log("close")

    def decoder(self, draft: Any, *, prefix_cache: bool = False, slots: int = 1) -> FakeDecoder:
        return FakeDecoder(draft, self.model)

    def with_cache(self, kind: str | None) -> FakeTarget:
        return self

    def logits(self, prompt: Prompt, ids: Any) -> Any:
        if "logits" in settings().get("fail", {}):
            raise NonFiniteLogits(settings()["fail"]["logits"])
        for token in ids:
            yield np.array([token, prompt.ids[-1], SHIFTS[self.model]], np.float32)

    def divergence(self, arm: str, prompt: Prompt, ids: Any, baseline: FakeTarget | np.ndarray) -> Divergence:
        """Not a KL, but a number that both models' logits along this very text decide."""
        if isinstance(baseline, np.ndarray):
            if prompt.id == settings().get("kill_at"):
                os.kill(os.getpid(), signal.SIGKILL)
        else:
            baseline = np.array(list(baseline.logits(prompt, ids)))
        far = float(np.abs(np.array(list(self.logits(prompt, ids))) - baseline).sum())
        return Divergence(arm=arm, prompt=prompt.id, positions=len(baseline), kl_sum=far, kl_worst=far, agreed=1)

    def describe(self) -> dict[str, Any]:
        sizes = {"weight_bytes": 100, "bytes_per_token": 10, "cache_bytes_per_token": 1, "parameters": 50}
        return {"name": "fake", "dtype": "float32", "sha256": "00", **sizes}

    def gap_noise(self, prompt: Prompt, ids: Any, rows: int) -> GapNoise:
        return GapNoise(prompt=prompt.id, rows=rows, positions=len(ids), ties=0, moves=(0.1,))

    def audit_greedy(self, arm: str, prompt: Prompt, ids: Any, baseline_ids: Any) -> Audited:
        if "audit" in settings().get("fail", {}):
            raise RuntimeError("no audit today")
        first = None if ids == baseline_ids else 0
        return Audited(arm=arm, prompt=prompt.id, positions=len(ids), first_difference=first, gaps=())

    def audit_sampled(self, arm: str, prompt: Prompt, repeat: int, generation: Any, draft: Any, sampling: Any) -> Any:
        assert generation.ids == FakeDecoder(draft, self.model).generate([prompt], sampling)[0].ids
        return Sampled(
            arm=arm,
            prompt=prompt.id,
            repeat=repeat,
            positions=len(generation.ids),
            outside=0,
            surprise=0.0,
            surprise_variance=1.0,
            steps=len(generation.steps),
            steps_mean=5.0,
            steps_variance=1.0,
        )

    def first_tokens(self, arm: str, prompt: Prompt, draft: Any, sampling: Any, draws: int) -> FirstTokens:
        return FirstTokens(
            arm=arm, prompt=prompt.id, draws=draws, cells=(1, -1), counts=(draws, 0), expected=(1.0, 0.0)
        )


class FakeEngine:
    device = "cpu"

    def open(self, model: Any, *, prefill: str = "dense") -> FakeTarget:
        return FakeTarget(str(model))


@dataclass
class FakePlan:
    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...] = ("a note",)
    blocks: tuple[tuple[str, ...], ...] = ()
    logits_bytes: int = 0
    served: tuple[Any, ...] = ()
    together_bytes: int = 3 << 30
    available_bytes: int | None = 2 << 30
    models: tuple[Any, ...] = (SimpleNamespace(facts=SimpleNamespace(notes=("weights were quantized before: Q4_1",))),)

    def check(self) -> None:
        pass


def fake_plan(experiment: Any, **_: Any) -> FakePlan:
    lines = Path(experiment.workload.prompts).read_text(encoding="utf-8").splitlines()
    items = [json.loads(line) for line in lines]
    ids = [tuple(one["prompt"].encode()) for one in items]
    made = (Prompt(id=one["id"], ids=i, text=one["prompt"], tags=("kind",)) for one, i in zip(items, ids, strict=True))
    blocks = tuple(tuple(block) for block in settings().get("blocks", ()))
    return FakePlan(prompts=tuple(made), blocks=blocks, logits_bytes=settings().get("logits_bytes", 0))


def fake_command(store: Any, task: Any) -> list[str]:
    return [sys.executable, __file__, "worker", *REAL_COMMAND(store, task)[3:]]


def write_experiment(
    folder: Path,
    *,
    prompts: int = 3,
    levers: tuple[str, ...] = ("lookup", "exit"),
    run: tuple[str, ...] = ("each",),
    **load: Any,
) -> Experiment:
    """An experiment of `prompts` prompts and 6 new tokens, written to `folder` and loaded."""
    lines = [json.dumps({"id": f"p{n}", "prompt": f"prompt {n}"}) for n in range(prompts)]
    (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    workload = {"repeats": 2, "memory": False, "max_new_tokens": 6, **load}
    text = [
        'question = "Which?"',
        "[target]",
        'model = "fake"',
        "[workload]",
        f"prompts = {json.dumps(str(folder / 'prompts.jsonl'))}",
    ]
    text += [f"{key} = {json.dumps(value)}" for key, value in workload.items()]
    for name in levers:
        text += [f"[levers.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in LEVERS[name].items())]
    text += ["[arms]", f"run = {json.dumps(run)}"]
    path = folder / "tiny.toml"
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return config.load(path)


def patch_parent(setter: Any, *, fork: bool = True) -> None:
    """Put fakes in the place of planning and of the worker's command line; fresh interpreters where not `fork`."""
    setter(process, "command", fake_command)
    if fork:
        forked.forks(setter, _worker)
    setter(inputs, "make_plan", fake_plan)
    setter(inputs, "device_name", lambda experiment: "fake device")
    setter(inputs, "evals", lambda plan: {})
    setter(inputs, "readings", lambda plan: {})
    setter(inputs, "models", lambda plan: {"target fake": {"weights_sha256": "00"}})


def _limit_lines(lines: int) -> None:
    real, left = jsonl.Appender.append, [lines]

    def append(self: Any, value: dict[str, Any]) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise jsonl.disk_error(OSError(errno.ENOSPC, "No space left on device"), self.path)
        real(self, value)

    setattr(jsonl.Appender, "append", append)  # noqa: B010


def _worker(argv: list[str]) -> int:
    FakeDecoder.samples = 0
    setattr(engines, "of_job", lambda job: FakeEngine())  # noqa: B010
    for module in (measure, memory):
        setattr(module, "import_libraries", lambda: 1)  # noqa: B010
    setattr(  # noqa: B010
        measure,
        "machine",
        lambda process, device, imports_bytes: Machine(
            process=process, bandwidth_bytes_per_s=1e9, threads=1, device=device, imports_bytes=imports_bytes
        ),
    )
    if "full_after" in settings():
        _limit_lines(settings()["full_after"])
    return worker.main(argv)


def slow_plan(experiment: Any, **_: Any) -> FakePlan:
    """A plan that says that it began and then takes its time."""
    sys.stdout.write("planning\n")
    sys.stdout.flush()
    time.sleep(60)
    return fake_plan(experiment)


def _parent(toml: str, out: str) -> int:
    patch_parent(setattr, fork=False)
    if settings().get("slow_plan"):
        setattr(inputs, "make_plan", slow_plan)  # noqa: B010
    try:
        runner.run(config.load(Path(toml)), out=Path(out))
    except SpecqError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(_worker(sys.argv[2:]) if sys.argv[1] == "worker" else _parent(*sys.argv[2:]))
