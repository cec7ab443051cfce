"""Context, prompt cache and batch on known laws; planted faults of engines are told."""

from __future__ import annotations

import pytest
from lab_fakes import LENGTHS, WRITE, Fake, bench, linear

from specq.core.errors import ConfigError
from specq.lab import batching, context, prompt_cache
from specq.lab.requester import OwnPrompt
from specq.lab.rows import Row
from specq.workloads import counting


def slowing(tokens: int) -> float:
    return WRITE * (1 + tokens / 1000)


def of_context(fake: Fake) -> context.Context:
    made = bench(fake)
    context.measure(made)
    found = context.found(made.rows)
    assert found is not None
    return found


def test_the_slow_down_over_context_is_not_recovered() -> None:
    found = of_context(Fake(tpot=slowing))
    assert found.slower == pytest.approx(1.32 / 1.04)
    assert found.per_1000_s == pytest.approx(WRITE)
    assert found.slows
    assert found.agree
    assert [depth.prompt_tokens for depth in found.depths] == list(LENGTHS)
    for depth in found.depths:
        assert depth.ttft_s.median == pytest.approx(linear(depth.length))
        assert depth.ttft_share is not None
        whole = linear(depth.length) + 15 * slowing(depth.length)
        assert depth.ttft_share.median == pytest.approx(linear(depth.length) / whole)
        assert depth.whole_over_streamed == pytest.approx(1)
    assert not of_context(Fake()).slows


def test_lengths_that_scatter_pass_for_a_slow_down() -> None:
    times = dict(zip(LENGTHS, (10.0, 10.3, 9.9, 10.2, 9.9, 10.3), strict=True))
    found = of_context(Fake(tpot=lambda tokens: times.get(tokens, 10.0) / 1000))
    assert found.slower == pytest.approx(1.03)
    assert found.noise == pytest.approx(0)
    assert found.within is not None
    assert found.within > 0.03
    assert not found.slows
    # A line through two lengths has no scatter: repeats alone say it there.
    made = bench(Fake(tpot=slowing), LENGTHS[:2])
    context.measure(made)
    two = context.found(made.rows)
    assert two is not None
    assert two.within is None
    assert two.slows


def test_totals_that_disagree_pass() -> None:
    found = of_context(Fake(late=0.05))
    assert found.agree is False
    assert found.whole_over_streamed is not None
    assert found.whole_over_streamed > 1.05


def of_cache(fake: Fake, **how: object) -> prompt_cache.Cache:
    made = bench(fake)
    prompt_cache.measure(made, **how)  # type: ignore[arg-type]
    found = prompt_cache.found(made.rows)
    assert found is not None
    return found


def test_each_case_saves_what_it_shares() -> None:
    found = of_cache(Fake())
    shares = {case.name: case.rate.share for case in found.cases}
    assert list(shares) == list(prompt_cache.CASES)
    # A stamp of two words goes before 320.
    assert shares["cold"] == 0
    assert shares["warm"] == pytest.approx(321 / 322)
    assert shares["bottom"] == pytest.approx(321 / 322)
    assert shares["at 12"] == pytest.approx(11 / 322)
    assert shares["top"] == 0
    assert shares["stamp"] == 0
    for case in found.cases:
        assert case.possible == pytest.approx(case.rate.share)
        share = case.rate.share or 0.0
        assert case.ttft_s.median == pytest.approx(linear(round(322 * (1 - share))))
    warm = found.case("warm")
    assert warm is not None
    assert warm.saved == pytest.approx(1 - linear(1) / linear(322))
    # Weighted by tokens, over all cases.
    assert found.all.share == pytest.approx((321 + 321 + 11) / 6 / 322)
    assert found.beyond == 0


def test_two_users_on_one_slot_throw_each_other_out() -> None:
    one = of_cache(Fake(slots=1)).users
    assert one is not None
    assert one.thrown_out
    assert one.turns.share == 0
    assert one.alone.share is not None
    assert one.alone.share > 0.9
    two = of_cache(Fake(slots=2)).users
    assert two is not None
    assert two.thrown_out is False
    assert two.turns.share == pytest.approx(two.alone.share)


def test_a_cache_that_claims_what_was_never_asked_is_believed() -> None:
    assert of_cache(Fake(lies=prompt_cache.SLACK + 1)).beyond > 0
    silent = of_cache(Fake(tells=False))
    assert silent.beyond == 0
    assert silent.all.share is None
    assert silent.users is not None
    assert silent.users.thrown_out is None
    warm = silent.case("warm")
    assert warm is not None
    assert warm.saved is not None
    assert warm.saved > 0.9


def test_own_prompts_are_rated_by_tag_and_weighted_by_tokens() -> None:
    head = " ".join(f"w{place}" for place in range(30))
    texts = [(f"{head} one", "a"), (f"{head} two", "a"), ("short text", "b"), (f"{head} four", "b")]
    own = [OwnPrompt(text=text, tokens=len(text.split()), tags=(tag,)) for text, tag in texts]
    found = of_cache(Fake(), own=own)
    assert found.own is not None
    assert found.own.requests == 4
    assert {tag: rate.cached_tokens for tag, rate in found.tags.items()} == {"a": 30, "b": 0}
    assert found.tags["a"].share == pytest.approx(30 / 62)
    assert found.own.share == pytest.approx(30 / (31 * 3 + 2))


@pytest.mark.parametrize(("case", "equal"), [("top", 0), ("at 12", 11), ("bottom", 39), ("stamp", 0)])
def test_a_changed_word_stands_elsewhere(case: str, equal: int) -> None:
    words = [f"w{place}" for place in range(38)]
    text = f"{prompt_cache.stamp()}\n{' '.join(words)}"
    found = prompt_cache.changed(text, case, counting.counter()).split()
    assert len(found) == 40
    assert (
        next(place for place, pair in enumerate(zip(text.split(), found, strict=True)) if pair[0] != pair[1]) == equal
    )
    assert sum(one != other for one, other in zip(text.split(), found, strict=True)) == (2 if case == "stamp" else 1)


def bench_rows(fake: Fake) -> list[Row]:
    made = bench(fake)
    batching.measure(made, (1, 2, 4, 8))
    return made.rows


def of_batch(fake: Fake, machine: batching.Machine | None = None) -> batching.Batch:
    found = batching.found(bench_rows(fake), machine)
    assert found is not None
    return found


def test_the_batch_where_decoding_stops_being_free_is_missed() -> None:
    found = of_batch(Fake(step=lambda batch: max(1.0, batch / 4)))
    assert found.free_until == 4
    assert [point.step for point in found.points] == pytest.approx([1, 1, 1, 2])
    first, *_, last = found.points
    assert first.decode_tokens_per_s == pytest.approx(1 / WRITE)
    assert last.decode_tokens_per_s == pytest.approx(4 / WRITE)
    assert last.tokens_per_s.median == pytest.approx(8 * 16 / (linear(160) + 15 * 2 * WRITE))
    assert of_batch(Fake()).free_until == 8
    assert of_batch(Fake(step=float)).free_until == 1


def test_a_quick_batch_after_a_slow_one_counts_as_free() -> None:
    found = of_batch(Fake(step=lambda batch: 2.0 if batch == 4 else 1.0))
    assert [point.step for point in found.points] == pytest.approx([1, 1, 2, 1])
    assert found.free_until == 2


def test_a_step_has_the_prefill_of_the_other_requests_in_it() -> None:
    found = of_batch(Fake(step=lambda batch: max(1.0, batch / 4), in_turn=True))
    assert [point.step for point in found.points] == pytest.approx([1, 1, 1, 2])
    assert found.free_until == 4
    assert found.points[1].decode_tokens_per_s == pytest.approx(2 / WRITE)
    # What a request waits for a token has it all the same.
    assert found.points[1].tpot_s.high == pytest.approx(WRITE + linear(160) / 15)


def test_requests_that_wait_for_one_another_pass_for_a_batch() -> None:
    found = of_batch(Fake(one_slot=True))
    assert [point.step for point in found.points] == [1, None, None, None]
    assert [point.decode_tokens_per_s for point in found.points[1:]] == [None] * 3
    assert found.free_until == 1


def test_tokens_that_came_in_one_piece_divide_by_zero() -> None:
    assert batching.found(bench_rows(Fake(step=lambda batch: 0.0))) is None
    some = of_batch(Fake(step=lambda batch: 0.0 if batch == 4 else 1.0))
    assert [point.step for point in some.points] == [1, 1, None, 1]


def test_the_ridge_is_not_where_intensity_meets_it() -> None:
    machine = batching.Machine(origin="a data sheet", flops=989e12, bandwidth=3.35e12, bytes_per_weight=2.0)
    assert machine.flop_per_byte == pytest.approx(295, abs=0.5)
    assert machine.batch == pytest.approx(295, abs=0.5)
    found = of_batch(Fake(), machine)
    assert [point.intensity for point in found.points] == [1, 2, 4, 8]
    assert batching.Machine(origin="", flops=1.0, bandwidth=1.0, bytes_per_weight=None).batch is None


@pytest.mark.parametrize("sizes", [(2, 4), (1,), (1, 1), (0, 1)])
def test_batches_without_a_curve_are_accepted(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="--batch 1,2,4,8"):
        batching.check(sizes)
