import pytest

from specq.report.words import markdown, milliseconds, number, size, visible


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (1.306, "1.31"),
        (25.34, "25.3"),
        (1234.5, "1,234"),
        (0.01234, "0.0123"),
        (-2.5, "-2.50"),
        (1e-7, "1.0e-07"),
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_units() -> None:
    assert milliseconds(0.0501) == "50.1"
    assert size(269 * 2**20) == "269 MiB"
    assert size(3 * 2**29) == "1.50 GiB"


def test_visible_spells_out_what_a_terminal_would_obey() -> None:
    assert visible("a\x1b[31mb\nc\u200bd\u202e") == "a\\x1b[31mb\\nc\\u200bd\\u202e"
    assert visible("Gr\u00fc\u00dfe \u4f60 |") == "Gr\u00fc\u00dfe \u4f60 |"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("tokens_per_step 1.31 - 2", "tokens_per_step 1.31 - 2"),
        ("# head", "\\# head"),
        ("- item", "\\- item"),
        ("-1.5", "-1.5"),
        ("-", "-"),
        ("12. item", "&#49;2. item"),
        ("a | b", "a \\| b"),
        ("_it_ *x* `y`", "\\_it\\_ \\*x\\* \\`y\\`"),
        ("<b>&amp;", "&lt;b>&amp;amp;"),
        ("[x](http://e)", "\\[x\\](http\\://e)"),
        ("back\\slash", "back\\\\slash"),
    ],
)
def test_markdown_escapes_what_would_be_read_as_markup(text: str, escaped: str) -> None:
    assert markdown(text) == escaped
