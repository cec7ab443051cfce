"""Prompt log-probabilities that another engine exported, read for replay: drafts of a model that is served elsewhere.

A file has a text a line, as JSON: `id`, `ids` (all tokens, the prompt's and the answer's), `prompt_tokens` (how many of
them are the prompt) and `prompt_logprobs`, in the layout of vLLM's answers to requests with that option: a list as long
as `ids`, the first null, then an object from token id to `logprob`, and `rank` where it is known. Each object holds
the text's own token and may hold the likeliest n.

The values are raw: before temperature and truncation. So they are exact at temperature 1, and at temperature 0 from
ranks. In between the sum over all tokens is known between two bounds, from the likeliest n: what is left over has the
mass 1 - their sum, and no token of it is likelier than the least of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specq.core import text_lines
from specq.core.errors import PromptError
from specq.forecast.replay import Traced

# No vocabulary in use is larger: what bounds a flattened law's tail.
_VOCABULARY = 1 << 19
# How far above 1 rounding may take the sum of a law.
_OVER = 1e-3
# Rank 1 nowhere in more of the tokens than this: at temperature 0 the target did not write the text.
_MISSED = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One token under one model: its log-probability, its rank from 1, and the likeliest known log-probabilities.

    `known` fall, the token's own among them if it is one of them. `rank` None: the file does not tell it.
    """

    logprob: float
    rank: int | None
    known: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """An answer under one model: all ids, how many are the prompt's, and a position for each token of the answer."""

    id: str
    ids: tuple[int, ...]
    prompt_tokens: int
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """A text for replay at both ends of what is known: `fewest` takes the fewest steps, `most` the most."""

    fewest: Traced
    most: Traced

    @property
    def exact(self) -> bool:
        """Whether the ends are one."""
        return bool((self.fewest.p == self.most.p).all() and (self.fewest.q == self.most.q).all())


def load(path: Path) -> dict[str, Text]:
    """The texts of a file by their ids.

    Raises:
        PromptError: no such file, or a line that is none; file, line and what is allowed.
    """
    found: dict[str, Text] = {}
    for number, line in _lines(path):
        where = f"{path}:{number}"
        text = _text(line, where)
        if text.id in found:
            raise PromptError(f'{where}: id "{text.id}" stands in an earlier line too; ids are unique')
        found[text.id] = text
    if not found:
        raise PromptError(f"{path}: no texts; write one JSON object a line")
    return found


def pair(target: Text, draft: Text, *, temperature: float, top_k: int = 0, top_p: float = 1.0) -> Between:
    """A text under target and draft, warped as asked.

    Raises:
        PromptError: they are not the same text, or not one that the target writes at temperature 0.
    """
    if target.ids != draft.ids or target.prompt_tokens != draft.prompt_tokens:
        at = next((i for i, (a, b) in enumerate(zip(target.ids, draft.ids, strict=False)) if a != b), None)
        what = f"token {at} is {target.ids[at]} and {draft.ids[at]}" if at is not None else "the lengths differ"
        raise PromptError(
            f'text "{target.id}": target and draft were not asked about the same tokens ({what}): score the same ids '
            "with both; a draft with another tokenizer cannot be replayed"
        )
    hit = np.array([_hit(one, draft.id) for one in draft.positions])
    if temperature == 0:
        missed = sum(_hit(one, target.id) == 0 for one in target.positions)
        if missed > max(2, _MISSED * len(target.positions)):
            raise PromptError(
                f'text "{target.id}": {missed} of {len(target.positions)} tokens are not the likeliest of the target, '
                "so it did not write them at temperature 0: give its own text, or the temperature that it was drawn at"
            )
        ones = np.ones(len(hit))
        same = Traced(p=ones, q=hit, hit=hit)
        return Between(fewest=same, most=same)
    p_low, p_high = _warped(target.positions, temperature, top_k, top_p)
    q_low, q_high = _warped(draft.positions, temperature, top_k, top_p)
    # The text has the token, so its law does; the smallest float keeps the ratio finite.
    tiny = np.finfo(float).tiny
    return Between(
        fewest=Traced(p=np.maximum(p_low, tiny), q=q_high, hit=hit),
        most=Traced(p=np.maximum(p_high, tiny), q=q_low, hit=hit),
    )


def _warped(
    positions: Sequence[Position], temperature: float, top_k: int, top_p: float
) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest that each token's probability can be after temperature, top-k and top-p, [T] each."""
    pairs = [_bounds(one, temperature, top_k, top_p) for one in positions]
    low, high = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    return low, high


def _bounds(one: Position, temperature: float, top_k: int, top_p: float) -> tuple[float, float]:
    if temperature == 1 and not top_k and top_p == 1:
        exact = math.exp(one.logprob)
        return exact, exact
    known = np.array(one.known)
    own, heads = one.logprob / temperature, known / temperature
    above = known > one.logprob
    if top_k and (above.sum() >= top_k or (one.rank or 0) > top_k):
        return 0.0, 0.0
    base = float(np.exp(heads).sum()) if len(heads) else 0.0
    apart = len(known) == 0 or one.logprob < known.min()
    if apart:
        base += math.exp(own)
    least, most = base, base + _rest(known, one.logprob, temperature)
    if top_k and len(known) >= top_k:
        least = most = float(np.exp(heads[:top_k]).sum())
    low, high = math.exp(own) / most, math.exp(own) / least
    if top_k and apart:
        low = 0.0
    if top_p < 1:
        better = float(np.exp(heads[above]).sum())
        if better / most >= top_p:
            return 0.0, 0.0
        # The nucleus has a mass of at least top_p, and never more than all; whether the token is in it may be open.
        unseen = _rest(known, one.logprob, temperature) if apart else 0.0
        inside = one.rank == 1 or (better + unseen) / least < top_p
        low, high = (low if inside else 0.0), high / top_p
    return min(1.0, low), min(1.0, high)


def _rest(known: np.ndarray, own: float, temperature: float) -> float:
    """The most that the tokens that are not known can add to the tempered sum."""
    listed = np.append(known, own) if len(known) == 0 or own < known.min() else known
    left = max(0.0, 1.0 - float(np.exp(listed).sum()))
    if left == 0.0:
        return 0.0
    # Nothing that is unknown is likelier than the least of the known; without any, it may have all that is left.
    largest = min(left, float(np.exp(known.min()))) if len(known) else left
    power = 1.0 / temperature
    if power >= 1:
        return float(left * largest ** (power - 1))
    return float(_VOCABULARY ** (1 - power) * left**power)


def _hit(one: Position, id: str) -> float:
    if one.rank is None:
        raise PromptError(
            f'text "{id}": a token has neither a rank nor other tokens beside it, so nothing tells whether it is the '
            "likeliest: ask for prompt_logprobs of 1 or more"
        )
    return float(one.rank == 1)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        return text_lines.numbered(text_lines.read(path))
    except (OSError, ValueError) as error:
        raise PromptError(f"{path}: cannot be read ({error}); name a JSONL file of prompt log-probabilities") from error


def _text(line: str, where: str) -> Text:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise PromptError(f"{where}: not a JSON line ({error}); write one JSON object a line") from error
    keys = ("id", "ids", "prompt_tokens", "prompt_logprobs")
    if not isinstance(value, dict) or (lacks := [key for key in keys if key not in value]):
        raise PromptError(
            f"{where}: lacks {', '.join(lacks) if isinstance(value, dict) else 'all keys'}; "
            f"a text has {', '.join(keys)}"
        )
    ids, start, rows = value["ids"], value["prompt_tokens"], value["prompt_logprobs"]
    if not isinstance(ids, list) or not all(type(one) is int and one >= 0 for one in ids):
        raise PromptError(f"{where}: ids must be a list of token ids")
    if type(start) is not int or not 0 < start < len(ids):
        raise PromptError(f"{where}: prompt_tokens = {start}: allowed is 1 to {len(ids) - 1}, fewer than ids")
    if not isinstance(rows, list) or len(rows) != len(ids):
        raise PromptError(f"{where}: prompt_logprobs must be a list as long as ids ({len(ids)})")
    positions = tuple(_position(rows[at], ids[at], f"{where}: token {at}") for at in range(start, len(ids)))
    return Text(id=str(value["id"]), ids=tuple(ids), prompt_tokens=start, positions=positions)


def _position(row: Any, token: int, where: str) -> Position:
    if not isinstance(row, dict) or not all(isinstance(one, dict) and "logprob" in one for one in row.values()):
        raise PromptError(f"{where}: must be an object from token id to an object with logprob")
    values: dict[int, float] = {}
    for name, one in row.items():
        logprob = one["logprob"]
        if not str(name).isdecimal() or isinstance(logprob, bool) or not isinstance(logprob, int | float):
            raise PromptError(f"{where}: {name!r} with the logprob {logprob!r}: allowed are token ids and numbers")
        if not logprob <= 1e-6:
            raise PromptError(f"{where}: logprob {logprob} is above 0: give natural logarithms of probabilities")
        values[int(name)] = min(0.0, float(logprob))
    if token not in values:
        raise PromptError(f"{where}: its own id {token} has no logprob: these are not the logprobs of this text")
    total = sum(math.exp(one) for one in values.values())
    if total > 1 + _OVER:
        raise PromptError(f"{where}: the probabilities sum to {total:.3f}: allowed is at most 1")
    own, given = values[token], row[str(token)].get("rank")
    others = [one for id, one in values.items() if id != token]
    rank = given if type(given) is int and given > 0 else 1 + sum(one > own for one in others) if others else None
    # A token that is not among the likeliest stands apart from them: what lies between is not known.
    # Without its rank, the least of them may be such a one.
    apart = rank is None or rank > len(values) or (given is None and rank == len(values) > 1)
    return Position(logprob=own, rank=rank, known=tuple(sorted(others if apart else values.values(), reverse=True)))
