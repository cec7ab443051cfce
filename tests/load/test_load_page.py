"""The command and the page of a load run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from load_runs import attempt, found, prompts, request

from specq import cli
from specq.engines.served import stub
from specq.load import page
from specq.load.found import Found
from specq.load.measures import Attempt
from specq.load.words import answer

BROWSER = next((name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), None)


def level(name: str, at: float, slow: float, count: int = 70) -> Attempt:
    """A level whose requests come one after another, and take longer with the level."""
    ident = f"{name}@{at:g}#1"
    rows = [
        request(
            n,
            point=ident,
            tags=("<b>tag</b>",),
            sent_at_s=n / 8,
            events_at_s=(n / 8 + slow, n / 8 + 2 * slow, n / 8 + 3 * slow + n / 1000),
            error="cut" if n == 5 else None,
            prompt_tokens=10,
            cached_tokens=0,
            proposed=4,
            accepted=3,
        )
        for n in range(count)
    ]
    long = request(99, point=ident, phase="inject", sent_at_s=2.0, events_at_s=(3.0,), prompt_tokens=900)
    device = {"source": "NVML", "device_share": {"mean": 0.5, "most": 0.9}}
    return attempt(*rows, long, point=ident, server=name, level=at, device=device)


def whole(folder: Path) -> Found:
    """Two servers at three levels, with floors, failures, drafts and long prompts."""
    levels = [(1.0, 0.1), (2.0, 0.12), (4.0, 0.5)]
    attempts = [level(name, at, slow * of) for at, slow in levels for name, of in (("server", 1.0), ("other", 0.7))]
    return found(folder, attempts, floors={"ttft_s_p95": 0.3, "tpot_s_p95": 0.2})


def test_the_page_lacks_the_floor_a_picture_or_a_table_or_obeys_a_tag(tmp_path: Path) -> None:
    made = whole(tmp_path)
    page.write(made)
    html = (tmp_path / "report.html").read_text()
    for name in ("load-ttft", "load-tpot", "load-e2e", "load-ratio", "load-gaps"):
        assert f'id="{name}-title"' in html
    assert "floor of p95" in html
    assert "the floor is p95 of at most 0.3 s" in html
    assert "<b>tag</b>" not in html
    assert "&lt;b&gt;tag" in html
    for start in [place for place in range(len(html)) if html.startswith("<svg", place)]:
        ElementTree.fromstring(html[start : html.index("</svg>", start) + 6])
    text = (tmp_path / "report.md").read_text()
    titles = (
        "Read this first",
        "Throughput and latency",
        "The floor",
        "How sure the numbers are",
        "Latencies",
        "Held against server",
        "Drafts and device along the curve",
    )
    for title in (
        *titles,
        "Machine",
        "Long prompts among steady decoding",
        "By tag",
        "Failures",
        "How it was measured",
    ):
        assert f"## {title}\n" in text
    assert "broken" in text
    assert "server: at most 20.8 tokens/s (95 % interval " in text
    assert "holds up to concurrency 2 and is broken at 4." in text
    assert "1 of 70 requests failed (1 cut)" in text
    told = json.loads((tmp_path / "report.json").read_text())
    assert [one["level"] for one in told["levels"]] == [1.0, 2.0, 4.0] * 2
    assert told["held_up_to"] == {"server": 2.0, "other": 2.0}


def test_a_floor_of_too_few_requests_is_told_as_held(tmp_path: Path) -> None:
    few = found(tmp_path, [level("server", 1.0, 0.1, 50), level("server", 2.0, 0.12)], floors={"ttft_s_p95": 0.3})
    assert few.held_up_to == {"server": None}
    text = answer(few)
    assert (
        "The floor, ttft_s_p95 of 0.3 s, is not settled at concurrency 1, with 49 answers: a bound needs 59 for "
        "ttft_s_p95, more where prompts repeat (--requests)." in text
    )
    enough = found(
        tmp_path / "2", [level("server", 1.0, 0.1), level("server", 2.0, 0.12, 50)], floors={"ttft_s_p95": 0.3}
    )
    assert enough.held_up_to == {"server": 1.0}
    assert "holds up to concurrency 1; it is not settled at concurrency 2, with 49 answers" in answer(enough)


def test_a_run_without_a_level_has_no_report(tmp_path: Path) -> None:
    made = found(tmp_path, [])
    page.write(made)
    assert "Nothing was measured" in (tmp_path / "report.md").read_text()


@pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome is installed")
def test_a_browser_complains_of_the_page(tmp_path: Path) -> None:
    page.write(whole(tmp_path))
    assert BROWSER is not None
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=360,800")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [BROWSER, *options, profile, "--dump-dom", (tmp_path / "report.html").as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=240, check=True)
    assert not [line for line in done.stderr.decode("utf-8", "replace").splitlines() if "CONSOLE" in line]
    assert done.stdout.count(b"<svg") >= 4


def test_the_command_prints_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--prompts", str(prompts(tmp_path)), "--requests", "4", "--out", str(tmp_path / "out")]
    play = json.dumps({"stub": {"tokens": 3}})
    with stub.started() as (url, _):
        assert cli.main(["load", url, *words, "--concurrency", "1,2", "--body", play, "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(one["server"], one["level"], one["requests"]) for one in told["levels"]] == [
        ("server", 1.0, 4),
        ("server", 2.0, 4),
    ]
    assert cli.main(["load", "--resume", told["run"]]) == 0
    shown = capsys.readouterr().out
    assert "Throughput and latency" in shown
    assert "Report: " in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "a server is needed: the URL of one that runs, an experiment, or a model and its --kind; type: specq"),
        (["http://a:1", "--prompts", "p.jsonl", "--concurrency", "1,x"], "allowed are whole numbers"),
        (["http://a:1", "--prompts", "p.jsonl", "--concurrency", "1", "--rate", "2"], "give one of them"),
        (["http://a:1", "--prompts", "p.jsonl", "--body", "[1]"], "body: no JSON object"),
        (["http://a:1", "--prompts", "p.jsonl", "--ignore-eos"], "cannot be told to go on after the end token"),
        (["http://u:pw@a:1", "--prompts", "p.jsonl"], "has a user, a password"),
        (["http://a:1", "--prompts", "p.jsonl", "--bandwidth", "9GB/s"], "name the weights with --weights"),
        (["http://a:1", "--prompts", "chat.jsonl", "--kind", "vllm"], "--tokenizer MODEL"),
        (["http://a:1", "--prompts", "p.jsonl", "--trace", "p.jsonl"], "have no times of their own"),
        (["--resume", "nothing"], "no run 'nothing'"),
    ],
)
def test_a_mistake_is_found_late_or_takes_more_than_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    prompts(tmp_path).rename("p.jsonl")
    Path("chat.jsonl").write_text('{"id": "c", "messages": [{"role": "user", "content": "hi"}]}\n')
    assert cli.main(["load", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not Path("results").exists()
