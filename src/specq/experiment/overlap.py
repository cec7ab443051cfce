"""Do evals ask what a quantizer was calibrated on? Then their scores there are no evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specq.evals.items import Item
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.schema import Experiment

# So many words in a row that stand in both are no accident: GPT-3's contamination check takes 13 (arXiv 2005.14165,
# appendix C).
WORDS = 13
# Among fewer items what most share may well be what is asked.
FEW = 4
Gram = tuple[str, ...]
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The ids of an eval's items that share text with a calibration file.

    `left_out` counts the runs of words that most items share (an instruction, a template's head) and that stand in the
    file too: they tell nothing about an item, and are not looked for.
    """

    items: tuple[str, ...]
    left_out: int


def overlaps(experiment: Experiment, evals: Sequence[PlannedEval]) -> dict[str, dict[str, Overlap]]:
    """By eval and recipe, what its items share with the recipe's calibration file; nothing shared is left out.

    An item shares text where 13 words in a row of what is asked last stand in the file, or, of a shorter one, where
    it stands there whole. Texts that a model calibrates on by itself are made after the plan and not looked at.

    Raises:
        UserError: a recipe or its text is broken.
    """
    files = _files(experiment) if evals else {}
    asked = {one.asked.name: [_asked(item) for item in one.items] for one in evals}
    common = {name: _common(several) for name, several in asked.items()}
    found: dict[str, dict[str, Overlap]] = {}
    for recipe, words in files.items():
        grams = _grams(words)
        text = f" {' '.join(words)} "
        for one in evals:
            name = one.asked.name
            told = grams - common[name]
            ids = [item.id for item, own in zip(one.items, asked[name], strict=True) if _shares(own, told, text)]
            left_out = len(grams & common[name])
            if ids or left_out:
                found.setdefault(name, {})[recipe] = Overlap(items=tuple(ids), left_out=left_out)
    return found


def _common(asked: Sequence[Sequence[str]]) -> set[Gram]:
    """The runs of words that more than half of the items share."""
    if len(asked) < FEW:
        return set()
    counted = Counter(gram for own in asked for gram in _grams(own))
    return {gram for gram, count in counted.items() if 2 * count > len(asked)}


def _files(experiment: Experiment) -> dict[str, list[str]]:
    """By recipe, the words of its calibration texts."""
    from specq.quantize import calibration, recipes

    found: dict[str, list[str]] = {}
    for lever in experiment.levers.values():
        if lever.recipe is None or lever.recipe in found:
            continue
        recipe = recipes.load(Path(lever.recipe))
        if recipe.calibration in (None, recipes.SELF):
            continue
        texts = calibration.read(Path(str(recipe.calibration)))
        found[lever.recipe] = [word for text in texts for word in _words(text)]
    return found


def _words(text: str | Sequence[Mapping[str, str]]) -> list[str]:
    whole = text if isinstance(text, str) else "\n".join(str(message["content"]) for message in text)
    return _WORD.findall(whole.casefold())


def _grams(words: Sequence[str]) -> set[Gram]:
    return {tuple(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)}


def _asked(item: Item) -> list[str]:
    return _words(item.prompt or item.messages[-1]["content"])


def _shares(asked: Sequence[str], grams: set[Gram], text: str) -> bool:
    if len(asked) < WORDS:
        return bool(asked) and f" {' '.join(asked)} " in text
    return not _grams(asked).isdisjoint(grams)
