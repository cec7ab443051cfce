from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from page_reports import Page, evaluated, flip, judged, with_evals
from report_runs import ARMS, FINISHED, MACHINE, PROMPTS, generated, info, turns, whole_run, write_run

from specq import report
from specq.core.records import Memory
from specq.report.assemble import Report
from specq.report.layout import sections
from specq.report.page import render

ABOUT = info(ARMS, PROMPTS)
WORSE = [0.0 if place < 8 else float(place % 2) for place in range(40)]


def full(tmp_path: Path) -> Report:
    """A run with drafts, memory and an eval on which its arm flips items."""
    memory = [
        Memory(arm=arm, peak_bytes=(1000 + 50 * place) * 2**20, source="rss", prompt="e1", new_tokens=9)
        for place, arm in enumerate(ARMS)
    ]
    found = report.build(whole_run(tmp_path / "run", more=memory))
    flips = [flip("sum-1"), flip("sum-2", critical=True), flip("sum-3", worse=False)]
    return with_evals(found, evaluated(arms=[judged("lookup#1", WORSE, flips=flips)]))


def smoke(tmp_path: Path) -> Report:
    about = info(ARMS, {"e1": []})
    about["config"]["smoke"] = True
    about.pop("config_sha256")
    lines = [*MACHINE, *turns(prompts={"e1": []}, repeats=1), *FINISHED]
    return report.build(write_run(tmp_path / "smoke", about, lines))


def unfinished(tmp_path: Path) -> Report:
    lines = [*MACHINE, *turns()[:7]]
    return report.build(write_run(tmp_path / "unfinished", ABOUT, lines, done=False, tail=b'{"kind": "Gen'))


def empty(tmp_path: Path) -> Report:
    return report.build(write_run(tmp_path / "empty", ABOUT, [], done=False))


def plain(tmp_path: Path) -> Report:
    arms = ARMS[:2]
    lines = [g for g in turns() if getattr(g, "arm", "") in arms]
    return report.build(write_run(tmp_path / "plain", info(arms, PROMPTS), [*MACHINE, *lines, *FINISHED]))


def one_step_a_token(tmp_path: Path) -> Report:
    lines = [generated(arm, prompt, [(0, 0, 1)] * 5) for arm in ARMS for prompt in PROMPTS]
    return report.build(write_run(tmp_path / "steps", ABOUT, [*MACHINE, *lines, *FINISHED]))


def test_a_page_has_broken_tags_or_tables_that_cannot_be_read_aloud(tmp_path: Path) -> None:
    page = Page(render(full(tmp_path), ABOUT))
    assert page.faults == []
    assert [attributes["lang"] for attributes in page.all("html")] == ["en"]
    assert [len(page.all(tag)) for tag in ("main", "h1", "title")] == [1, 1, 1 + len(page.all("svg"))]
    assert all(attributes.get("scope") in ("row", "col") for attributes in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table")) > 10
    ids = page.values("id")
    assert len(ids) == len(set(ids)), "two things of one name"
    named = {name for names in page.values("aria-labelledby") for name in names.split()}
    links = {link.removeprefix("#") for link in page.values("href")}
    assert named | links <= set(ids), "a name or a link leads nowhere"


@pytest.mark.parametrize("make", [smoke, unfinished, empty, plain, one_step_a_token])
def test_a_run_that_lacks_something_has_no_page(tmp_path: Path, make: Callable[[Path], Report]) -> None:
    found = make(tmp_path)
    page = Page(render(found, ABOUT))
    assert page.faults == []
    assert found.recommendation in page.text
    for flag in found.flags:
        assert flag in page.text


def test_the_page_says_less_than_the_other_reports(tmp_path: Path) -> None:
    found = full(tmp_path)
    text = Page(render(found, ABOUT)).text
    listed = [section for section in sections(found) if not section.title.startswith("Flips: ")]
    assert len(listed) > 10
    for section in listed:
        if section.title not in ("Verdicts", "Recommendation"):
            assert section.title in text
            assert all(" ".join(line.split()) in text for line in section.lines)
        for row in section.rows:
            assert "".join(row).replace(" ", "") in text.replace(" ", ""), "a row is not there, or its cells are apart"
    for arm in found.arms:
        assert arm.verdict is None or f"{arm.verdict.kind} {arm.verdict.sentence}" in text


def test_a_table_stands_outside_a_frame_that_scrolls(tmp_path: Path) -> None:
    html = render(full(tmp_path), ABOUT)
    framed = re.findall(r'<div class="box" role="region" aria-label="[^"]+" tabindex="0">\s*<table', html)
    assert len(framed) == html.count("<table") > 10
    box = re.search(r"\.box \{[^}]*\}", html)
    assert box is not None
    assert "overflow-x: auto" in box[0]
    assert "local" in box[0], "nothing shows that a table goes on"


def test_a_section_that_the_page_does_not_know_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = report.section.Section(title="Brand new", lines=("said here alone",))
    monkeypatch.setattr("specq.report.page.sections", lambda found: (*sections(found), new))
    text = Page(render(full(tmp_path), ABOUT)).text
    assert "Brand new" in text
    assert "said here alone" in text


def test_a_reader_meets_results_before_the_answer_and_its_flags(tmp_path: Path) -> None:
    found = replace(full(tmp_path), flags=("mind this",))
    html = render(found, ABOUT)
    order = ('<h1 dir="auto">', 'id="answer"', 'class="verdicts"', "mind this", 'id="front"', 'id="speed"', 'id="time"')
    order = (*order, 'id="drafts"', 'id="quality-1"', 'class="flips"', "Guards: sums", 'id="notes"', 'id="origin"')
    places = [html.index(mark) for mark in order]
    assert places == sorted(places)


def test_a_page_loads_something_or_runs_a_script(tmp_path: Path) -> None:
    html = render(full(tmp_path), ABOUT)
    page = Page(html)
    assert page.all("script") == page.all("link") == page.all("img") == page.all("iframe") == []
    assert page.values("src") == []
    assert all(link.startswith("#") for link in page.values("href"))
    assert set(re.findall(r"url\((.)", html)) <= {"#"}
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    policy = next(one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_the_same_records_give_another_page(tmp_path: Path) -> None:
    import matplotlib

    found = full(tmp_path)
    first = render(found, ABOUT)
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True, "svg.hashsalt": None}):
        assert render(found, ABOUT) == first
    assert report.write(whole_run(tmp_path / "again")) is not None
    written = (tmp_path / "again" / "report.html").read_bytes()
    report.write(tmp_path / "again")
    assert (tmp_path / "again" / "report.html").read_bytes() == written


def test_reading_results_loads_what_only_pictures_need() -> None:
    code = (
        "import sys, specq.report, specq.report.page, specq.report.charts; "
        "print([name for name in ('matplotlib', 'jinja2', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_settings_versions_or_hashes_are_not_on_the_page(tmp_path: Path) -> None:
    about = {
        **ABOUT,
        "models": {"target toy": {"weights_sha256": "50dfbc47", "notes": ["was Q4_1"]}},
        "data": {"prompts": "evals/chat.jsonl", "sha256": "bb4288fb"},
        "evals": {"sums": {"sha256": "d94cfbc7", "items": [{"id": "secret item"}] * 3}},
        "provenance": {"packages": {"torch": "2.13.0"}},
    }
    found = replace(full(tmp_path), provenance=about["provenance"])
    text = Page(render(found, about)).text
    for said in ("workload.max_new_tokens 64", "packages.torch 2.13.0", "target toy.weights_sha256 50dfbc47"):
        assert said in text.replace("64 ", "64 ") or said.replace(" ", "") in text.replace(" ", "")
    assert "bb4288fb" in text
    assert "d94cfbc7" in text
    assert "sums.items3" in text.replace(" ", "")
    assert "secret item" not in text
