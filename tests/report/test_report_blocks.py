"""Runs in blocks: what the report says of their order and of what their ratios may hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from quantized_runs import ARMS, audits, loaded, made, quantized_info, quantized_turns, table, verdict
from report_runs import write_run

from specq import report
from specq.core.errors import RunFolderError
from specq.core.records import Canary, Done, Generated, Record, StepRow
from specq.report import tables

BLOCKS = [["baseline#1", "baseline#2", "lookup#1", "q8#1"], ["w4#1", "lookup+w4#1"]]
PARTS = ("draft_s", "verify_s", "sample_s", "rest_s")
TASKS = [("measure", block, repeat) for block, repeat in (("baseline#1", 0), ("w4#1", 0), ("w4#1", 1))]


def blocks_run(
    folder: Path,
    change: Callable[[Generated], Generated | None] = lambda g: g,
    more: tuple[Record, ...] = (),
    *,
    finished: bool = True,
    blocks: Any = BLOCKS,
    **config: Any,
) -> report.Report:
    """The report of a run in blocks."""
    about = {**quantized_info(**config), **({} if blocks is None else {"blocks": blocks})}
    tasks = [":".join(map(str, task)) for task in TASKS]
    tasks += ["measure:baseline#1:1"] * finished + ["audit:baseline#1", "audit:w4#1"]
    ends = [Done(process=0, task=task) for task in (tasks if blocks else ["measure", "audit"])]
    answers = [g for turn in quantized_turns(ARMS) if (g := change(turn)) is not None]
    lines = [made(), *loaded(), *answers, *audits(), *more, *ends]
    return report.build(write_run(folder, about, lines, done=False))


def slower(arms: list[str], factor: float) -> Callable[[Generated], Generated]:
    """Decoding that takes so many times as long in the second turn of some arms."""

    def change(g: Generated) -> Generated:
        if g.arm not in arms or g.repeat == 0:
            return g
        rows = [StepRow(*step) for step in g.steps]
        steps = tuple(row._replace(**{part: getattr(row, part) * factor for part in PARTS}) for row in rows)
        return replace(g, e2e_s=g.ttft_s + (g.e2e_s - g.ttft_s) * factor, steps=steps)

    return change


def test_the_order_of_blocks_is_not_said(tmp_path: Path) -> None:
    found = blocks_run(tmp_path / "run")
    assert found.complete
    said = " ".join(table(found, "How arms took turns").lines)
    assert "in this order: A B B A." in said
    assert "A: baseline#1, baseline#2, lookup, q8; B: w4, lookup + w4." in said
    assert "a change of any other kind does not." in said
    assert "both twins share a block" in said
    assert "odd number" not in said
    assert any(flag.startswith("arms ran in blocks") for flag in found.flags)
    for arm, told in (("w4#1", True), ("lookup+w4#1", True), ("lookup#1", False), ("q8#1", False)):
        assert ("in other blocks than the baseline" in verdict(found, arm).sentence) == told, arm


def test_a_run_without_blocks_speaks_of_them(tmp_path: Path) -> None:
    for name, blocks in (("new", []), ("old", None)):
        found = blocks_run(tmp_path / name, blocks=blocks)
        assert found.complete
        assert found.turns == ()
        assert not any("blocks" in flag for flag in found.flags)
        assert "in other blocks" not in verdict(found, "w4#1").sentence


def test_a_shift_between_blocks_is_hidden(tmp_path: Path) -> None:
    even, moved = blocks_run(tmp_path / "a"), blocks_run(tmp_path / "b", slower(BLOCKS[0], 1.25))
    assert "moved by up to 0 %" in even.turns[-1]
    assert "moved by up to 25 % (baseline#1)" in moved.turns[-1]
    assert "the same arm moved by up to 25 %" in verdict(moved, "w4#1").sentence


def faster(factor: float, drafts: float = 1.0) -> Callable[[Generated], Generated]:
    """Arm w4, and the arms with drafts, so many times as fast; the baseline's block takes 1.25 times in its turn 2."""
    late = slower(BLOCKS[0], 1.25)
    factors = {"w4#1": factor, "lookup#1": drafts, "lookup+w4#1": drafts}

    def change(g: Generated) -> Generated:
        both = slower([g.arm], 1 / factors.get(g.arm, 1.0))(replace(g, repeat=1))
        return late(replace(both, repeat=g.repeat))

    return change


def test_a_difference_that_the_blocks_hide_is_judged(tmp_path: Path) -> None:
    quiet, close = blocks_run(tmp_path / "a"), blocks_run(tmp_path / "b", faster(0.6))
    far, once = blocks_run(tmp_path / "c", faster(1.0)), blocks_run(tmp_path / "d", lambda g: replace(g, repeat=0))
    speeds = [found.arm("w4#1").measures["speedup"] for found in (quiet, close, far, once)]
    assert [(speed.low or 0) > 1 for speed in speeds] == [True] * 4
    assert (speeds[1].low or 0) < 1.25 < (speeds[2].low or 0)
    assert [verdict(found, "w4#1").faster_but_changed for found in (quiet, close, far, once)] == [1, 0, 1, 0]
    reason = "a difference that small may be the machine's: the same arm moved by 25 % between its blocks"
    assert reason in verdict(close, "w4#1").sentence
    assert "measured in other blocks than the baseline" in verdict(far, "w4#1").sentence
    assert "how far the machine moved between blocks is not known" in verdict(once, "w4#1").sentence
    assert "lookup + w4 would be faster still" in far.recommendation
    assert "which the same arm moved by up to 25 %), but it" in far.recommendation


def test_slower_within_what_the_blocks_hide_is_rejected(tmp_path: Path) -> None:
    found = blocks_run(tmp_path / "a", faster(0.5, drafts=0.3))
    speed, given = found.arm("w4#1").measures["speedup"], verdict(found, "w4#1")
    assert 1 / 1.25 < (speed.high or 9) < 1
    assert given.kind == "undecided"
    assert "for w4 and lookup + w4 a run in which it takes turns with the baseline" in found.recommendation
    assert verdict(blocks_run(tmp_path / "b", faster(0.3)), "w4#1").kind == "reject"


def test_prompts_that_one_block_lacks_pass_for_a_shift(tmp_path: Path) -> None:
    def longer(g: Generated) -> Generated:
        return slower(["baseline#1"], 2.0)(g) if g.prompt == "w3" else g

    both = blocks_run(tmp_path / "a", longer)
    assert "moved by up to 17 %" in both.turns[-1]
    lacking = blocks_run(tmp_path / "b", lambda g: None if (g.prompt, g.repeat) == ("w3", 0) else longer(g))
    assert "moved by up to 0 %" in lacking.turns[-1]


def test_one_turn_is_called_balanced(tmp_path: Path) -> None:
    def drop(g: Generated) -> Generated:
        return replace(g, repeat=0)

    found = blocks_run(tmp_path / "run", drop, workload={"repeats": 1})
    assert "in this order: A B." in found.turns[0]
    assert "odd number of turns, so not even that cancels" in found.turns[1]
    assert "is not known" in found.turns[-1]
    assert "in other blocks than the baseline" in verdict(found, "w4#1").sentence


def test_a_block_that_is_not_measured_passes_for_a_whole_run(tmp_path: Path) -> None:
    found = blocks_run(tmp_path / "run", finished=False)
    assert not found.complete
    assert any("72 of 72 generations are recorded, and a worker did not say" in flag for flag in found.flags)


@pytest.mark.parametrize("blocks", ["baseline#1", [1], [[]], [[1]], [BLOCKS[0]], [*BLOCKS, ["w4#1"]], {"a": 1}])
def test_blocks_that_are_not_of_the_arms_are_reported(tmp_path: Path, blocks: Any) -> None:
    with pytest.raises(RunFolderError, match=r"run\.json: blocks"):
        blocks_run(tmp_path / "run", blocks=blocks)


def canaries(arm: str, *times: float) -> tuple[Record, ...]:
    return tuple(Canary(process=0, at_s=float(i), tpot_s=time, arm=arm) for i, time in enumerate(times))


def test_canaries_of_two_targets_pass_for_drift(tmp_path: Path) -> None:
    more = (*canaries("baseline#1", 0.05, 0.051), *canaries("w4#1", 0.02, 0.021))
    found = blocks_run(tmp_path / "a", more=more)
    measure = next(m for m in found.workload if m.name == "canary_drift")
    assert (measure.value, measure.n) == (pytest.approx(0.001 / 0.0205), 4)
    assert any("each target held against itself" in line for line in table(found, "Limits").lines)
    drifted = blocks_run(tmp_path / "b", more=(*more, *canaries("w4#1", 0.03)))
    assert any("the machine drifted: the canary's time moved by 48 %" in flag for flag in drifted.flags)


def test_the_terminal_shows_how_arms_took_turns(tmp_path: Path) -> None:
    from rich.console import Console

    console = Console(width=100, record=True, file=(tmp_path / "out").open("w"))
    console.print(tables.terminal(blocks_run(tmp_path / "run")))
    assert "How arms took turns" in console.export_text()
