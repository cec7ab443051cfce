"""Runs an experiment: plan, check, folder, workers one after another, done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import specq
from specq.core import hashes
from specq.core.clock import utc_stamp
from specq.core.errors import NonFiniteLogits, RunFolderError, SpecqError, UserError
from specq.core.records import Audited, Done, Failed, FirstTokens, GapNoise, Generated, Memory, Note, Record, Sampled
from specq.experiment.arms import arms
from specq.experiment.plan import Plan
from specq.experiment.schema import Experiment
from specq.run import inputs, provenance
from specq.run.catalog import DEFAULT_OUT
from specq.run.job import experiment_of, prompt_to_json
from specq.run.process import Task, run_worker
from specq.run.store import Store, read_info

# Records that are one unit of the progress bar each.
COUNTED: tuple[type[Record], ...] = (Generated, Failed, Memory, GapNoise, Audited, Sampled, FirstTokens)


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
) -> Path:
    """Run an experiment to its end and return its folder.

    `write_report` gets the folder when all workers are through; done.json is written after it.

    `resume` continues an unfinished run and repeats nothing that was recorded; the experiment
    may then be None, and is read from the run.

    Raises:
        UserError: the plan refuses an arm, or the folder is busy, done, or of another config.
        Interrupted: Ctrl-C; records are kept.
        RunFailed: a worker broke or died; records are kept.
    """
    store = _resume(experiment, resume) if resume is not None else _create(_needed(experiment), out)
    with store:
        tasks, done = _tasks(store)
        watch = _Watch(store, on_progress)
        for task in tasks:
            if task not in done:
                watch.phase(task)
                try:
                    run_worker(store, task, watch.event)
                except SpecqError as error:
                    # The user's mistake, found as the models were loaded: there is no run to keep or resume.
                    began = any(isinstance(record, COUNTED) for record in store.records())
                    if isinstance(error, UserError | NonFiniteLogits) and not began:
                        shutil.rmtree(store.run_dir)
                    raise
        store.pause()
        if write_report is not None:
            write_report(store.run_dir)
        store.finish()
    return store.run_dir


def _needed(experiment: Experiment | None) -> Experiment:
    if experiment is None:
        raise RunFolderError("no experiment and no run to resume: type specq run FILE, or specq run --resume RUN")
    return experiment


def _create(experiment: Experiment, out: Path) -> Store:
    plan = inputs.make_plan(experiment)
    plan.check()
    return Store.create(out, run_info(experiment, plan))


def _resume(experiment: Experiment | None, run_dir: Path) -> Store:
    info = read_info(run_dir)
    config_sha256 = str(info["config_sha256"]) if experiment is None else experiment.config_sha256
    store = Store.open_for_resume(run_dir, config_sha256)
    try:
        plan = inputs.make_plan(experiment_of(info))
        plan.check()
        now = run_info(experiment_of(info), plan)
        _same_inputs(store, now)
        if changed := provenance.changes(info.get("provenance") or {}, now["provenance"]):
            text = f"resumed on other software or another machine than the run began on: {'; '.join(changed)}"
            store.append(Note(process=0, text=text))
    except BaseException:
        store.close()
        raise
    return store


def _same_inputs(store: Store, now: dict[str, Any]) -> None:
    """A resumed run must see the same tokens and weights, or its rows cannot be compared."""
    for what in ("prompts", "models"):
        if _hashes(store.info, what) != _hashes(now, what):
            raise RunFolderError(
                f"{store.run_dir} was made from other {what} than are there now; "
                "put them back, or start a new run without --resume"
            )


def _hashes(info: dict[str, Any], what: str) -> Any:
    if what == "prompts":
        return [(prompt["id"], prompt["prompt_sha256"]) for prompt in info["prompts"]]
    return {role: model["weights_sha256"] for role, model in info["models"].items()}


def run_info(experiment: Experiment, plan: Plan) -> dict[str, Any]:
    """The content of run.json: what is asked, of what, and where it runs."""
    of_target = plan.models[0].facts.notes
    return {
        "specq": specq.__version__,
        "created": utc_stamp(),
        "question": experiment.question,
        "experiment": experiment.name,
        "config": provenance.hide_home(experiment.resolved()),
        "config_sha256": experiment.config_sha256,
        "arms": [asdict(arm) for arm in arms(experiment)],
        "prompts": [prompt_to_json(prompt, hashes.of_ids(prompt.ids)) for prompt in plan.prompts],
        "models": inputs.models(plan),
        "data": inputs.data(experiment),
        "provenance": {**provenance.collect(), "device_name": inputs.device_name(experiment)},
        "model_notes": list(of_target),
        "notes": [note for note in plan.notes if note.removeprefix(f"{experiment.target.model}: ") not in of_target],
    }


def _tasks(store: Store) -> tuple[list[Task], set[Task]]:
    """All tasks of the run in their order, and those that are done."""
    experiment = experiment_of(store.info)
    tasks = [Task(kind="measure", process=process) for process in range(experiment.workload.processes)]
    if experiment.workload.memory:
        tasks += [Task(kind="memory", arm=arm["id"]) for arm in store.info["arms"]]
    if experiment.audit.enabled:
        tasks.append(Task(kind="audit"))
    ended = {(r.process, r.task) for r in store.records() if isinstance(r, Done)}
    return tasks, {task for task in tasks if (task.process, task.name) in ended}


class _Watch:
    """Counts what workers report and passes it on."""

    def __init__(self, store: Store, on_progress: OnProgress | None) -> None:
        self.on_progress = on_progress
        self.name = ""
        info = store.info
        load = experiment_of(info).workload
        arms, prompts = len(info["arms"]), len(info["prompts"])
        measured = arms * prompts * load.repeats * load.processes
        memory = arms if load.memory else 0
        self.total = measured + memory + self._audits(info, arms, prompts)
        self.done = sum(isinstance(r, COUNTED) for r in store.records())

    @staticmethod
    def _audits(info: dict[str, Any], arms: int, prompts: int) -> int:
        experiment = experiment_of(info)
        if not experiment.audit.enabled:
            return 0
        if experiment.sampling().temperature == 0:
            return arms * prompts
        return arms * prompts * experiment.workload.repeats + arms

    def phase(self, task: Task) -> None:
        """A new worker starts."""
        self.name = f"process {task.process + 1}" if task.kind == "measure" else task.name
        self._tell(f"{self.name}: loading")

    def event(self, event: dict[str, Any]) -> None:
        """One event of the worker."""
        kind = event["event"]
        if kind in ("sample", "failed", "audit", "memory"):
            self.done += 1
        if kind == "turn":
            self._tell(f"{self.name}: prompt {event['prompt']}, turn {event['repeat'] + 1}")
        elif kind == "loaded":
            self._tell(f"{self.name}: loaded")
        elif kind == "failed":
            self._tell(f"{event['arm']} failed on prompt {event['prompt']}: {event['message']}", warning=True)
        elif kind == "note":
            self._tell(event["text"], warning=True)
        elif kind == "stopping":
            self._tell("stopping after the sample under way; Ctrl-C again to stop at once", warning=True)
        else:
            self._tell("")

    def _tell(self, text: str, *, warning: bool = False) -> None:
        if self.on_progress is not None:
            done = min(self.done, self.total)
            self.on_progress(Progress(done=done, total=self.total, phase=self.name, text=text, warning=warning))
