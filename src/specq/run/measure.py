"""The measuring task: one process, one load of the target, arms taking turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from specq.core import hashes
from specq.core.clock import now
from specq.core.errors import Interrupted, SpecqError
from specq.core.records import Canary, Done, Failed, Generated, LoadedModel, Machine, Note, Record
from specq.core.types import DraftSpec, Generation, Prompt
from specq.engines.base import Decoder, LoadedTarget
from specq.run import bandwidth, engines
from specq.run.job import FIRST, Job
from specq.run.provenance import hide_home
from specq.run.schedule import Turn, turns

WARM_UP_TOKENS = 8
CANARY_TOKENS = 16
CANARIES = 8
FAILURES_THAT_STOP = 3


def schedule(job: Job) -> list[Turn]:
    """The turns of this job's process."""
    load = job.experiment.workload
    plan = turns(list(job.prompts), list(job.drafts), load.repeats, load.processes, load.seed)
    return [turn for turn in plan if turn.process == job.process]


def measure(job: Job) -> None:
    """Run what is left of this process's turns; records are kept whatever happens.

    Raises:
        Interrupted: a stop was asked for; the sample under way was finished and recorded.
    """
    mine = [r for r in job.store.records() if getattr(r, "process", None) == job.process]
    left = _left(schedule(job), mine)
    if any(isinstance(r, Generated | Failed) for r in mine):
        job.store.append(Note(process=job.process, text=f"process {job.process} was resumed in a new process"))
    imports_bytes = import_libraries()
    engine = engines.make_engine(job.experiment)
    with engines.open_target(engine, job.experiment) as target:
        job.store.append(machine(job.process, engine.device, imports_bytes))
        job.store.append(LoadedModel(process=job.process, role="target", **target.describe()))
        decoders = {arm: target.decoder(draft) for arm, draft in job.drafts.items()}
        job.progress.say("loaded")
        _warm_up(job, decoders)
        _Turns(job, target, decoders, mine).run(left)
    job.store.append(Done(process=job.process, task="measure"))


def _left(plan: Iterable[Turn], recorded: Iterable[Record]) -> list[tuple[Turn, list[tuple[int, str]]]]:
    """Turns with the (place, arm) pairs that have no record yet."""
    done = {(r.arm, r.prompt, r.repeat) for r in recorded if isinstance(r, Generated | Failed)}
    rows = [
        (turn, [(place, arm) for place, arm in enumerate(turn.arms) if (arm, turn.prompt, turn.repeat) not in done])
        for turn in plan
    ]
    return [(turn, places) for turn, places in rows if places]


def import_libraries() -> int:
    """Import what every arm needs and return the resident bytes of this process after it."""
    import psutil
    import torch
    import transformers

    assert torch
    assert transformers
    return int(psutil.Process().memory_info().rss)


def machine(process: int, device: str, imports_bytes: int) -> Machine:
    """What this process runs on, with the bandwidth measured now."""
    import torch

    return Machine(
        process=process,
        bandwidth_bytes_per_s=bandwidth.measure(device),
        threads=torch.get_num_threads(),
        device=device,
        imports_bytes=imports_bytes,
    )


def _warm_up(job: Job, decoders: dict[str, Decoder]) -> None:
    """The first passes of a shape pay for kernels and buffers; nobody's clock should."""
    # The run's own sampling, so that its warping is warm too; only the length is cut.
    settings = replace(job.sampling(job.first_prompt.id, 0), min_new_tokens=0, ignore_eos=True)
    # Every prompt's length is a shape of its own for the target's prefill, which all arms share, and for a draft's.
    shapes = {len(prompt.ids): prompt for prompt in job.prompts.values()}
    for arm, decoder in decoders.items():
        if job.progress.should_stop():
            raise Interrupted("stopped")
        try:
            draft = job.drafts[arm]
            decoder.generate([job.first_prompt], replace(settings, max_new_tokens=warm_up_tokens(draft)))
            if arm == FIRST or (draft is not None and draft.method == "model"):
                decoder.generate(list(shapes.values()), replace(settings, max_new_tokens=1))
        except Exception as error:
            if arm == FIRST and isinstance(error, SpecqError):
                raise  # Without a baseline there is nothing to compare with.
            job.store.append(Note(process=job.process, text=f"warm-up of {arm} failed: {_say(error)}"))


def warm_up_tokens(draft: DraftSpec | None) -> int:
    """Enough for two whole blocks of k + 1 rows, whatever is accepted."""
    return max(WARM_UP_TOKENS, 2 * draft.k + 2) if draft else WARM_UP_TOKENS


class _Turns:
    """The turns of one process, with their canary and the count of failures in a row."""

    def __init__(
        self, job: Job, target: LoadedTarget, decoders: dict[str, Decoder], recorded: Sequence[Record]
    ) -> None:
        self.job = job
        self.target = target
        self.decoders = decoders
        self.start = now()
        self.failures: Counter[str] = Counter()
        for record in recorded:
            if isinstance(record, Generated):
                self.failures[record.arm] = 0
            elif isinstance(record, Failed):
                self.failures[record.arm] += 1

    def run(self, left: list[tuple[Turn, list[tuple[int, str]]]]) -> None:
        every = max(2, len(left) // CANARIES)
        for number, (turn, places) in enumerate(left):
            if number % every == 0:
                self._canary()
            for place, arm in places:
                if self.job.progress.should_stop():
                    raise Interrupted("stopped")
                if self.failures[arm] < FAILURES_THAT_STOP:
                    self._sample(turn, place, arm)
            self.job.progress.say("turn", prompt=turn.prompt, repeat=turn.repeat)
        self._canary()

    def _canary(self) -> None:
        at = now() - self.start
        try:
            (answer,) = self.decoders[FIRST].generate([self.job.first_prompt], self.job.fixed_length(CANARY_TOKENS))
        except Exception as error:  # noqa: BLE001 - said aloud; the samples have their own records
            self.job.store.append(Note(process=self.job.process, text=f"canary failed: {_say(error)}"))
            return
        tpot_s = (answer.e2e_s - answer.ttft_s) / (len(answer.ids) - 1)
        self.job.store.append(Canary(process=self.job.process, at_s=at, tpot_s=tpot_s))

    def _sample(self, turn: Turn, place: int, arm: str) -> None:
        prompt = self.job.prompts[turn.prompt]
        try:
            (answer,) = self.decoders[arm].generate([prompt], self.job.sampling(prompt.id, turn.repeat))
        except Exception as error:  # noqa: BLE001 - a failed sample is a record of its own, never a missing row
            self._failed(turn, arm, error)
            return
        self.failures[arm] = 0
        record = generated(
            answer, turn=turn, place=place, arm=arm, prompt=prompt, draft=self.job.drafts[arm], eos=self.target.eos_ids
        )
        self.job.store.commit(record, answer.ids, answer.text)
        self.job.progress.say("sample", arm=arm, prompt=prompt.id, repeat=turn.repeat)

    def _failed(self, turn: Turn, arm: str, error: Exception) -> None:
        self.failures[arm] += 1
        self.job.store.append(
            Failed(
                process=self.job.process,
                arm=arm,
                prompt=turn.prompt,
                repeat=turn.repeat,
                error=type(error).__name__,
                message=str(hide_home(str(error))),
            )
        )
        self.job.progress.say("failed", arm=arm, prompt=turn.prompt, repeat=turn.repeat, message=_say(error))
        if self.failures[arm] == FAILURES_THAT_STOP:
            text = f"{arm} was stopped after {FAILURES_THAT_STOP} failures in a row, its rest is not run: {_say(error)}"
            self.job.store.append(Note(process=self.job.process, text=text))
            self.job.progress.say("note", text=text)


def generated(
    answer: Generation,
    *,
    turn: Turn,
    place: int,
    arm: str,
    prompt: Prompt,
    draft: DraftSpec | None,
    eos: Sequence[int],
) -> Generated:
    """The record of one answer."""
    return Generated(
        process=turn.process,
        arm=arm,
        prompt=prompt.id,
        repeat=turn.repeat,
        order=place,
        prompt_tokens=len(prompt.ids),
        new_tokens=len(answer.ids),
        finish=answer.finish,
        ttft_s=answer.ttft_s,
        e2e_s=answer.e2e_s,
        rule=draft.rule if draft else None,
        steps=tuple(
            (s.context, s.proposed, s.accepted, s.emitted, s.draft_s, s.verify_s, s.sample_s, s.rest_s)
            for s in answer.steps
        ),
        past_stop=past_stop(answer.ids, eos),
        repeated_share=repeated_share(answer.ids),
        prompt_sha256=hashes.of_ids(prompt.ids),
        output_sha256=hashes.of_ids(answer.ids),
    )


def past_stop(ids: Sequence[int], eos: Sequence[int]) -> int:
    """How many tokens follow the first end-of-sequence token; 0 when there is none."""
    ends = set(eos)
    return next((len(ids) - place - 1 for place, token in enumerate(ids) if token in ends), 0)


def repeated_share(ids: Sequence[int], n: int = 4) -> float:
    """Share of the n-grams that occurred earlier in `ids`, in [0, 1]; 0 for fewer than n tokens."""
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def _say(error: Exception) -> str:
    return f"{type(error).__name__}: {hide_home(str(error))}"
