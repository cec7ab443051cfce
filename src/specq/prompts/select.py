"""The step that is lossy: the passages that have most to do with the question, under a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from specq.prompts import protected, relevance, turns
from specq.prompts.blocks import groups
from specq.prompts.passages import Passage, passages, pieces
from specq.prompts.types import Kept, Protected
from specq.prompts.work import QUESTION, SHOWN_FIELDS, Edit, Work

TURNS = "speakers take turns"
Because = dict[int, tuple[str, ...]]
"""The passages that stay whatever their rank, and because of what."""


def select(work: Work, budget: int) -> tuple[str, ...]:
    """Keep the passages that rank best until the prompt holds `budget` tokens; the order stays. Returns notes.

    The question, system instructions and one passage for each protected field stay, and a message stays that is needed
    for speakers to take turns; where these are more than the budget a note says so.
    """
    question = work.find_question(work)
    asked = [work.parts[part].text[start:end] for part, start, end in question]
    own = sum(map(work.count, asked))
    if _tokens(work) <= budget:
        return ()
    units = passages(work)
    ranks = relevance.scores("\n".join(asked), [unit.text for unit in units])
    order = sorted(range(len(units)), key=lambda i: (-ranks[i], i))
    forced: Because = {
        i: (QUESTION,)
        for i, unit in enumerate(units)
        if any(unit.part == part and unit.start < end and start < unit.end for part, start, end in question)
    }
    touched = {unit.part for unit in units}
    closed = sum(work.count(part.text) for place, part in enumerate(work.parts) if place not in touched)
    by_rank = _fill(units, order, forced, budget - closed)
    forced = _protect(work, units, order, forced)
    room = budget - closed
    while True:
        chosen = _fill(units, order, forced, room)
        more = _turns(work, units, order, chosen) or _lost(work, units, order, chosen)
        if more:
            forced |= more
            continue
        over = _tokens(work, dict(_texts(work, units, chosen))) - budget
        # The tokens of passages by themselves may add up to fewer than those of the text.
        if over <= 0 or chosen <= _with_heads(units, forced):
            break
        room -= over
    _log_kept(work, units, forced, by_rank)
    work.settle("select", _edits(work, units, chosen))
    left = _tokens(work)
    if left <= budget:
        return ()
    return (
        f"select asks for {budget} tokens and {left} are left: {own} are the question, {closed} may not be touched, "
        "and the rest holds protected fields or the turns of speakers",
    )


def _tokens(work: Work, instead: Mapping[int, str] | None = None) -> int:
    texts = instead or {}
    return sum(work.count(texts.get(i, part.text)) for i, part in enumerate(work.parts) if not part.gone)


def _with_heads(units: list[Passage], chosen: Iterable[int]) -> set[int]:
    found, todo = set[int](), list(chosen)
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += units[one].heads
    return found


def _fill(units: list[Passage], order: list[int], forced: Iterable[int], room: int) -> set[int]:
    """What is forced, then the best that fit, each with its heads; heads are no candidates of their own."""
    chosen = _with_heads(units, forced)
    heads = {head for unit in units for head in unit.heads}
    left = room - sum(units[i].tokens for i in chosen)
    for i in order:
        if i in chosen or i in heads:
            continue
        added = _with_heads(units, [i]) - chosen
        cost = sum(units[one].tokens for one in added)
        if cost <= left:
            chosen |= added
            left -= cost
    return chosen


def _protect(work: Work, units: list[Passage], order: list[int], forced: Because) -> Because:
    """The passages without which a protected field would be lost: its only one, or the best of those that hold it."""
    told = [part.told for part in work.parts]
    own = [protected.fields(told[unit.part][unit.start : unit.end]) for unit in units]
    touched = {unit.part for unit in units}
    covered = set(protected.changed([one for i, one in enumerate(told) if i not in touched], ()))
    covered.update(one for i in _with_heads(units, forced) for one in own[i])
    holders: dict[Protected, list[int]] = {}
    for i in order:
        for one in own[i]:
            holders.setdefault(one, []).append(i)
    found = dict(forced)
    for many in (False, True):
        for one, places in holders.items():
            if one in covered or (len(places) > 1) != many:
                continue
            found[places[0]] = (*found.get(places[0], ()), str(one))
            covered.update(own[places[0]])
    return found


def _turns(work: Work, units: list[Passage], order: list[int], chosen: set[int]) -> Because:
    """The best passage of each message that may not go, of those that none was chosen from."""
    empty = _emptied(work, units, chosen)
    goes = _may_go(work, empty)
    return {next(i for i in order if units[i].part == place): (TURNS,) for place in empty if place not in goes}


def _emptied(work: Work, units: list[Passage], chosen: set[int]) -> list[int]:
    full = {units[i].part for i in chosen}
    return sorted({unit.part for unit in units} - full)


def _may_go(work: Work, empty: list[int]) -> set[int]:
    """Which of the emptied messages can be taken away while speakers still take turns, run by run."""
    roles = [part.role for part in work.parts]
    gone = {place for place, part in enumerate(work.parts) if part.gone}
    free = [place for place in empty if roles[place] in ("user", "assistant") and not work.parts[place].calls]
    went: set[int] = set()
    while free:
        run = [free[0]]
        while len(run) < len(free) and free[len(run)] == run[-1] + 1:
            run.append(free[len(run)])
        free = free[len(run) :]
        for part in (run, run[1:], run[:-1]):
            if part and turns.still_take_turns(roles, gone | went | set(part)):
                went |= set(part)
                break
    return went


def _texts(work: Work, units: list[Passage], chosen: set[int]) -> Iterator[tuple[int, str]]:
    """The messages as they would be, by their places."""
    edits = list(_edits(work, units, chosen))
    for place in {piece.part for edit in edits for piece in edit.pieces}:
        yield place, work.text_after(place, edits)


def _lost(work: Work, units: list[Passage], order: list[int], chosen: set[int]) -> Because:
    """Passages that bring back what would be lost though no single passage holds it: all of its group of blocks."""
    found: Because = {}
    for one in work.lost_by(list(_edits(work, units, chosen)), work.fields()):
        for i in _holders(work, units, one):
            if i not in chosen:
                found[i] = (*found.get(i, ()), str(one))
    return found


def _holders(work: Work, units: list[Passage], wanted: Protected) -> Iterator[int]:
    for place in dict.fromkeys(unit.part for unit in units):
        text = work.parts[place].told
        for group in groups(text):
            start, end = group[0].start, group[-1].end
            if wanted in protected.fields(text[start:end]):
                yield from (i for i, unit in enumerate(units) if unit.part == place and start <= unit.start < end)


def _edits(work: Work, units: list[Passage], chosen: set[int]) -> Iterator[Edit]:
    empty = _emptied(work, units, chosen)
    goes = _may_go(work, empty)
    for run in _runs(units, chosen):
        place = units[run[0]].part
        if place not in empty:
            yield Edit(reason="less relevant", pieces=pieces(work, units, run))
    together: list[int] = []
    for place in sorted(goes):
        if together and place != together[-1] + 1:
            yield _away(work, together)
            together = []
        together.append(place)
    if together:
        yield _away(work, together)


def _away(work: Work, places: list[int]) -> Edit:
    pieces_of = tuple(work.all_of(place) for place in places)
    return Edit(reason="less relevant", pieces=pieces_of, whole=tuple(places))


def _runs(units: list[Passage], chosen: set[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for i, unit in enumerate(units):
        if run and (i in chosen or unit.part != units[run[-1]].part):
            yield run
            run = []
        if i not in chosen:
            run.append(i)
    if run:
        yield run


def _log_kept(work: Work, units: list[Passage], forced: Because, by_rank: set[int]) -> None:
    for i in sorted(set(forced) - by_rank):
        unit, because = units[i], forced[i]
        part = work.parts[unit.part]
        more = [f"and {len(because) - SHOWN_FIELDS} more"] if len(because) > SHOWN_FIELDS else []
        work.kept.append(
            Kept(
                step="select",
                reason="less relevant",
                message=part.index,
                start=part.origins[unit.start],
                end=part.origins[unit.end - 1] + 1,
                characters=len(unit.text),
                tokens=work.count(unit.text),
                text=unit.text,
                because=(*because[:SHOWN_FIELDS], *more),
            )
        )
