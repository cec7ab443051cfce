import pytest

from specq.report.words import markdown, milliseconds, moved, number, points, signed, size, span, visible


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


@pytest.mark.parametrize(
    ("value", "share", "text"),
    [
        (0.012, True, "+1.2"),
        (-0.007, True, "-0.7"),
        (0.0, True, "+0.0"),
        (-0.0, True, "+0.0"),
        # Below 0 by less than half a digit, and by nothing that could be shown.
        (-0.0004, True, "-0.04"),
        (0.0004, True, "+0.04"),
        (-1e-9, True, "+0.0"),
        (-0.0123, False, "-0.012"),
        (-0.0003, False, "-0.0003"),
        (None, True, "-"),
    ],
)
def test_a_difference_lacks_its_sign_or_has_one_that_says_nothing(value: float | None, share: bool, text: str) -> None:
    assert signed(value, share) == text


def test_ends_of_one_difference_are_written_in_two_ways() -> None:
    assert span(-0.051, -0.012) == "-5.1 to -1.2"
    assert moved(-0.015, -0.051, 0.012) == "-1.5 points (-5.1 to +1.2)"
    assert moved(-0.5, -1.25, -0.0625, False) == "-0.500 (-1.250 to -0.062)"
    assert points(0.012) == "+1.2 points"
    assert points(None) == "-"


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
