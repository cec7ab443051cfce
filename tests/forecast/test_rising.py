"""Passes over more tokens that take less: one rule for seconds that are given and that are measured."""

from __future__ import annotations

import pytest
from test_measuring import FakeTarget, prompt

from specq.core.errors import ConfigError
from specq.core.types import DraftSpec, Sampling
from specq.forecast import files_check, measuring, predict, rising
from specq.forecast.cost import Curve, Point
from specq.forecast.files_check import Seconds
from specq.forecast.rising import Fall


def curve(*verify: float, spread: float = 0.0) -> Curve:
    """After a plain step of 1 s: steps of 1, 2, ... proposals, the target's pass taking so long."""
    plain, *points = (
        Point(proposed=k, draft_s=0.1 * k, verify_s=taken, rest_s=0.0, n=16, spread=spread)
        for k, taken in enumerate((1.0, *verify))
    )
    return Curve(plain=plain, points=tuple(points), context=20, measured_s=1.0)


@pytest.mark.parametrize(
    ("passes", "found"),
    [
        ([(1, 1.0), (2, 1.0), (5, 1.4)], []),
        ([(1, 1.0), (2, 0.96), (5, 0.95)], []),
        ([(5, 0.94), (1, 1.0)], [Fall(fewer=1, fewer_s=1.0, more=5, more_s=0.94)]),
        # Each is held against the slowest before it, however slowly they fall.
        ([(1, 1.0), (2, 0.97), (3, 0.94)], [Fall(fewer=1, fewer_s=1.0, more=3, more_s=0.94)]),
        (
            [(1, 1.0), (3, 2.0), (5, 1.5), (9, 1.8)],
            [Fall(fewer=3, fewer_s=2.0, more=at, more_s=s) for at, s in ((5, 1.5), (9, 1.8))],
        ),
    ],
)
def test_noise_is_a_fall_or_a_fall_is_noise(passes: list[tuple[int, float]], found: list[Fall]) -> None:
    assert rising.falls(passes) == found
    given = Seconds(plain=1.0, draft={"d": 0.1}, verify={at: taken for at, taken in passes if at > 1})
    if not found:
        files_check.check_seconds(given, ["d"])
        return
    with pytest.raises(ConfigError, match=rf"over {found[0].more} tokens is given {found[0].more_s} s"):
        files_check.check_seconds(given, ["d"])


def test_a_curve_that_falls_is_as_certain_as_one_that_does_not() -> None:
    fine, falls = curve(1.0, 1.5, 1.46), curve(1.0, 2.5, 1.5)
    assert rising.widened(fine) == fine
    assert rising.told({"d": fine}) == []
    wide = rising.widened(falls)
    assert [one.spread > 0 for one in wide.points] == [False, True, True]
    # Half of the fall, as a share of the smaller step, is what a median is off by.
    assert predict.curve_error(wide) == pytest.approx(2**0.5 * 0.5 / 1.8)
    assert rising.widened(curve(1.0, 2.5, 1.5, spread=9.0)).points[1].spread == 9.0
    (said,) = rising.told({"d": falls})
    assert "d: after 20 tokens a pass over 4 took 1500.00 ms, and one over 3 tokens 2500.00 ms" in said
    (said,) = rising.told({"d": curve(0.9)})
    assert "a pass over 2 took 900.00 ms, and a plain step's 1000.00 ms" in said


@pytest.mark.parametrize("prober", [None, DraftSpec(method="early_exit", layers=1, k=1)])
def test_a_curve_that_falls_is_measured_once(prober: DraftSpec | None) -> None:
    drafts = {name: DraftSpec(method="early_exit", layers=4, k=4) for name in ("a", "b")}
    rounds, found = {}, {}
    for dips in (False, True):
        target = FakeTarget(dips=dips)
        found[dips] = measuring.measure(
            target,  # type: ignore[arg-type]
            drafts,
            [prompt(6)],
            Sampling(max_new_tokens=500),
            grid=(1, 4),
            seconds=0.0,
            prober=prober,
        )
        # A text warms up, and each round has one.
        rounds[dips] = [len(one.seen) - 1 for one in target.decoders if one.k == 4]
    assert rounds[False] == [1] * len(rounds[False])
    # What is measured once for all drafts is measured again once.
    assert rounds[True] == ([2, 2] if prober is None else [2, 1, 1])
    assert rising.told(found[False]) == []
    assert [words[0] for words in rising.told(found[True])] == ["a", "b"]
    assert all(one.spread > 0 for one in found[True]["a"].points)
