"""What is asked of files of log-probabilities, checked before they are read: settings, names, and seconds of steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from specq.core.errors import ConfigError
from specq.core.types import Sampling
from specq.forecast import MOST_K, rising
from specq.forecast.cost import Curve, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """What steps take where the model is served: a plain step, a drafted token of each draft, the target's passes.

    `verify` maps the tokens of a pass, k + 1, to its seconds; without it every pass takes `plain`. Between those that
    are given they lie on a line, beyond the last one on the line of the last two.
    """

    plain: float
    draft: Mapping[str, float]
    verify: Mapping[int, float] = field(default_factory=dict)

    def steps(self, draft: str, most: int) -> np.ndarray:
        """Seconds of a step with 0 .. most proposals of a draft, [most + 1]; of one without seconds, of a lookup."""
        passes = sorted({1: self.plain, **self.verify}.items())
        # What noise made fall is held level, so that the line beyond the last pass does not fall either.
        level = np.maximum.accumulate([taken for _, taken in passes])
        points = [
            Point(proposed=rows - 1, draft_s=0.0, verify_s=float(taken), rest_s=0.0, n=1, spread=0.0)
            for (rows, _), taken in zip(passes, level, strict=True)
        ]
        verify = Curve(plain=points[0], points=tuple(points), context=0, measured_s=0.0).parts(most)["verify"]
        whole: np.ndarray = self.draft.get(draft, 0.0) * np.arange(most + 1) + verify
        return whole


def sampling_of(*, temperature: float, top_k: int, top_p: float, min_p: float) -> Sampling:
    """How the texts were drawn.

    Raises:
        ConfigError: a value out of range.
    """
    if not (_number(temperature) and temperature >= 0):
        raise ConfigError(f"replay: temperature = {temperature}: allowed is 0, which is greedy, or more")
    if type(top_k) is not int or top_k < 0:
        raise ConfigError(f"replay: top_k = {top_k}: allowed is a whole number from 1 on, or 0, which switches it off")
    if not (_number(top_p) and 0 < top_p <= 1):
        raise ConfigError(f"replay: top_p = {top_p}: allowed is above 0 to 1, which switches it off")
    if not (_number(min_p) and 0 <= min_p <= 1):
        raise ConfigError(f"replay: min_p = {min_p}: allowed is 0, which switches it off, to 1")
    return Sampling(temperature=float(temperature), top_k=top_k, top_p=float(top_p), min_p=float(min_p))


def check_limit(given: int | None) -> None:
    """Refuse a limit that no text with a step has.

    Raises:
        ConfigError: it is one.
    """
    if given is not None and (type(given) is not int or given < 2):
        raise ConfigError(
            f"replay: max_new_tokens = {given} (--max-new-tokens): allowed is a whole number from 2 on, the limit of "
            "tokens that the answers were drawn with"
        )


def check_k(given: int) -> None:
    """Refuse more or fewer proposals than a draft may make.

    Raises:
        ConfigError: they are.
    """
    if type(given) is not int or not 1 <= given <= MOST_K:
        raise ConfigError(f"replay: k up to {given}: a draft proposes at least 1 token and at most {MOST_K}")


def check_files(target: Path, drafts: Mapping[str, Path]) -> None:
    """Refuse no draft, a draft without a name, and a file that is given twice.

    Raises:
        ConfigError: it is so.
    """
    if not drafts:
        raise ConfigError("replay: no draft is given; type --draft NAME=FILE")
    seen = {target.resolve(): "the target"}
    for name, path in drafts.items():
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"replay: {name!r} is no name of a draft; type --draft NAME=FILE")
        if (other := seen.setdefault(path.resolve(), f'the draft "{name}"')) != f'the draft "{name}"':
            raise ConfigError(
                f'replay: {path} is given for {other} and for the draft "{name}": each has a file of its own; export '
                "the log-probabilities of each model"
            )


def check_seconds(given: Seconds, drafts: Iterable[str]) -> None:
    """Refuse seconds that no step takes.

    Raises:
        ConfigError: of other drafts than the files, not above 0, or passes that take less for more tokens.
    """
    names = list(drafts)
    if set(given.draft) != set(names):
        raise ConfigError(
            f"replay: seconds are given for {', '.join(given.draft) or 'no draft'}, files for {', '.join(names)}: "
            "give --draft-s NAME=SECONDS for each of them"
        )
    told = {"of a plain step (--plain-s)": given.plain}
    told |= {f"of a token of {name} (--draft-s)": taken for name, taken in given.draft.items()}
    told |= {f"of a pass over {rows} tokens (--verify-s)": taken for rows, taken in given.verify.items()}
    for what, taken in told.items():
        if not (_number(taken) and taken > 0):
            raise ConfigError(f"replay: seconds {what} are {taken}: allowed is a number above 0")
    for rows in given.verify:
        if type(rows) is not int or rows < 2:
            raise ConfigError(
                f"replay: seconds of a pass over {rows} tokens (--verify-s): allowed are 2 tokens or more, for a pass "
                "over one is a plain step (--plain-s)"
            )
    for fall in rising.falls([(1, given.plain), *given.verify.items()]):
        what = "a plain step" if fall.fewer == 1 else f"one over {fall.fewer}"
        raise ConfigError(
            f"replay: a pass over {fall.more} tokens is given {fall.more_s} s (--verify-s), and {what} {fall.fewer_s} "
            f"s: more tokens never take less, beyond noise of {100 * rising.NOISE:.0f} %; measure both again in the "
            "same run"
        )


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
