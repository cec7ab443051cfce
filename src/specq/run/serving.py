"""Runs on servers: what is recorded of each server, its memory, and the audit without scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from specq.core import process_memory
from specq.core.errors import STOPS, Interrupted
from specq.core.hashes import seed_of
from specq.core.records import AUDIT, Done, Failed, Machine, Note, SameText, ServedDraws, Serving, key
from specq.core.types import DraftSpec
from specq.engines.base import Decoder
from specq.engines.served.answers import ServedDecoder
from specq.engines.served.session import Session
from specq.run import bandwidth, engines
from specq.run.artifacts import Made
from specq.run.job import Job, Task
from specq.run.provenance import hide_home, tidy_command

FOLDER = "servers"
"""Where in a run's folder the logs of its servers lie."""
DRAWN = 3
"""Tokens of each draw: prefill gives the first, and a draft may have a hand in those after it."""


def logs(job: Job) -> Path:
    """The folder for the logs of the servers that this run starts."""
    return job.store.run_dir / FOLDER


def machine(job: Job) -> Machine:
    """What this process runs on; the bandwidth is read once a run, before a server starts that it would wait for.

    It is 0, which is not known, where a server runs already or an accelerator may hold its weights.
    """
    import psutil

    known = any(isinstance(r, Machine) and r.bandwidth_bytes_per_s > 0 for r in job.store.contents().records)
    settings = job.experiment.engine
    found = None if known or settings.attaches else _bandwidth(settings.threads)
    return Machine(
        process=job.process,
        bandwidth_bytes_per_s=0.0 if found is None else found.median,
        threads=settings.threads or 0,
        device="server",
        imports_bytes=int(psutil.Process().memory_info().rss),
        bandwidth_min_bytes_per_s=None if found is None else found.minimum,
        bandwidth_max_bytes_per_s=None if found is None else found.maximum,
    )


def _bandwidth(threads: int | None) -> bandwidth.Bandwidth | None:
    from specq.engines.devices import pick_device

    return bandwidth.measure("cpu", threads=threads) if pick_device("auto") == "cpu" else None


def stop_if_asked(job: Job) -> None:
    """End the wait for a server that starts: there is no sample under way that a stop would wait for.

    Raises:
        Interrupted: a stop was asked for.
    """
    if job.progress.should_stop():
        raise Interrupted("stopped")


def note(job: Job, text: str) -> None:
    """Put on record what happened to a server on the way."""
    text = str(hide_home(text))
    job.store.append(Note(process=job.process, text=text))
    job.progress.say("note", text=text)


def record(job: Job, task: str, arms: Sequence[str], decoder: Decoder, draft: DraftSpec | None) -> None:
    """Record the server behind a decoder; nothing of an engine of this process."""
    if not isinstance(decoder, ServedDecoder):
        return
    session = decoder.session
    verified = None if draft is None else session.kind.verified(draft, job.experiment.sampling(), session.served.args)
    exactness = "" if verified is None else "lossy" if draft is not None and draft.lossy else verified.exactness
    log = session.server.log
    job.store.append(
        Serving(
            process=job.process,
            task=task,
            arms=tuple(arms),
            server=session.kind.NAME,
            model=str(hide_home(session.model)),
            command=tidy_command(command(session)),
            log="" if log is None else f"{FOLDER}/{log.name}",
            settings=dict(hide_home(asdict(session.settings()))),
            exactness=exactness,
            rule=None if verified is None else verified.rule,
            reason="" if verified is None else verified.reason,
            source="" if verified is None else verified.source,
        )
    )


def command(session: Session) -> tuple[str, ...]:
    """What started the server, with what that added to the environment before it; () where it ran already."""
    if session.command is None:
        return ()
    return (*(f"{name}={value}" for name, value in session.command.env.items()), *session.command.argv)


def peak_bytes(decoder: ServedDecoder) -> int | None:
    """The peak resident memory of all processes of a server that was started here; None of another one."""
    group = decoder.session.server.pid
    return None if group is None else process_memory.group_peak_bytes(group)


def audit(job: Job, task: Task) -> None:
    """Record what is left of the audit of a block's arms; a server is started where tokens are drawn.

    Raises:
        Interrupted: a stop was asked for; what was recorded is kept.
        ServerGone: the server is lost.
    """
    from specq.run.left import audits_left

    contents = job.store.contents()
    texts = {key(output): output for output in contents.outputs}
    drawn = []
    for step in audits_left(job, contents, task.arm):
        if job.progress.should_stop():
            raise Interrupted("stopped")
        if step[0] == ServedDraws.__name__:
            drawn.append(step)
            continue
        _, arm, prompt, _ = step
        plain = job.plain[arm]
        has_ids = all(contents.answers[0, one, prompt, 0].has_ids for one in (arm, plain))
        job.store.append(_same(arm, plain, prompt, texts[0, arm, prompt, 0], texts[0, plain, prompt, 0], has_ids))
        job.progress.say("audit", arm=arm, prompt=prompt)
    if drawn:
        _draw(job, task, [step[1] for step in drawn], drawn[0][2])
    job.store.append(Done(process=job.process, task=task.name))


def _same(arm: str, plain: str, prompt: str, own: Any, other: Any, has_ids: bool) -> SameText:
    mine, theirs = (own.ids, other.ids) if has_ids else (own.text, other.text)
    shared = min(len(mine), len(theirs))
    first = next((place for place in range(shared) if mine[place] != theirs[place]), None)
    if first is None and len(mine) != len(theirs):
        first = shared
    return SameText(
        arm=arm,
        prompt=prompt,
        plain=plain,
        unit="tokens" if has_ids else "characters",
        length=len(mine),
        plain_length=len(theirs),
        first_difference=first,
    )


def _draw(job: Job, task: Task, arms: Sequence[str], prompt: str) -> None:
    """Draw the first tokens of arms that one server serves, over many seeds."""
    made, engine = Made(job), engines.of_job(job)
    with engines.Targets(engine, job.experiment) as opened:
        for arm in arms:
            draft = made.draft(job.drafts[arm])
            spec = made.target(job.targets[arm])
            decoder = engines.decoder(opened.of(spec), spec, draft)
            record(job, task.name, (arm,), decoder, draft)
            job.progress.say("loaded")
            try:
                job.store.append(_draws(job, arm, prompt, decoder))
            except STOPS:
                raise
            except Exception as error:  # noqa: BLE001 - an audit that breaks is on record, and its arm is not lossless
                job.store.append(
                    Failed(
                        process=job.process,
                        arm=arm,
                        prompt=prompt,
                        repeat=0,
                        error=f"{AUDIT}{ServedDraws.__name__}: {type(error).__name__}",
                        message=str(hide_home(str(error))),
                    )
                )
            job.progress.say("audit", arm=arm, prompt=prompt)


def _draws(job: Job, arm: str, prompt: str, decoder: Decoder) -> ServedDraws:
    base = replace(job.experiment.sampling(), max_new_tokens=DRAWN, min_new_tokens=0, stop=())
    asked, found, with_ids = job.prompts_of(arm)[prompt], Counter[str](), True
    seeds = job.experiment.audit.seeds
    for number in range(seeds):
        if job.progress.should_stop():
            raise Interrupted("stopped")
        # Arms draw with seeds of their own: with the same ones, two servers would agree more than their laws do.
        sampling = replace(base, seed=seed_of(base.seed, "draws", arm, number))
        (answer,) = decoder.generate([asked], sampling)
        with_ids = with_ids and bool(answer.ids)
        found[" ".join(map(str, answer.ids)) if answer.ids else answer.text] += 1
    ordered = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return ServedDraws(
        arm=arm,
        prompt=prompt,
        tokens=DRAWN,
        draws=seeds,
        unit="tokens" if with_ids else "characters",
        outcomes=tuple(text for text, _ in ordered),
        counts=tuple(count for _, count in ordered),
    )
