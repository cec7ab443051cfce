from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import specq
from specq.core.errors import ConfigError, PromptError
from specq.core.types import DraftSpec, Prompt
from specq.experiment import checks
from specq.experiment.prompts import RANDOM_TOKENS
from specq.workloads import counting, synthetic

WORDS = counting.counter()


def said(text: str, tokens: list[int], count: int = 1, **how: Any) -> list[str]:
    return [one.messages[0]["content"] for one in synthetic.make(text, tokens, count, WORDS, **how)]


def test_a_prompt_is_longer_or_shorter_than_asked() -> None:
    text = synthetic.text_of(synthetic.TEXT)
    found = said(text, [5, 40, 200], 4)
    assert [len(one.split()) for one in found] == [5] * 4 + [40] * 4 + [200] * 4
    letters = synthetic.make(text, [30], 3, counting.counter(unit="characters"))
    assert [len(one.messages[0]["content"]) for one in letters] == [30] * 3


def test_two_prompts_begin_alike() -> None:
    text = synthetic.text_of(synthetic.TEXT)
    first = [one.split()[0] for one in said(text, [20, 30], 40)]
    assert len(set(first)) == 80


def test_a_prompt_is_no_text_of_the_source() -> None:
    text = "one two three four five six seven eight"
    twice = f"{text} {text}"
    for one in said(text, [3, 6, 8], 2):
        assert " ".join(one.split()) in twice


def test_the_same_seed_gives_other_prompts_or_another_seed_the_same() -> None:
    text = synthetic.text_of(synthetic.TEXT)
    assert said(text, [9], 5) == said(text, [9], 5)
    assert said(text, [9], 5) != said(text, [9], 5, seed=1)


def test_a_text_is_repeated_within_a_prompt_or_a_beginning_used_twice() -> None:
    text = "alpha beta alpha beta alpha gamma"
    with pytest.raises(PromptError, match=r"has 6 words, and a prompt of 7 would repeat it.*builtin:manual"):
        said(text, [7])
    with pytest.raises(PromptError, match=r"4 prompts that begin differently, and the text has 3 different beginnings"):
        said(text, [2], 4)
    for tokens, count in ([], 1), ([0], 1), ([5], 0):
        with pytest.raises(ConfigError, match="allowed is 1 or more of each"):
            said(text, tokens, count)


def test_random_tokens_carry_no_tag_or_are_the_text() -> None:
    text = synthetic.text_of(synthetic.TEXT)
    made = synthetic.make(text, [30], 2, WORDS, shuffled=True)
    assert all(RANDOM_TOKENS in one.tags for one in made)
    assert [len(one.messages[0]["content"].split()) for one in made] == [30, 30]
    assert not any(one.messages[0]["content"] in f"{text}\n\n{text}" for one in made)
    assert RANDOM_TOKENS not in synthetic.make(text, [30], 1, WORDS)[0].tags


def test_a_draft_is_measured_on_random_tokens() -> None:
    prompts = [Prompt(id="a", ids=(1,)), Prompt(id="b", ids=(1,), tags=("x", RANDOM_TOKENS))]
    drafted: Any = SimpleNamespace(draft=DraftSpec(method="lookup", k=2))
    with pytest.raises(PromptError, match=r'prompt "b" is made of random tokens.*acceptance means nothing; give real'):
        checks.check_text(drafted, prompts)
    checks.check_text(drafted, prompts[:1])
    plain: Any = SimpleNamespace(draft=None)
    checks.check_text(plain, prompts)


def test_the_text_of_a_user_is_not_scrubbed_or_a_builtin_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("write to anna@example.com about seven grey boats")
    made = specq.make_workload(tmp_path / "a.txt", [7])
    assert "anna" not in made.requests[0].messages[0]["content"]
    assert made.read.counts.scrubbed == {"email": 1}
    kept = specq.make_workload(tmp_path / "a.txt", [7], keep_personal_data=True)
    assert "anna@example.com" in kept.requests[0].messages[0]["content"]
    for name, why in (("builtin:none", "no text builtin:none"), (str(tmp_path / "b.txt"), "no such file")):
        with pytest.raises(PromptError, match=why):
            specq.make_workload(name, [5])
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(PromptError, match="no text in it"):
        specq.make_workload(tmp_path / "empty.txt", [5])


def test_the_manual_holds_no_long_prompts() -> None:
    (one,) = said(synthetic.text_of(synthetic.MANUAL), [20_000])
    assert len(one.split()) == 20_000
