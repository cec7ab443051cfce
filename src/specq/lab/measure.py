"""Measures what a request is made of, part by part, into a run's folder, and writes the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import specq
from specq.core import hashes, jsonl
from specq.core.clock import utc_stamp
from specq.core.errors import ConfigError, Unsupported
from specq.core.places import check_folder

if TYPE_CHECKING:
    from specq.lab.asked import OwnPrompts
    from specq.lab.bench import Bench, Settings
    from specq.lab.measured import Lab
    from specq.lab.opening import Wanted
    from specq.workloads.counting import Counter


def measure_requests(
    target: str,
    *,
    kind: str | None = None,
    parts: Sequence[str] = (),
    lengths: Sequence[int] = (),
    new_tokens: int = 32,
    repeats: int = 3,
    batch: Sequence[int] = (),
    seed: int = 0,
    text: Path | str = "builtin:manual",
    model: str | None = None,
    served_as: str | None = None,
    key_env: str | None = None,
    prompts: Path | str | None = None,
    prompt_tokens: int | None = None,
    output_tokens: int | None = None,
    cached_share: float | None = None,
    machine: Path | str | None = None,
    device: str = "auto",
    dtype: str | None = None,
    threads: int | None = None,
    args: Sequence[str] = (),
    out: Path | str = "results",
    on_progress: Callable[[str], None] | None = None,
) -> tuple[Lab, Path]:
    """Measure a request's two halves, context, prompt cache and batches, and say which lever to pull first.

    Args:
        target: a model for the reference engine or for a server that is started, or the URL of one that runs.
        kind: hf, or a kind of server; by default hf for a model, openai for a URL.
        parts: halves, context, cache, batch; all of them by default.
        lengths: of prompts, in the model's tokens, or in words where no model is known; six by default.
        new_tokens: how long the answers are that are timed.
        repeats: of each case.
        batch: batch sizes, 1 among them; 1, 2, 4 and 8 by default.
        seed: which places of the text, and the order.
        text: a text file or a built-in text that prompts are cut from.
        model: the model behind a URL, as it lies here: its tokenizer and sizes; a server's own weights go first.
        served_as: the model's name in requests, where the server tells none.
        key_env: the environment variable that holds the server's key.
        prompts: the user's own prompts; their median is the own length, and the cache part asks them.
        prompt_tokens: of the user's own request, where that is known.
        output_tokens: of the user's own answers.
        cached_share: the share of the user's prompts that a cache can hold, as specq lab prefix tells it.
        machine: a name or file of configs/machines, for the ridge.
        device: of the reference engine.
        dtype: of the reference engine, or of a server that is started.
        threads: of the reference engine, or of a server that is started.
        args: options for a server that is started, as they are.
        out: the folder that the run's own is made in.
        on_progress: told what is being done.

    Returns:
        What was found, and the run's folder with its records and reports.

    Raises:
        ConfigError, ModelError, PromptError, Unsupported: before anything is measured.
        RunFailed: the server cannot be started or reached, or more than three requests failed; records are kept.
    """
    from specq.lab import asked, batching, opening, own_options, prompt_cache, told_weights
    from specq.lab.bench import Settings
    from specq.lab.measured import EXPERIMENT, PARTS
    from specq.models import light_tokenizer
    from specq.run import provenance, stale
    from specq.run.folder import DONE, RECORDS
    from specq.run.store import Store
    from specq.workloads import counting, synthetic

    say = on_progress or (lambda told: None)
    chosen = tuple(dict.fromkeys(parts)) or PARTS
    settings = Settings(lengths=tuple(lengths) or asked.LENGTHS, output_tokens=new_tokens, repeats=repeats, seed=seed)
    sizes = tuple(batch) or batching.SIZES
    asked.check(chosen, settings, sizes)
    for name, value in (("batch", batch), ("machine", machine)):
        if value and batching.PART not in chosen:
            raise ConfigError(
                f"--{name} is of the part batch, which is not asked for: leave it out, or add --part batch"
            )
    beside = own_options.check(
        chosen,
        prompts=None if prompts is None else str(prompts),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        cached_share=cached_share,
    )
    check_folder(out)
    url = target.startswith(("http://", "https://"))
    wanted = opening.Wanted(
        target=target,
        kind=kind or ("openai" if url else opening.HF),
        model=model,
        served_as=served_as,
        key_env=key_env,
        device=device,
        dtype=dtype,
        threads=threads,
        args=tuple(args),
    )
    opening.check(wanted)
    if wanted.local is None:
        tokenizer, counter = None, counting.counter()
    else:
        tokenizer = light_tokenizer.load(wanted.local)
        counter = counting.Counter(unit=f"tokens of {wanted.local}", spans=tokenizer.spans)
    cut_from = synthetic.text_of(str(text))
    own = asked.own(
        counter,
        tokenizer=tokenizer,
        prompts=None if prompts is None else Path(prompts),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        cached_share=cached_share,
        measured_output=new_tokens,
    )
    own = replace(own, notes=(*own.notes, *beside))
    told = told_weights.ask(target, served_as=served_as, key_env=key_env) if wanted.attached else None
    stamp = prompt_cache.stamp_tokens(counter) if prompt_cache.PART in chosen else 0
    sized = asked.size(wanted.sized, own, settings, dtype, held=wanted.held, told=told, stamp=stamp)
    ridge = asked.machine(None if machine is None else str(machine), sized, wanted) if "batch" in chosen else None
    info = {
        "experiment": EXPERIMENT,
        "question": f"What is a request to {target} made of?",
        "created": utc_stamp(),
        "specq": specq.__version__,
        "target": target,
        "kind": wanted.kind,
        "parts": list(chosen),
        "settings": {**asdict(settings), "batch": list(sizes), "text": str(text)},
        "unit": counter.unit,
        "own": own.given,
        "size": asked.as_json(sized),
        "machine": asked.as_json(ridge),
        "models": stale.weights([] if wanted.local is None else [wanted.local]),
        "data": {} if prompts is None else {"prompts": str(prompts), "sha256": hashes.of_file(Path(prompts))},
        "provenance": provenance.collect(),
    }
    with Store.create(Path(out), provenance.hide_home(info)) as store:
        appender = jsonl.Appender(store.run_dir / RECORDS)
        try:
            _measure(wanted, settings, counter, cut_from, own, chosen, sizes, store.run_dir, appender.append, say)
        finally:
            appender.close()
        jsonl.write_whole(store.run_dir / DONE, {"finished": utc_stamp()})
        from specq.lab import lab_report

        return lab_report.write(store.run_dir), store.run_dir


def rebuild_lab(run: Path | str, *, out: Path | str = "results") -> tuple[Lab, Path]:
    """Derive the report of a lab's run anew from its records; what was found, and the run's folder.

    Raises:
        RunFolderError: no such run, one of another kind, a damaged one, or a folder that cannot be written.
    """
    from specq.lab import lab_report
    from specq.run.catalog import find_run

    folder = find_run(run, Path(out))
    return lab_report.write(folder), folder


def _measure(
    wanted: Wanted,
    settings: Settings,
    counter: Counter,
    text: str,
    own: OwnPrompts,
    parts: Sequence[str],
    sizes: Sequence[int],
    folder: Path,
    write: Callable[[dict[str, object]], None],
    say: Callable[[str], None],
) -> None:
    """One server with one slot for all parts but the last, which has a slot for each row of its largest batch."""
    import dataclasses

    from specq.lab import asked, context, halves, opening, prompt_cache
    from specq.lab.bench import Bench
    from specq.run import provenance

    wanted = dataclasses.replace(wanted, context=asked.context_of(settings, counter, own, wanted.sized))
    single = [part for part in parts if part != "batch"]
    together = not single or wanted.attached or wanted.kind == opening.HF
    first = max(sizes) if "batch" in parts and not single else 1
    with opening.opened(wanted, slots=first, folder=folder, say=say) as requester:
        bench = Bench(requester, settings, counter=counter, text=text, write=write, say=say)
        jsonl.write_whole(folder / "target.json", provenance.hide_home(requester.describe()))
        for told in own.notes:
            bench.note("own prompts", told)
        bench.warm_up()
        for part, measure in (
            (halves.PART, lambda: halves.measure(bench)),
            (context.PART, lambda: context.measure(bench)),
            (prompt_cache.PART, lambda: prompt_cache.measure(bench, own.prompts)),
        ):
            if part in parts:
                _or_note(bench, part, measure)
        if "batch" in parts and together:
            _batch(bench, sizes)
    if "batch" in parts and not together:
        with opening.opened(wanted, slots=max(sizes), folder=folder, say=say) as requester:
            bench.requester = requester
            bench.warm_up()
            _batch(bench, sizes)


def _batch(bench: Bench, sizes: Sequence[int]) -> None:
    from specq.lab import batching

    slots = bench.requester.slots
    if slots is not None and slots < max(sizes):
        bench.note(
            batching.PART, f"the server says that it runs {slots} requests at once: what goes beyond waits its turn"
        )
    _or_note(bench, batching.PART, lambda: batching.measure(bench, sizes))


def _or_note(bench: Bench, part: str, measure: Callable[[], None]) -> None:
    """A part that the engine cannot do is told in its place; the others go on."""
    try:
        measure()
    except Unsupported as error:
        bench.note(part, f"not measured: {error}")
