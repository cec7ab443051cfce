"""Workloads: prompts and arrival times from files of others or from a text, read, scrubbed and described."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specq.workloads.describe import Count, Workload
    from specq.workloads.reading import Read
    from specq.workloads.request import Request


def read_workload(
    file: Path | str,
    format: str = "auto",
    *,
    turns: str = "first",
    tag: str | None = None,
    time_unit: str = "auto",
    limit: int | None = None,
    keep_personal_data: bool = False,
    phone_regions: Sequence[str] = ("US",),
    tokenizer: str | None = None,
    out: Path | str | None = None,
) -> Workload:
    """Read prompts, a log or a trace, with personal data replaced, and say what the file holds.

    `turns` "each" makes a prompt of every question of a ShareGPT conversation. `tag` names a key of the rows, with
    points for keys inside keys, whose value becomes a tag. `limit` takes the first so many rows. `phone_regions` are
    countries (two letters) whose phone numbers are found without a country code too. `tokenizer` is a model whose
    tokens are counted. With `out` the prompts are written there as specq's own; nothing is written over.

    Raises:
        PromptError: the file cannot be read, its format cannot be told, or it has no prompt.
        ConfigError: no such format, unit, region or way of taking turns, or `out` is there already.
        ModelError: no such tokenizer. DiskFull, RunFolderError, RunFailed: `out` cannot be written.
    """
    from specq.workloads import reading, writing

    if out is not None:
        writing.check_target(Path(out))
    how = reading.How(
        format=format,
        turns=turns,
        tag=tag,
        time_unit=time_unit,
        keep_personal_data=keep_personal_data,
        regions=tuple(phone_regions),
        limit=limit,
    )
    how.check()
    tokens, unit = (None, "") if tokenizer is None else _counted(tokenizer)
    return _described(reading.read(Path(file), how), tokens, unit, out)


def make_workload(
    text: Path | str,
    tokens: Sequence[int],
    count: int = 1,
    *,
    shuffled: bool = False,
    seed: int = 0,
    keep_personal_data: bool = False,
    phone_regions: Sequence[str] = ("US",),
    tokenizer: str | None = None,
    out: Path | str | None = None,
) -> Workload:
    """Prompts of about `tokens` each, `count` of every length, cut from a text file or a built-in text.

    Tokens are those of the model `tokenizer`; without one, words. No two prompts begin alike. With `shuffled` the
    tokens stand in random order, and a plan refuses drafts on such prompts. The rest is as for read_workload.

    Raises:
        PromptError: no text, one shorter than a prompt, or with too few different beginnings.
        ConfigError: a length or count below 1, or `out` is there already. Else as read_workload.
    """
    from specq.workloads import counting, reading, synthetic, writing
    from specq.workloads.personal import Scrubber
    from specq.workloads.request import Counts

    if out is not None:
        writing.check_target(Path(out))
    said = synthetic.text_of(str(text))
    # The built-in texts are nobody's, and what looks like an address in a manual is an example.
    scrubber = None if keep_personal_data or str(text) in synthetic.BUILTINS else Scrubber(phone_regions)
    counter = counting.counter(tokenizer)
    requests = synthetic.make(
        said if scrubber is None else scrubber.scrub(said), tokens, count, counter, seed=seed, shuffled=shuffled
    )
    read = reading.Read(
        file=Path(text),
        format="synthetic",
        requests=requests,
        dropped=(),
        arrivals=None,
        counts=Counts(
            rows=len(requests),
            kept=scrubber is None,
            scrubbed={} if scrubber is None else dict(scrubber.counts),
            values={} if scrubber is None else scrubber.values(),
        ),
        at_key="",
    )
    if tokenizer is None:
        return _described(read, None, "", out)
    return _described(read, lambda one: sum(map(counter.count, one.texts())), counter.unit, out)


def _counted(model: str) -> tuple[Count, str]:
    """The tokens of a prompt as a model reads it, through its chat template, and the name of the unit."""
    from specq.models import light_tokenizer
    from specq.workloads import rendering

    tokenizer = light_tokenizer.load(model)

    def count(one: Request) -> int:
        text, special, _ = rendering.text_of(tokenizer, one)
        return len(tokenizer.ids(text, special=special))

    return count, f"tokens of {model}"


def _described(read: Read, tokens: Count | None, unit: str, out: Path | str | None) -> Workload:
    import dataclasses

    from specq.workloads import describe, writing

    made = describe.describe(read, tokens=tokens, unit=unit)
    if out is None:
        return made
    left_out = writing.write(made.requests, Path(out))
    return dataclasses.replace(made, written=str(out), left_out=left_out)
