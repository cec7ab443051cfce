"""What a resume keeps of a damaged run: an answer counts only where its record and its output both stand."""

from __future__ import annotations

from specq.core.nouns import counted
from specq.core.records import (
    Audited,
    Divergence,
    FirstTokens,
    GapNoise,
    Generated,
    Note,
    Output,
    Record,
    SameText,
    Sampled,
    key,
)
from specq.run.folder import OUTPUTS, RECORDS, Contents

_AUDITS = GapNoise | Audited | Sampled | FirstTokens | Divergence | SameText


def mended(contents: Contents) -> tuple[list[Record], list[Output], list[Note]]:
    """The records and outputs to keep, and what is said about the others.

    A crash between an output and its record leaves an output that counts for nothing. A record
    whose output is gone goes too, with the audits of its prompt: its sample runs again.
    """
    answers = contents.answers
    outputs = [output for output in contents.outputs if key(output) in answers]
    lost = {record.prompt for record in contents.lost}
    records = [
        record
        for record in contents.records
        if not (isinstance(record, Generated) and key(record) not in answers)
        and not (isinstance(record, _AUDITS) and record.prompt in lost)
    ]
    said = []
    if cut := len(contents.outputs) - len(outputs):
        said.append(f"cut {counted(cut, 'output')} without a record from {OUTPUTS}")
    if contents.lost:
        audits = len(contents.records) - len(records) - len(contents.lost)
        lost_answers, are = counted(len(contents.lost), "answer"), "is" if len(contents.lost) == 1 else "are"
        said.append(
            f"{lost_answers} {are} not in {OUTPUTS} any more: {counted(len(contents.lost), 'record')} and "
            f"{counted(audits, 'audit')} of the same prompts were taken out of {RECORDS}, and run again"
        )
    said += contents.lines_lost
    said += [f"cut {counted(size, 'byte')} of a torn last line from {name}" for name, size in contents.torn.items()]
    return records, outputs, [Note(process=0, text=text) for text in said]
