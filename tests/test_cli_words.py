"""What the command line says of words that it does not know, in one line of the project's own."""

from __future__ import annotations

import pytest

from specq import cli


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["shwo", "x"], "no command shwo, did you mean 'show'? allowed: run, plan, "),
        (["zzz"], "no command zzz; allowed: run, plan, "),
        (["models", "fecth"], "models: no command fecth, did you mean 'fetch'? allowed: fetch, ls, facts; "),
        (["show"], "show: missing argument 'RUN'; type: specq show --help"),
        (["show", "a", "b"], "show: got unexpected extra argument(s) (b); type: specq show --help"),
        (["show", "a", "--jsno"], "show: no option --jsno, did you mean '--json'? allowed: --out, --json, --help; "),
        (["plan", "--zzz", "a"], "plan: no option --zzz; allowed: --set, --smoke, --json, --help; "),
        (
            ["drafts", "m", "--k", "0"],
            "drafts: --k 0: allowed is a whole number from 1 to 32; type: specq drafts --help",
        ),
        (
            ["drafts", "m", "--max-new-tokens", "1"],
            "drafts: --max-new-tokens 1: allowed is a whole number, 2 or more",
        ),
        (["drafts", "m", "--temperature", "-1"], "drafts: --temperature -1: allowed is a number, 0 or more; "),
        (["drafts", "m", "--measure=0"], "drafts: --measure 0: allowed is a whole number, 1 or more; "),
        (["load", "u", "--requests", "x"], "load: --requests x: allowed is a whole number; type: specq load --help"),
        (["run", "--set"], "option '--set' requires an argument; type: specq --help"),
        (["run", "--smoke=3"], "option '--smoke' does not take a value; type: specq --help"),
        (["--jsno"], "no option --jsno; allowed: --help; type: specq --help"),
    ],
)
def test_a_word_that_the_command_line_does_not_know_is_more_than_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith(f"specq: {says}")


@pytest.mark.parametrize("words", [[], ["models"]])
def test_a_command_without_words_is_answered_with_an_error_and_not_with_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert "Commands:" in capsys.readouterr().out
