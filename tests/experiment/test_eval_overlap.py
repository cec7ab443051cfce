"""Calibration on what is asked later: found by words in a row, and not where texts only resemble each other."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from plan_models import MakeModel

from specq.evals import items, metrics
from specq.experiment import config, overlap, plan
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.quality import Eval
from specq.experiment.schema import Experiment

LONG = "the quick brown fox jumps over the lazy dog while seven other foxes are watching from afar"


def made(tmp_path: Path, calibration: str, *asked: str) -> tuple[Experiment, PlannedEval]:
    """An experiment whose lever is calibrated on a text, and an eval of items that ask others."""
    (tmp_path / "c.txt").write_text(calibration)
    recipe = tmp_path / "r.toml"
    recipe.write_text('method = "gptq"\nbits = 4\ngroup_size = 32\ncalibration = "c.txt"\n')
    experiment = config.from_resolved(
        {
            "name": "x",
            "target": {"model": "m"},
            "workload": {"prompts": "p"},
            "levers": {"w": {"kind": "quantize", "recipe": str(recipe)}},
        }
    )
    some = tuple(
        items.read_line(json.dumps({"id": f"i{n}", "prompt": text, "reference": "a"})) for n, text in enumerate(asked)
    )
    one = PlannedEval(
        asked=Eval(name="e", items="i", metric="contains"),
        items=some,
        metric=metrics.make("contains"),
        sha256="",
        tokens=(1,) * len(some),
        prompts=("",) * len(some),
    )
    return experiment, one


def shared(tmp_path: Path, calibration: str, *asked: str) -> tuple[list[str], int]:
    """The ids that overlap, and how many runs of words were left out."""
    experiment, one = made(tmp_path, calibration, *asked)
    told = overlap.overlaps(experiment, [one]).get("e", {}).get(str(tmp_path / "r.toml"))
    return ([], 0) if told is None else (list(told.items), told.left_out)


def found(tmp_path: Path, calibration: str, *asked: str) -> list[str]:
    return shared(tmp_path, calibration, *asked)[0]


def test_an_item_stands_in_the_calibration_text(tmp_path: Path) -> None:
    assert found(tmp_path, f"Once upon a time, {LONG.upper()}!", f"Read: {LONG}. What jumps?", "Who is it?") == ["i0"]


def test_a_short_item_stands_there_whole(tmp_path: Path) -> None:
    assert found(tmp_path, "He asked: what is the capital of France? Paris.", "What is the capital of France?") == [
        "i0"
    ]


def test_texts_that_share_a_phrase_are_told_to_overlap(tmp_path: Path) -> None:
    text = "the quick brown fox jumps over the lazy dog"
    assert found(tmp_path, f"{text} and sleeps", f"{text} because it is late and nobody wanted to stay") == []


ASK = "read the text below with care and answer the question after it in one short and plain sentence"


def test_an_instruction_that_all_items_share_is_an_overlap(tmp_path: Path) -> None:
    asked = [f"{ASK}. {word} is it?" for word in ("Who", "What", "Where", "When", "Why")]
    calibration = f"{ASK}: nobody knows."
    assert shared(tmp_path, calibration, *asked) == ([], len(ASK.split()) - 12)
    assert shared(tmp_path, "Quite another text.", *asked) == ([], 0)


def test_an_item_of_its_own_words_hides_behind_the_instruction(tmp_path: Path) -> None:
    asked = [f"{ASK}. {word} is it?" for word in ("Who", "What", "Where", "When")]
    ids, left_out = shared(tmp_path, f"{ASK}. {LONG}", *asked, f"{ASK}. {LONG}")
    assert (ids, left_out) == (["i4"], len(ASK.split()) - 12)
    # The words of the question alone, with the end of the instruction before them.
    assert found(tmp_path, " ".join(asked[1].split()[-14:]), *asked) == ["i1"]


def test_few_items_that_are_the_calibration_text_are_called_an_instruction(tmp_path: Path) -> None:
    assert found(tmp_path, LONG, LONG, f"{LONG} today", f"{LONG} tomorrow") == ["i0", "i1", "i2"]


def slowly(calibration: str, *asked: str) -> tuple[list[str], int]:
    """The twin: all runs of the whole text at once, and short items looked for in it as text."""
    words = calibration.casefold().split()
    there, text = overlap._grams(words), f" {' '.join(words)} "
    own = [one.casefold().split() for one in asked]
    common = overlap._common(own)
    ids = [
        f"i{n}"
        for n, one in enumerate(own)
        if (f" {' '.join(one)} " in text if len(one) < overlap.WORDS else overlap._grams(one) & (there - common))
    ]
    return ids, len(there & common)


@pytest.mark.parametrize("seed", range(40))
def test_a_text_read_line_by_line_shares_other_runs_than_the_whole(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    words = ["one", "two", "three", "four"]

    def some(count: int) -> str:
        return " ".join(rng.choice(words) for _ in range(count))

    head = some(20)
    asked = [f"{head} {some(rng.randrange(1, 20))}" if seed % 2 else some(rng.randrange(1, 30)) for _ in range(6)]
    parts = [some(rng.randrange(1, 40)), "stranger", *rng.sample(asked, 3), asked[0][:40], some(9), head, some(50)]
    rng.shuffle(parts)
    breaks = [rng.choice([" ", "\n", "\n\n", " \n\n\n "]) for _ in parts]
    calibration = "".join(part + after for part, after in zip(parts, breaks, strict=True))
    # An item that breaks across lines and texts is still found.
    calibration = "".join(rng.choice(["\n", "\n\n", " ", " "]) if c == " " else c for c in calibration)
    assert shared(tmp_path, calibration, *asked) == slowly(calibration, *asked)


def test_a_plan_is_silent_where_the_report_would_call_scores_no_evidence(tmp_path: Path) -> None:
    experiment, one = made(tmp_path, f"Read: {LONG}.", "Who is it?", LONG)
    (note,) = overlap.notes(experiment, [one])
    recipe = tmp_path / "r.toml"
    assert note.startswith(f'eval "e": 1 of 2 items shares text with what {recipe} is calibrated on, first "i1": ')
    experiment, one = made(tmp_path, "Quite another text.", "Who is it?", LONG)
    assert overlap.notes(experiment, [one]) == []


def test_the_plan_does_not_look_for_overlaps(tmp_path: Path, make_model: MakeModel) -> None:
    experiment, _ = made(tmp_path, f"{LONG}\n", LONG)
    (tmp_path / "i.jsonl").write_text(json.dumps({"id": "i0", "prompt": LONG, "reference": "a"}) + "\n")
    (tmp_path / "p.jsonl").write_text('{"id": "raw", "prompt": "one"}\n')
    values = {
        **experiment.resolved(),
        "target": {"model": str(make_model())},
        "engine": {"device": "cpu"},
        "workload": {"prompts": str(tmp_path / "p.jsonl"), "max_new_tokens": 2},
        "evals": [{"name": "e", "items": str(tmp_path / "i.jsonl"), "metric": "contains", "max_new_tokens": 4}],
    }
    notes = plan.make(config.from_resolved(values), available_bytes=1 << 40).notes
    assert any(note.startswith('eval "e": 1 of 1 item shares text with what ') for note in notes)
