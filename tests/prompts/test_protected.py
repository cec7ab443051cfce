"""No protected field is ever lost, whatever the prompt; and every deletion is on record."""

from __future__ import annotations

import pytest
import texts

from specq.core.errors import ConfigError, RunFailed
from specq.prompts import protected
from specq.prompts.transform import transform
from specq.prompts.types import Result, Steps, content_of
from specq.prompts.work import Work

SEEDS = range(40)
STEPS = (Steps(), Steps(select=0.3), Steps(clean=False, select=5))


def kinds(text: str) -> set[str]:
    return {f"{one.kind}: {one.value}" for one in protected.fields(text)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It costs EUR 1,250.00 today.", "amount: EUR 1,250.00"),
        ("Es kostet 1.299,00 \u20ac.", "amount: 1.299,00 \u20ac"),
        ("paid in CHF", "currency: CHF"),
        ("due 2024-05-06", "date: 2024-05-06"),
        ("\u671f\u9650\u306f2024\u5e743\u67085\u65e5\u3067\u3059", "date: 2024\u5e743\u67085\u65e5"),
        ("at 3.5% a year", "rate: 3.5% a year"),
        ("12 euros per month", "rate: 12 euros per month"),
        ("no more than 40 units", "threshold: no more than 40 units"),
        ("The tenant must pay.", "obligation: the tenant must pay"),
        ("The tenant must:\n- lock the door", "obligation: lock the door"),
        ("Allowed unless loud.", "exception: allowed unless loud"),
        ("see https://a.org/x?y=1.", "source: https://a.org/x?y=1"),
        ("Section 4.2 applies", "source: Section 4.2"),
        ("use version 2.1.3", "version: version 2.1.3"),
    ],
)
def test_known_fields_are_found(text: str, found: str) -> None:
    assert found in kinds(text)


def lost_in(before: list[dict[str, object]], after: Result) -> set[protected.Protected]:
    """The slow twin of the transform's own account: what stood anywhere and stands nowhere, from the texts alone."""
    old, new = (
        {field for message in some for field in protected.fields(content_of(message))}
        for some in (before, after.messages)
    )
    return old - new


@pytest.mark.parametrize("steps", STEPS, ids=lambda steps: steps.words)
def test_no_prompt_loses_a_protected_field(steps: Steps) -> None:
    shorter = 0
    for seed in SEEDS:
        prompt = texts.prompt(seed)
        found = transform(prompt, steps)
        assert not lost_in(prompt, found), seed
        assert found.lost == ()
        assert found.before.characters - found.after.characters == sum(one.characters for one in found.deletions), seed
        assert found.messages[-1]["content"].splitlines()[-1] == prompt[-1]["content"].splitlines()[-1], seed
        assert [m for m in found.messages if m["role"] == "system"] == [m for m in prompt if m["role"] == "system"]
        shorter += found.after.characters < found.before.characters
    assert shorter > len(SEEDS) / 2


def test_a_cleaned_prompt_is_left_as_it_is() -> None:
    for seed in SEEDS:
        once = transform(texts.prompt(seed), Steps())
        assert transform(once.messages, Steps()).messages == once.messages, seed


def test_a_prompt_of_protected_fields_alone_is_left_whole() -> None:
    text = "The rent is EUR 850.\n\nIt must be paid by 3 March 2024.\n\nPets are welcome unless loud.\n\nWhat is due?"
    found = transform(text, Steps(select=0.1))
    assert found.messages[0]["content"] == text
    assert found.deletions == ()
    assert found.notes
    assert {name.split()[0] for one in found.kept for name in one.because} >= {"amount", "obligation", "exception"}


@pytest.mark.parametrize(
    "text", ["", " \n ", "?", "\ufeff", "\u200b\u0301", "\U0001f600", "\x00", "a" * 5000, "(" * 300]
)
def test_odd_texts_go_through(text: str) -> None:
    for steps in STEPS:
        assert transform(text, steps).lost == ()


def test_a_transform_that_would_lose_a_field_returns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check of each deletion the last check, of what goes out, stands."""
    monkeypatch.setattr(Work, "lost_by", lambda *_: [])
    text = "What is it?\n\nKind regards,\nAnn\nEUR 40 fee\n\nThe end of it all is here."
    with pytest.raises(RunFailed, match="EUR 40"):
        transform(text, Steps())


@pytest.mark.parametrize("select", [0.0, 1.0, -3, 0, True, 1.5])
def test_a_budget_that_is_none_is_refused(select: float) -> None:
    with pytest.raises(ConfigError, match="share"):
        Steps(select=select)
    with pytest.raises(ConfigError, match="neither"):
        Steps(clean=False)
