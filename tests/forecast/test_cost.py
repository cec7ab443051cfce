"""Cost curves: what is measured, what lies between, ceilings, and drafts that cannot win."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from specq.core.types import DraftSpec, Generation, Prompt, Sampling, Step
from specq.forecast import cost
from specq.forecast.cost import Curve, Point


def point(proposed: int, draft_s: float, verify_s: float, rest_s: float = 0.0) -> Point:
    return Point(proposed=proposed, draft_s=draft_s, verify_s=verify_s, rest_s=rest_s, n=9, spread=0.01)


def curve(*points: Point, plain_s: float = 1.0) -> Curve:
    return Curve(plain=point(0, 0.0, plain_s), points=points, context=50, measured_s=1.0)


def test_seconds_between_and_beyond_the_measured_points_lie_on_lines() -> None:
    found = curve(point(1, 0.2, 1.0), point(2, 0.4, 1.1), point(4, 0.8, 1.5, 0.1)).parts(6)
    assert found["draft"] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2])
    assert found["verify"] == pytest.approx([1.0, 1.0, 1.1, 1.3, 1.5, 1.7, 1.9])
    assert found["rest"] == pytest.approx([0.0, 0.0, 0.0, 0.05, 0.1, 0.15, 0.2])


def test_the_ceiling_counts_the_bonus_token_and_the_break_even_is_a_step_in_plain_steps() -> None:
    found = curve(point(4, 0.8, 1.2), plain_s=0.5)
    assert found.ceiling(4) == pytest.approx(5 * 0.5 / 2.0)
    assert found.break_even(4) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ((point(1, 1.1, 1.0), point(4, 4.4, 1.2)), "a drafted token takes 1.10 of a plain step"),
        ((point(1, 0.1, 2.5), point(4, 0.4, 6.0)), "tokens takes"),
        ((point(1, 0.9, 1.2), point(4, 3.8, 1.5)), "drafting takes"),
    ],
)
def test_a_pair_that_even_a_perfect_draft_cannot_save_is_called_hopeless_with_its_cause(
    points: tuple[Point, ...], says: str
) -> None:
    assert says in curve(*points).why_hopeless(4)


def test_a_pair_that_can_win_is_not_called_hopeless() -> None:
    assert curve(point(1, 0.5, 1.1), point(4, 2.0, 1.3)).why_hopeless(4) == ""


def test_the_grid_ends_with_the_most_that_is_forecast() -> None:
    assert cost.grid(8) == (1, 2, 4, 8)
    assert cost.grid(5) == (1, 2, 4, 5)
    assert cost.grid(1) == (1,)


@dataclass
class FakeDecoder:
    """Decodes at once and says what each step would have taken: the first step of a text is slow."""

    k: int
    seen: list[tuple[int, int, Sampling]] = field(default_factory=list)

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, *, on_step: Callable[[Step], None]
    ) -> list[Generation]:
        made = []
        for prompt in prompts:
            self.seen.append((self.k, len(prompt.ids), sampling))
            left, steps = sampling.max_new_tokens - 1, []
            while left > 0:
                size = min(self.k, left - 1)
                slow = 100.0 if not steps else 1.0
                steps.append(
                    Step(
                        context=len(prompt.ids),
                        proposed=size,
                        accepted=0,
                        emitted=1,
                        draft_s=0.1 * size * slow,
                        verify_s=(1 + 0.01 * size) * slow,
                        sample_s=0.02,
                        rest_s=0.03,
                    )
                )
                left -= 1
                on_step(steps[-1])
            ids = tuple(range(sampling.max_new_tokens))
            made.append(
                Generation(
                    prompt_id=prompt.id, ids=ids, text="", finish="length", ttft_s=0.0, e2e_s=0.0, steps=tuple(steps)
                )
            )
        return made


class FakeTarget:
    def __init__(self) -> None:
        self.decoders: list[FakeDecoder] = []

    def decoder(self, draft: DraftSpec | None) -> FakeDecoder:
        self.decoders.append(FakeDecoder(k=draft.k if draft else 0))
        return self.decoders[-1]


def measured(method: str, prompt_ids: int = 6) -> tuple[Curve, FakeTarget]:
    target: Any = FakeTarget()
    draft = DraftSpec(method=method, k=4)  # type: ignore[arg-type]
    prompts = [Prompt(id="p", ids=tuple(range(1, prompt_ids + 1)))]
    sampling = Sampling(stop=("x",), min_new_tokens=3, max_new_tokens=500)
    return cost.measure(target, {"d": draft}, prompts, sampling, grid=(1, 4), seconds=0.0)["d"], target


def test_first_steps_are_left_out_and_each_k_is_measured_beside_plain_steps() -> None:
    found, target = measured("early_exit")
    assert found.plain.step_s == pytest.approx(1.05)
    assert [(one.proposed, one.step_s) for one in found.points if one.proposed in (1, 4)] == [
        (1, pytest.approx(0.1 + 1.01 + 0.05)),
        (4, pytest.approx(0.4 + 1.04 + 0.05)),
    ]
    plain = next(one for one in target.decoders if one.k == 0)
    # One round of two k: a plain turn before them; one text of each k warms up.
    assert len(plain.seen) == 1
    assert [len(one.seen) for one in target.decoders if one.k] == [2, 2]


def test_a_draft_that_is_never_right_takes_no_more_steps_than_one_that_always_is() -> None:
    found, _ = measured("early_exit")
    assert {one.proposed: one.n for one in found.points} == {1: 5, 4: 5}


def test_stops_cannot_cut_what_is_measured_short() -> None:
    _, target = measured("early_exit")
    for decoder in target.decoders:
        for _, _, sampling in decoder.seen:
            assert (sampling.ignore_eos, sampling.stop, sampling.min_new_tokens) == (True, (), 0)


def test_a_prompt_at_the_end_of_the_context_is_cut_rather_than_refused() -> None:
    target: Any = FakeTarget()
    draft, prompts = DraftSpec(method="early_exit", k=4), [Prompt(id="p", ids=tuple(range(1, 101)))]
    cost.measure(target, {"d": draft}, prompts, Sampling(max_new_tokens=10), grid=(1, 4), seconds=0.0)
    for decoder in target.decoders:
        for _, length, sampling in decoder.seen:
            assert length + sampling.max_new_tokens <= 110


def test_a_lookup_reads_a_prompt_that_repeats_itself_at_its_length() -> None:
    _, target = measured("lookup")
    assert {length for one in target.decoders for _, length, _ in one.seen} == {6}
