"""A run whose arms went in blocks, one target in memory at a time: in what order, and what its ratios may hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specq.core.records import Generated
from specq.report.runfile import RunFile
from specq.report.words import share

FLAG = (
    "arms ran in blocks, for memory held one target at a time or the experiment asked for it: arms on different "
    "targets did not take turns on a prompt, and what changed on the machine between their blocks is in their ratios"
)
SERVED = (
    "arms ran in blocks, for the server was started anew for each: arms did not take turns on a prompt, and what "
    "changed on the machine between their blocks is in their ratios"
)
# What a block is, and what the intervals cannot show of it: where memory holds one target, and on servers.
_HELD = (
    "Each block is a fresh process that holds one target and its drafts; its arms take turns on each prompt.",
    "The A/A comparison and the intervals do not show such a change: both twins share a block, and all prompts of a "
    "block share what happened in it.",
)
_ANEW = (
    "Each block starts the server anew, with the settings of its arm.",
    "The intervals do not show such a change, for all prompts of a block share what happened in it; the A/A "
    "comparison shows it between the blocks of the twins.",
)


def flag(run: RunFile) -> str:
    """What a reader must know first of a run in blocks."""
    return SERVED if run.served and not run.attached else FLAG


def lines(run: RunFile) -> tuple[str, ...]:
    """How arms of different blocks took turns and what that means, in sentences; empty where all took turns."""
    if not run.in_blocks:
        return ()
    tasks = run.measure_tasks
    names = {block: _listed(run, arms) for block, arms in run.blocks.items()}
    letters = {block: chr(ord("A") + place) if place < 26 else f"#{place}" for place, block in enumerate(names)}
    own = "; ".join(f"{letters[block]}: {arms}" for block, arms in names.items())
    moved = between_blocks(run)
    anew = run.served and not run.attached
    found = [
        f"Blocks in this order: {' '.join(letters[task.arm] for task in tasks)}. {own}. "
        + (_ANEW[0] if anew else _HELD[0]),
        "Each turn goes through the blocks in the reverse order of the one before, so a machine that gets steadily "
        "slower or faster all but cancels out of the ratios over two turns; a change of any other kind does not."
        + (" This run had an odd number of turns, so not even that cancels." if _turns(run) % 2 else ""),
        _ANEW[1] if anew else _HELD[1],
    ]
    if moved is None:
        found.append(
            "No arm without a draft has answers to the same prompt in two of its blocks, so how much the machine moved "
            "between blocks is not known."
        )
    else:
        arm, value = moved
        found.append(
            f"From block to block the same arm's own time a token moved by up to {share(value)} "
            f"({run.labels.get(arm, arm)}): do not trust a difference between blocks that is smaller."
        )
    return tuple(found)


def between_blocks(run: RunFile) -> tuple[str, float] | None:
    """The arm without a draft whose seconds a token moved most from one of its blocks to another, and by what share.

    (slowest - fastest) / fastest of the means over a block; None where no arm ran in two blocks.
    """
    found = [(arm, value) for arm in run.blocks if (value := _moved(run, arm)) is not None]
    return max(found, key=lambda pair: pair[1], default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """An arm that never took turns with the baseline, for it ran in other blocks.

    `moved` is the share by which the same arm's seconds a token moved between its blocks, None where no arm tells.
    """

    moved: float | None

    @property
    def caveat(self) -> str:
        """What goes with the arm's speed."""
        size = "" if self.moved is None else f", between which the same arm moved by up to {share(self.moved)}"
        return f"measured in other blocks than the baseline{size}"

    def hides(self, low: float, high: float) -> str:
        """Why a speed-up's interval on one side of 1 tells nothing here; "" where it lies beyond what moved."""
        if self.moved is None:
            return "how far the machine moved between blocks is not known: give workload.repeats = 2 or more"
        if low > 1 + self.moved or high < 1 / (1 + self.moved):
            return ""
        return (
            f"a difference that small may be the machine's: the same arm moved by {share(self.moved)} between its "
            "blocks; run again on a quiet machine, or where memory holds all targets together"
        )


def apart(run: RunFile, arm: str) -> Apart | None:
    """How an arm ran apart from the baseline; None for one that took turns with it."""
    first = next(iter(run.baselines), None)
    if not run.in_blocks or any({first, arm} <= set(arms) for arms in run.blocks.values()):
        return None
    moved = between_blocks(run)
    return Apart(moved=None if moved is None else moved[1])


def _moved(run: RunFile, arm: str) -> float | None:
    blocks: dict[tuple[int, int], list[Generated]] = {}
    for (process, _, repeat), g in run.generated.get(arm, {}).items():
        blocks.setdefault((process, repeat), []).append(g)
    # Only prompts that stand in all of its blocks, or a longer prompt would pass for a slower machine.
    shared = set.intersection(*({g.prompt for g in group} for group in blocks.values())) if blocks else set()
    times = list(_seconds_a_token(blocks, shared))
    if len(times) < 2 or min(times) <= 0:
        return None
    return max(times) / min(times) - 1


def _seconds_a_token(blocks: dict[tuple[int, int], list[Generated]], prompts: set[str]) -> Iterator[float]:
    for group in blocks.values():
        own = [g for g in group if g.prompt in prompts]
        tokens = sum(g.new_tokens - 1 for g in own)
        if tokens > 0:
            yield sum(g.e2e_s - g.ttft_s for g in own) / tokens


def _turns(run: RunFile) -> int:
    return len({(task.process, task.repeat) for task in run.measure_tasks})


def _listed(run: RunFile, arms: tuple[str, ...]) -> str:
    return ", ".join(run.labels.get(arm, arm) for arm in arms)
