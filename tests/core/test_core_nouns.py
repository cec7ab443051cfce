"""Counts and their nouns."""

from __future__ import annotations

from specq.core.nouns import counted, listed, slug


def test_one_thing_is_counted_as_several() -> None:
    assert [counted(n, "item") for n in (0, 1, 2, 1200)] == ["0 items", "1 item", "2 items", "1,200 items"]
    assert [counted(n, "process", "processes") for n in (1, 2)] == ["1 process", "2 processes"]


def test_names_in_a_row_lack_their_and() -> None:
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_letters_with_marks_are_cut_out_of_names() -> None:
    assert [slug(one, "x") for one in ("naïve", "Zoë's 2.0", "_a_", "模型", "A-b_9")] == [
        *("naive", "Zoe-s-2-0", "a", "x", "A-b_9")
    ]
