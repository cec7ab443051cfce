"""The audit task: each arm's own text is scored on the baseline's path, in a fresh process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specq.core.errors import Interrupted
from specq.core.records import Audited, Done, Failed, FirstTokens, GapNoise, Generated, Record, Sampled
from specq.core.types import Generation, Step
from specq.engines.base import LoadedTarget
from specq.run import engines
from specq.run.job import FIRST, Job
from specq.run.provenance import hide_home
from specq.run.store import Key

AuditKey = tuple[str, str, str, int]


def audit(job: Job) -> None:
    """Record what is left of the audit.

    At temperature 0: how far gaps move on the baseline's text, then each other arm (the A/A
    twin too) against it, on the first process and repeat. Above 0: the surprise and steps of
    every answer, and the law of the first tokens on the first prompt.

    Raises:
        Interrupted: a stop was asked for; what was recorded is kept.
    """
    steps = greedy_steps(job) if job.experiment.sampling().temperature == 0 else sampled_steps(job)
    done = {audit_key(record) for record in job.store.records()}
    left = [step for step in steps if step not in done]
    if left:
        answers = _Answers(job)
        engine = engines.make_engine(job.experiment)
        with engines.open_target(engine, job.experiment) as target:
            job.progress.say("loaded")
            for step in left:
                if job.progress.should_stop():
                    raise Interrupted("stopped")
                job.store.append(_scored(answers, target, step))
                job.progress.say("audit", arm=step[1], prompt=step[2])
    job.store.append(Done(process=job.process, task="audit"))


def _scored(answers: _Answers, target: LoadedTarget, step: AuditKey) -> Record:
    kind, arm, prompt, repeat = step
    try:
        return answers.score(target, step)
    except Exception as error:  # noqa: BLE001 - an audit that breaks is on record, and its arm is not called lossless
        return Failed(
            process=answers.job.process,
            arm=arm,
            prompt=prompt,
            repeat=repeat,
            error=f"audit {kind}: {type(error).__name__}",
            message=str(hide_home(str(error))),
        )


def audit_key(record: Record) -> AuditKey | None:
    """(kind, arm, prompt, repeat) of an audit's record; None for other records."""
    if isinstance(record, GapNoise):
        return ("GapNoise", FIRST, record.prompt, 0)
    if isinstance(record, Sampled):
        return ("Sampled", record.arm, record.prompt, record.repeat)
    if isinstance(record, Audited | FirstTokens):
        return (type(record).__name__, record.arm, record.prompt, 0)
    return None


def greedy_steps(job: Job) -> list[AuditKey]:
    """What the audit at temperature 0 scores: of the first process and repeat, what has an answer."""
    there = _answered(job)
    base = [prompt for prompt in job.prompts if (0, FIRST, prompt, 0) in there]
    noise = [("GapNoise", FIRST, prompt, 0) for prompt in base]
    arms = [arm for arm in job.drafts if arm != FIRST]
    return noise + [("Audited", arm, prompt, 0) for arm in arms for prompt in base if (0, arm, prompt, 0) in there]


def sampled_steps(job: Job) -> list[AuditKey]:
    """What the audit above temperature 0 scores: every answer of the first process, then the first tokens."""
    there = _answered(job)
    answers = [("Sampled", arm, prompt, repeat) for process, arm, prompt, repeat in there if process == 0]
    return answers + [("FirstTokens", arm, job.first_prompt.id, 0) for arm in job.drafts]


def _answered(job: Job) -> dict[Key, Generated]:
    return {(r.process, r.arm, r.prompt, r.repeat): r for r in job.store.records() if isinstance(r, Generated)}


class _Answers:
    """The recorded answers, and how each kind of audit reads them."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.records = _answered(job)
        self.outputs = job.store.outputs()
        self.rows = 1 + max((draft.k for draft in job.drafts.values() if draft), default=1)

    def score(self, target: LoadedTarget, step: AuditKey) -> Record:
        """Run one audit."""
        kind, arm, name, repeat = step
        job, prompt = self.job, self.job.prompts[name]
        if kind == "GapNoise":
            return target.gap_noise(prompt, self._ids(FIRST, name), self.rows)
        if kind == "Audited":
            return target.audit_greedy(arm, prompt, self._ids(arm, name), self._ids(FIRST, name))
        sampling, draft = job.sampling(name, repeat), job.drafts[arm]
        if kind == "Sampled":
            return target.audit_sampled(arm, prompt, repeat, self._generation((0, arm, name, repeat)), draft, sampling)
        return target.first_tokens(arm, prompt, draft, sampling, job.experiment.audit.seeds)

    def _ids(self, arm: str, prompt: str) -> tuple[int, ...]:
        return tuple(self.outputs[(0, arm, prompt, 0)]["ids"])

    def _generation(self, key: Key) -> Generation:
        record, output = self.records[key], self.outputs[key]
        finish: Any = record.finish
        return Generation(
            prompt_id=record.prompt,
            ids=tuple(output["ids"]),
            text=output["text"],
            finish=finish,
            ttft_s=record.ttft_s,
            e2e_s=record.e2e_s,
            steps=tuple(_steps(record)),
        )


def _steps(record: Generated) -> Iterator[Step]:
    for context, proposed, accepted, emitted, draft_s, verify_s, sample_s, rest_s in record.steps:
        yield Step(
            context=context,
            proposed=proposed,
            accepted=accepted,
            emitted=emitted,
            draft_s=draft_s,
            verify_s=verify_s,
            sample_s=sample_s,
            rest_s=rest_s,
        )
