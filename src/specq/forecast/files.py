"""Drafts ranked from files of log-probabilities alone: tokens per step, and speed-ups where seconds are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specq.core.errors import PromptError
from specq.core.types import EXACT_RULES, Sampling
from specq.forecast import between, copied, files_check, imported, pairing, predict, replay
from specq.forecast.between import Between
from specq.forecast.files_check import Seconds
from specq.forecast.imported import Text
from specq.forecast.origin import Evidence
from specq.forecast.pairing import Paired
from specq.forecast.predict import Cell
from specq.forecast.replay import Copied, Traced
from specq.forecast.warped import Reach

Along = Between | Copied | Traced
"""A text for replay: bounded by a file, copied along, or kept by a study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A number that the files fix (`least` equals `greatest`) or bound, and a 95 % interval over texts around both."""

    least: float
    greatest: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One cell from files: the tokens per step, and the speed-up over plain decoding where seconds were given."""

    cell: Cell
    tokens_per_step: Span
    speedup: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The answer's tokens under one draft: those whose probabilities the files fix, bound, and rule out.

    `outside` have no probability in the target's law; they are taken as all but impossible, as in the audit of a run.
    """

    tokens: int
    exact: int
    bounded: int
    outside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FromFiles:
    """What files tell of drafts: every cell, the best first, with what it rests on.

    `sampling` holds the temperature and truncation that were replayed, `most` the most tokens that a step proposes,
    `max_new_tokens` the limit of the answers; None: it is not known, which leaves speed-ups their bounds.
    `checked` counts the texts of which the log-probabilities show that the target wrote them at these settings; those
    of the others do not fix it. `counts` has the tokens of each draft. `lookups` are the drafts that copy, for which
    all rules do the same. `run` is the folder of the run whose texts they are, "" for files: the answers of its
    baseline, or where drafts are `studied` the texts of its study. `left_out` counts its prompts that have no answer
    with a step.
    """

    cells: tuple[Replayed, ...]
    sampling: Sampling
    most: int
    max_new_tokens: int | None
    texts: int
    checked: int
    counts: dict[str, Counts]
    seconds: Seconds | None
    lookups: tuple[str, ...] = ()
    run: str = ""
    studied: bool = False
    left_out: int = 0

    @property
    def best(self) -> Replayed:
        """The cell with the highest speed-up, or the most tokens a step where no seconds were given, at its least."""
        return self.cells[0]


def rank(
    target: Path,
    drafts: Mapping[str, Path],
    *,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    most: int = 8,
    max_new_tokens: int | None = None,
    seconds: Seconds | None = None,
) -> FromFiles:
    """Replay every draft's file along the target's, with every k up to `most` and every exact rule; the best first.

    "lookup" or "lookup:suffix" in the place of a file copies from the texts themselves, which takes no seconds.

    Raises:
        PromptError: a file is none, is of other texts than the target's, or has texts that the target did not write
            or that are longer than their limit.
        ConfigError: a value out of range, a file twice, or seconds that do not fit the drafts or each other.
    """
    sampling = files_check.sampling_of(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    files_check.check_files(target, drafts)
    files_check.check_k(most)
    files_check.check_limit(max_new_tokens)
    if seconds is not None:
        files_check.check_seconds(seconds, [name for name, path in drafts.items() if copied.match(path) is None])
    wanted = imported.load(target)
    _check_lengths(wanted, max_new_tokens)
    laws = {id: pairing.law(text, sampling) for id, text in wanted.items()}
    checked = _written(target, wanted, laws, sampling)
    texts: dict[str, Sequence[Along]] = {}
    counts: dict[str, Counts] = {}
    lookups = []
    for name, path in drafts.items():
        if (how := copied.match(path)) is None:
            pairs = _pairs(target, wanted, laws, path, sampling, max_new_tokens)
            texts[name], counts[name] = [one.between for one in pairs], _counts(pairs)
        else:
            texts[name] = [copied.along(text, how, most, max_new_tokens) for text in wanted.values()]
            counts[name] = _known(laws.values())
            lookups.append(name)
    return FromFiles(
        cells=ranked(texts, most, seconds, known=max_new_tokens is not None),
        sampling=sampling,
        most=most,
        max_new_tokens=max_new_tokens,
        texts=len(wanted),
        checked=checked,
        counts=counts,
        seconds=seconds,
        lookups=tuple(lookups),
    )


def ranked(
    texts: Mapping[str, Sequence[Along]], most: int, seconds: Seconds | None, *, known: bool
) -> tuple[Replayed, ...]:
    """Every k and rule of each draft, the best first; `known`: how far last steps may propose past the texts' ends."""
    cells = [one for name, some in texts.items() for one in _cells(name, some, most, seconds, known)]
    order = {rule: place for place, rule in enumerate(EXACT_RULES)}
    cells.sort(
        key=lambda one: (-round((one.speedup or one.tokens_per_step).least, 9), one.cell.k, order[one.cell.rule])
    )
    return tuple(cells)


def _check_lengths(texts: Mapping[str, Text], limit: int | None) -> None:
    """Refuse answers that are longer than the limit that is given for them.

    Raises:
        PromptError: one is.
    """
    for text in texts.values():
        if limit is not None and len(text.positions) > limit:
            raise PromptError(
                f'{text.where}: the answer of "{text.id}" has {len(text.positions)} tokens, and max_new_tokens = '
                f"{limit} (--max-new-tokens): give the limit that the answers were drawn with"
            )


def _written(path: Path, texts: Mapping[str, Text], laws: Mapping[str, Sequence[Reach]], sampling: Sampling) -> int:
    """How many texts are seen to be the target's own; single texts and all together are asked.

    Raises:
        PromptError: the target does not write such texts at these settings.
    """
    found = [pairing.written(text, laws[id], sampling) for id, text in texts.items()]
    if why := sum(found, Evidence()).why_not:
        raise PromptError(
            f"{path}: the target does not write such texts at these settings ({why}, over all {len(texts)}): give its "
            "own texts, and the settings they were drawn at"
        )
    if sampling.temperature == 0:
        return len(texts)
    return sum(one.checked for one in found)


def _pairs(
    target: Path,
    wanted: Mapping[str, Text],
    laws: Mapping[str, Sequence[Reach]],
    path: Path,
    sampling: Sampling,
    max_new_tokens: int | None,
) -> list[Paired]:
    own = imported.load(path)
    if lacks := [text for id, text in wanted.items() if id not in own]:
        raise PromptError(
            f'{path}: lacks {len(lacks)} of the texts of {target}, first "{lacks[0].id}" ({lacks[0].where}): score the '
            "same texts with both"
        )
    if more := [text for id, text in own.items() if id not in wanted]:
        raise PromptError(
            f'{more[0].where}: "{more[0].id}" is no text of {target} (one of {len(more)}): score the same texts with '
            "both, or take these lines out"
        )
    return [pairing.pair(text, laws[id], own[id], sampling, max_new_tokens) for id, text in wanted.items()]


def _cells(name: str, texts: Sequence[Along], most: int, seconds: Seconds | None, known: bool) -> list[Replayed]:
    """Every k and rule of a draft; `known`: how far last steps may propose past the ends of the texts."""
    tokens = np.array([len(text) - 1 for text in texts], dtype=float)
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(len(tokens), np.full(len(tokens), 1 / len(tokens)), size=predict.RESAMPLES)
    weights = np.vstack([np.ones(len(tokens)), drawn])
    steps = _summed(texts, np.ones(most + 1), known)
    # A step of copies takes no drafting, where a lookup stands before a draft that does.
    copies = None if seconds is None else seconds.steps("", most)
    own = None if seconds is None else seconds.steps(name, most)
    paid = None if own is None else _summed(texts, own, known, copies=copies)
    reach = None
    if seconds is not None and own is not None and copies is not None:
        # A text of one step that may propose anything: what the seconds alone allow.
        reach = predict.limits([(np.stack([own, copies]), np.full(2, seconds.plain))], error=0.0)
    found = []
    for row, rule in enumerate(EXACT_RULES):
        for k in range(1, most + 1):
            at = (slice(None), row, k - 1)
            found.append(
                Replayed(
                    cell=Cell(draft=name, k=k, rule=rule),
                    tokens_per_step=_span(tokens, steps[0][at], steps[1][at], weights, (1.0, k + 1.0)),
                    speedup=None
                    if paid is None or seconds is None or reach is None
                    else _span(tokens * seconds.plain, paid[0][at], paid[1][at], weights, reach[k]),
                )
            )
    return found


def _summed(texts: Sequence[Along], cost: np.ndarray, known: bool, *, copies: np.ndarray | None = None) -> between.Pair:
    """The least and the greatest that the steps of each text cost; those of `copies`, before a draft that costs."""
    if bounded := [one for one in texts if isinstance(one, Between)]:
        return between.summed(bounded, cost)
    fixed = [one for one in texts if isinstance(one, Traced | Copied)]
    if not known:
        return copied.summed([one for one in fixed if isinstance(one, Copied)], cost)
    if copies is None:
        mean = replay.summed(fixed, cost).mean
    else:
        # At each position the price of the one that proposes there.
        mean = replay.summed(fixed, [_priced(one, cost, copies) for one in fixed]).mean
    return mean, mean


def _priced(text: Traced | Copied, cost: np.ndarray, copies: np.ndarray) -> np.ndarray:
    if isinstance(text, Traced) or text.elsewhere is None:
        return np.tile(cost, (len(text), 1))
    priced: np.ndarray = np.where((text.proposed > 0)[:, None], copies, cost)
    return priced


def _span(
    above: np.ndarray,
    least: np.ndarray,
    greatest: np.ndarray,
    weights: np.ndarray,
    within: Sequence[float] | np.ndarray,
) -> Span:
    """The pooled ratio of what texts have to what they cost; the most cost makes the least of it."""
    worst, best = ((weights @ above) / (weights @ below) for below in (greatest, least))
    return Span(
        least=float(worst[0]),
        greatest=float(best[0]),
        low=predict.ends(predict.resampled(worst, len(above), within), len(above))[0],
        high=predict.ends(predict.resampled(best, len(above), within), len(above))[1],
    )


def _counts(pairs: Sequence[Paired]) -> Counts:
    tokens = sum(len(one.between) for one in pairs)
    exact, outside = sum(one.exact for one in pairs), sum(one.outside for one in pairs)
    return Counts(tokens=tokens, exact=exact, bounded=tokens - exact - outside, outside=outside)


def _known(laws: Iterable[Sequence[Reach]]) -> Counts:
    """The tokens of a lookup: the texts' ids fix what it proposes."""
    members = [one.member for law in laws for one in law]
    outside = members.count("out")
    return Counts(tokens=len(members), exact=len(members) - outside, bounded=0, outside=outside)
