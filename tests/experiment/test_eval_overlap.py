"""Calibration on what is asked later: found by words in a row, and not where texts only resemble each other."""

from __future__ import annotations

import json
from pathlib import Path

from specq.evals import items, metrics
from specq.experiment import config, overlap
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.quality import Eval

LONG = "the quick brown fox jumps over the lazy dog while seven other foxes are watching from afar"


def shared(tmp_path: Path, calibration: str, *asked: str) -> tuple[list[str], int]:
    """The ids that overlap, and how many runs of words were left out."""
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
    told = overlap.overlaps(experiment, [one]).get("e", {}).get(str(recipe))
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
