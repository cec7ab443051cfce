"""Who goes when: arms take turns per prompt in a balanced order. Pure, no clock, no randomness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specq.core.hashes import seed_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """All arms on one prompt, one after another, in the order of `arms`."""

    process: int
    repeat: int
    prompt: str
    arms: tuple[str, ...]


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
