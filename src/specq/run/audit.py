"""The audit task: each arm's own text is scored on its plain target's path, in a fresh process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from specq.core.errors import Interrupted
from specq.core.jsonl import disk_error
from specq.core.records import AUDIT, Done, Failed, Key, Note, Record, key
from specq.core.types import Generation
from specq.run import engines, logits, serving
from specq.run.artifacts import Made
from specq.run.job import FIRST, Job, Task
from specq.run.left import AuditKey, audits_left, logits_left
from specq.run.provenance import hide_home


def audit(job: Job, task: Task) -> None:
    """Record what is left of the audit, of all arms or of a block's.

    At temperature 0: how far gaps move on the text of each plain arm, then each arm with a draft (and
    the A/A twin) against the plain arm of its target, on the first process and repeat. Above 0: the
    surprise and steps of every answer, and the law of the first tokens on the first prompt. Each changed
    target (quantized weights or cache) is read beside the baseline's. In blocks that one is not in memory: its
    own block, which is audited first, leaves its logits on disk for the others, as `logits` says.

    Raises:
        Interrupted: a stop was asked for; what was recorded is kept.
        DiskFull, RunFolderError, RunFailed: the logits could not be written.
    """
    if job.experiment.engine.is_server:
        serving.audit(job, task)
        return
    contents = job.store.contents()
    left, kept = audits_left(job, contents, task.arm), logits_left(job, contents, task.arm)
    if left or kept:
        answers = _Answers(job)
        engine = engines.of_job(job)
        with engines.Targets(engine, job.experiment) as targets:
            job.progress.say("loaded")
            for step in left:
                if job.progress.should_stop():
                    raise Interrupted("stopped")
                job.store.append(_scored(answers, targets, step))
                job.progress.say("audit", arm=step[1], prompt=step[2])
            for prompt in kept:
                if job.progress.should_stop():
                    raise Interrupted("stopped")
                answers.keep_logits(targets, prompt)
    job.store.append(Done(process=job.process, task=task.name))


def _scored(answers: _Answers, targets: engines.Targets, step: AuditKey) -> Record:
    kind, arm, prompt, repeat = step
    try:
        return answers.score(targets, step)
    except Exception as error:  # noqa: BLE001 - an audit that breaks is on record, and its arm is not called lossless
        return Failed(
            process=answers.job.process,
            arm=arm,
            prompt=prompt,
            repeat=repeat,
            error=f"{AUDIT}{kind}: {type(error).__name__}",
            message=str(hide_home(str(error))),
        )


class _Answers:
    """The recorded answers, and how each kind of audit reads them."""

    def __init__(self, job: Job) -> None:
        self.job = job
        contents = job.store.contents()
        self.records = contents.answers
        self.outputs = {key(output): output for output in contents.outputs}
        self.made = Made(job)
        rows = [1 + draft.k for draft in job.drafts.values() if draft]
        self.rows = max([2, *rows, *(target.batch for target in job.targets.values())])

    def score(self, targets: engines.Targets, step: AuditKey) -> Record:
        """Run one audit."""
        kind, arm, name, repeat = step
        job, prompt = self.job, self.job.prompts_of(arm)[name]
        target = targets.of(self.made.target(job.targets[arm]))
        if kind == "GapNoise":
            return replace(target.gap_noise(prompt, self._ids(arm, name), self.rows), arm=arm)
        if kind == "Audited":
            plain = job.plain[arm]
            return target.audit_greedy(
                arm, prompt, self._ids(arm, name), None if plain == arm else self._ids(plain, name)
            )
        if kind == "Divergence":
            shared = job.targets[arm].weights == job.targets[FIRST].weights
            there = shared or len(job.blocks) == 1
            baseline = targets.of(job.targets[FIRST]) if there else logits.read(self._kept(name))
            return target.divergence(arm, prompt, self._ids(FIRST, name), baseline)
        sampling, draft = job.sampling(name, repeat), self.made.draft(job.drafts[arm])
        if kind == "Sampled":
            return target.audit_sampled(arm, prompt, repeat, self._generation((0, arm, name, repeat)), draft, sampling)
        return target.first_tokens(arm, prompt, draft, sampling, job.experiment.audit.seeds)

    def keep_logits(self, targets: engines.Targets, name: str) -> None:
        """Write the baseline's logits along its answer to a prompt; what breaks in making them is said aloud.

        So is a file that is there and not as it was written.

        Raises:
            DiskFull, RunFolderError, RunFailed: they cannot be written.
        """
        ids, target, file = self._ids(FIRST, name), targets.of(self.job.targets[FIRST]), self._kept(name)
        if file.exists():
            text = (
                f"the baseline's logits on prompt {name} were altered or cut since they were kept: they are made anew"
            )
            self.job.store.append(Note(process=self.job.process, text=text))
        try:
            logits.write(file, target.logits(self.job.prompts[name], ids), len(ids))
        except OSError as error:
            with self.job.store.resumable():
                raise disk_error(error, file) from error
        except Exception as error:  # noqa: BLE001 - each comparison that lacks them is a failed audit on record
            text = f"the baseline's logits on prompt {name} were not kept: {hide_home(str(error))}"
            self.job.store.append(Note(process=self.job.process, text=text))

    def _kept(self, prompt: str) -> Path:
        return logits.path(self.job.store.run_dir, self.records[0, FIRST, prompt, 0])

    def _ids(self, arm: str, prompt: str) -> tuple[int, ...]:
        return self.outputs[(0, arm, prompt, 0)].ids

    def _generation(self, key: Key) -> Generation:
        record, output = self.records[key], self.outputs[key]
        finish: Any = record.finish
        return Generation(
            prompt_id=record.prompt,
            ids=output.ids,
            text=output.text,
            finish=finish,
            ttft_s=record.ttft_s,
            e2e_s=record.e2e_s,
            steps=tuple(row.step() for row in record.steps),
        )
