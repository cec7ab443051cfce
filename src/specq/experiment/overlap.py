"""Do evals ask what a quantizer was calibrated on? Then their scores there are no evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from specq.evals.items import Item
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.schema import Experiment

# So many words in a row that stand in both are no accident: GPT-3's contamination check takes 13 (arXiv 2005.14165,
# appendix C).
WORDS = 13
_WORD = re.compile(r"\w+")


def overlaps(experiment: Experiment, evals: Sequence[PlannedEval]) -> dict[str, dict[str, list[str]]]:
    """By eval and recipe, the ids of the items that share text with the recipe's calibration file.

    An item shares text where 13 words in a row of what is asked last stand in the file, or, of a shorter one, where
    it stands there whole. Texts that a model calibrates on by itself are made after the plan and not looked at.

    Raises:
        UserError: a recipe or its text is broken.
    """
    files = _files(experiment) if evals else {}
    found: dict[str, dict[str, list[str]]] = {}
    for recipe, words in files.items():
        grams = _grams(words)
        text = f" {' '.join(words)} "
        for one in evals:
            if ids := [item.id for item in one.items if _shares(item, grams, text)]:
                found.setdefault(one.asked.name, {})[recipe] = ids
    return found


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


def _grams(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)}


def _shares(item: Item, grams: set[tuple[str, ...]], text: str) -> bool:
    asked = _words(item.prompt or item.messages[-1]["content"])
    if len(asked) < WORDS:
        return bool(asked) and f" {' '.join(asked)} " in text
    return not _grams(asked).isdisjoint(grams)
