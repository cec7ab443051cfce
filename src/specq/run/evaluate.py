"""The eval task: one target, every arm on it, every eval; and the proof that a draft leaves the answers alone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from specq.core import hashes
from specq.core.clock import now
from specq.core.errors import Interrupted, NonFiniteLogits, RequestFailed, RunFailed
from specq.core.evaluated import PROBE
from specq.core.records import Done, EvalAnswer, EvalChunk, EvalProof, LoadedModel, Record
from specq.core.types import Prompt, Sampling, TargetSpec
from specq.engines.base import Decoder, LoadedTarget
from specq.evals import harness, items
from specq.models import refs, tokenizers
from specq.run import engines, eval_left, eval_sets, serving, transforming
from specq.run.answered import repeated_share
from specq.run.artifacts import Made, label, source_of
from specq.run.eval_left import Stretch
from specq.run.inputs import tokenizer_of
from specq.run.job import Job, Task
from specq.run.measure import import_libraries
from specq.run.provenance import hide_home


def evaluate(job: Job, task: Task) -> None:
    """Answer what is left of the evals for the arms of one target, or for the probe; a stretch at a time.

    Raises:
        Interrupted: a stop was asked for; the stretch under way was finished and recorded.
    """
    contents = job.store.contents()
    left = eval_left.left(job, contents, task)
    if left:
        import_libraries()
        with ExitStack() as stack:
            # The probe is of the experiment's own target.
            arms = _Arms(job, job.targets.get(task.arm, TargetSpec()), stack, contents.records)
            job.progress.say("loaded")
            for stretch in left:
                if job.progress.should_stop():
                    raise Interrupted("stopped")
                arms.answer(stretch)
    job.store.append(Done(process=job.process, task=task.name))


class _Arms:
    """The arms of one task as they answer, each opened when it is first asked; `records` are those of the run so far.

    All of them run on the weights of `spec`. Nobody else writes answers meanwhile, so what is on record is read once.
    """

    def __init__(self, job: Job, spec: TargetSpec, stack: ExitStack, records: Iterable[Record]) -> None:
        self.job, self.made = job, Made(job)
        self._known = {(r.arm, r.eval, r.item) for r in records if isinstance(r, EvalAnswer)}
        self.engine = engines.of_job(job)
        self._stack = stack
        self._targets = stack.enter_context(engines.Targets(self.engine, job.experiment))
        self._open: dict[Any, tuple[LoadedTarget, Decoder]] = {}
        self._broken: dict[Any, Exception] = {}
        self._spec, self._tokenizer = spec, tokenizer_of(job, spec)
        self._evals: dict[tuple[str, str], eval_sets.EvalSet] = {}

    def answer(self, stretch: Stretch) -> None:
        """Make the answers of a stretch and record them; where the arm raises, each of its items has failed."""
        asked = self._set(stretch)
        ids = [asked.ids[place] for place in stretch.places]
        self.job.progress.say("answering", arm=stretch.arm, eval=stretch.eval, items=ids)
        records, took = self._made(stretch, asked)
        self._tell(stretch, records)
        for record in records:
            if (key := (record.arm, record.eval, record.item)) not in self._known:
                self.job.store.append(record)
                self._known.add(key)
        if took is not None:
            self.job.store.append(
                EvalChunk(
                    arm=stretch.arm,
                    eval=stretch.eval,
                    chunk=stretch.number,
                    items=len(stretch.places),
                    new_tokens=sum(record.new_tokens for record in records),
                    seconds=took,
                )
            )
        self.job.progress.say("evaluated", arm=stretch.arm, eval=stretch.eval, items=len(stretch.places))

    def _made(self, stretch: Stretch, asked: eval_sets.EvalSet) -> tuple[list[EvalAnswer], float | None]:
        """The answers of a stretch, and the seconds that they took; None where one of them failed."""
        try:
            target, decoder = self._of(stretch)
            started = now()
            found = asked.answer(stretch.places, target, decoder, stretch.batch_size)
            return [_answer(stretch, one) for one in found], now() - started
        except Exception as error:
            if _ends_the_run(error):
                raise
            if isinstance(error, RequestFailed) and len(stretch.places) > 1:
                # A server answered one of them wrongly; the others are asked on their own.
                each = (self._made(replace(stretch, places=(place,)), asked)[0] for place in stretch.places)
                return [record for records in each for record in records], None
            # An item that could not be answered is on record as failed.
            said = f"{type(error).__name__}: {hide_home(str(error))}"
            return [_failed(stretch, asked.ids[place], said) for place in stretch.places], None

    def _set(self, stretch: Stretch) -> eval_sets.EvalSet:
        """An eval as the arm reads it: arms that share weights may differ in what is made of their prompts."""
        target = self.job.targets.get(stretch.arm, self._spec)
        if (target.reading, stretch.eval) not in self._evals:
            found = eval_sets.read(self.job, stretch.eval, self._tokenizer, target)
            self._evals[target.reading, stretch.eval] = found
        return self._evals[target.reading, stretch.eval]

    def _tell(self, stretch: Stretch, records: Sequence[EvalAnswer]) -> None:
        """Each reason why items have no score, with the items."""
        items: dict[str, list[str]] = {}
        for record in records:
            if record.score is None:
                items.setdefault(record.why, []).append(record.item)
        for why, some in items.items():
            self.job.progress.say("unscored", arm=stretch.arm, eval=stretch.eval, items=some, why=why)

    def _of(self, stretch: Stretch) -> tuple[LoadedTarget, Decoder]:
        noise = eval_left.probe_of(self.job.evals[stretch.eval]) if stretch.arm == PROBE else 0.0
        key = (stretch.arm, noise)
        if key in self._broken:
            raise self._broken[key]
        if key not in self._open:
            try:
                self._open[key] = self._opened(stretch.arm, noise)
            except Exception as error:
                # Loaded once for all stretches, and so is what cannot be loaded.
                self._broken[key] = error
                raise
        return self._open[key]

    def _opened(self, arm: str, noise: float) -> tuple[LoadedTarget, Decoder]:
        target = self._perturbed(noise) if noise else self._target(arm)
        draft = None if noise else self.made.draft(self.job.drafts[arm])
        decoder = engines.decoder(target, TargetSpec() if noise else self.job.targets[arm], draft)
        serving.record(self.job, f"eval:{arm}", (arm,), decoder, draft)
        return target, decoder

    def _target(self, arm: str) -> LoadedTarget:
        spec = self.job.targets[arm]
        target = self._targets.of(self.made.target(spec))
        described = target.describe()
        if spec.recipe:
            described["name"] = label(source_of(self.job.experiment, spec), spec.recipe)
        self.job.store.append(LoadedModel(process=self.job.process, role="eval", arms=(arm,), **described))
        return target

    def _perturbed(self, noise: float) -> LoadedTarget:
        model = refs.resolve(self.job.experiment.target.model, revision=self.job.experiment.target.revision)
        return self._stack.enter_context(self.engine.open(model, noise=noise))


def prove(job: Job, task: Task) -> None:
    """Hold each arm that must keep its target's outputs against its plain arm, in float32, on a few items.

    What came of it is recorded.
    """
    arms = eval_left.proofs_left(job, job.store.contents(), task.arm)
    if arms:
        import_libraries()
        made, picked = Made(job), eval_left.proof_items(job)
        engine = engines.in_float32(job.experiment)
        tokenizer = tokenizer_of(job, job.targets[task.arm])
        prompts = [_prompt(job, tokenizer, name, place, task.arm) for name, place in picked]
        with engines.Targets(engine, job.experiment) as opened:
            try:
                target = opened.of(made.target(job.targets[task.arm]))
                job.progress.say("loaded")
                plain = _ids(job, target.decoder(None), picked, prompts, 1)
            except Exception as error:
                if _ends_the_run(error):
                    raise
                # Float32 may not fit: then nothing is proved, and all answer.
                for arm in arms:
                    job.store.append(_unproved(arm, picked, error))
            else:
                for arm in arms:
                    job.store.append(_proof(job, arm, target, made, picked, prompts, plain))
                    job.progress.say("proved", arm=arm)
    job.store.append(Done(process=job.process, task=task.name))


def _ends_the_run(error: Exception) -> bool:
    """A stop, a full disk or what a task's own code raises; logits that are not finite are of one arm alone."""
    return isinstance(error, RunFailed) and not isinstance(error, NonFiniteLogits)


def _unproved(arm: str, picked: Sequence[tuple[str, int]], error: Exception) -> EvalProof:
    said = f"{type(error).__name__}: {hide_home(str(error))}"
    return EvalProof(arm=arm, items=len(picked), equal=0, first_difference="", message=said)


def _proof(
    job: Job,
    arm: str,
    target: LoadedTarget,
    made: Made,
    picked: Sequence[tuple[str, int]],
    prompts: Sequence[Prompt],
    plain: Sequence[tuple[int, ...]],
) -> EvalProof:
    try:
        decoder = engines.decoder(target, job.targets[arm], made.draft(job.drafts[arm]))
        other = _ids(job, decoder, picked, prompts, job.targets[arm].batch)
    except Exception as error:
        if _ends_the_run(error):
            raise
        # An arm that cannot be proved is evaluated through its own loop.
        return _unproved(arm, picked, error)
    same = [one == two for one, two in zip(plain, other, strict=True)]
    first = next(
        (
            f"{name}/{job.evals[name]['items'][place]['id']}"
            for (name, place), ok in zip(picked, same, strict=True)
            if not ok
        ),
        "",
    )
    return EvalProof(arm=arm, items=len(picked), equal=sum(same), first_difference=first, message="")


def _ids(
    job: Job, decoder: Decoder, picked: Sequence[tuple[str, int]], prompts: Sequence[Prompt], size: int
) -> list[tuple[int, ...]]:
    """The answers' tokens, `size` prompts at a time."""
    sampling = []
    for name, _ in picked:
        table = eval_left.settings(job, name)
        sampling.append(Sampling(max_new_tokens=int(table["max_new_tokens"]), stop=tuple(table["stop"])))
    found: list[tuple[int, ...]] = []
    for start in range(0, len(prompts), size):
        if job.progress.should_stop():
            raise Interrupted("stopped")
        some = slice(start, start + size)
        answers = decoder.generate(prompts[some], sampling[some], batch_size=len(prompts[some]))
        found += [answer.ids for answer in answers]
    return found


def _prompt(job: Job, tokenizer: Any, name: str, place: int, arm: str) -> Prompt:
    item = items.read_line(json.dumps(job.evals[name]["items"][place]["given"]))
    item = transforming.item(job, name, item, job.targets[arm])
    rendered = tokenizers.render(tokenizer, item.prompt or list(item.messages))
    return Prompt(id=f"{name}/{item.id}", ids=rendered.ids, text=rendered.text)


def _answer(stretch: Stretch, one: harness.Evaluated) -> EvalAnswer:
    generation, scored = one.generation, () if isinstance(one.answer, str) else one.answer
    ids = generation.ids if generation is not None else ()
    # A server that gives no ids gives the text alone.
    text = generation.text if generation is not None and generation.served is not None and not ids else ""
    likeliest = max(scored, key=lambda text: text.logprob).text if scored else ""
    return EvalAnswer(
        arm=stretch.arm,
        eval=stretch.eval,
        item=one.item,
        batch_size=stretch.batch_size,
        score=one.score.value,
        why=one.score.why,
        answer=one.answer if isinstance(one.answer, str) else likeliest,
        logprobs=tuple(text.logprob if math.isfinite(text.logprob) else None for text in scored),
        logprob_tokens=tuple(text.tokens for text in scored),
        prompt_tokens=len(one.prompt_ids),
        prompt_sha256=hashes.of_ids(one.prompt_ids),
        new_tokens=0 if generation is None else generation.new_tokens,
        finish=generation.finish if generation is not None else "scored",
        output_sha256=hashes.of_answer(ids, text, has_ids=not text),
        repeated_share=repeated_share(ids or text.split()),
    )


def _failed(stretch: Stretch, item: str, said: str) -> EvalAnswer:
    return EvalAnswer(
        arm=stretch.arm,
        eval=stretch.eval,
        item=item,
        batch_size=stretch.batch_size,
        score=None,
        why=said,
        answer="",
        logprobs=(),
        logprob_tokens=(),
        prompt_tokens=0,
        prompt_sha256="",
        new_tokens=0,
        finish="failed",
        output_sha256="",
        repeated_share=0.0,
    )
