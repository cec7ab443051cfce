from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from report_runs import whole_run
from rich.cells import cell_len
from rich.console import Console

from specq import report
from specq.report.tables import Grid, Paragraph, fold, terminal

REFERENCE = sorted((Path(__file__).parents[2] / "results" / "reference" / "quickstart").iterdir())
GRID = Grid(
    columns=("arm", "95 % interval", "draft_acceptance", "question"),
    rows=(("baseline#1", "0.92 to 1.21", "0.30", "Does it pay on chat, and on which prompts?"),),
    prose=(3,),
)


@pytest.mark.parametrize("width", [30, 45, 60, 80, 100, 140, 10_000])
def test_a_table_breaks_a_word_a_number_or_the_width(width: int) -> None:
    lines = GRID.lines(width)
    assert max(map(len, lines)) <= width
    words = set(" ".join(lines).replace("-" * 5, " ").split())
    for cell in (*GRID.columns, *GRID.rows[0]):
        assert set(cell.split()) <= words
    assert any("0.92 to 1.21" in line for line in lines)


def test_a_column_that_does_not_fit_is_lost_and_not_stacked_under_its_name() -> None:
    lines = GRID.lines(45)
    assert sum(line.startswith("baseline#1") for line in lines) == 2
    assert "" in lines
    assert len(GRID.lines(10_000)) == 3, "what fits stands in one row"


@pytest.mark.parametrize("width", [10, 20, 30, 40])
def test_a_number_is_split_over_lines_on_a_narrow_terminal(width: int) -> None:
    columns = ("by tokens", "tokens a month", "share", "95 %", "of 1,886,000,000 tokens")
    row = ("131,072 tokens cached", "1,886,000,000", "57 %", "0.000617 to 0.000621", "-1.25e-07 s")
    lines = Grid(columns=columns, rows=(row,), right=True).lines(width)
    for cell in ("131,072", *row[1:], "1,886,000,000"):
        assert any(cell in line for line in lines), cell
    assert all("131,072" in line or not re.search(r"^(131|,|072)", line) for line in lines)
    assert Grid(columns=("n",), rows=(("1,886,000,000",),)).lines(width)[2:] == ["1,886,000,000"]
    if width == 20:
        assert lines[lines.index("131,072 tokens") :][:3] == ["131,072 tokens", "cached", "  1,886,000,000"]
    text = Grid(columns=("a", "b"), rows=(("20261130T233123Z-23bdd9", "experiments/deep/pair.toml"),)).lines(width)
    assert max(map(len, text)) <= width, "only numbers may be wider than the terminal"


def test_a_run_name_folds_elsewhere_than_at_a_sign() -> None:
    assert fold("20261130T233123Z-23bdd9", 20) == ["20261130T233123Z-", "23bdd9"]
    assert fold("experiments/deep/pair.toml", 18) == ["experiments/deep/", "pair.toml"]
    assert fold("x" * 7, 3) == ["xxx", "xxx", "x"], "only a word without a sign is cut"
    assert fold("one two", 5) == ["one", "two"]
    assert fold("", 5) == [""]
    names = Grid(columns=("run", "n"), rows=(("20261130T233123Z-23bdd9", "123456789012"),))
    assert names.lines(32)[-2:] == ["20261130T233123Z-   123456789012", "23bdd9"]


def test_wide_characters_count_as_one_cell() -> None:
    assert fold("\u4f60\u597d\u4f60\u597d", 4) == ["\u4f60\u597d", "\u4f60\u597d"]
    lines = Grid(columns=("arm", "n"), rows=(("\u4f60\u597d", "1"), ("ab", "2")), right=True).lines(80)
    assert {cell_len(line) for line in lines[2:]} == {len(lines[1])}


def test_foreign_text_is_obeyed_by_the_terminal() -> None:
    lines = Grid(columns=("a", "b"), rows=(("\x1b[31m\n", "[red]"),)).lines(80)
    assert lines[-1] == "\\x1b[31m\\n  [red]"


def printed(part: object, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False, markup=False)
    console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_paragraph_is_wider_than_the_terminal_or_padded() -> None:
    text = printed(Paragraph(text="one two three [red]", indent=2), 9)
    assert text == "  one two\n  three\n  [red]\n"


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("run", [None, *REFERENCE], ids=lambda run: run.name if run else "toy")
def test_a_report_is_broken_inside_a_word_or_a_number(tmp_path: Path, run: Path | None, width: int) -> None:
    found = report.build(run or whole_run(tmp_path / "run"))
    text = printed(terminal(found), width)
    assert max(map(len, text.splitlines())) <= width
    assert not any(line.endswith(" ") for line in text.splitlines())
    whole = set(printed(terminal(found), 10_000).split())
    rules = {word for word in [*text.split(), *whole] if set(word) == {"\u2500"}}
    assert set(text.split()) - rules == whole - rules
    # Intervals in tables stay in one piece, as many as there are unfolded.
    tabled = re.findall(r"(?<=\s)\d+\.\d\d to \d+\.\d\d(?=\s)", printed(terminal(found), 10_000))
    assert len(re.findall(r"(?<=\s)\d+\.\d\d to \d+\.\d\d(?=\s)", text)) >= len(tabled) > 3
