"""What the front could not weigh: an axis that nobody measured, or on which all arms are equal, is named with why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from page_reports import Page, evaluated, judged, with_evals
from report_runs import ARMS, PROMPTS, info, whole_run
from test_report_page_charts import arm, of_arms

from specq import report
from specq.report.assemble import Report
from specq.report.charts_front import front, weighed
from specq.report.layout import sections
from specq.report.markdown import render as markdown
from specq.report.page import render

RIGHT = [float(place % 2) for place in range(40)]
NO_QUALITY = "Quality is left out of the front: it was not measured, for the experiment has no [[evals]]."
ALONE = "There is no front here: it takes two arms, and two things in which they differ, speed among them."


@pytest.fixture(name="base")
def _base(tmp_path: Path) -> Report:
    return report.build(whole_run(tmp_path / "run"))


def lines(found: Report) -> tuple[str, ...]:
    return next((one.lines for one in sections(found) if one.title == "Front"), ())


def test_quality_that_is_equal_in_all_arms_vanishes_from_the_front(base: Report) -> None:
    arms = [arm(base, "w4", speedup=1.5, peak_bytes=900.0), arm(base, "w8", speedup=1.2, peak_bytes=950.0)]
    evals = evaluated(arms=[judged("w4#1", RIGHT), judged("w8#1", RIGHT)])
    found = with_evals(of_arms(base, *arms), evals)
    told = "change on sums is left out of the front: all arms are equal in it (+0.0 points)."
    assert [line for line in lines(found) if "left out" in line] == [told]
    # The terminal has the same sections as Markdown.
    assert told in markdown(found)
    assert told in Page(render(found, info(ARMS, PROMPTS))).text


def test_what_was_not_measured_vanishes_from_the_front(base: Report) -> None:
    arms = [arm(base, "w4", speedup=1.5, weight_bytes=900.0 * 2**20)]
    first = replace(base.arms[0], measures={"weight_bytes": replace(arms[0].measures["weight_bytes"], value=2.0**30)})
    found = replace(base, arms=(first, *arms))
    assert lines(found)[0].startswith("Of speedup, weights held, as measured, ")
    memory = "peak memory is left out of the front: it was not measured, for no arm has one on record "
    assert lines(found)[1:] == (
        "baseline#1 is behind w4.",
        f"{memory}(workload.memory = true measures it).",
        NO_QUALITY,
    )
    unscored = with_evals(found, evaluated(arms=[replace(judged("w4#1", RIGHT), slices=())]))
    why = "change on sums is left out of the front: it was not measured, for no arm has a score on sums."
    assert why in lines(unscored)


def test_a_run_without_a_front_says_nothing_of_it(base: Report) -> None:
    even = of_arms(base, arm(base, "fast", speedup=2.0, peak_bytes=1000.0))
    assert front(even) is None
    equal = "peak memory is left out of the front: all arms are equal in it (0 MiB)."
    assert lines(even) == (ALONE, equal, NO_QUALITY)
    assert equal in Page(render(even, info(ARMS, PROMPTS))).text
    alone = replace(base, arms=base.arms[:1])
    assert (weighed(alone), lines(alone)) == (None, ())
