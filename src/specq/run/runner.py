"""Runs an experiment: plan, check, folder, workers one after another, done."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import specq
from specq.core import hashes
from specq.core.clock import utc_stamp
from specq.core.errors import DiskFull, Interrupted, NonFiniteLogits, RunFailed, RunFolderError, UserError
from specq.core.nouns import counted
from specq.core.places import check_folder
from specq.core.records import (
    Audited,
    Divergence,
    EvalAnswer,
    EvalProof,
    Failed,
    FirstTokens,
    GapNoise,
    Generated,
    Memory,
    Note,
    QuantizedModel,
    Record,
    SameText,
    Sampled,
    ServedDraws,
    failed_arms,
)
from specq.experiment.arms import arms
from specq.experiment.plan import Plan
from specq.experiment.schema import Experiment
from specq.run import artifacts, eval_left, inputs, left, logits, provenance, resuming, signals
from specq.run.catalog import DEFAULT_OUT
from specq.run.job import Asked, Task, every_sample_failed, prompt_to_json
from specq.run.process import run_worker
from specq.run.store import Store, how_to_go_on, remove

# Records of a run that began: a quantized model is none of them, for it is kept in the cache and found there again.
BEGAN: tuple[type[Record], ...] = (
    *(Generated, Failed, Memory),
    *(GapNoise, Audited, Sampled, FirstTokens, Divergence, SameText, ServedDraws, EvalAnswer, EvalProof),
)
# Records that are one unit of the progress bar each.
COUNTED: tuple[type[Record], ...] = (QuantizedModel, *BEGAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is: `done` of `total` samples and checks, and what just happened.

    `text` is a line worth showing: a finished turn, a failure or a new phase; "" in between.
    `warning` marks what must not scroll by unseen.
    """

    done: int
    total: int
    phase: str
    text: str = ""
    warning: bool = False


OnProgress = Callable[[Progress], None]


def run(
    experiment: Experiment | None,
    *,
    out: Path = DEFAULT_OUT,
    resume: Path | None = None,
    on_progress: OnProgress | None = None,
    write_report: Callable[[Path], object] | None = None,
    beside: Mapping[str, Any] | None = None,
) -> Path:
    """Run an experiment to its end and return its folder.

    `write_report` gets the folder when all workers are through; done.json is written after it. `beside` are JSON
    files by name that a new run's folder gets before anything is recorded.

    `resume` continues an unfinished run and repeats nothing that was recorded; the experiment
    may then be None, and is read from the run.

    Raises:
        UserError: the plan refuses an arm, or the folder is busy, done, damaged, or of another config.
        Interrupted: Ctrl-C, SIGTERM or SIGHUP; records are kept.
        RunFailed: a worker broke or died, or an arm failed on every sample or has no score on any item of an eval;
            records are kept.
    """
    with signals.raised():
        where = resume
        try:
            store = _resume(experiment, resume) if resume is not None else _create(_needed(experiment), out, beside)
            where = store.run_dir
            with store:
                _work(store, on_progress, is_new=resume is None)
                store.pause()
                if write_report is not None:
                    with store.resumable():
                        write_report(store.run_dir)
                store.finish()
                records = store.contents().records
                failed = [*every_sample_failed(failed_arms(records).values()), *eval_left.failed(records)]
        except KeyboardInterrupt as stop:
            told = "nothing was recorded" if where is None else how_to_go_on(where)
            raise Interrupted(f"stopped; {told}", signals.number_of(stop)) from None
    if failed:
        error = RunFailed(f"{'; '.join(failed)}; the rest of the run is done, to see it type: specq show {where}")
        error.finished = store.run_dir
        raise error
    return store.run_dir


def _work(store: Store, on_progress: OnProgress | None, *, is_new: bool) -> None:
    """Run what is left, one worker after another."""
    asked = Asked(store=store)
    watch = _Watch(asked, on_progress)
    for task in left.tasks(asked):
        # Read anew each time: an arm that failed on all samples has no memory to measure.
        if left.is_done(asked, store.contents(), task):
            continue
        watch.phase(task)
        try:
            run_worker(store, task, watch.event)
        except (UserError, NonFiniteLogits) as error:
            # The user's mistake, found as the models were loaded: there is no run to keep or resume.
            mistake = is_new and not isinstance(error, RunFolderError)
            if mistake and not any(isinstance(record, BEGAN) for record in store.contents().records):
                remove(store.run_dir)
            raise
    logits.remove(store.run_dir)


def _needed(experiment: Experiment | None) -> Experiment:
    if experiment is None:
        raise RunFolderError("no experiment and no run to resume: type specq run FILE, or specq run --resume RUN")
    return experiment


def _create(experiment: Experiment, out: Path, beside: Mapping[str, Any] | None) -> Store:
    check_folder(out)
    plan = inputs.make_plan(experiment)
    plan.check()
    _need_disk(plan, out)
    return Store.create(out, run_info(experiment, plan), beside)


def _need_disk(plan: Plan, out: Path) -> None:
    free = shutil.disk_usage(next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())).free
    if plan.logits_bytes > free:
        raise DiskFull(
            f"{out}: the audit of arms in blocks keeps up to {plan.logits_bytes / 1e6:.0f} MB of logits there, and "
            f"{free / 1e6:.0f} MB are free: free some space, give --out on another disk, take fewer prompts or tokens, "
            "or set audit.enabled=false"
        )


def _resume(experiment: Experiment | None, run_dir: Path) -> Store:
    store = Store.open_for_resume(run_dir)
    try:
        resuming.check_config(store, experiment)
        asked = Asked(store=store)
        contents = store.contents()
        whole = contents.done is not None and not contents.losses
        if whole and all(left.is_done(asked, contents, task) for task in left.tasks(asked)):
            raise RunFolderError(f"nothing left to do: {run_dir} is done; to see it type: specq show {run_dir}")
        plan = inputs.make_plan(asked.experiment)
        plan.check()
        resuming.check_memory(store, plan)
        now = run_info(asked.experiment, plan)
        resuming.check_inputs(store, now)
        store.mend()
        if changed := provenance.changes(store.info.get("provenance") or {}, now["provenance"]):
            text = f"resumed on other software or another machine than the run began on: {'; '.join(changed)}"
            store.append(Note(process=0, text=text))
    except BaseException:
        store.close()
        raise
    return store


def run_info(experiment: Experiment, plan: Plan) -> dict[str, Any]:
    """The content of run.json: what is asked, of what, and where it runs."""
    of_target = plan.models[0].facts.notes if plan.models else ()
    return {
        "specq": specq.__version__,
        "created": utc_stamp(),
        "question": experiment.question,
        "experiment": experiment.name,
        "config": provenance.hide_home(experiment.resolved()),
        "config_sha256": experiment.config_sha256,
        "origin": inputs.origin(experiment),
        "arms": [asdict(arm) for arm in arms(experiment)],
        "blocks": [list(block) for block in plan.blocks],
        "prompts": [
            prompt_to_json(prompt, hashes.of_prompt(prompt.ids, prompt.text, prompt.messages))
            for prompt in plan.prompts
        ],
        "readings": inputs.readings(plan),
        "models": inputs.models(plan),
        "quantized": artifacts.keys(experiment),
        "quantized_from": artifacts.made_from(experiment),
        "evals": inputs.evals(plan),
        "data": inputs.data(experiment),
        "provenance": {**provenance.collect(), "device_name": inputs.device_name(experiment)},
        "served": [
            provenance.hide_home({**one.to_json(), "command": list(provenance.tidy_command(one.command))})
            for one in plan.served
        ],
        "model_notes": list(of_target),
        "notes": [note for note in plan.notes if note.removeprefix(f"{experiment.target.model}: ") not in of_target],
    }


class _Watch:
    """Counts what workers report and passes it on."""

    def __init__(self, asked: Asked, on_progress: OnProgress | None) -> None:
        self.on_progress = on_progress
        self.name = ""
        # Reasons that were told, for one that many items, arms and workers share is told once.
        self._reasons: set[tuple[str, str]] = set()
        load = asked.experiment.workload
        arms, prompts = len(asked.drafts), len(asked.prompts)
        measured = arms * prompts * load.repeats * load.processes
        memory = arms if load.memory and not asked.experiment.engine.attaches else 0
        made = len(artifacts.wanted(asked.experiment))
        contents = asked.store.contents()
        self.total = made + measured + memory + self._audits(asked, arms, prompts) + eval_left.expected(asked, contents)
        self.done = sum(isinstance(r, COUNTED) for r in contents.records)

    @staticmethod
    def _audits(asked: Asked, arms: int, prompts: int) -> int:
        experiment = asked.experiment
        if not experiment.audit.enabled:
            return 0
        if experiment.engine.is_server:
            return len(left.compared_texts(asked)) * prompts if experiment.sampling().temperature == 0 else arms
        compared = len(left.compared(asked))
        if experiment.sampling().temperature == 0:
            drafted = [arm for arm in asked.drafts if asked.plain[arm] != arm or experiment.engine.compile]
            noisy = {asked.plain[arm] for arm in drafted}
            return (len(drafted) + len(noisy)) * prompts + compared
        return arms * prompts * experiment.workload.repeats + arms + compared

    def phase(self, task: Task) -> None:
        """A new worker starts."""
        self.name = f"process {task.process + 1}" if task.kind == "measure" else task.name
        if task.repeat is not None:
            self.name += f", block {task.arm}"
        self._tell(f"{self.name}: loading")

    def event(self, event: dict[str, Any]) -> None:
        """One event of the worker."""
        kind = event["event"]
        if kind in ("sample", "failed", "audit", "memory", "quantized"):
            self.done += 1
        if kind in ("evaluated", "proved"):
            self.done += event.get("items", 1)
            what = f"{event['eval']}, {counted(event['items'], 'item')}" if kind == "evaluated" else "proved"
            self._tell(f"{event['arm']}: {what}")
        elif kind == "turn":
            self._tell(f"{self.name}: prompt {event['prompt']}, turn {event['repeat'] + 1}")
        elif kind == "loaded":
            self._tell(f"{self.name}: loaded")
        elif kind == "failed":
            self._tell(f"{event['arm']} failed on prompt {event['prompt']}: {event['message']}", warning=True)
        elif kind == "quantizing":
            self._tell(f"{self.name}: {event['text']}")
        elif kind == "unscored":
            self._tell(self._unscored(event["arm"], event["eval"], event["items"], event["why"]), warning=True)
        elif kind == "note":
            self._tell(event["text"], warning=True)
        elif kind == "stopping":
            name = event["signal"]
            text = f"{name}: stopping after the sample under way; a second {name} stops at once"
            self._tell(text, warning=True)
        else:
            self._tell("")

    def _unscored(self, arm: str, name: str, items: list[str], why: str) -> str:
        told = (name, why) in self._reasons
        self._reasons.add((name, why))
        which = f"first {items[0]}" if len(items) > 1 else items[0]
        reason = "as told before" if told else why
        return f"{arm} has no score on {counted(len(items), 'item')} of {name} ({which}): {reason}"

    def _tell(self, text: str, *, warning: bool = False) -> None:
        if self.on_progress is not None:
            done = min(self.done, self.total)
            self.on_progress(Progress(done=done, total=self.total, phase=self.name, text=text, warning=warning))
