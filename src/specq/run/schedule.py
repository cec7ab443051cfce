"""Who goes when: arms take turns per prompt in a balanced order, blocks go back and forth. Pure, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specq.core.hashes import seed_of
from specq.run.job import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """All arms on one prompt, one after another, in the order of `arms`."""

    process: int
    repeat: int
    prompt: str
    arms: tuple[str, ...]


def measure_tasks(blocks: Sequence[str], repeats: int, processes: int) -> list[Task]:
    """The measure tasks in their order: one a process, or, of blocks, one a process, repeat and block.

    `blocks` are the keys of `blocks_of`. Each repeat takes them in the reverse order of the one before
    (A B C C B A), the first of a process too, so that a steady drift cancels over every two.
    """
    if list(blocks) == [""]:
        return [Task(kind="measure", process=process) for process in range(processes)]
    found = []
    for number in range(processes * repeats):
        process, repeat = divmod(number, repeats)
        order = blocks if number % 2 == 0 else blocks[::-1]
        found += [Task(kind="measure", process=process, arm=block, repeat=repeat) for block in order]
    return found


def turns(prompts: Sequence[str], arms: Sequence[str], repeats: int, processes: int, seed: int) -> list[Turn]:
    """The whole schedule: per process, per repeat, per prompt, the arms in order.

    Prompts walk through the rows of a Latin square (Williams' zigzag, so that neighbours change
    too), and the next repeat takes the reverse of the row (ABBA). Over as many prompts as there
    are arms every arm stands once in every place; otherwise counts differ by at most one a
    repeat. The seed decides which arm gets which column; each process starts one row further.
    """
    names = sorted(arms, key=lambda arm: seed_of(seed, "column", arm))
    schedule = []
    for process in range(processes):
        for repeat in range(repeats):
            for index, prompt in enumerate(prompts):
                row = _row(names, index + process + repeat // 2)
                order = row if repeat % 2 == 0 else row[::-1]
                schedule.append(Turn(process=process, repeat=repeat, prompt=prompt, arms=order))
    return schedule


def _row(names: Sequence[str], shift: int) -> tuple[str, ...]:
    """Row `shift` of the square: 0, 1, n-1, 2, n-2, ... each moved on by `shift`."""
    n = len(names)
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(n)]
    return tuple(names[(column + shift) % n] for column in zigzag)
