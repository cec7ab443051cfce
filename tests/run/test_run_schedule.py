from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from specq.run.schedule import Turn, measure_tasks, turns


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{n}" for n in range(count)]


def places(schedule: list[Turn]) -> dict[str, Counter[int]]:
    found: dict[str, Counter[int]] = {}
    for turn in schedule:
        for place, arm in enumerate(turn.arms):
            found.setdefault(arm, Counter())[place] += 1
    return found


@pytest.mark.parametrize("arms", range(2, 8))
@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_every_arm_stands_equally_often_in_every_place_when_counts_allow(arms: int, repeats: int) -> None:
    schedule = turns(names("p", 2 * arms), names("a", arms), repeats, 2, 7)
    counts = {count for arm in places(schedule).values() for count in arm.values()}
    assert counts == {2 * repeats * 2}
    assert all(len(arm) == arms for arm in places(schedule).values())


def test_places_differ_by_at_most_one_a_repeat_when_counts_do_not_allow() -> None:
    rng = random.Random(1)
    for _ in range(200):
        prompts, arms, repeats = rng.randint(1, 13), rng.randint(2, 7), rng.randint(1, 4)
        schedule = turns(names("p", prompts), names("a", arms), repeats, 1, rng.randint(0, 99))
        for found in places(schedule).values():
            counts = [found[place] for place in range(arms)]
            assert max(counts) - min(counts) <= repeats


def test_the_next_repeat_takes_the_reverse_order() -> None:
    schedule = turns(names("p", 5), names("a", 4), 4, 2, 3)
    by_key = {(t.process, t.repeat, t.prompt): t.arms for t in schedule}
    for (process, repeat, prompt), order in by_key.items():
        if repeat % 2 == 0:
            assert by_key[process, repeat + 1, prompt] == order[::-1]


@pytest.mark.parametrize("arms", [2, 4, 6])
def test_no_arm_always_follows_the_same_neighbour(arms: int) -> None:
    schedule = turns(names("p", arms), names("a", arms), 1, 1, 0)
    after = Counter(pair for turn in schedule for pair in pairwise(turn.arms))
    assert len(after) == arms * (arms - 1)
    assert set(after.values()) == {1}


def test_every_sample_is_scheduled_once() -> None:
    schedule = turns(names("p", 5), names("a", 3), 2, 3, 1)
    found = Counter((t.process, t.repeat, t.prompt, arm) for t in schedule for arm in t.arms)
    assert len(found) == 5 * 3 * 2 * 3
    assert set(found.values()) == {1}


def test_the_order_in_which_arms_are_named_changes_nothing() -> None:
    arms = names("a", 5)
    assert turns(["p"], arms, 2, 1, 9) == turns(["p"], arms[::-1], 2, 1, 9)
    assert any(turns(["p"], arms, 1, 1, 9) != turns(["p"], arms, 1, 1, seed) for seed in range(5))


@pytest.mark.parametrize(("repeats", "processes"), [(1, 2), (2, 1), (2, 3), (4, 1), (1, 4)])
def test_a_steady_drift_does_not_cancel_between_blocks(repeats: int, processes: int) -> None:
    tasks = measure_tasks(["a", "b", "c"], repeats, processes)
    assert [task.arm for task in tasks[:6]] == ["a", "b", "c", "c", "b", "a"]
    assert len({(task.process, task.repeat, task.arm) for task in tasks}) == 3 * repeats * processes
    when = {block: sum(i for i, task in enumerate(tasks) if task.arm == block) for block in "abc"}
    assert len(set(when.values())) == 1


def test_without_blocks_there_is_one_worker_a_process() -> None:
    assert [(task.name, task.process) for task in measure_tasks([""], 4, 2)] == [("measure", 0), ("measure", 1)]
