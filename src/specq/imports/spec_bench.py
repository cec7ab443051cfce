"""Spec-Bench's answer files.

Source: evaluation/eval.py, evaluation/speed.py and evaluation/inference_*.py of hemingkx/Spec-Bench. `accept_lengths`
holds, of each step of all turns, the tokens that it emitted, the target's own among them; `wall_time` has the prefill
in it. After an exception its loop writes the counters of the turn before once more, beside the answer "ERROR".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specq.imports.checks import check
from specq.imports.entry import Entry, Object
from specq.imports.record import Flag, Imported, Said, by_position
from specq.imports.source import objects

SOURCE = "spec-bench"
ANSWER_KEYS = frozenset(("question_id", "category", "answer_id", "model_id", "choices", "tstamp"))
CHOICE_KEYS = frozenset(
    ("index", "turns", "decoding_steps", "idxs", "steps", "new_tokens", "wall_time", "accept_lengths")
)


def read(path: Path) -> Iterator[Imported | Flag]:
    """A record for each turn, or for all turns of a choice where steps cannot be told apart; each with its flags."""
    for line, value in objects(path):
        entry = Entry(path, line, f"question {value.get('question_id')}")
        entry.known("the answer", value, ANSWER_KEYS)
        choices = value.get("choices")
        if not isinstance(choices, list) or not choices:
            raise entry.refuse("no choices", "known are Spec-Bench's answers: one object a question")
        for place, choice in enumerate(choices):
            if not isinstance(choice, dict):
                raise entry.refuse(
                    f"choice {place} is no object", f"known are the keys {', '.join(sorted(CHOICE_KEYS))}"
                )
            entry.known(f"choice {place}", choice, CHOICE_KEYS)
            name = entry.request if len(choices) == 1 else f"{entry.request} choice {place}"
            yield from _choice(Entry(path, line, name), choice)


def _choice(entry: Entry, choice: Object) -> Iterator[Imported | Flag]:
    turns = choice.get("turns")
    if not isinstance(turns, list):
        raise entry.refuse("turns is no list", "known is one text a turn")
    new = _column(entry, "new_tokens", choice, len(turns))
    seconds = _column(entry, "wall_time", choice, len(turns))
    steps = entry.counts("decoding_steps", choice.get("decoding_steps"))
    lengths = entry.counts("accept_lengths", choice.get("accept_lengths"))
    if new is None:
        entry.flag("missing_usage", "no new_tokens for each turn")
    if steps is not None and lengths is not None and (len(steps) != len(turns) or sum(steps) != len(lengths)):
        text = f"decoding_steps sum to {sum(steps)} over {len(steps)} turns, accept_lengths has {len(lengths)} steps"
        entry.flag("counts_differ", text)
        steps = None
    if lengths is not None and steps is None and len(turns) == 1:
        steps = (len(lengths),)
    if (lengths is not None and steps is None) or new is None:
        yield from _together(entry, turns, new, seconds, lengths)
        return
    yield from entry.flags
    at = 0
    for place, text in enumerate(turns):
        one = Entry(entry.path, entry.line, entry.request if len(turns) == 1 else f"{entry.request} turn {place + 1}")
        taken = None if lengths is None or steps is None else lengths[at : at + steps[place]]
        at += 0 if taken is None else len(taken)
        if text == "ERROR":
            one.flag("copied_counters", "the answer is ERROR: its counters are those of the turn before; left out")
        else:
            yield _record(one, 1, new[place], None if seconds is None else seconds[place], taken)
        yield from one.flags


def _together(
    entry: Entry,
    turns: list[object],
    new: list[float] | None,
    seconds: list[float] | None,
    lengths: tuple[int, ...] | None,
) -> Iterator[Imported | Flag]:
    if "ERROR" in turns:
        entry.flag("copied_counters", "an answer is ERROR, and its counters cannot be told from those of the others")
    yield _record(
        entry, len(turns), None if new is None else sum(new), None if seconds is None else sum(seconds), lengths
    )
    yield from entry.flags


def _record(
    entry: Entry, requests: int, tokens: float | None, seconds: float | None, lengths: tuple[int, ...] | None
) -> Imported:
    new = None if tokens is None else int(tokens)
    if lengths is not None and 0 in lengths:
        entry.flag("counts_differ", f"accept_lengths has {lengths.count(0)} steps of 0 tokens; each step emits its own")
    accepted = [max(one - 1, 0) for one in lengths or ()]
    histogram = tuple(accepted.count(j) for j in range(max(accepted, default=0) + 1))
    counted, drafted = lengths is not None, any(accepted)
    # Some methods verify a block in the pass that reads the prompt, others take a token from it alone.
    whole = counted and new is not None and sum(accepted) + len(accepted) >= new
    # Without a draft that pass is no step.
    steps = len(accepted) - (requests if whole and not drafted else 0)
    record = Imported(
        source=SOURCE,
        line=entry.line,
        request=entry.request,
        requests=requests,
        new_tokens=new,
        steps=max(steps, 0) if counted else None,
        steps_from="counted" if counted else None,
        draft_steps=len(accepted) if drafted else None,
        accepted=sum(accepted) if counted else None,
        accepted_by_position=by_position(histogram) if drafted else None,
        e2e_s=seconds,
    )
    check(entry, record, Said(first_in_step=whole and drafted))
    return record


def _column(entry: Entry, key: str, choice: Object, turns: int) -> list[float] | None:
    """One number a turn; None where a number is missing or impossible."""
    value = choice.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != turns:
        raise entry.refuse(f"{key} is no list of {turns} numbers", "known is one number a turn")
    found = [entry.number(f"{key}[{place}]", one) for place, one in enumerate(value)]
    whole = [one for one in found if one is not None]
    return whole if len(whole) == turns else None
