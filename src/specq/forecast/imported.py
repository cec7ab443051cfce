"""Prompt log-probabilities that another engine exported: files read, and rows that cannot be true refused.

A file has a text a line, as JSON: `id`, `ids` (all tokens, the prompt's and the answer's), `prompt_tokens` (how many of
them are the prompt) and `prompt_logprobs`, in the layout of vLLM's answers to requests with that option: a list as long
as `ids`, the first null, then an object from token id to `logprob`, and `rank` where it is known. Each object holds
the text's own token and may hold the likeliest n. Values are raw: before temperature and truncation.

A rank counts the tokens that are likelier. Engines part on ties (vLLM counts equals as likelier), so both are allowed.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core import text_lines
from specq.core.errors import PromptError

KEYS = ("id", "ids", "prompt_tokens", "prompt_logprobs")
NEVER = -9999.0
"""What vLLM writes for the logarithm of 0, since JSON has no infinity."""
VOCABULARY = 1 << 19
"""No vocabulary in use is larger: what bounds the tail of a law that temperature flattens."""
TIE = 1e-6
"""How far apart rounding may take equal log-probabilities."""
# How far above 1 rounding may take the sum of a law.
_OVER = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One token under one model: its own log-probability, and those of the likeliest tokens, which fall.

    `inside`: the own token is one of `head`. `rank` None: the file does not tell it. `hit` is the least and the
    greatest that "it is the likeliest token" can be: 0 and 1 where it ties with another.
    """

    own: float
    rank: int | None
    head: tuple[float, ...]
    inside: bool
    hit: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """An answer under one model: all ids, how many are the prompt's, and a position for each token of the answer.

    `where` is the file and the line.
    """

    id: str
    where: str
    ids: tuple[int, ...]
    prompt_tokens: int
    positions: tuple[Position, ...]


def load(path: Path) -> dict[str, Text]:
    """The texts of a file by their ids.

    Raises:
        PromptError: no such file, or a line that is none; file, line and what is allowed.
    """
    found: dict[str, Text] = {}
    for number, line in _lines(path):
        text = _text(line, f"{path}:{number}")
        if text.id in found:
            raise PromptError(
                f'{text.where}: id "{text.id}" stands in {found[text.id].where} too; give each text an id of its own'
            )
        found[text.id] = text
    if not found:
        raise PromptError(f"{path}: no texts; write one JSON object a line, with {', '.join(KEYS)}")
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        return text_lines.numbered(text_lines.read(path))
    except (OSError, ValueError) as error:
        raise PromptError(f"{path}: cannot be read ({error}); name a JSONL file of prompt log-probabilities") from error


def _text(line: str, where: str) -> Text:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise PromptError(f"{where}: not a JSON line ({error}); write one JSON object a line") from error
    if not isinstance(value, dict) or (lacks := [key for key in KEYS if key not in value]):
        missing = ", ".join(lacks) if isinstance(value, dict) else "all keys"
        raise PromptError(f"{where}: lacks {missing}; a text has {', '.join(KEYS)}")
    id, ids, start, rows = (value[key] for key in KEYS)
    if type(id) not in (str, int):
        raise PromptError(f"{where}: id is {_short(id)}: allowed is a string or a whole number")
    if not isinstance(ids, list) or not all(type(one) is int and one >= 0 for one in ids):
        raise PromptError(f"{where}: ids must be a list of token ids, whole numbers from 0 on")
    if type(start) is not int or start < 1:
        raise PromptError(f"{where}: prompt_tokens = {_short(start)}: allowed is a whole number from 1 on")
    if len(ids) < start + 2:
        raise PromptError(
            f"{where}: {len(ids)} ids with prompt_tokens = {start}: an answer has 2 tokens or more, for the first "
            "comes with the prompt and takes no step; leave this text out of all files, or let the target write on"
        )
    if not isinstance(rows, list) or len(rows) != len(ids):
        raise PromptError(f"{where}: prompt_logprobs must be a list as long as ids ({len(ids)})")
    positions = tuple(_position(rows[at], ids[at], f"{where}: token {at}") for at in range(start, len(ids)))
    return Text(id=str(id), where=where, ids=tuple(ids), prompt_tokens=start, positions=positions)


def _position(row: Any, token: int, where: str) -> Position:
    values, ranks = _row(row, where)
    if token not in values:
        raise PromptError(f"{where}: its own id {token} has no logprob: these are not the logprobs of this text")
    own, rank = values[token], ranks.get(token)
    others = [one for id, one in values.items() if id != token]
    if rank is None and not others:
        raise PromptError(
            f"{where}: id {token} has neither a rank nor other tokens beside it, so nothing tells whether it is the "
            "likeliest: ask for prompt_logprobs of 1 or more"
        )
    _check(values, ranks, token, where)
    # The row has the likeliest n, the own token among them or beside them. Without a rank, the least may be either.
    inside = own > min(others) if rank is None else rank <= len(values)
    best = max(others, default=-math.inf)
    if not others:
        hit = (float(rank == 1),) * 2
    elif abs(own - best) <= TIE:
        hit = (0.0, 1.0)
    else:
        hit = (float(own > best),) * 2
    head = tuple(sorted(values.values() if inside else others, reverse=True))
    if head and math.exp(head[0]) * VOCABULARY < 1 - _OVER:
        raise PromptError(
            f"{where}: the likeliest token has the logprob {head[0]:.4g}, less than one of {VOCABULARY} tokens must "
            "have: give natural logarithms of probabilities"
        )
    return Position(own=own, rank=rank, head=head, inside=inside, hit=hit)


def _row(row: Any, where: str) -> tuple[dict[int, float], dict[int, int]]:
    """The log-probabilities of a row by token id, and the ranks that it tells."""
    if not isinstance(row, dict) or not all(isinstance(one, dict) and "logprob" in one for one in row.values()):
        raise PromptError(f"{where}: is {_short(row)}: allowed is an object from token id to an object with logprob")
    values: dict[int, float] = {}
    ranks: dict[int, int] = {}
    for name, one in row.items():
        logprob, rank = one["logprob"], one.get("rank")
        if not (name.isascii() and name.isdecimal()) or type(logprob) not in (int, float):
            raise PromptError(
                f"{where}: {_short(name)} has the logprob {_short(logprob)}: allowed are token ids and numbers"
            )
        if not logprob <= TIE:
            raise PromptError(f"{where}: logprob {logprob} is not 0 or less: give natural logarithms of probabilities")
        if rank is not None and (type(rank) is not int or rank < 1):
            raise PromptError(f"{where}: rank {_short(rank)}: allowed is a whole number from 1 on, or null")
        if int(name) in values:
            raise PromptError(f"{where}: id {int(name)} stands there twice; give each token once")
        values[int(name)] = -math.inf if logprob <= NEVER else min(0.0, float(logprob))
        if rank is not None:
            ranks[int(name)] = rank
    return values, ranks


def _check(values: dict[int, float], ranks: dict[int, int], token: int, where: str) -> None:
    """Refuse rows that no law has: more than all of the mass, or ranks that its log-probabilities belie."""
    total = sum(math.exp(one) for one in values.values())
    if total > 1 + _OVER:
        raise PromptError(
            f"{where}: the probabilities sum to {total:.3f}: allowed is at most 1; export raw log-probabilities"
        )
    rising = sorted(values.values())
    for id, rank in ranks.items():
        one = values[id]
        likelier = len(rising) - bisect_right(rising, one + TIE)
        as_likely = len(rising) - bisect_left(rising, one - TIE)
        # Only the own token may stand apart from the likeliest, below them, with tokens between that are not listed.
        apart = id == token and one <= rising[0] + TIE
        unseen = max(0, rank - as_likely)
        if rank <= likelier or (unseen and not apart) or unseen * math.exp(one) > max(0.0, 1 - total) + _OVER:
            raise PromptError(
                f"{where}: id {id} has the rank {rank} and the logprob {one:.4g}, which the other log-probabilities "
                "do not allow: a row holds the text's own token and the likeliest n; export it again"
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
