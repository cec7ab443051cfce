"""Do evals ask what a quantizer was calibrated on? Then their scores there are no evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from specq.core.nouns import counted
from specq.evals.items import Item
from specq.experiment.eval_plan import PlannedEval
from specq.experiment.schema import Experiment
from specq.quantize import calibration, recipes

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
    asked = {one.asked.name: [_asked(item) for item in one.items] for one in evals}
    wanted = _Wanted(own for several in asked.values() for own in several)
    common = {name: _common(several) for name, several in asked.items()}
    found: dict[str, dict[str, Overlap]] = {}
    for recipe, path in _files(experiment).items() if evals else ():
        there = wanted.among(_by_line(calibration.read(path)))
        for one in evals:
            name = one.asked.name
            told = there - common[name]
            ids = [item.id for item, own in zip(one.items, asked[name], strict=True) if not _runs(own).isdisjoint(told)]
            left_out = len(there & common[name])
            if ids or left_out:
                found.setdefault(name, {})[recipe] = Overlap(items=tuple(ids), left_out=left_out)
    return found


def notes(experiment: Experiment, evals: Sequence[PlannedEval]) -> list[str]:
    """What a plan says of `overlaps`: the report of its run would call those scores no evidence.

    Raises:
        UserError: as `overlaps`.
    """
    items, found = {one.asked.name: len(one.items) for one in evals}, []
    for name, by_recipe in overlaps(experiment, evals).items():
        for recipe, one in by_recipe.items():
            if one.items:
                share = "shares" if len(one.items) == 1 else "share"
                some = f"{len(one.items)} of {counted(items[name], 'item')}"
                found.append(
                    f'eval "{name}": {some} {share} text with what {recipe} is calibrated on, first "{one.items[0]}": '
                    "scores there are no evidence; calibrate on other texts, or ask other items"
                )
    return found


class _Wanted:
    """Runs of words to be looked for in texts of any length; nothing of the texts is kept but what was found."""

    def __init__(self, asked: Iterable[Sequence[str]]) -> None:
        self._runs: set[Gram] = set()
        self._known: set[str] = set()
        # By a run's last word, how many words such runs have.
        self._lengths: dict[str, set[int]] = {}
        for own in asked:
            self._known.update(own)
            for run in _runs(own):
                self._runs.add(run)
                self._lengths.setdefault(run[-1], set()).add(len(run))

    def among(self, lines: Iterable[Sequence[str]]) -> set[Gram]:
        """The runs that stand in lines of words, read as one text."""
        found: set[Gram] = set()
        before: list[str] = []
        in_a_row = 0
        for line in lines:
            words = [*before, *line]
            for end, word in enumerate(line, start=len(before) + 1):
                # A word of no item ends every run, which spares most of a long text the rest.
                if word not in self._known:
                    in_a_row = 0
                    continue
                in_a_row += 1
                for length in self._lengths.get(word, ()):
                    if length <= in_a_row and (run := tuple(words[end - length : end])) in self._runs:
                        found.add(run)
            before = words[-(WORDS - 1) :]
        return found


def _common(asked: Sequence[Sequence[str]]) -> set[Gram]:
    """The runs of words that more than half of the items share."""
    if len(asked) < FEW:
        return set()
    seen = Counter(gram for own in asked for gram in _grams(own))
    return {gram for gram, count in seen.items() if 2 * count > len(asked)}


def _files(experiment: Experiment) -> dict[str, Path]:
    """By recipe, the file of its calibration texts."""
    found: dict[str, Path] = {}
    for lever in experiment.levers.values():
        if lever.recipe is None or lever.recipe in found:
            continue
        recipe = recipes.load(Path(lever.recipe))
        if recipe.calibration in (None, recipes.SELF):
            continue
        found[lever.recipe] = Path(str(recipe.calibration))
    return found


def _by_line(texts: Iterable[calibration.Text]) -> Iterator[list[str]]:
    """The words of texts, line by line, so that those of a long text are never held at once."""
    for text in texts:
        for one in [text] if isinstance(text, str) else [message["content"] for message in text]:
            yield from map(_words, one.splitlines())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _grams(words: Sequence[str]) -> set[Gram]:
    return {tuple(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)}


def _runs(asked: Sequence[str]) -> set[Gram]:
    """What of an item is looked for: all its runs of WORDS words, or, of a shorter one, all of its words as one."""
    return _grams(asked) if len(asked) >= WORDS or not asked else {tuple(asked)}


def _asked(item: Item) -> list[str]:
    return _words(item.prompt or item.messages[-1]["content"])
