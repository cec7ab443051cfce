"""Lookups replayed along the answers of a run: its folder has their ids, and those of the prompts, and no more.

What a model draft's steps follow from, the log-probabilities of target and draft along the answers, no run keeps: its
audit sums them up. So drafts that are models are sent to `specq drafts`, which reads the texts with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError
from specq.forecast import copied, files, files_check
from specq.forecast.files import Counts, FromFiles
from specq.forecast.files_check import Seconds
from specq.forecast.imported import Text
from specq.report import runfile
from specq.run.catalog import kind_of

LOOKUPS = {"lookup": "lookup", "lookup_suffix": "lookup:suffix"}
"""What is replayed along a run where no draft is named."""


def rank(folder: Path, drafts: Mapping[str, Path], *, most: int = 8, seconds: Seconds | None = None) -> FromFiles:
    """Replay lookups along the first answer of the baseline to each prompt of a run, at the run's own settings.

    A copy is right or wrong given the text, so that at every temperature all rules do the same and nothing is bounded.

    Raises:
        ConfigError: the folder is no run's or its answers have no ids, a draft that is no lookup, a value out of range.
        RunFolderError: it cannot be read.
    """
    if (kind := kind_of(folder)) != "run":
        raise ConfigError(
            f"replay: {folder} is of specq {'load' if kind == 'load' else 'lab measure'}, which keeps no ids of "
            "prompts and answers together; give a folder of specq run"
        )
    files_check.check_files(folder, drafts)
    files_check.check_k(most)
    run = runfile.load(folder)
    asked: Mapping[str, Any] = run.info["config"]
    for name, path in drafts.items():
        if copied.match(path) is None:
            raise ConfigError(
                f"replay: --draft {name}={path}: {folder} has the ids of answers and not the log-probabilities of "
                f"target and draft along them, which only lookups do without; type: specq drafts "
                f"{asked['target']['model']} DRAFT --prompts {asked['workload']['prompts']}"
            )
    if seconds is not None:
        files_check.check_seconds(seconds, ())
    texts = _texts(run)
    workload = asked["workload"]
    limit = int(workload["max_new_tokens"])
    along = {
        name: [copied.along(text, how, most, limit) for text in texts]
        for name, path in drafts.items()
        if (how := copied.match(path)) is not None
    }
    tokens = sum(len(text.ids) - text.prompt_tokens for text in texts)
    return FromFiles(
        cells=files.ranked(along, most, seconds, known=True),
        sampling=files_check.sampling_of(
            temperature=workload.get("temperature", 0.0),
            top_k=workload.get("top_k", 0),
            top_p=workload.get("top_p", 1.0),
            min_p=workload.get("min_p", 0.0),
        ),
        most=most,
        max_new_tokens=limit,
        texts=len(texts),
        checked=len(texts),
        counts=dict.fromkeys(along, Counts(tokens=tokens, exact=tokens, bounded=0, outside=0)),
        seconds=seconds,
        lookups=tuple(along),
        run=str(folder),
        left_out=len(run.info["prompts"]) - len(texts),
    )


def _texts(run: runfile.RunFile) -> list[Text]:
    """The first answer of the baseline to each prompt, where it has a second token."""
    first, found = str(run.info["arms"][0]["id"]), dict[str, Text]()
    prompts = {str(one["id"]): tuple(one.get("ids") or ()) for one in run.info["prompts"]}
    answered = 0
    for output in run.outputs:
        prompt, ids = str(output["prompt"]), tuple(output["ids"])
        if output["arm"] != first or prompt in found:
            continue
        answered += 1
        if len(ids) > 1 and (before := prompts.get(prompt)):
            found[prompt] = Text(
                id=prompt, where=f"{run.folder}", ids=(*before, *ids), prompt_tokens=len(before), positions=()
            )
    if not found:
        what = (
            "no answers of the baseline yet" if not answered else "no ids of prompts with answers of 2 tokens or more"
        )
        raise ConfigError(
            f"replay: {run.folder} has {what}, along which a lookup could copy; give a run that has (a server must "
            "hand out token ids), or files of log-probabilities with --target"
        )
    return list(found.values())
