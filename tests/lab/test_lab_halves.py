"""The halves on known laws: a line is recovered exactly, a bend is seen, and a late prediction is not believed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from lab_fakes import BASE, LENGTHS, READ, WRITE, Fake, bench, linear, quadratic
from scipy import stats

from specq.core.errors import ConfigError, RunFailed, Unsupported
from specq.core.types import Prompt
from specq.lab import bench as benches
from specq.lab import fits, halves
from specq.lab import rows as records
from specq.lab.requester import Answer


def measured(fake: Fake) -> tuple[benches.Bench, halves.Halves]:
    made = bench(fake)
    halves.measure(made)
    found = halves.found(made.rows, made.predictions)
    assert found is not None
    return made, found


def test_a_line_is_not_recovered() -> None:
    made, found = measured(Fake())
    assert found.model is not None
    assert found.checked is not None
    assert found.bend is not None
    assert found.model.prompt_token_s == pytest.approx(READ)
    assert found.model.output_token_s == pytest.approx(WRITE)
    # The first token is in the time to the first token.
    assert found.model.base_s == pytest.approx(BASE - WRITE)
    assert found.model.lengths == len(LENGTHS)
    assert found.checked.error == pytest.approx(0, abs=1e-9)
    assert found.checked.before
    assert abs(found.bend.share) < 1e-9
    assert not found.bend.bent
    for cell in found.cells:
        assert cell.prefill_tokens_per_s.median == pytest.approx(cell.prompt_tokens / linear(cell.length))
        assert cell.decode_tokens_per_s is not None
        assert cell.ratio is not None
        assert cell.off_line is not None
        assert cell.decode_tokens_per_s.median == pytest.approx(1 / WRITE)
        assert cell.ratio.median == pytest.approx(cell.prefill_tokens_per_s.median * WRITE)
        assert abs(cell.off_line) < 1e-9
    # The prediction stands before what it predicts, and its length is no other's.
    (said,) = made.predictions
    assert said.length == 280
    assert said.prompt_tokens == 280
    assert said.e2e_s == pytest.approx(linear(280) + 15 * WRITE)


def test_a_quadratic_passes_for_a_line() -> None:
    _, found = measured(Fake(quadratic))
    assert found.bend is not None
    assert found.checked is not None
    assert found.bend.share == pytest.approx(0.5)
    assert found.bend.bent
    assert max(abs(cell.off_line or 0) for cell in found.cells) > 0.03
    assert abs(found.checked.error) > 0.005


def test_repeats_that_lie_apart_pass_for_a_bend() -> None:
    assert halves.Bend(share=0.05, noise=0.01, within=0.04, prompt_tokens=320).bent
    assert not halves.Bend(share=0.05, noise=0.08, within=0.0, prompt_tokens=320).bent
    assert not halves.Bend(share=0.05, noise=0.01, within=0.06, prompt_tokens=320).bent
    assert not halves.Bend(share=-0.015, noise=0.0, within=0.0, prompt_tokens=320).bent


def test_lengths_that_scatter_pass_for_a_bend() -> None:
    flat = dict(zip(LENGTHS, (0.135, 0.133, 0.138, 0.134, 0.136, 0.1385), strict=True))
    _, found = measured(Fake(lambda tokens: flat.get(tokens, 0.136)))
    assert found.bend is not None
    # Repeats are the same to the last digit, and yet neighbours differ by more than the part that looks quadratic.
    assert found.bend.noise == 0
    assert found.bend.share == pytest.approx(0.0397, abs=1e-4)
    assert found.bend.within == pytest.approx(0.2727, abs=1e-4)
    assert not found.bend.bent
    # The same scatter leaves a real bend to be seen.
    _, found = measured(Fake(lambda tokens: quadratic(tokens) * flat.get(tokens, 0.136) / 0.136))
    assert found.bend is not None
    assert found.bend.bent


def test_a_fit_has_other_intervals_than_a_textbooks() -> None:
    # By scipy.stats.linregress, whose standard error times t of 3 degrees of freedom it is.
    x, y = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([2.1, 3.9, 6.2, 7.8, 10.1])
    found = fits.least(np.stack([np.ones_like(x), x], 1), y, np.ones_like(y))
    true = stats.linregress(x, y)
    t = stats.t.ppf(0.975, 3)
    assert found.coefficients == pytest.approx((true.intercept, true.slope))
    assert found.within == pytest.approx((t * true.intercept_stderr, t * true.stderr))
    assert fits.least(np.ones((5, 2)), y, np.ones_like(y)).within is None
    assert fits.least(np.stack([np.ones(2), x[:2]], 1), y[:2], np.ones(2)).within is None


def test_a_prediction_after_the_fact_is_believed() -> None:
    made, _ = measured(Fake())
    late = [dataclasses.replace(one, place=len(made.rows)) for one in made.predictions]
    found = halves.found(made.rows, late)
    assert found is not None
    assert found.checked is not None
    assert not found.checked.before
    early = [dataclasses.replace(one, place=3) for one in made.predictions]
    found = halves.found(made.rows, early)
    assert found is not None
    assert found.checked is not None
    assert not found.checked.before


def test_answers_of_one_length_leave_the_model_without_a_price_of_a_token() -> None:
    made, _ = measured(Fake())
    rows = [row for row in records.of(made.rows, halves.PART, "length") if row.output_tokens == 16]
    model = halves.fit(rows)
    assert model is not None
    assert model.output_token_s == pytest.approx(WRITE)
    assert model.prompt_token_s == pytest.approx(READ)
    assert halves.fit([row for row in rows if row.length <= 160]) is None


def test_prompts_are_asked_twice_or_in_order() -> None:
    fake = Fake()
    made, _ = measured(fake)
    cold = [prompt.ids for prompt, cached in fake.asked if not cached and prompt.id != benches.CANARY]
    assert len({ids[0] for ids in cold}) == len(cold) == 14
    lengths = [row.length for row in made.rows if row.what == "length"]
    # A token's cost is told apart from a request's by answers of two lengths.
    assert {row.output_tokens for row in made.rows if row.what == "length"} == {8, 16}
    assert lengths != sorted(lengths)
    canaries = [row.place for row in made.rows if row.part == benches.CANARY]
    assert canaries[0] == 0
    assert canaries[-1] == len(made.rows) - 1
    assert len(canaries) >= 4
    again, _ = measured(Fake())
    assert [row.length for row in again.rows] == [row.length for row in made.rows]


def test_a_machine_that_gets_slower_is_not_flagged() -> None:
    steady = benches.drift(measured(Fake())[0].rows)
    assert steady.moved == pytest.approx(0)
    assert not steady.flagged
    slower = benches.drift(measured(Fake(drifts=0.01))[0].rows)
    assert slower.moved is not None
    assert slower.moved > 0.1
    assert slower.flagged


def test_a_failed_request_counts_or_is_silent() -> None:
    made, found = measured(Fake(fails=(3,)))
    assert sum(bool(row.error) for row in made.rows) == 1
    assert found.model is not None
    assert found.model.prompt_token_s == pytest.approx(READ)
    (said,) = records.failed(made.rows)
    assert said.startswith("1 of ")
    assert "planted" in said
    with pytest.raises(RunFailed, match="planted"):
        measured(Fake(fails=range(2, 9)))


def test_cached_tokens_in_a_cold_row_are_not_told() -> None:
    made, found = measured(Fake(lies=5))
    assert found.warm_rows == 12
    # Nor do they count as read.
    row = next(row for row in made.rows if row.length == 320)
    assert row.prefill_tokens_per_s == pytest.approx(315 / linear(320))


@pytest.mark.parametrize(
    ("lengths", "repeats", "output"), [((1, 2, 3, 4, 5, 6), 2, 8), ((8,) * 6, 2, 8), (LENGTHS, 1, 8), (LENGTHS, 2, 3)]
)
def test_too_little_to_tell_two_halves_is_accepted(lengths: tuple[int, ...], repeats: int, output: int) -> None:
    with pytest.raises(ConfigError, match="allowed"):
        halves.check(lengths, repeats, output)


class Short(Fake):
    """Ends every answer with its first token, whatever it is told."""

    def ask(self, prompt: Prompt, max_tokens: int, *, cached: bool = False, streamed: bool = True) -> Answer:
        return super().ask(prompt, 1, cached=cached, streamed=streamed)


def test_answers_of_one_token_end_the_lab() -> None:
    made = bench(Short())
    with pytest.raises(Unsupported, match="every answer ended with its first token"):
        halves.measure(made)
    found = halves.found(made.rows, made.predictions)
    assert found is not None
    assert found.model is None
    assert [cell.decode_tokens_per_s for cell in found.cells] == [None] * len(LENGTHS)
    assert found.cells[0].prefill_tokens_per_s.median > 0
