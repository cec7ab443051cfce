"""Drafts replayed from a run's folder: those that `specq drafts` studied for it, or lookups along its answers.

A run of `specq drafts` keeps the probabilities of target and draft along the texts of its study (see `kept`). Other
runs have the ids of prompts and answers and no more, for their audits sum the log-probabilities up; so there drafts
that are models are sent to `specq drafts`, which reads the texts with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specq.core.errors import ConfigError
from specq.core.types import Sampling
from specq.forecast import copied, files, files_check, kept
from specq.forecast.files import Counts, FromFiles
from specq.forecast.files_check import Seconds
from specq.forecast.imported import Text
from specq.forecast.kept import Kept
from specq.forecast.replay import Copied
from specq.report import runfile
from specq.run.catalog import kind_of

LOOKUPS = {"lookup": "lookup", "lookup_suffix": "lookup:suffix"}
"""What is replayed along a run that keeps no study, where no draft is named."""


def named(folder: Path) -> dict[str, str]:
    """What is replayed where no draft is named: those of its study, else both lookups.

    Raises:
        ConfigError, RunFolderError: as rank.
    """
    _check_kind(folder)
    own = kept.read(folder, runfile.load(folder).info)
    return dict(LOOKUPS) if own is None else {name: name for name in own.drafts}


def most(folder: Path, drafts: Mapping[str, str], usual: int) -> int:
    """How many tokens a step proposes at most where nobody said it: what the study had of its drafts, else the usual.

    Raises:
        ConfigError, RunFolderError: as rank.
    """
    own = kept.read(folder, runfile.load(folder).info)
    return usual if own is None or not any(draft in own.drafts for draft in drafts.values()) else own.most


def rank(folder: Path, drafts: Mapping[str, Path], *, most: int = 8, seconds: Seconds | None = None) -> FromFiles:
    """Replay drafts of a run's study, each named by itself, or lookups along its answers, at the run's own settings.

    A study's drafts are replayed along its texts. Lookups copy along the first answer of the baseline to each prompt: a
    copy is right or wrong given the text, so that at every temperature all rules do the same. Nothing is bounded.

    Raises:
        ConfigError: the folder is no run's, keeps neither the draft nor ids to copy, or damaged what it keeps; drafts
            of both kinds, a value out of range.
        RunFolderError: it cannot be read.
    """
    _check_kind(folder)
    files_check.check_files(folder, drafts)
    files_check.check_k(most)
    run = runfile.load(folder)
    own = kept.read(folder, run.info)
    if own is not None and any(str(path) in own.drafts for path in drafts.values()):
        return _studied(run, own, {name: str(path) for name, path in drafts.items()}, most, seconds)
    asked: Mapping[str, Any] = run.info["config"]
    for name, path in drafts.items():
        if copied.match(path) is None:
            raise ConfigError(
                f"replay: --draft {name}={path}: {folder} has the ids of answers and not the log-probabilities of "
                f"target and draft along them, which only lookups do without; type: specq drafts "
                f"{asked['target']['model']} DRAFT --prompts {asked['workload']['prompts']}"
                + ("" if own is None else f", or name a draft of its study: {', '.join(own.drafts)}")
            )
    if seconds is not None:
        files_check.check_seconds(seconds, ())
    texts = _texts(run)
    limit = int(asked["workload"]["max_new_tokens"])
    along = {
        name: [copied.along(text, how, most, limit) for text in texts]
        for name, path in drafts.items()
        if (how := copied.match(path)) is not None
    }
    tokens = sum(len(text.ids) - text.prompt_tokens for text in texts)
    return FromFiles(
        cells=files.ranked(along, most, seconds, known=True),
        sampling=_sampling(run),
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


def _studied(
    run: runfile.RunFile, own: Kept, drafts: Mapping[str, str], most: int, seconds: Seconds | None
) -> FromFiles:
    """Drafts of the run's study along its texts; an answer of one token takes no step."""
    if lacks := [draft for draft in drafts.values() if draft not in own.drafts]:
        raise ConfigError(
            f"replay: {', '.join(lacks)}: the study of {run.folder} has {', '.join(own.drafts)}; what copies along the "
            "run's answers has other texts: ask for it alone"
        )
    along = {name: [text for text in own.drafts[draft] if len(text) > 1] for name, draft in drafts.items()}
    texts = len(next(iter(along.values())))
    if not texts:
        raise ConfigError(f"replay: all answers of the study of {run.folder} have one token, which takes no step")
    copying = {name for name, some in along.items() if any(isinstance(one, Copied) for one in some)}
    if copying and most > own.most:
        raise ConfigError(
            f"replay: k up to {most}: the study of {run.folder} followed {', '.join(sorted(copying))} for {own.most} "
            f"tokens; type --k {own.most}, or leave it out of the drafts"
        )
    lookups = tuple(
        name for name in copying if all(isinstance(one, Copied) and one.elsewhere is None for one in along[name])
    )
    if seconds is not None:
        files_check.check_seconds(seconds, [name for name in drafts if name not in lookups])
    tokens = sum(len(one) for one in next(iter(along.values())))
    return FromFiles(
        cells=files.ranked(along, most, seconds, known=True),
        sampling=_sampling(run),
        most=most,
        max_new_tokens=int(run.info["config"]["workload"]["max_new_tokens"]),
        texts=texts,
        checked=texts,
        counts=dict.fromkeys(along, Counts(tokens=tokens, exact=tokens, bounded=0, outside=0)),
        seconds=seconds,
        lookups=lookups,
        run=str(run.folder),
        studied=True,
        left_out=len(run.info["prompts"]) - texts,
    )


def _check_kind(folder: Path) -> None:
    if (kind := kind_of(folder)) != "run":
        raise ConfigError(
            f"replay: {folder} is of specq {'load' if kind == 'load' else 'lab measure'}, which keeps no ids of "
            "prompts and answers together; give a folder of specq run"
        )


def _sampling(run: runfile.RunFile) -> Sampling:
    workload = run.info["config"]["workload"]
    return files_check.sampling_of(
        temperature=workload.get("temperature", 0.0),
        top_k=workload.get("top_k", 0),
        top_p=workload.get("top_p", 1.0),
        min_p=workload.get("min_p", 0.0),
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
