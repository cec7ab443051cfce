"""The page in a browser, where one is installed: nothing to complain of, and nothing wider than a phone."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest
from page_reports import evaluated, flip, judged, with_evals
from report_runs import ARMS, PROMPTS, info, whole_run

from specq import report
from specq.report.page import render

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome is installed")


def opened(folder: Path, html: str) -> tuple[str, list[str]]:
    """The document as the browser has it on a phone, and what it wrote to its console."""
    (folder / "page.html").write_text(html, encoding="utf-8")
    assert BROWSER is not None
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=360,800")
    command = [
        BROWSER,
        *options,
        f"--user-data-dir={folder / 'profile'}",
        "--dump-dom",
        (folder / "page.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, timeout=240, check=True)
    said = done.stderr.decode("utf-8", "replace").splitlines()
    return done.stdout.decode("utf-8", "replace"), [line for line in said if "CONSOLE" in line]


def page(folder: Path) -> str:
    found = report.build(whole_run(folder / "run"))
    text = "<script>alert(1)</script> " + "x" * 5000 + " \u05e9\u05dc\u05d5\u05dd"
    flips = [flip("sum-1", prompt=text, before=text, after=text)]
    made = with_evals(found, evaluated(arms=[judged("lookup#1", [0.0] * 40, flips=flips)]))
    return render(made, info(ARMS, PROMPTS))


def test_a_browser_complains_of_the_page(tmp_path: Path) -> None:
    shown, console = opened(tmp_path, page(tmp_path))
    assert console == []
    assert shown.count("<svg") >= 4
    assert "</html>" in shown


def test_a_script_in_the_page_would_run(tmp_path: Path) -> None:
    shown, console = opened(tmp_path, page(tmp_path).replace("</body>", "<script>document.title='ran'</script></body>"))
    assert "<title>ran</title>" not in shown
    assert any("Content Security Policy" in line for line in console)


def measured(folder: Path, html: str, width: int, measure: str) -> int:
    """The number that a script finds in the page, its document `page`, on a screen of that many pixels."""
    # A window is never narrower than 500 pixels, a frame is.
    frame = f'<iframe style="width: {width}px; height: 800px; border: 0" srcdoc="{escape(html)}"></iframe>'
    script = f"const page = document.querySelector('iframe').contentDocument; document.title = {measure}"
    shown, _ = opened(folder, f"<!doctype html>{frame}<script>onload = () => {{ {script} }}</script>")
    found = re.search(r"<title>(\d+)</title>", shown)
    assert found is not None
    return int(found[1])


def needed(folder: Path, html: str) -> int:
    """How wide the page wants to be on a screen of 360 pixels."""
    return measured(folder, html, 360, "page.documentElement.scrollWidth")


CUT = """[...page.querySelectorAll("table")].filter(table => {
    const box = table.closest(".box"), scrolls = box && getComputedStyle(box).overflowX === "auto";
    if (scrolls) box.scrollLeft = 1e6;
    return table.getBoundingClientRect().right > (scrolls ? box.getBoundingClientRect().right : 390) + 1;
}).length"""


def test_the_end_of_a_wide_table_cannot_be_reached_on_a_phone(tmp_path: Path) -> None:
    html = page(tmp_path).replace("<details", "<details open")
    assert measured(tmp_path, html, 390, CUT) == 0
    cut = html.replace("overflow-x: auto", "overflow-x: clip")
    assert measured(tmp_path, cut, 390, CUT) > 0, "a table that is cut is not seen"


def test_the_page_is_wider_than_a_phone(tmp_path: Path) -> None:
    html = page(tmp_path).replace("<details", "<details open")
    assert needed(tmp_path, html) <= 360
    wide = html.replace("</main>", '<div style="width: 400px">wide</div></main>')
    assert needed(tmp_path, wide) > 360, "what is too wide is not seen"
