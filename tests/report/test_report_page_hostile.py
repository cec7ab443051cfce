from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_reports import Page, evaluated, flip, judged, with_evals
from report_runs import ARMS, PROMPTS, info, whole_run

from specq import report
from specq.report.assemble import Report
from specq.report.page import render
from specq.report.page_text import foreign, shorten

ABOUT = info(ARMS, PROMPTS)
SCORES = [0.0] * 40
MEGABYTE = "x" * 10**6
HOSTILE = {
    "script": "<script>alert(1)</script>",
    "style": "</style><img src=x onerror=alert(1)>",
    "svg": "</text></svg><script>alert(1)</script>",
    "attribute": '" onload="alert(1)" x=\'',
    "entity": "&lt;script&gt; &#60;b&#62;",
    "template": "{{ 7 * 7 }} {% raw %} $x^2$",
    "comment": "--><!-- ]]>",
    "bidi": "\u202eevil\u202c \u2066\u05e9\u05dc\u05d5\u05dd\u2069",
    "control": "a\x00b\x1b[31mc\x7f\x85",
    "private": "\ue000\uffff\ufdd0\U000e0001",
    "surrogate": "half \ud83d alone",
    "emoji": "\U0001f469\u200d\U0001f4bb \U0001f1f9\U0001f1f7",
    "combining": "z" + "\u0335" * 50,
    "long": MEGABYTE,
}


def filled(tmp_path: Path, text: str) -> tuple[Report, dict[str, Any]]:
    """A report in which every foreign text is this one, and its run.json."""
    found = report.build(whole_run(tmp_path / "run"))
    flips = [flip(text, prompt=text, reference=text, before=text, after=text, why=text)] * 5
    one = evaluated(text, [judged("lookup#1", SCORES, flips=flips, label=text)])
    one = replace(one, metric=text, flags=(text,), against_control=(text,))
    found = with_evals(found, one)
    arms = tuple(replace(arm, label=text, flags=(text,)) for arm in found.arms)
    arms = tuple(
        arm if arm.verdict is None else replace(arm, verdict=replace(arm.verdict, sentence=text)) for arm in arms
    )
    config = {**found.config, "name": text, text: text, "stop": [text], "evals": [{"name": text}]}
    found = replace(
        found,
        question=text,
        run=text,
        experiment=text,
        baseline=text,
        flags=(text,),
        notes=(text,),
        turns=(text,),
        recommendation=text,
        arms=arms,
        config=config,
        config_sha256=text,
        provenance={text: text},
    )
    return found, {**ABOUT, "models": {text: {"name": text}}, "data": {"prompts": text}, "created": text}


@pytest.mark.parametrize("kind", HOSTILE)
def test_foreign_text_becomes_markup_or_hides_what_is_read(tmp_path: Path, kind: str) -> None:
    html = render(*filled(tmp_path, HOSTILE[kind]))
    calm = Page(render(*filled(tmp_path / "calm", "calm")))
    page = Page(html)
    assert page.faults == []
    assert {tag for tag, _ in page.found} - {"span"} == {tag for tag, _ in calm.found} - {"span"}
    assert {key for _, attributes in page.found for key in attributes} == {
        key for _, attributes in calm.found for key in attributes
    }
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ue000\uffff\ufdd0]", html)
    assert len(html.encode("utf-8")) < 5_000_000


def test_text_that_was_neutralised_is_no_longer_there_to_read(tmp_path: Path) -> None:
    text = Page(render(*filled(tmp_path, HOSTILE["script"] + HOSTILE["bidi"] + HOSTILE["control"]))).text
    assert "<script>alert(1)</script>" in text
    assert "\\u202eevil\\u202c" in text
    assert "a\\x00b\\x1b[31mc" in text
    assert "\u05e9\u05dc\u05d5\u05dd" in text


def test_a_text_is_cut_without_a_word(tmp_path: Path) -> None:
    text = Page(render(*filled(tmp_path, MEGABYTE))).text
    assert "Texts are cut at 2000 characters." in text
    assert "… 998,000 more characters" in text
    assert str(foreign("abcdef", 4)) == 'abcd<span class="more">… 2 more characters</span>'
    assert str(foreign("abcde", 4)) == 'abcd<span class="more">… 1 more character</span>'
    assert str(foreign("abcd", 4)) == "abcd"


def test_characters_that_are_spelled_out_break_the_limit() -> None:
    assert shorten("\u202e" * 100, 12, lines=False) == ("\\u202e" * 2, 98)
    assert shorten("a\nb\tc", 9, lines=True) == ("a\nb\tc", 0)
    assert shorten("a\nb", 9, lines=False) == ("a\\nb", 0)


def test_foreign_text_sets_the_direction_of_the_page(tmp_path: Path) -> None:
    page = Page(render(*filled(tmp_path, "\u05e9\u05dc\u05d5\u05dd")))
    held = [attributes for tag, attributes in page.found if tag in ("td", "h1", "li", "p", "th", "h3")]
    assert sum(attributes.get("dir") == "auto" for attributes in held) > 0.9 * len(held)
    assert all("dir" not in attributes for attributes in [*page.all("html"), *page.all("body")])


@pytest.mark.parametrize("text", ["word " * 400, "\U0001f600" * 3000, "'\"&<" * 1000])
def test_many_flips_make_a_page_that_no_browser_likes(tmp_path: Path, text: str) -> None:
    found = report.build(whole_run(tmp_path / "run"))
    flips = [
        flip(
            f"item-{place}", worse=place % 3 > 0, critical=place == 599, prompt=text, before=text, after=text, why=text
        )
        for place in range(600)
    ]
    arms = [judged(f"arm#{place}", [0.0] * 600, flips=flips, label=f"arm {place}") for place in range(4)]
    html = render(with_evals(found, evaluated(arms=arms, items=600)), ABOUT)
    assert len(html.encode("utf-8")) < 5_000_000
    page = Page(html)
    assert "Texts are cut at 250 characters. 450 more are in report.json." in page.text
    assert page.text.count("item-599") == 4, "the critical one comes first and is never left out"
    assert page.text.index("item-599") < page.text.index("item-1w")


def test_short_texts_are_cut_because_there_are_many(tmp_path: Path) -> None:
    found = report.build(whole_run(tmp_path / "run"))
    flips = [flip(f"item-{place}", prompt="word " * 60, why="") for place in range(600)]
    html = render(with_evals(found, evaluated(arms=[judged("arm#1", SCORES, flips=flips)])), ABOUT)
    assert "Texts are cut at 2000 characters." in html
    assert "more character" not in html
