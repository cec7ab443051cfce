"""A lab's run: its folder is made and written, and one that was stopped, killed or failed is gone on with.

A part that came to its end is not asked again. One that was broken off is measured anew, for its order is shuffled and
its fit is of all of it: what stood of it until then stays on record and counts nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import specq
from specq.core import jsonl
from specq.core.clock import utc_stamp
from specq.core.errors import ConfigError, Interrupted, RunFailed, RunFolderError, Unsupported
from specq.core.places import check_folder
from specq.lab import asked, batching, context, halves, lab_report, opening, options, planning, prompt_cache
from specq.lab import rows as records
from specq.lab.bench import Bench
from specq.lab.lab_notes import HOW_TO_GO_ON
from specq.lab.measured import EXPERIMENT, Lab
from specq.lab.options import Options
from specq.lab.planning import Plan
from specq.lab.requester import Requester
from specq.lab.rows import Ended, Record
from specq.run import provenance, signals
from specq.run.folder import DONE, RECORDS, RUN, differences, read_info
from specq.run.resuming import BACK
from specq.run.store import Store, is_done

TARGET = "target.json"
Say = Callable[[str], None]
# How many requests run at once is chosen for a part, and with it the window.
_BY_PART = ("slots", "window")


def begin(given: Options, out: Path, say: Say) -> tuple[Lab, Path]:
    """Check everything, make the run's folder and measure.

    Raises:
        UserError: something will not do. Interrupted, RunFailed: what was recorded is kept.
    """
    check_folder(out)
    plan = planning.plan(given)
    ridge = asked.machine(given.machine, plan.sized, plan.wanted) if batching.PART in plan.parts else None
    info = {
        "experiment": EXPERIMENT,
        "question": f"What is a request to {given.target} made of?",
        "created": utc_stamp(),
        "specq": specq.__version__,
        "target": given.target,
        "asked": given.to_json(),
        **plan.said(),
        "machine": asked.as_json(ridge),
        "provenance": provenance.collect(),
    }
    with Store.create(out, provenance.hide_home(info)) as store:
        return _finished(plan, store, None, say)


def go_on(run: Path, url: str | None, say: Say) -> tuple[Lab, Path]:
    """Measure what a run lacks; `url` is where its server is now, if it moved.

    Raises:
        RunFolderError: no lab run, one that is done or busy, or what it rests on changed. Else as `begin`.
    """
    info = read_info(run)
    if info.get("experiment") != EXPERIMENT or "arms" in info:
        raise RunFolderError(f"{run}: no lab run, so it cannot be resumed as one; to see all runs type: specq ls")
    with Store.attach(run) as store:
        if is_done(run):
            raise RunFolderError(f"nothing left to do: {run} is done; to see it type: specq show {run}")
        before, _ = records.read(run / RECORDS)
        plan = planning.plan(_moved(_given(run, info), url))
        _check_same(run, info, plan)
        return _finished(plan, store, before, say)


def _given(run: Path, info: Mapping[str, Any]) -> Options:
    if "asked" not in info:
        raise RunFolderError(
            f"{run / RUN}: does not say all that was asked, as runs of older versions do not: start a new run without "
            "--resume, with --part for what this one lacks"
        )
    try:
        return options.from_json(provenance.show_home(info["asked"]))
    except (AttributeError, ValueError) as error:
        raise RunFolderError(f"{run / RUN}: not as specq lab writes it ({error}); put it back") from error


def _moved(given: Options, url: str | None) -> Options:
    if url is None or url == given.target:
        return given
    if not (given.attached and options.is_url(url)):
        raise ConfigError(f"--resume: this run measures {given.target}, and {url} is another; leave it out")
    return replace(given, target=url)


def _check_same(run: Path, then: Mapping[str, Any], plan: Plan) -> None:
    """Do nothing where the run would be asked the same again."""
    now = _as_written(plan.said())
    if plan.wanted.attached and plan.told is None:
        # A server that is down says nothing of its weights; that it is down is told when it is asked.
        now["size"] = then.get("size")
    found = []
    for name, value in now.items():
        if then.get(name) == value or (name == "models" and _stamps(then.get(name)) == _stamps(value)):
            continue
        if name == "data":
            found.append(f"the prompts in {plan.options.prompts}")
        elif name == "sha256":
            found.append(f"the text {plan.options.text}")
        elif name == "models":
            found.append(f"the weights of {plan.wanted.local}")
        else:
            found += differences(then.get(name), value, name)
    _refuse(run, found)


def _stamps(models: Any) -> dict[str, str]:
    """Weights by model; where their folders are told from is another matter."""
    return {name: one["weights_sha256"] for name, one in (models or {}).items()}


def _check_target(run: Path, requester: Requester) -> None:
    """Write down what answers, or do nothing where it is what answered before."""
    file = run / TARGET
    now = _as_written(requester.describe())
    if not file.is_file():
        jsonl.write_whole(file, now)
        return
    try:
        then = json.loads(file.read_text(encoding="utf-8"))
        _refuse(run, differences(_lasting(then), _lasting(now), "what answers"))
    except (AttributeError, ValueError) as error:
        raise RunFolderError(f"{file}: not as specq lab writes it ({error}); put it back") from error


def _lasting(described: Mapping[str, Any]) -> dict[str, Any]:
    """A description without what parts choose, and without why some of it is unknown."""
    settings = described.get("settings") or {}
    lasting = {name: value for name, value in settings.items() if name not in _BY_PART}
    return {**described, "settings": lasting, "untold": None}


def _refuse(run: Path, changed: Sequence[str]) -> None:
    if changed:
        raise RunFolderError(
            f"{run} cannot go on, for this changed since it began: {'; '.join(changed)}; {BACK}",
        )


def _as_written(value: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from a file."""
    back = json.loads(json.dumps(provenance.hide_home(value)))
    assert isinstance(back, dict)
    return back


def _finished(plan: Plan, store: Store, before: Sequence[Record] | None, say: Say) -> tuple[Lab, Path]:
    how = f"what was recorded is kept; to go on type: {HOW_TO_GO_ON} {store.run_dir}"
    try:
        with signals.raised():
            _measure(plan, store, before, say)
    except KeyboardInterrupt as error:
        number = signals.number_of(error)
        raise Interrupted(f"stopped by {signals.name_of(error)}; {how}", number) from error
    except RunFailed as error:
        raise type(error)(f"{error}; {how}") from error
    jsonl.write_whole(store.run_dir / DONE, {"finished": utc_stamp()})
    return lab_report.write(store.run_dir), store.run_dir


def _measure(plan: Plan, store: Store, before: Sequence[Record] | None, say: Say) -> None:
    """Measure the parts that are left.

    A server that is started has one slot for all parts but the last, and then one for each row of its largest batch.
    """
    ended = {one.part for one in before or () if isinstance(one, Ended)}
    left = [part for part in plan.parts if part not in ended]
    stages = [(left, 1)]
    if not plan.wanted.attached and plan.wanted.kind != opening.HF:
        single = [part for part in left if part != batching.PART]
        stages = [(single, 1), ([part for part in left if part == batching.PART], max(plan.sizes))]
    bench: Bench | None = None
    with ExitStack() as files:
        for parts, slots in stages:
            if not parts:
                continue
            with opening.opened(plan.wanted, slots=slots, folder=store.run_dir, say=say) as requester:
                if bench is None:
                    bench = _bench(plan, store, requester, before, files, say)
                bench.requester = requester
                bench.warm_up()
                for part, measure in _measures(bench, plan):
                    if part in parts:
                        _or_note(bench, part, measure)
                        bench.ended(part)


def _bench(
    plan: Plan, store: Store, requester: Requester, before: Sequence[Record] | None, files: ExitStack, say: Say
) -> Bench:
    """A bench that writes behind what stands in the run's records, and says there that it goes on."""
    _check_target(store.run_dir, requester)
    appender = files.enter_context(closing(jsonl.Appender(store.run_dir / RECORDS)))
    bench = Bench(requester, plan.settings, counter=plan.counter, text=plan.text, write=appender.append, say=say)
    if before is not None:
        changed = provenance.changes(store.info.get("provenance") or {}, _as_written(provenance.collect()))
        bench.go_on(before, plan.parts, torn_bytes=appender.cut_bytes, changed=changed)
    for told in plan.own.notes:
        bench.note("own prompts", told)
    return bench


def _measures(bench: Bench, plan: Plan) -> list[tuple[str, Callable[[], None]]]:
    """The parts in the order in which they are measured."""
    return [
        (halves.PART, lambda: halves.measure(bench)),
        (context.PART, lambda: context.measure(bench)),
        (prompt_cache.PART, lambda: prompt_cache.measure(bench, plan.own.prompts)),
        (batching.PART, lambda: _batch(bench, plan.sizes)),
    ]


def _batch(bench: Bench, sizes: Sequence[int]) -> None:
    slots = bench.requester.slots
    if slots is not None and slots < max(sizes):
        bench.note(
            batching.PART, f"the server says that it runs {slots} requests at once: what goes beyond waits its turn"
        )
    batching.measure(bench, sizes)


def _or_note(bench: Bench, part: str, measure: Callable[[], None]) -> None:
    """A part that the engine cannot do is told in its place; the others go on."""
    try:
        measure()
    except Unsupported as error:
        bench.note(part, f"not measured: {error}")
