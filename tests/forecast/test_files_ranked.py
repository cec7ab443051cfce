"""Drafts ranked from files: the tokens per step of the slow twin, seconds as they were given, and what is refused."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replayed_texts import GREEDY, PROMPT, T, V, files, laws, line, near, warped, write, written

import specq
from specq.core.errors import ConfigError, PromptError
from specq.core.types import EXACT_RULES, Sampling
from specq.decoding import law
from specq.forecast.files import Counts, FromFiles
from specq.forecast.files_check import Seconds

WARM = Sampling(temperature=1.0)
SETTINGS = [
    (WARM, 0),
    (WARM, 3),
    (GREEDY, 1),
    (Sampling(temperature=0.7), V),
    (Sampling(temperature=1.0, top_p=0.9), V),
    (Sampling(temperature=1.2, top_k=5, min_p=0.01), 6),
]


def replayed(paths: tuple[Path, Path], sampling: Sampling, **more: Any) -> FromFiles:
    cut = {name: getattr(sampling, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    return specq.replay_files(paths[0], {"d": paths[1]}, **{**cut, **more})


@pytest.mark.parametrize(("sampling", "top"), SETTINGS, ids=str)
def test_tokens_per_step_differ_from_those_of_the_recursion_one_by_one(
    tmp_path: Path, sampling: Sampling, top: int
) -> None:
    found = replayed(files(tmp_path, sampling, top=top), sampling, most=4)
    steps = {(rule, k): 0.0 for rule in EXACT_RULES for k in range(1, 5)}
    for seed in range(3):
        model = laws(seed)
        ids = written(model, 1000 + seed, sampling)[PROMPT:]
        draft = warped(near(model, 100 + seed), sampling)[PROMPT:]
        at = (np.arange(T), ids)
        hit = (near(model, 100 + seed)[PROMPT:].argmax(axis=1) == ids).astype(float)
        for rule, k in steps:
            steps[rule, k] += law.steps(rule, warped(model, sampling)[PROMPT:][at], draft[at], hit, k)[0]
    assert len(found.cells) == len(steps)
    for one in found.cells:
        twin = 3 * (T - 1) / steps[one.cell.rule, one.cell.k]
        assert one.tokens_per_step.least == pytest.approx(twin, rel=1e-4)
        assert one.tokens_per_step.greatest == pytest.approx(twin, rel=1e-4)
        assert one.tokens_per_step.low is not None
        assert one.tokens_per_step.high is not None
        assert one.tokens_per_step.low <= one.tokens_per_step.least * (1 + 1e-9)
        assert one.tokens_per_step.high >= one.tokens_per_step.greatest * (1 - 1e-9)
        assert one.speedup is None
    assert found.counts == {"d": Counts(tokens=3 * T, exact=3 * T, bounded=0, outside=0)}
    assert (found.texts, found.sampling, found.most) == (3, sampling, 4)


@pytest.mark.parametrize("sampling", [Sampling(temperature=0.7), Sampling(temperature=0.8, top_p=0.9)], ids=str)
def test_the_true_tokens_per_step_leave_the_bounds_that_narrow_with_what_is_known(
    tmp_path: Path, sampling: Sampling
) -> None:
    exact = {one.cell: one.tokens_per_step.least for one in replayed(files(tmp_path, sampling), sampling).cells}
    width = dict.fromkeys(exact, math.inf)
    for top in (1, 6, 14):
        found = replayed(files(tmp_path, sampling, top=top), sampling)
        assert found.counts["d"].bounded > 0
        for one in found.cells:
            span = one.tokens_per_step
            assert span.least <= exact[one.cell] * (1 + 1e-4)
            assert span.greatest >= exact[one.cell] * (1 - 1e-4)
            assert span.greatest - span.least <= width[one.cell] + 1e-9
            width[one.cell] = span.greatest - span.least


def test_both_ends_of_the_targets_own_law_are_used(tmp_path: Path) -> None:
    """The draft is known whole and the target is not, and the other way round: either leaves two ends."""
    sampling = Sampling(temperature=0.7)
    whole, part = (files(tmp_path / str(top), sampling, top=top) for top in (V, 4))
    both = {}
    for paths in ((whole[0], part[1]), (part[0], whole[1]), part):
        for one in replayed(paths, sampling).cells:
            if one.cell.k == 3 and one.cell.rule in ("rejection", "block"):
                both.setdefault(one.cell.rule, []).append(one.tokens_per_step.greatest - one.tokens_per_step.least)
    for draft, target, together in both.values():
        assert draft > 0.01
        assert target > 0.01
        assert together > max(draft, target)


def test_a_text_that_cannot_be_drawn_at_these_settings_is_accepted_always(tmp_path: Path) -> None:
    """Without the refusal its tokens have p = 0, and q over that would be above 1."""
    paths = files(tmp_path, WARM, top=8)
    with pytest.raises(PromptError, match=r"target\.jsonl:1: .*have no probability"):
        replayed(paths, Sampling(temperature=1.0, top_k=2))
    # 24 tokens after the first in pairs, all accepted: 12 steps; the second token in a step of its own makes them 13.
    model, sampling = laws(0, 25), Sampling(temperature=1.0, top_k=4)
    ids = written(model, 1000, sampling)
    ids[PROMPT + 1] = int(model[PROMPT + 1].argmin())
    few = [write(tmp_path / name, [line("0", model, ids, 8)]) for name in ("t", "d")]
    found = replayed((few[0], few[1]), sampling, most=1)
    assert found.counts["d"].outside == 1
    both = next(one.tokens_per_step for one in found.cells if one.cell.rule == "rejection")
    assert (both.least, both.greatest, both.low) == (pytest.approx(24 / 13), pytest.approx(24 / 13), None)


def test_texts_of_which_each_might_pass_pass_together(tmp_path: Path) -> None:
    """Greedy texts so short that none can be refused alone."""
    paths = files(tmp_path, GREEDY, texts=12, total=4)
    with pytest.raises(PromptError, match=r"target\.jsonl: the target does not write such texts .* over all 12"):
        replayed(paths, Sampling(temperature=1.0))


SECONDS = Seconds(plain=0.02, draft={"d": 0.002}, verify={5: 0.03})


def test_speed_ups_do_not_follow_from_the_seconds_that_were_given(tmp_path: Path) -> None:
    target, _ = files(tmp_path, WARM, texts=1)
    copy = Path(shutil.copy(target, tmp_path / "same.jsonl"))
    found = replayed((target, copy), WARM, most=4, seconds=SECONDS, max_new_tokens=T)
    # The draft is the target: all is accepted, and 23 tokens take four steps of 5 and one of 3.
    one = next(one for one in found.cells if (one.cell.k, one.cell.rule) == (4, "rejection"))
    assert one.speedup is not None
    last = 2 * 0.002 + 0.02 + 0.01 * 2 / 4
    assert one.speedup.least == pytest.approx(23 * 0.02 / (4 * (0.008 + 0.03) + last))
    assert one.speedup.greatest == pytest.approx(one.speedup.least)
    assert found.best.speedup is not None
    assert found.best.speedup.least == max(one.speedup.least for one in found.cells if one.speedup)


def test_an_answer_of_an_unknown_limit_is_priced_as_if_it_had_ended_the_answer(tmp_path: Path) -> None:
    target, _ = files(tmp_path, WARM, texts=1)
    copy = Path(shutil.copy(target, tmp_path / "same.jsonl"))
    spans = {}
    for limit in (None, T, T + 1, T + 99):
        found = replayed((target, copy), WARM, most=4, seconds=SECONDS, max_new_tokens=limit)
        one = next(one for one in found.cells if (one.cell.k, one.cell.rule) == (4, "rejection"))
        assert (found.max_new_tokens, one.tokens_per_step.least) == (limit, pytest.approx(23 / 5))
        assert one.speedup is not None
        spans[limit] = (one.speedup.least, one.speedup.greatest)
    # The last of five steps has 3 tokens left: 2 proposals where the limit ended the answer, up to 4 where it did not.
    for limit, size in ((T, 2), (T + 1, 3), (T + 99, 4)):
        last = size * 0.002 + 0.02 + 0.01 * size / 4
        assert spans[limit] == (pytest.approx(23 * 0.02 / (4 * 0.038 + last)),) * 2
    assert spans[None] == (pytest.approx(spans[T + 99][0]), pytest.approx(spans[T][0]))
    with pytest.raises(PromptError, match=r'target\.jsonl:1: the answer of "0" has 24 tokens, .*--max-new-tokens'):
        replayed((target, copy), WARM, max_new_tokens=T - 1)


@pytest.mark.parametrize(
    ("verify", "steps"),
    [
        ({}, [1.0, 1.1, 1.2, 1.3]),
        ({2: 1.5}, [1.0, 1.6, 2.2, 2.8]),
        # A little less for more tokens is noise, and the line goes on level: it never falls below 0.
        ({2: 0.97, 3: 0.96}, [1.0, 1.1, 1.2, 1.3]),
        ({3: 2.0, 4: 1.95}, [1.0, 1.6, 2.2, 2.3]),
    ],
)
def test_seconds_of_a_pass_fall_or_turn_negative_beyond_what_was_given(
    verify: dict[int, float], steps: list[float]
) -> None:
    seconds = Seconds(plain=1.0, draft={"d": 0.1}, verify=verify)
    assert seconds.steps("d", 3) == pytest.approx(steps)
    assert (np.diff(seconds.steps("d", 32)) > 0).all()


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (Seconds(plain=1.0, draft={}), "seconds are given for no draft, files for d"),
        (Seconds(plain=1.0, draft={"d": 0.1, "e": 0.1}), "give --draft-s NAME=SECONDS for each"),
        (Seconds(plain=math.nan, draft={"d": 0.1}), "of a plain step .* are nan: allowed is a number above 0"),
        (Seconds(plain=1.0, draft={"d": 0.0}), "of a token of d .* are 0.0"),
        (Seconds(plain=1.0, draft={"d": 0.1}, verify={3: -1.0}), "of a pass over 3 tokens .* are -1.0"),
        (Seconds(plain=1.0, draft={"d": 0.1}, verify={1: 2.0}), "allowed are 2 tokens or more"),
        (Seconds(plain=1.0, draft={"d": 0.1}, verify={4: 0.9}), "a pass over 4 tokens .*0.9 s.* and a plain step 1.0"),
        (Seconds(plain=1.0, draft={"d": 0.1}, verify={8: 1.1, 4: 2.0}), "over 8 tokens .*1.1 s.* and one over 4 2.0 s"),
    ],
)
def test_seconds_that_no_step_takes_are_believed(tmp_path: Path, seconds: Seconds, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        replayed((tmp_path / "t", tmp_path / "d"), WARM, seconds=seconds)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"temperature": -0.1}, "temperature = -0.1: allowed"),
        ({"temperature": math.inf}, "temperature = inf: allowed"),
        ({"top_k": -1}, "top_k = -1: allowed"),
        ({"top_k": 1.5}, "top_k = 1.5: allowed"),
        ({"top_p": 0.0}, "top_p = 0.0: allowed"),
        ({"top_p": True}, "top_p = True: allowed"),
        ({"min_p": 1.1}, "min_p = 1.1: allowed"),
        ({"most": 0}, "k up to 0: a draft proposes"),
        ({"most": 33}, "k up to 33: a draft proposes"),
        ({"max_new_tokens": 1}, r"max_new_tokens = 1 \(--max-new-tokens\): allowed"),
        ({"max_new_tokens": True}, "max_new_tokens = True"),
    ],
)
def test_values_that_the_command_refuses_are_taken_from_python(
    tmp_path: Path, value: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        replayed((tmp_path / "t", tmp_path / "d"), WARM, **value)


def test_a_file_is_given_twice(tmp_path: Path) -> None:
    target, draft = files(tmp_path, WARM, texts=1)
    for drafts, says in (
        ({}, "no draft is given"),
        ({"": draft}, "'' is no name of a draft"),
        ({"a": target}, 'for the target and for the draft "a"'),
        ({"a": draft, "b": tmp_path / "." / draft.name}, 'for the draft "a" and for the draft "b"'),
    ):
        with pytest.raises(ConfigError, match=says):
            specq.replay_files(target, drafts)


def test_a_draft_of_other_texts_is_replayed(tmp_path: Path) -> None:
    target, draft = files(tmp_path, WARM)
    lines = draft.read_text().splitlines(keepends=True)
    draft.write_text("".join(lines[:2]))
    with pytest.raises(PromptError, match=r'draft\.jsonl: lacks 1 of .*, first "2" \(.*target\.jsonl:3\)'):
        replayed((target, draft), WARM)
    draft.write_text("".join([*lines, lines[0].replace('"id": "0"', '"id": "x"')]))
    with pytest.raises(PromptError, match=r'draft\.jsonl:4: "x" is no text of'):
        replayed((target, draft), WARM)
    model, sampling = laws(1), WARM
    ids = written(model, 1, sampling)
    other = [*ids[:-1], (ids[-1] + 1) % V]
    shorter, moved = line("a", model, ids[:-1], 2), line("a", model, ids, 2) | {"prompt_tokens": PROMPT + 1}
    one = write(tmp_path / "one.jsonl", [line("a", model, ids, 2)])
    for value, says in (
        (line("a", model, other, 2), rf"the id {other[-1]} as token 26, not {ids[-1]} as in .*one\.jsonl:1"),
        (shorter, r"26 ids, not 27 as in"),
        (moved, r"prompt_tokens = 4, not 3 as in"),
    ):
        with pytest.raises(PromptError, match=rf'two\.jsonl:1: text "a" has {says}.*another tokenizer'):
            replayed((one, write(tmp_path / "two.jsonl", [value])), WARM)
