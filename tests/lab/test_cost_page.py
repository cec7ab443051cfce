"""The page of a priced month: its script computes what Python does, and it opens in a browser."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from specq import cli
from specq.core.errors import ConfigError
from specq.lab import cost_page
from specq.lab.cost_asked import price_requests
from specq.lab.cost_found import Cost

NODE = shutil.which("node")
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
SCRIPT = Path(cost_page.__file__).with_name("cost_page.js")
GIVEN: dict[str, float] = {
    "prompt_tokens": 890,
    "cached_share": 0.6,
    "output_tokens": 53,
    "requests_per_month": 2e6,
    "input_price": 1.0,
    "cached_price": 0.1,
    "output_price": 4.0,
}
FIELDS = {
    **{"prompt_tokens": "prompt", "cached_share": "cached", "written_share": "written", "output_tokens": "output"},
    **{"requests_per_month": "requests", "cache_write_price": "write_price", "warm_s": "warm", "per_hour": "per_hour"},
    **{"prefill_tokens_per_s": "prefill", "decode_tokens_per_s": "decode"},
    **{name: name for name in ("input_price", "cached_price", "output_price")},
}
"""Values of the page by the arguments that they come from."""
RATES = {"prefill_tokens_per_s": 2025, "decode_tokens_per_s": 190, "warm_s": 0.015, "per_hour": 2.5}


def drawn(seed: int) -> Cost:
    """A month drawn at random, with or without a price of writes, rates and the price of an hour."""
    own = random.Random(seed)
    given = {key: value * own.uniform(0.1, 3) for key, value in GIVEN.items()}
    given["cached_share"] = own.choice([0.0, own.uniform(0, 0.7)])
    if own.random() < 0.5:
        given["cache_write_price"] = own.uniform(0.5, 3)
        if own.random() < 0.5:
            given["written_share"] = own.uniform(0, 1 - given["cached_share"])
    if own.random() < 0.6:
        given |= {key: value * own.uniform(0.1, 3) for key, value in RATES.items()}
    return price_requests(**given)


def asked_of_node(script: str, months: list[Cost]) -> list[dict[str, Any]]:
    assert NODE is not None
    program = script + "\nconst months = JSON.parse(require('fs').readFileSync(0));"
    program += "console.log(JSON.stringify(months.map(priced)));"
    told = json.dumps([cost_page.values(one) for one in months])
    done = subprocess.run([NODE, "-e", program], input=told, capture_output=True, text=True, timeout=60, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def same(month: Cost, found: dict[str, Any]) -> bool:
    """Whether the script's figures are Python's."""
    assert month.bill is not None
    assert month.uncached_bill is not None
    pairs = [(found["bill"]["amount"], month.bill.amount), (found["uncached"], month.uncached_bill.amount)]
    rows = {row["name"]: row["amount"] for row in found["bill"]["rows"]}
    pairs += [(rows[row.name], row.amount) for row in month.bill.rows]
    levers = dict(found["savings"])
    pairs += [(levers[one.lever], one.saves) for one in month.savings(uncached=False)]
    if month.times is not None:
        taken = found["times"]
        pairs += [(taken["machine_hours"], month.times.machine_hours), (taken["e2e_s"], month.times.e2e_s)]
        pairs += [(taken["cache_saves_s"], month.times.cache_saves_s)]
    if month.hosted is not None:
        own = found["hosted"]
        pairs += [(own["busy"], month.hosted.busy_amount), (own["rented"], month.hosted.rented_amount)]
    there = (found["times"] is None) == (month.times is None) and (found["hosted"] is None) == (month.hosted is None)
    return there and all(one == pytest.approx(other, rel=1e-9, abs=1e-6) for one, other in pairs)


def beyond(seed: int) -> dict[str, float | None]:
    """Values of the page as somebody may type them: nothing, below nothing, beyond all bounds, or what divides by 0."""
    own = random.Random(seed)
    found = cost_page.values(drawn(seed))
    for key in own.sample(sorted(found), 5):
        if found[key] is not None:
            found[key] = own.choice([0.0, -1.0, 1e-15, 1e18, 1.5])
    return found


needs_node = pytest.mark.skipif(NODE is None, reason="no node is installed")


@needs_node
def test_the_script_computes_something_else_than_python() -> None:
    months = [drawn(seed) for seed in range(200)]
    found = asked_of_node(SCRIPT.read_text(encoding="utf-8"), months)
    assert [seed for seed, (month, one) in enumerate(zip(months, found, strict=True)) if not same(month, one)] == []


@needs_node
def test_values_that_python_refuses_divide_by_nothing_in_the_page() -> None:
    assert NODE is not None
    program = SCRIPT.read_text(encoding="utf-8")
    program += "\nconst all = JSON.parse(require('fs').readFileSync(0));"
    program += "console.log(JSON.stringify(all.map((v) => [bounded(v), priced(v)])));"
    told = json.dumps([beyond(seed) for seed in range(200)])
    done = subprocess.run([NODE, "-e", program], input=told, capture_output=True, text=True, timeout=60, check=True)
    names = {field: name for name, field in FIELDS.items()}
    refused = 0
    for seed, (v, found) in enumerate(json.loads(done.stdout)):
        given = {names[key]: value for key, value in v.items() if value is not None}
        month = price_requests(**given)
        assert same(month, found), seed
        before = {names[key]: value for key, value in beyond(seed).items() if value is not None}
        try:
            price_requests(**before)
        except ConfigError:
            refused += 1
        else:
            assert given == pytest.approx(before)
    assert refused > 100


def test_a_slider_reaches_what_python_refuses() -> None:
    found = price_requests(**GIVEN, **RATES, cache_write_price=1.0, written_share=0.3)
    page = cost_page.render(found)
    for tag in re.findall(r"<input[^>]*>", page):
        own = dict(re.findall(r'([a-z-]+)="([^"]*)"', tag))
        if own["data-key"] in ("requests", "prefill", "decode"):
            assert float(own["min"]) > 0, tag
        if own["data-key"] == "cached":
            assert float(own["max"]) == 70, tag


@needs_node
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v.prompt * 0.6", "v.prompt * 0.4"),
        ("Math.max(1 - v.cached - write, 0)", "(1 - v.cached)"),
        ("return v.cached ? 1 - v.cached : 0", "return 1 - v.cached"),
        ("+ v.warm", ""),
        ("Math.ceil(", "("),
        ("v.cached + v.written - rate", "v.written"),
        ("real < SMALLEST ? 0 : real", "real / 2"),
    ],
)
def test_a_planted_bug_in_the_script_is_missed(old: str, new: str) -> None:
    script = SCRIPT.read_text(encoding="utf-8")
    assert script.count(old) == 1
    months = [drawn(seed) for seed in range(200)]
    found = asked_of_node(script.replace(old, new), months)
    assert not all(same(month, one) for month, one in zip(months, found, strict=True))


def test_the_page_lacks_a_figure_of_the_command() -> None:
    page = cost_page.render(price_requests(**GIVEN, **RATES))
    shown = re.sub(r"<[^>]+>", " ", page.split("<main>")[1].split("<script")[0])
    for figure in ("712", "107", "424", "1,243", "2,204", "409", "328", "212", "0.000621"):
        assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d,])", shown), figure
    assert "http" not in re.sub(r"\"http-equiv|http-equiv", "", page.split("<main>")[1])


def test_text_of_a_sheet_runs_in_the_page(tmp_path: Path) -> None:
    sheet = tmp_path / "s.toml"
    lines = ["date = 2026-11-01", 'source = "</script><script>alert(1)</script>"', 'model = "<b>"', 'currency = "USD"']
    sheet.write_text("\n".join([*lines, "input_price = 1", "output_price = 4"]), encoding="utf-8")
    given = {key: value for key, value in GIVEN.items() if not key.endswith("price")}
    page = cost_page.render(price_requests(prices=[str(sheet)], **given))
    assert "<script>alert" not in page
    assert "&lt;b&gt;" in page


def test_a_page_is_half_written_or_not_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["cost", *(f"--{key.replace('_', '-')}={value}" for key, value in GIVEN.items())]
    assert cli.main([*asked, "--page", str(tmp_path / "p.html")]) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["p.html"]
    assert (tmp_path / "p.html").read_text(encoding="utf-8").endswith("</html>")
    capsys.readouterr()
    assert cli.main([*asked, "--page", str(tmp_path / "absent" / "p.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_page_takes_the_place_of_what_is_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["cost", *(f"--{key.replace('_', '-')}={value}" for key, value in GIVEN.items()), "--page"]
    notes = tmp_path / "notes.html"
    notes.write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    for name in ("notes.html", "pipe", "."):
        assert cli.main([*asked, str(tmp_path / name)]) == 2
        assert "is there already, and is no page of specq cost" in capsys.readouterr().err
    assert notes.read_text() == "mine"
    for _ in range(2):
        assert cli.main([*asked, str(tmp_path / "p.html")]) == 0


@pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome is installed")
def test_a_moved_slider_leaves_the_bill_as_it_was(tmp_path: Path) -> None:
    move = """<script>
      const field = document.getElementById("n-prompt"); field.value = "445";
      field.dispatchEvent(new Event("input"));
      document.title = document.querySelector("[type=range][data-key=prompt]").value;
    </script></body>"""
    page = tmp_path / "p.html"
    page.write_text(cost_page.render(price_requests(**GIVEN, **RATES)).replace("</body>", move), encoding="utf-8")
    assert BROWSER is not None
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom")
    command = [BROWSER, *options, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=240, check=True)
    shown = done.stdout.decode("utf-8")
    assert "CONSOLE" not in done.stderr.decode("utf-8", "replace")
    assert "<title>445</title>" in shown
    # Half the prompt saves 409 of 1,243.
    assert "<td>833</td>" in shown
    assert "<td>1,243</td>" not in shown
