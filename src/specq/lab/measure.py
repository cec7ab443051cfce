"""Measures what a request is made of, part by part, into a run's folder, and writes the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specq.lab.options import Options

if TYPE_CHECKING:
    from specq.lab.measured import Lab


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
        RunFailed: the server cannot be started or reached, or more than three requests failed. Interrupted: Ctrl-C,
            SIGTERM or SIGHUP. Both keep what was recorded, and resume_requests goes on.
    """
    from specq.lab import running

    given = Options(
        target=target,
        kind=kind,
        parts=tuple(parts),
        lengths=tuple(lengths),
        new_tokens=new_tokens,
        repeats=repeats,
        batch=tuple(batch),
        seed=seed,
        text=str(text),
        model=model,
        served_as=served_as,
        key_env=key_env,
        prompts=None if prompts is None else str(prompts),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        cached_share=cached_share,
        machine=None if machine is None else str(machine),
        device=device,
        dtype=dtype,
        threads=threads,
        args=tuple(args),
    )
    return running.begin(given, Path(out), on_progress or _silent)


def resume_requests(
    run: Path | str,
    *,
    url: str | None = None,
    out: Path | str = "results",
    on_progress: Callable[[str], None] | None = None,
) -> tuple[Lab, Path]:
    """Go on with a lab's run that was stopped, killed or failed; what was found, and the run's folder.

    `url` is where the run's server is now, if it moved. Parts that came to their end are not measured again; one that
    was broken off is, from its beginning.

    Raises:
        RunFolderError: no lab run, one that is done or busy, or what it rests on changed. Else as measure_requests.
    """
    from specq.lab import running
    from specq.run.catalog import find_run

    return running.go_on(find_run(run, Path(out)), url, on_progress or _silent)


def rebuild_lab(run: Path | str, *, out: Path | str = "results") -> tuple[Lab, Path]:
    """Derive the report of a lab's run anew from its records; what was found, and the run's folder.

    Raises:
        RunFolderError: no such run, one of another kind, a damaged one, or a folder that cannot be written.
    """
    from specq.lab import lab_report
    from specq.run.catalog import find_run

    folder = find_run(run, Path(out))
    return lab_report.write(folder), folder


def _silent(text: str) -> None:
    """No progress is shown."""
