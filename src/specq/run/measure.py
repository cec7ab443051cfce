"""The measuring task: one process, one load of each target of its arms, arms taking turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from specq.core.clock import now
from specq.core.errors import STOPS, Interrupted, RequestFailed, RunFailed, SpecqError
from specq.core.records import Canary, Done, Failed, Generated, Machine, Note, failed_arms
from specq.core.types import DraftSpec
from specq.engines.base import Decoder, LoadedTarget
from specq.run import bandwidth, engines, loaded, serving, transforming, waves
from specq.run.answered import generated
from specq.run.artifacts import Made
from specq.run.inputs import tokenizer_of
from specq.run.job import FIRST, Job, Task, every_sample_failed
from specq.run.left import FAILURES_THAT_STOP, Left, failures_in_a_row, turns_left
from specq.run.provenance import hide_home
from specq.run.schedule import Turn

WARM_UP_TOKENS = 8
CANARY_TOKENS = 16
CANARIES = 8


def measure(job: Job, task: Task) -> None:
    """Run what is left of this task's turns, of all arms or of a block's; records are kept whatever happens.

    Raises:
        Interrupted: a stop was asked for; the sample under way was finished and recorded.
    """
    contents = job.store.contents()
    samples = [r for r in contents.records if isinstance(r, Generated | Failed) and r.process == job.process]
    failures = failures_in_a_row(samples)
    _need_baseline(job, failures)
    left = turns_left(job, contents, task)
    if left:
        arms = job.blocks[task.arm]
        if any(r.arm in arms and task.repeat in (None, r.repeat) for r in samples):
            block = "" if task.repeat is None else f", block {task.arm}, turn {task.repeat + 1},"
            text = f"process {job.process}{block} was resumed in a new process"
            job.store.append(Note(process=job.process, text=text))
        on_server = job.experiment.engine.is_server
        imports_bytes = 0 if on_server else import_libraries()
        engine = engines.of_job(job)
        with engines.Targets(engine, job.experiment) as opened:
            job.store.append(serving.machine(job) if on_server else machine(job.process, engine.device, imports_bytes))
            targets, decoders = _open(job, opened, arms, task)
            job.progress.say("loaded")
            _warm_up(job, decoders)
            _Turns(job, targets, decoders, failures).run(left)
    job.store.append(Done(process=job.process, task=task.name))


def _open(
    job: Job, opened: engines.Targets, arms: Sequence[str], task: Task
) -> tuple[dict[str, LoadedTarget], dict[str, Decoder]]:
    """The target and the decoder of each of the arms; what was loaded is recorded, the first arm's target first."""
    made = Made(job)
    specs = {arm: made.target(job.targets[arm]) for arm in arms}
    targets = {arm: opened.of(spec) for arm, spec in specs.items()}
    loaded.record_targets(job, specs, targets)
    drafts = {arm: made.draft(job.drafts[arm]) for arm in arms}
    decoders = {arm: engines.decoder(targets[arm], specs[arm], draft) for arm, draft in drafts.items()}
    loaded.record_drafts(job, specs, targets, drafts)
    for arm, decoder in decoders.items():
        serving.record(job, task.name, (arm,), decoder, drafts[arm])
    return targets, decoders


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

    found = bandwidth.measure(device)
    return Machine(
        process=process,
        bandwidth_bytes_per_s=found.median,
        threads=torch.get_num_threads(),
        device=device,
        imports_bytes=imports_bytes,
        bandwidth_min_bytes_per_s=found.minimum,
        bandwidth_max_bytes_per_s=found.maximum,
    )


def _warm_up(job: Job, decoders: dict[str, Decoder]) -> None:
    """The first passes of a shape pay for kernels and buffers; nobody's clock should."""
    for arm, decoder in decoders.items():
        first_prompt, size = waves.unlike(job, arm, job.first_prompt(arm)), waves.size(job, arm)
        # The run's own sampling, so that its warping is warm too; only the length is cut.
        on = job.fixed_length(1).ignore_eos
        settings = replace(job.sampling(first_prompt.id, 0), min_new_tokens=0, ignore_eos=on)
        # Every prompt's length is a shape of its own for a target's prefill, which its arms share, and for a draft's.
        shapes = {len(prompt.ids): waves.unlike(job, arm, prompt) for prompt in job.prompts_of(arm).values()}
        first, longest = len(first_prompt.ids), max(shapes) + job.experiment.workload.max_new_tokens
        for note in decoder.notes:
            job.store.append(Note(process=job.process, text=f"{arm}: draft: {note}"))
        if job.progress.should_stop():
            raise Interrupted("stopped")
        try:
            draft = job.drafts[arm]
            tokens = job.fitting(warm_up_tokens(draft))
            # What is compiled must hold every text that follows, or it is compiled again inside a sample.
            if seconds := decoder.warm_up(max(longest, first + max(tokens, job.fitting(CANARY_TOKENS)))):
                job.store.append(
                    Note(process=job.process, text=f"{arm}: compiled in {seconds:.0f} s, before measuring")
                )
            decoder.generate([first_prompt] * size, replace(settings, max_new_tokens=tokens), batch_size=size)
            if job.plain[arm] == arm or (draft is not None and draft.method == "model"):
                decoder.generate(list(shapes.values()), replace(settings, max_new_tokens=1))
        except Exception as error:
            fatal = isinstance(error, SpecqError) and not isinstance(error, RequestFailed)
            if isinstance(error, STOPS) or (arm == FIRST and fatal):
                raise  # Without a baseline there is nothing to compare with.
            job.store.append(Note(process=job.process, text=f"warm-up of {arm} failed: {_say(error)}"))


def warm_up_tokens(draft: DraftSpec | None) -> int:
    """Enough for two whole blocks of k + 1 rows, whatever is accepted."""
    return max(WARM_UP_TOKENS, 2 * draft.k + 2) if draft else WARM_UP_TOKENS


def _need_baseline(job: Job, failures: Counter[str]) -> None:
    """Stop when the baseline was stopped and never answered: all that follows would be for nothing."""
    if failures[FIRST] < FAILURES_THAT_STOP:
        return
    first = failed_arms(job.store.contents().records).get(FIRST)
    if first is not None:
        raise RunFailed(
            f"{every_sample_failed([first])[0]}; without a baseline there is nothing to compare with, so the run "
            f"stopped; its records are kept in {job.store.run_dir}"
        )


class _Turns:
    """The turns of one worker, with their canary and the count of failures in a row."""

    def __init__(
        self, job: Job, targets: dict[str, LoadedTarget], decoders: dict[str, Decoder], failures: Counter[str]
    ) -> None:
        self.job = job
        self.targets = targets
        self.decoders = decoders
        self.start = now()
        self.failures = failures
        # The baseline, or the arm without a draft that a block without the baseline begins with.
        self.canary_arm = next(iter(decoders))
        self.canary_tokens = job.fitting(CANARY_TOKENS)
        # Loaded before any sample, for arms that count the tokens of what they drop.
        self.tokenizers = {arm: tokenizer_of(job, spec) for arm, spec in job.targets.items() if spec.changes_prompts}

    def run(self, left: Left) -> None:
        if self.canary_tokens < 2:
            text = f"no canary: the context holds {self.canary_tokens} new token after the first prompt, it takes two"
            self.job.store.append(Note(process=self.job.process, text=text))
        every = max(2, len(left) // CANARIES)
        missing = {(arm, turn.prompt, turn.repeat): (turn, place) for turn, places in left for place, arm in places}
        for number, (turn, places) in enumerate(left):
            if number % every == 0:
                self._canary()
            for _, arm in places:
                if self.job.progress.should_stop():
                    raise Interrupted("stopped")
                # A wave answers what its prompts' own turns would ask for.
                wave = waves.prompts(self.job, arm, turn.prompt)
                asked = {prompt: missing.pop((arm, prompt, turn.repeat), None) for prompt in wave}
                if any(asked.values()) and self.failures[arm] < FAILURES_THAT_STOP:
                    self._sample(arm, turn.repeat, asked)
            self.job.progress.say("turn", prompt=turn.prompt, repeat=turn.repeat)
        self._canary()

    def _canary(self) -> None:
        if self.canary_tokens < 2:
            return
        at = now() - self.start
        settings = self.job.fixed_length(self.canary_tokens)
        try:
            first = waves.unlike(self.job, self.canary_arm, self.job.first_prompt(self.canary_arm))
            (answer,) = self.decoders[self.canary_arm].generate([first], settings)
        except STOPS:
            raise
        except Exception as error:  # noqa: BLE001 - said aloud; the samples have their own records
            self.job.store.append(Note(process=self.job.process, text=f"canary failed: {_say(error)}"))
            return
        # An answer that ends with its first token tells nothing.
        tpot_s = (answer.e2e_s - answer.ttft_s) / max(answer.new_tokens - 1, 1)
        self.job.store.append(Canary(process=self.job.process, at_s=at, tpot_s=tpot_s, arm=self.canary_arm))

    def _sample(self, arm: str, repeat: int, asked: Mapping[str, tuple[Turn, int] | None]) -> None:
        """Ask for prompts at once, and record those whose turn and place in it are there."""
        prompts = [self.job.prompts_of(arm)[name] for name in asked]
        wanted = {name: at for name, at in asked.items() if at is not None}
        try:
            seconds = [transforming.timed(self.job, arm, prompt, self.tokenizers.get(arm)) for prompt in prompts]
            sampling = [self.job.sampling(prompt.id, repeat) for prompt in prompts]
            answers = self.decoders[arm].generate(prompts, sampling, batch_size=len(prompts))
        except STOPS:
            # No fault of this sample: it is asked again when the run goes on.
            raise
        except Exception as error:  # noqa: BLE001 - a failed sample is a record of its own, never a missing row
            for turn, _ in wanted.values():
                self._failed(turn, arm, error)
            return
        self.failures[arm] = 0
        for prompt, answer, took in zip(prompts, answers, seconds, strict=True):
            if prompt.id not in wanted:
                continue
            turn, place = wanted[prompt.id]
            record = generated(
                answer,
                turn=turn,
                place=place,
                arm=arm,
                prompt=prompt,
                draft=self.job.drafts[arm],
                eos=self.targets[arm].eos_ids,
            )
            self.job.store.commit(transforming.charged(record, self.job, arm, took), answer.ids, answer.text)
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
            _need_baseline(self.job, self.failures)


def _say(error: Exception) -> str:
    return f"{type(error).__name__}: {hide_home(str(error))}"
