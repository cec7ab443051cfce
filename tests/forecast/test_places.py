"""Where steps are measured: which contexts, on which text, and which are refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from specq.core.errors import ConfigError
from specq.core.types import Prompt
from specq.forecast import places


def prompt(tokens: int, start: int = 1) -> Prompt:
    return Prompt(id=f"p{start}", ids=tuple(range(start, start + tokens)))


def test_a_prompt_of_a_context_ends_as_a_prompt_does_and_has_the_others_before_it() -> None:
    several = [prompt(3, 1), prompt(2, 11)]
    assert places.laid(several, 4, 0).ids == (12, 1, 2, 3)
    assert places.laid(several, 7, 1).ids == (11, 12, 1, 2, 3, 11, 12)
    assert places.laid(several, 2, 2).ids == (2, 3)


def contexts(asked: Sequence[int], lengths: Sequence[int], limit: int | None = 1000) -> tuple[int, ...]:
    prompts = [prompt(length) for length in lengths]
    return places.contexts(asked, prompts, 60, k=4, limit=limit, model="m")


def test_both_ends_are_measured_where_prompts_lie_far_apart_and_the_prompts_themselves_else() -> None:
    assert contexts((), [40, 80]) == ()
    assert contexts((), [40, 81, 50]) == (40, 141)
    assert contexts((), [40, 81], None) == (40, 141)
    # What is written while steps are measured fits the model's context as well.
    assert contexts((), [40, 940]) == (40, 1000 - places.room(4))


def test_the_room_for_many_proposals_is_enough_for_fewer() -> None:
    rooms = [places.room(k) for k in range(33)]
    assert rooms == sorted(rooms)


def test_contexts_that_were_asked_for_are_kept_in_order_and_once() -> None:
    assert contexts((300, 20, 300), [40]) == (20, 300)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            (20, 990),
            r"contexts = 990: the context of m is 1000 tokens, .* longest prompt has 80 tokens; .* 979 at most",
        ),
        ((0,), "contexts = 0: allowed are whole numbers of tokens from 1 on"),
    ],
)
def test_contexts_that_no_model_reads_are_refused_with_those_that_it_does(asked: tuple[int, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        contexts(asked, [40, 80])
