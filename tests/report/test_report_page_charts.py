from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_reports import Page, evaluated, judged, with_evals
from report_runs import ARMS, PROMPTS, info, whole_run

from specq import report
from specq.report import charts, charts_pareto
from specq.report.assemble import ArmReport, Report
from specq.report.charts_canvas import limits
from specq.report.charts_front import front
from specq.report.measures import Measure
from specq.report.page import render
from specq.report.verdict import Verdict


@pytest.fixture(name="base")
def _base(tmp_path: Path) -> Report:
    return report.build(whole_run(tmp_path / "run"))


def arm(base: Report, name: str, kind: str = "keep", **measures: float | None) -> ArmReport:
    """An arm of that name with these measures and no other."""
    made = {key: Measure(name=key, unit="", value=value) for key, value in measures.items()}
    verdict = Verdict(kind=kind, sentence=f"{name} is so.")  # type: ignore[arg-type]
    return replace(base.arms[2], id=f"{name}#1", label=name, measures=made, verdict=verdict)


def of_arms(base: Report, *arms: ArmReport, baseline: float | None = 1000.0, **changes: Any) -> Report:
    peak = {} if baseline is None else {"peak_bytes": Measure(name="peak_bytes", unit="bytes", value=baseline)}
    first = replace(base.arms[0], measures=peak)
    return replace(base, arms=(first, base.arms[1], *arms), **changes)


def test_an_arm_that_another_beats_in_all_stands_on_the_front(base: Report) -> None:
    found = front(
        of_arms(
            base,
            arm(base, "fast", speedup=2.0, peak_bytes=1500.0),
            arm(base, "small", speedup=0.8, peak_bytes=500.0),
            arm(base, "behind", speedup=1.9, peak_bytes=1500.0),
            arm(base, "twin of fast", speedup=2.0, peak_bytes=1500.0),
        )
    )
    assert found is not None
    assert {one.arm.label: one.beaten_by for one in found.placed} == {
        "baseline#1": (),
        "fast": (),
        "small": (),
        "behind": ("fast", "twin of fast"),
        "twin of fast": (),
    }


def test_quality_does_not_count_for_the_front(base: Report) -> None:
    right = [float(place % 2) for place in range(40)]
    one = evaluated(arms=[judged("worse#1", [0.0] * 40), judged("same#1", right)])
    arms = (arm(base, "worse", speedup=1.5, peak_bytes=900.0), arm(base, "same", speedup=1.4, peak_bytes=900.0))
    found = front(with_evals(of_arms(base, *arms), one))
    assert found is not None
    assert [axis.title for axis in found.axes] == ["speedup", "peak memory", "change on sums"]
    assert {one.arm.label: one.beaten_by for one in found.placed} == {"baseline#1": ("same",), "worse": (), "same": ()}


def test_an_arm_without_a_value_or_with_void_numbers_is_left_out_in_silence(base: Report) -> None:
    found = front(
        of_arms(
            base,
            arm(base, "good", speedup=1.5, peak_bytes=900.0),
            arm(base, "broken", "invalid", speedup=9.0, peak_bytes=1.0),
            arm(base, "unmeasured", speedup=1.5),
        )
    )
    assert found is not None
    assert [one.arm.label for one in found.placed] == ["baseline#1", "good"]
    assert found.left_out == (
        "broken is not placed: it is invalid.",
        "unmeasured is not placed: it has no peak memory.",
    )
    last = charts_pareto.pictures(found)[-1]
    assert set(found.left_out) <= set(last.lines)


def test_memory_that_is_the_same_everywhere_is_weighed(base: Report) -> None:
    assert front(of_arms(base, arm(base, "fast", speedup=2.0, peak_bytes=1000.0))) is None
    assert front(of_arms(base, arm(base, "fast", speedup=2.0), baseline=None)) is None
    assert front(replace(base, arms=())) is None


@pytest.mark.parametrize(
    ("objective", "name"),
    [
        ("e2e_s", "e2e_speedup"),
        ("device_s_per_answer", "throughput_speedup"),
        ("price_per_correct_answer", "throughput_speedup"),
    ],
)
def test_the_front_weighs_decoding_where_whole_answers_are_asked_for(base: Report, objective: str, name: str) -> None:
    config = {**base.config, "objective": {"minimise": objective}}
    made = of_arms(base, arm(base, "fast", speedup=2.0, peak_bytes=900.0, **{name: 1.1}), config=config)
    found = front(made)
    assert found is not None
    assert found.axes[0].name == name
    assert found.placed[1].spots[0].value == 1.1


def test_a_rejected_arm_looks_like_a_winner(base: Report) -> None:
    arms = [arm(base, "slow", "reject", speedup=0.7, peak_bytes=500.0)]
    pictures = charts_pareto.pictures(front(of_arms(base, *arms)))
    assert "var(--bad)" in pictures[-1].svg
    assert ("slow", "0.70", "0 MiB", "reject", "on it") in pictures[-1].rows
    kept = [arm(base, "slow", "keep", speedup=0.7, peak_bytes=500.0)]
    assert "var(--bad)" not in charts_pareto.pictures(front(of_arms(base, *kept)))[-1].svg


def test_many_names_hide_each_other(base: Report) -> None:
    few = [arm(base, f"arm {place}", speedup=1.0 + place / 50, peak_bytes=900.0) for place in range(12)]
    last = charts_pareto.pictures(front(of_arms(base, *few)))[-1]
    assert ">arm 11<" in last.svg
    assert ">arm 3<" not in last.svg
    assert len(last.rows) == 13
    assert "Of 13 arms the front and the baseline are named; the table has all." in last.lines


def test_the_time_of_a_step_passes_for_the_time_of_a_token(base: Report) -> None:
    found = charts.token_time(base)
    assert found is not None
    rows = {row[0]: row[1:] for row in found.rows}
    measures = base.arm("lookup#1").measures
    steps, tokens = measures["step_verify_s"].value, measures["tokens_per_step"].value
    assert steps is not None
    assert tokens is not None
    assert tokens > 1.2
    assert float(rows["lookup"][1]) == pytest.approx(1000 * steps / tokens, rel=0.01)
    assert float(rows["lookup"][-1]) == pytest.approx(1000 * (measures["tpot_s"].value or 0), rel=0.01)


def test_a_curve_of_survival_lacks_a_place(base: Report) -> None:
    found = charts.survival(base)
    assert found is not None
    assert found.columns == ("arm", "1", "2", "3")
    assert [row[0] for row in found.rows] == ["lookup"]
    assert found.rows[0][1] == f"{base.arm('lookup#1').measures['survival[1]'].value:.2f}"


def test_speedups_are_drawn_without_what_no_difference_looks_like(base: Report) -> None:
    found = charts.speedups(base)
    assert found is not None
    assert found.rows[0][0] == "baseline against itself"
    assert [row[0] for row in found.rows[1:]] == ["lookup"]
    assert "baseline against itself" in found.svg
    alone = charts.speedups(replace(base, null=()))
    assert alone is not None
    assert "baseline against itself" not in alone.svg


def test_margins_noise_floor_or_probe_are_not_in_the_picture_of_quality() -> None:
    right = [float(place % 2) for place in range(40)]
    found = charts.quality(evaluated(arms=[judged("w4", right, margin=0.1), judged("w8", right, margin=None)]), "q")
    assert found is not None
    assert [(row[0], row[-1]) for row in found.rows] == [
        ("w4", "-10.0"),
        ("w8", "-"),
        ("noise floor", "-"),
        ("probe", "-"),
    ]
    assert found.svg.count("var(--bad)") == 2, "the margin of w4 and its key"
    assert found.rows[0][1] == "+0.0"


def test_an_arm_that_gave_the_baselines_own_answers_is_drawn_with_an_error(base: Report) -> None:
    right = [float(place % 2) for place in range(40)]
    proved = replace(judged("lookup#1", right, label="lookup"), proved=True)
    void = replace(judged("void", right), slices=())
    one = evaluated(arms=[proved, void])
    found = charts.quality(one, "q")
    assert found is not None
    assert [row[0] for row in found.rows] == ["noise floor", "probe"]
    assert "lookup is not drawn: its answers are the baseline's own." in found.lines
    assert "void is not drawn: nothing of it can be compared." in found.lines
    other = judged("w4#1", [0.0] * 40)
    arms = [arm(base, name, speedup=1.2, peak_bytes=900.0) for name in ("lookup", "w4")]
    placed = front(with_evals(of_arms(base, *arms), replace(one, arms=(proved, other))))
    assert placed is not None
    assert [spot.low for spot in placed.placed[1].spots[2:]] == [None]


def test_no_more_rows_than_a_picture_can_hold_and_it_does_not_say_so(base: Report) -> None:
    many = [arm(base, f"arm {place}", speedup=1.5) for place in range(40)]
    found = charts.speedups(of_arms(base, *many))
    assert found is not None
    assert len(found.rows) == 42 - 1
    assert ">arm 23<" in found.svg
    assert ">arm 24<" not in found.svg
    assert "Drawn are the first 24 of 40 arms." in found.lines


def test_one_wide_interval_flattens_all_others() -> None:
    assert limits([1.0, 2.0], [0.9, 2.1]) == pytest.approx((0.9 - 0.072, 2.1 + 0.072))
    low, high = limits([1.0, 2.0], [0.9, 331.0])
    assert low < 0.9
    assert high < 4.0
    one, other = limits([1.0], [])
    assert one < 1.0 < other


def test_a_name_is_read_as_a_formula_a_colour_or_a_place_in_the_picture(base: Report) -> None:
    names = ("$x^2$", "#0f0001", 'id="q" url(#z)', "a < b & c", "\u202eabc")
    found = charts.speedups(of_arms(base, *(arm(base, name, speedup=1.2) for name in names)))
    assert found is not None
    page = Page(found.svg)
    assert page.faults == []
    for name in names[:-1]:
        assert name in page.text
    assert "\\u202eabc" in page.text


def test_colours_that_dark_mode_cannot_change_or_ids_that_two_pictures_share(base: Report) -> None:
    html = render(with_evals(base, evaluated(arms=[judged("lookup#1", [0.0] * 40)])), info(ARMS, PROMPTS))
    page = Page(html)
    drawn = "".join(re.findall(r"<svg.*?</svg>", html, re.S))
    assert not re.search(r"#[0-9a-f]{6}\b", drawn.replace("baseline#", ""))
    assert not re.search(r"(fill|stroke): (?!none|var\()", drawn)
    known = set(re.findall(r"--([a-z0-9-]+):", html))
    assert set(re.findall(r"var\(--([a-z0-9-]+)\)", html)) <= known
    inside = [one for one in page.values("id") if re.match(r"(speedups|token-time|survival|front|quality)", one)]
    assert len(inside) == len(set(inside)) > 20
    for svg in page.all("svg"):
        assert svg["role"] == "img"
        assert svg["viewbox"].startswith("0 0 360 ")
        assert "width" not in svg
    assert "<text" in drawn
    assert "<metadata" not in drawn
