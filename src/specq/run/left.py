"""What of a run is left to do, found from its records and outputs alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from specq.core.records import (
    AUDIT,
    Audited,
    Divergence,
    Done,
    Failed,
    FirstTokens,
    GapNoise,
    Generated,
    Memory,
    Record,
    SameText,
    Sampled,
    ServedDraws,
    failed_arms,
)
from specq.core.types import TargetSpec
from specq.run import artifacts, eval_left, logits
from specq.run.folder import Contents
from specq.run.job import FIRST, Asked, Task
from specq.run.schedule import Turn, measure_tasks, turns

FAILURES_THAT_STOP = 3
AuditKey = tuple[str, str, str, int]
# A turn with the (place, arm) pairs that have no record yet.
Left = list[tuple[Turn, list[tuple[int, str]]]]


def tasks(asked: Asked) -> list[Task]:
    """The run's tasks in their order."""
    found = [Task(kind="quantize", arm=one.label) for one in artifacts.wanted(asked.experiment)]
    load = asked.experiment.workload
    found += measure_tasks(list(asked.blocks), load.repeats, load.processes)
    if load.memory and not asked.experiment.engine.attaches:
        found += [Task(kind="memory", arm=arm) for arm in asked.drafts]
    if asked.experiment.audit.enabled:
        found += [Task(kind="audit", arm=block) for block in asked.blocks]
    return found + eval_left.tasks(asked)


def is_done(asked: Asked, contents: Contents, task: Task) -> bool:
    """Whether the worker said that it is done, and nothing of what it did was lost since.

    The memory of an arm that cannot answer is never measured.
    """
    if task.kind == "memory" and task.arm in failed_arms(contents.records):
        return True
    if task.kind == "quantize":
        return artifacts.is_there(contents.records, task.arm)
    if task.kind == "prove":
        return not eval_left.proofs_left(asked, contents, task.arm)
    if task.kind == "eval":
        return not eval_left.left(asked, contents, task)
    if not any(isinstance(r, Done) and (r.process, r.task) == (task.process, task.name) for r in contents.records):
        return False
    if task.kind == "measure":
        return not turns_left(asked, contents, task)
    if task.kind == "memory":
        return any(isinstance(r, Memory) and r.arm == task.arm for r in contents.records)
    raised = raised_audits(contents)
    if logits_left(asked, contents, task.arm):
        return False
    return all(step in raised for step in audits_left(asked, contents, task.arm))


def turns_left(asked: Asked, contents: Contents, task: Task) -> Left:
    """The turns of a measure task with what is neither answered nor failed; a stopped arm has nothing left."""
    load = asked.experiment.workload
    mine = [r for r in contents.records if isinstance(r, Generated | Failed) and r.process == task.process]
    done = {(r.arm, r.prompt, r.repeat) for r in mine if isinstance(r, Failed) and not r.of_audit}
    done |= {(arm, prompt, repeat) for place, arm, prompt, repeat in contents.answers if place == task.process}
    stopped = {arm for arm, count in failures_in_a_row(mine).items() if count >= FAILURES_THAT_STOP}
    found = []
    for turn in turns(list(asked.prompts), asked.blocks[task.arm], load.repeats, load.processes, load.seed):
        places = [
            (place, arm)
            for place, arm in enumerate(turn.arms)
            if arm not in stopped and (arm, turn.prompt, turn.repeat) not in done
        ]
        if turn.process == task.process and task.repeat in (None, turn.repeat) and places:
            found.append((turn, places))
    return found


def failures_in_a_row(records: Iterable[Record]) -> Counter[str]:
    """How many samples of each arm failed since the last that did not."""
    found: Counter[str] = Counter()
    for record in records:
        if isinstance(record, Generated):
            found[record.arm] = 0
        elif isinstance(record, Failed) and not record.of_audit:
            found[record.arm] += 1
    return found


def audits_left(asked: Asked, contents: Contents, block: str) -> list[AuditKey]:
    """What the audit of a block's arms has to score: (kind of record, arm, prompt, repeat)."""
    greedy = asked.experiment.sampling().temperature == 0
    if asked.experiment.engine.is_server:
        steps = served_steps(asked, contents)
        done = {audit_key(record) for record in contents.records}
        return [step for step in steps if step not in done and step[1] in asked.blocks[block]]
    steps = greedy_steps(asked, contents) if greedy else sampled_steps(asked, contents)
    done = {audit_key(record) for record in contents.records}
    return [step for step in steps if step not in done and step[1] in asked.blocks[block]]


def logits_left(asked: Asked, contents: Contents, block: str) -> list[str]:
    """The prompts along whose answers the baseline's logits are to be kept for other blocks.

    Only the baseline's own block can; empty where all targets are in memory together.
    """
    if FIRST not in asked.blocks[block] or asked.experiment.engine.is_server:
        return []
    raised = raised_audits(contents)
    others = [other for other in asked.blocks if other != block]
    steps = [step for other in others for step in audits_left(asked, contents, other)]
    prompts = dict.fromkeys(step[2] for step in steps if step[0] == Divergence.__name__ and step not in raised)
    run_dir = asked.store.run_dir
    return [
        prompt for prompt in prompts if not logits.is_there(logits.path(run_dir, contents.answers[0, FIRST, prompt, 0]))
    ]


def audit_key(record: Record) -> AuditKey | None:
    """(kind, arm, prompt, repeat) of an audit's record; None for other records."""
    if isinstance(record, GapNoise):
        return ("GapNoise", record.arm, record.prompt, 0)
    if isinstance(record, Sampled):
        return ("Sampled", record.arm, record.prompt, record.repeat)
    if isinstance(record, Audited | FirstTokens | Divergence | SameText | ServedDraws):
        return (type(record).__name__, record.arm, record.prompt, 0)
    return None


def greedy_steps(asked: Asked, contents: Contents) -> list[AuditKey]:
    """What the audit at temperature 0 scores: of the first process and repeat, what has an answer.

    Each plain arm that others are held against, for its noise; the others against theirs (a compiled baseline
    too, for it is scored on the eager path); each changed target against the baseline's.
    """
    compiled = asked.experiment.engine.compile
    plain = [arm for arm in asked.drafts if arm in set(asked.plain.values())]
    held = [arm for arm in asked.drafts if asked.plain[arm] != arm or (compiled and arm in plain)]
    against = {asked.plain[arm] for arm in held}

    def there(arm: str) -> list[str]:
        return [prompt for prompt in asked.prompts if (0, arm, prompt, 0) in contents.answers]

    noise = [("GapNoise", arm, prompt, 0) for arm in plain if arm in against for prompt in there(arm)]
    both = [(arm, prompt) for arm in held for prompt in there(arm) if prompt in there(asked.plain[arm])]
    return noise + [("Audited", arm, prompt, 0) for arm, prompt in both] + divergences(asked, contents)


def sampled_steps(asked: Asked, contents: Contents) -> list[AuditKey]:
    """What the audit above temperature 0 scores: every answer of the first process, then the first tokens.

    An arm that answered nothing draws no first tokens either.
    """
    answers = [("Sampled", arm, prompt, repeat) for process, arm, prompt, repeat in contents.answers if process == 0]
    failed = failed_arms(contents.records)
    first = next(iter(asked.prompts))
    drawn = [("FirstTokens", arm, first, 0) for arm in asked.drafts if arm not in failed]
    return answers + drawn + divergences(asked, contents)


def compared_texts(asked: Asked) -> list[str]:
    """The arms whose texts are held against others of the same server: those with a draft, and the baseline's twin."""
    return [arm for arm in asked.drafts if asked.plain[arm] != arm]


def served_steps(asked: Asked, contents: Contents) -> list[AuditKey]:
    """What the audit of a server's arms takes, for nothing can be scored there.

    At temperature 0 the texts of the first process and repeat; above it the first tokens of every arm.
    """
    first = next(iter(asked.prompts))
    if asked.experiment.sampling().temperature > 0:
        failed = failed_arms(contents.records)
        return [(ServedDraws.__name__, arm, first, 0) for arm in asked.drafts if arm not in failed]
    return [
        (SameText.__name__, arm, prompt, 0)
        for arm in compared_texts(asked)
        for prompt in asked.prompts
        if {(0, arm, prompt, 0), (0, asked.plain[arm], prompt, 0)} <= set(contents.answers)
    ]


def divergences(asked: Asked, contents: Contents) -> list[AuditKey]:
    """Each changed target beside the baseline's, on the baseline's answers of the first process and repeat."""
    return [
        ("Divergence", arm, prompt, 0) for arm, prompt in compared(asked) if (0, FIRST, prompt, 0) in contents.answers
    ]


def compared(asked: Asked) -> list[tuple[str, str]]:
    """The changed targets, each with the prompts that it reads as the baseline's does.

    Laws over other tokens, or after another prompt, say nothing of how far two targets are apart.
    """
    changed = [arm for arm, spec in asked.targets.items() if spec != TargetSpec() and asked.plain[arm] == arm]
    return [(arm, prompt) for arm in changed for prompt in asked.prompts if asked.reads_alike(arm, prompt)]


def raised_audits(contents: Contents) -> set[AuditKey]:
    """The steps of audits that raised."""
    failed = [record for record in contents.records if isinstance(record, Failed) and record.of_audit]
    return {(r.error.removeprefix(AUDIT).split(":")[0], r.arm, r.prompt, r.repeat) for r in failed}
