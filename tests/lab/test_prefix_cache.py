from __future__ import annotations

import random

import numpy as np
import pytest
from prefix_logs import prompt, slow_blocks, slow_common, slow_shared, slow_slots

from specq.lab import prefix_cache


def logs(seed: int) -> list[bytes]:
    """Prompts that grow out of each other, end within each other and stand twice; ids of one and of several bytes."""
    rng = random.Random(seed)
    letters = rng.choice([(0, 1), (1, 256, 65536), tuple(range(50)), (2**31, 2**31 + 1, 7)])
    made: list[tuple[int, ...]] = []
    for _ in range(rng.randrange(1, 40)):
        head = rng.choice(made)[: rng.randrange(20)] if made and rng.random() < 0.8 else ()
        made.append((*head, *(rng.choice(letters) for _ in range(rng.randrange(12)))))
    return [prompt(*ids) for ids in made]


@pytest.mark.parametrize("seed", range(60))
def test_a_hit_differs_from_that_of_a_search_through_all_earlier_prompts(seed: int) -> None:
    prompts = logs(seed)
    found = prefix_cache.sort(prompts)
    overlap = prefix_cache.shared(found)
    assert overlap.tolist() == slow_shared(prompts)
    for block in (1, 2, 3, 5):
        assert prefix_cache.reusable(overlap, found.lengths, block).tolist() == slow_blocks(prompts, block)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_slot_holds_another_prompt_than_the_servers(seed: int, count: int) -> None:
    prompts = logs(seed)
    found = prefix_cache.slots(prompts, count)
    assert found.reused.tolist() == slow_slots(prompts, count, prefix_cache.SLOT_SIMILARITY)


def test_two_prompts_that_differ_in_a_byte_of_an_id_share_that_id() -> None:
    assert prefix_cache.common(prompt(1, 2, 256), prompt(1, 2, 257)) == 2
    assert prefix_cache.common(prompt(1, 2), prompt(1, 2, 3)) == 2
    assert prefix_cache.common(prompt(), prompt(1)) == 0
    assert slow_common(prompt(1, 2, 256), prompt(1, 2, 257)) == 2


def test_the_last_token_of_a_prompt_needs_no_pass() -> None:
    prompts = [prompt(*range(32)), prompt(*range(32)), prompt(*range(33)), prompt(*range(20))]
    found = prefix_cache.sort(prompts)
    overlap = prefix_cache.shared(found)
    assert overlap.tolist() == [0, 32, 32, 20]
    assert prefix_cache.reusable(overlap, found.lengths).tolist() == [0, 31, 32, 19]
    assert prefix_cache.reusable(overlap, found.lengths, 16).tolist() == [0, 16, 32, 16]


def test_a_prompt_that_comes_later_gives_a_hit() -> None:
    prompts = [prompt(1, 2, 3, 9), prompt(5), prompt(1, 2, 3, 4)]
    assert prefix_cache.shared(prefix_cache.sort(prompts)).tolist() == [0, 0, 3]
    assert prefix_cache.shared(prefix_cache.sort(prompts[::-1])).tolist() == [0, 0, 3]


def test_two_users_who_take_turns_on_one_slot_hit_as_if_alone() -> None:
    one, other = [1] * 50, [2] * 50
    turns = [prompt(*(one if n % 2 == 0 else other), *range(100, 100 + n)) for n in range(10)]
    single, double = prefix_cache.slots(turns, 1), prefix_cache.slots(turns, 2)
    assert single.reused.tolist() == [0] * 10
    assert single.taken_over == 9
    assert double.reused.tolist() == [0, 0, *(50 + n - 2 for n in range(2, 10))]
    assert double.taken_over == 0


def test_a_short_common_head_holds_on_to_a_slot() -> None:
    # 10 of 100 tokens are not more than a tenth: the slot that was unused longest is taken, and its overlap counts.
    head = list(range(10))
    first, second = prompt(*head, *[7] * 90), prompt(*[8] * 100)
    third = prompt(*head, *[9] * 90)
    found = prefix_cache.slots([second, first, third], 2)
    assert found.reused.tolist() == [0, 0, 0]
    assert found.taken_over == 1
    longer = prompt(*head, 7, *[9] * 89)
    assert prefix_cache.slots([second, first, longer], 2).reused.tolist() == [0, 0, 11]


def test_no_prompts_or_empty_ones_stop_it() -> None:
    assert prefix_cache.shared(prefix_cache.sort([])).size == 0
    empty = [prompt(), prompt(), prompt(1)]
    found = prefix_cache.sort(empty)
    assert prefix_cache.reusable(prefix_cache.shared(found), found.lengths).tolist() == [0, 0, 0]
    assert prefix_cache.slots(empty, 1).reused.tolist() == [0, 0, 0]
    assert np.array_equal(found.lengths, [0, 0, 1])
