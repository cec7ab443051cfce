"""Whether all workers of a run that measured an arm ran it on the same kernels."""

from __future__ import annotations

from collections.abc import Iterator

from specq.core.records import Crossover, LoadedModel, Machine, Note
from specq.report.runfile import RunFile


def flags(run: RunFile) -> list[str]:
    """One line for each model whose kernels, or whose row counts for them, were not the same in all workers.

    A worker that was stopped as it said them has said a part of the others': that is no difference.
    """
    found = []
    for who, workers in _said(run).items():
        first = workers[0]
        other = next((own for own in workers if not (own <= first or first <= own)), None)
        if other is not None:
            found.append(
                f"{who} ran on other kernels from one worker to another ({_only(first, other)} in the first, "
                f"{_only(other, first)} in a later one): its times mix both, so run again, on one machine and software"
            )
    return found


def notes(run: RunFile) -> tuple[str, ...]:
    """That row counts were measured once and hold for the whole run; nothing where none were."""
    if not run.of(Crossover):
        return ()
    return (
        "the row counts from which packed layers hand a pass over to another way were measured once, when a layer of "
        "that shape was first loaded; every other process of the run took them from the records",
    )


def _said(run: RunFile) -> dict[str, list[frozenset[str]]]:
    """What each measuring worker said of the weights of each model, by the arms that run on it or draft with it."""
    found: dict[str, dict[int, set[str]]] = {}
    worker = 0
    for record in run.records:
        # The first record of a worker that measures.
        worker += isinstance(record, Machine)
        for who, note in _of(run, record):
            found.setdefault(who, {}).setdefault(worker, set()).add(note)
    return {who: [frozenset(said) for said in by_worker.values()] for who, by_worker in found.items()}


def _of(run: RunFile, record: object) -> Iterator[tuple[str, str]]:
    if isinstance(record, LoadedModel):
        arms = ", ".join(run.labels.get(arm, arm) for arm in record.arms) or record.name
        who = arms if record.role == "target" else f"the draft of {arms}"
        yield from ((who, note) for note in record.notes)
    elif isinstance(record, Note):
        arm, drafts, note = record.text.partition(": draft: ")
        if drafts and arm in run.labels:
            yield f"the draft of {run.labels[arm]}", note


def _only(these: frozenset[str], others: frozenset[str]) -> str:
    return "; ".join(sorted(these - others))
