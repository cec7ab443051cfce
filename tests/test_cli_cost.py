"""The command `specq cost`: its tables, its JSON, its refusals, and what it loads."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from specq import cli
from specq.cli.costing import parsed
from specq.core.errors import ConfigError
from specq.lab import cost_words

KNOWN = ["--prompt-tokens", "890", "--cached-share", "0.6", "--output-tokens", "53", "--requests-per-month", "2000000"]
PRICES = ["--input-price", "1.00", "--cached-price", "0.10", "--output-price", "4.00"]
LONG = ["--prompt-tokens", "4000", "--cached-share", "0.6", "--output-tokens", "200", "--requests-per-month", "2e6"]
RATES = ["--prefill-tokens-per-s", "2025", "--decode-tokens-per-s", "190", "--warm-s", "0.015"]
HEAVY = ("torch", "transformers", "pandas", "scipy", "matplotlib", "numpy")


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def rows(out: str) -> list[list[str]]:
    """The cells of each line that has some, cut where two blanks stand."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in out.splitlines() if line]


def test_the_known_bill_and_its_savings_are_not_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cost", *KNOWN, *PRICES]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80
    found = rows(out)
    for row in (
        ["prompt tokens", "890", "1.00"],
        ["cached share", "60 %", "0.10"],
        ["output tokens", "53", "4.00"],
        ["requests a month", "2,000,000"],
        ["prompt, not cached", "712,000,000", "38 %", "1.00", "712", "57 %"],
        ["prompt, cached", "1,068,000,000", "57 %", "0.10", "107", "9 %"],
        ["output", "106,000,000", "6 %", "4.00", "424", "34 %"],
        ["together", "1,886,000,000", "100 %", "1,243", "100 %"],
        ["without the cache", "2,204"],
        ["1. a 60 % hit rate", "961", "44 %"],
        ["2. half the prompt", "890", "40 %"],
        ["3. 40 % less prompt", "712", "32 %"],
        ["4. half the output", "212", "10 %"],
        ["by tokens", "1,243", "0.000621"],
    ):
        assert row in found
    for said in (
        "Input is 94 % of the tokens and 66 % of the bill",
        "from the uncached bill, 2,204 USD",
        "from the present bill, 1,243 USD",
        "Speculative decoding shows no saving on a bill by tokens",
    ):
        assert said in out


def test_the_known_times_are_not_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cost", *LONG, *RATES, "--measured-context", "4096"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "A request takes at least 1.86 s, 43 % of it prefill" in out
    assert "2,000,000 requests take at least 1,032 machine-hours a month" in out
    assert "The cache saves 1.17 s a request." in out
    assert "a lower bound: requests reach 4,200 tokens (4,000 + 200), and the rates were measured at 4,096" in out


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_line_is_wider_than_the_terminal_or_an_amount_is_folded(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    own = ["--per-hour", "2.50", "--correct-share", "0.85", "--correct-n", "200"]
    assert cli.main(["cost", *LONG, *RATES, *own, "--prices", "example"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= columns
    found = " ".join(out.split())
    assert "2 machines all month cost 3,650 USD against 5,280 by tokens" in found
    assert "(79 % to 89 %, n = 200)" in found


def test_prices_of_tomorrow_are_taken_without_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet, day = tmp_path / "p.toml", date.today() + timedelta(days=2)
    rest = 'source = "s"\nmodel = "m"\ncurrency = "USD"\ninput_price = 1.0\noutput_price = 4.0\n'
    sheet.write_text(f"date = {day}\n{rest}", encoding="utf-8")
    assert cli.main(["cost", *KNOWN, "--prices", str(sheet)]) == 0
    said = f"warning: {sheet} is dated {day}, after today: correct its date"
    assert "".join(said.split()) in "".join(capsys.readouterr().out.split())
    assert cli.main(["cost", *KNOWN, "--prices", str(sheet), "--json"]) == 0
    assert said.removeprefix("warning: ") in json.loads(capsys.readouterr().out)["warnings"]
    sheet.write_text(f"date = {date.today()}\n{rest}", encoding="utf-8")
    assert cli.main(["cost", *KNOWN, "--prices", str(sheet)]) == 0
    assert "after today" not in capsys.readouterr().out


@pytest.mark.parametrize("columns", [10, 20, 30])
def test_a_number_in_a_table_is_split_or_cropped_on_a_narrow_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["cost", *LONG, *RATES, "--per-hour", "2.50", "--correct-share", "0.85", "--prices", "example"]
    shown = []
    for width in (400, columns):
        monkeypatch.setenv("COLUMNS", str(width))
        assert cli.main(asked) == 0
        shown.append(capsys.readouterr().out)
    cells = {cell for row in rows(shown[0])[2:] for cell in row if cell.strip("0123456789.,%- ") == ""} - {"-"}
    assert "4,800,000,000" in cells
    assert {cell for cell in cells if cell not in shown[1]} == set()


def test_the_last_line_is_no_json_object_or_lacks_a_figure(capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--per-hour", "2.50", "--prices", "example"]
    assert cli.main(["cost", *LONG, *RATES, *own, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["currency"] == "USD"
    assert round(found["times"]["machine_hours"]) == 1032
    assert round(found["bill"]["amount"]) == round(found["answers"][0]["amount"]) == 5280
    assert [one["way"] for one in found["answers"]] == ["tokens", "busy_hours", "rented"]
    assert found["savings"]["from_uncached_bill"][0]["lever"] == "hit_rate_60"
    assert found["sheets"][0]["source"].startswith("an example")
    assert round(found["break_even"]["requests"]) == 691288
    assert found["break_even"]["times_as_fast"] < 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (KNOWN, "no price of tokens and no rates: nothing can be priced; type --prices NAME, or --input-price 1.00 "),
        ([*KNOWN, *PRICES, "--cached-share", "60"], "cached_share = 60: allowed is a share from 0 to 1; for 60 % type"),
        ([*KNOWN, *PRICES, "--cached-share", "60%"], 'cached_share = "60%": allowed is a number with a point and'),
        ([*KNOWN, *PRICES, "--input-price", "-1"], "input_price = -1: allowed is 0 or more; type --input-price 1.00"),
        (
            [*KNOWN, *PRICES, "--output-tokens", "nan"],
            "output_tokens = nan: allowed is 0 or more; type --output-tokens",
        ),
        ([*KNOWN, *PRICES, "--prompt-tokens", "9" * 400], "prompt_tokens = inf: allowed is a number above 0; type "),
        ([*KNOWN, "--prices", "exmple"], "no price sheet \"exmple\", did you mean 'example'? "),
        ([*KNOWN, "--prices", "example", "--currency", "EUR"], "mixed currencies: "),
        (["--prompt-tokens", "1"], "cost: missing option '--output-tokens'; type: specq cost --help"),
        ([*KNOWN, "--price", "example"], "cost: no option --price, did you mean '--prices'? allowed: "),
    ],
)
def test_a_mistake_is_not_one_line_with_exit_code_2(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["cost", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith(f"specq: {says}")


@pytest.mark.parametrize(
    ("name", "text", "typed"),
    [
        ("cached_share", "60%", "--cached-share 0.6"),
        ("cached_share", "0,6", "--cached-share 0.6"),
        ("requests_per_month", "2,000,000", "--requests-per-month 2000000"),
        ("requests_per_month", "2 000 000", "--requests-per-month 2000000"),
        ("requests_per_month", "2M", "--requests-per-month 2000000"),
        ("input_price", "$1.5", "--input-price 1.5"),
        ("input_price", "cheap", "--input-price 1.00"),
        ("input_price", "", "--input-price 1.00"),
        ("input_price", "%", "--input-price 1.00"),
    ],
)
def test_a_number_in_another_notation_is_taken_for_another_or_not_corrected(name: str, text: str, typed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(name, text)
    assert str(caught.value).endswith(f"type {typed}")


def test_a_number_is_read_as_another() -> None:
    assert [parsed("prompt_tokens", text) for text in ("890", "2e6", "0.5", "2_000")] == [890, 2e6, 0.5, 2000]


def test_a_mean_is_printed_with_a_bare_point_or_as_nothing() -> None:
    means = (0.0, 1e-12, 0.5, 53.001, 53.25, 100.0, 2e6)
    assert [cost_words.count(mean) for mean in means] == ["0", "1.0e-12", "0.5", "53", "53.25", "100", "2,000,000"]


def test_pricing_loads_torch_or_what_takes_as_long(tmp_path: Path) -> None:
    words = ["cost", *LONG, *RATES, *PRICES, "--per-hour", "2.5"]
    code = (
        "import sys\nfrom specq.cli import main\n"
        f"assert main({words!r}) == 0 and main({[*words, '--json']!r}) == 0\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr.split() == []
    assert json.loads(done.stdout.splitlines()[-1])["bill"]["amount"] > 0
