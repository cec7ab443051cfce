"""Which answers of a run's evals are still to be made, found from its records alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specq.core.evaluated import PROBE
from specq.core.nouns import listed
from specq.core.records import EvalAnswer, EvalProof, Record
from specq.core.types import TargetSpec
from specq.run.folder import Contents
from specq.run.job import FIRST, TWIN, Asked, Task

# Batches that are answered together; what was answered of a stretch is on record before the next one begins.
BATCHES = 4
# Answers by which a draft, a prefix cache or a batch is proved to leave its target's outputs alone.
PROOF_ITEMS = 20
How = Literal["own", "inherited", "waits", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Items of an eval, by their places in it, that an arm answers together, `batch_size` at a time."""

    arm: str
    eval: str
    number: int
    places: tuple[int, ...]
    batch_size: int


def tasks(asked: Asked) -> list[Task]:
    """The proofs of drafts, then the evals of each target, the probe last."""
    if not asked.evals:
        return []
    proofs = dict.fromkeys(asked.plain[arm] for arm in asked.drafts if needs_proof(asked, arm))
    found = [Task(kind="prove", arm=arm) for arm in proofs]
    found += [Task(kind="eval", arm=arms[0]) for arms in by_weights(asked).values()]
    changed = any(arm not in (FIRST, TWIN) for arm in asked.drafts)
    return [*found, Task(kind="eval", arm=PROBE)] if changed and any(map(probe_of, asked.evals.values())) else found


def by_weights(asked: Asked) -> dict[str, list[str]]:
    """The arms that share their target's weights, by the first of them."""
    groups: dict[Any, list[str]] = {}
    for arm, spec in asked.targets.items():
        # A server is started for one arm.
        groups.setdefault(arm if asked.experiment.engine.is_server else spec.weights, []).append(arm)
    return {arms[0]: arms for arms in groups.values()}


def how(asked: Asked, contents: Contents, arm: str, name: str) -> How:
    """How an arm gets the scores of an eval: by its own answers, from its plain arm, or not at all.

    A lossy rule has answers of its own, and nothing to score where none are generated: there what its target
    changed is all that can be seen.
    """
    one = asked.evals[name]
    if arm == TWIN:
        return "own" if one["twin_batch_size"] else "none"
    if arm == PROBE:
        return "own" if probe_of(one) else "none"
    if not lossless(asked, arm) or asked.experiment.engine.is_server:
        return "own"
    if (draft := asked.drafts[arm]) is not None and draft.lossy:
        return "own" if one["output"] == "text" or asked.targets[arm].law != TargetSpec() else "none"
    if one["output"] != "text":
        return "inherited"
    if not by_proof(asked, name):
        return "own"
    proof = proof_of(contents, arm)
    return "waits" if proof is None else "inherited" if proof.holds else "own"


def lossless(asked: Asked, arm: str) -> bool:
    """Whether an arm has levers that must leave its target's outputs as they are."""
    return arm not in (FIRST, TWIN) and asked.plain[arm] != arm


def needs_proof(asked: Asked, arm: str) -> bool:
    """Whether an arm has a draft, a prefix cache or a batch whose outputs are to be proved those of its target."""
    draft = asked.drafts[arm]
    if not lossless(asked, arm) or (draft is not None and draft.lossy) or asked.experiment.engine.is_server:
        return False
    return any(by_proof(asked, name) for name in asked.evals)


def by_proof(asked: Asked, name: str) -> bool:
    """Whether drafts take over the scores of an eval by proof: its answers are generated, and no loop is asked for.

    The prompts of a task of lm-eval are its own to write, so its answers are always made.
    """
    table = settings(asked, name)
    return asked.evals[name]["output"] == "text" and not table["through_loop"] and table.get("task") is None


def proof_of(contents: Contents, arm: str) -> EvalProof | None:
    """The proof of an arm, where it was made."""
    return next((r for r in contents.records if isinstance(r, EvalProof) and r.arm == arm), None)


def proofs_left(asked: Asked, contents: Contents, plain: str) -> list[str]:
    """The arms beside a plain arm that must keep its outputs and have no proof of that yet."""
    arms = [arm for arm in asked.drafts if asked.plain[arm] == plain and needs_proof(asked, arm)]
    return [arm for arm in arms if proof_of(contents, arm) is None]


def left(asked: Asked, contents: Contents, task: Task) -> list[Stretch]:
    """The stretches of an eval task that have items without an answer."""
    arms = [PROBE] if task.arm == PROBE else by_weights(asked)[task.arm]
    answered = {(r.arm, r.eval, r.item) for r in contents.records if isinstance(r, EvalAnswer)}
    found = []
    for name, one in asked.evals.items():
        ids = [str(item["id"]) for item in one["items"]]
        for arm in arms:
            if how(asked, contents, arm, name) != "own":
                continue
            found += [
                stretch
                for stretch in stretches(one, name, arm, _at_once(asked, one, arm))
                if any((arm, name, ids[place]) not in answered for place in stretch.places)
            ]
    return found


def failed(records: Iterable[Record]) -> list[str]:
    """A line for each eval and reason why arms have no score on any item: which arms, how many, what the first said."""
    first: dict[tuple[str, str], EvalAnswer] = {}
    made, scored = Counter[tuple[str, str]](), set[tuple[str, str]]()
    for record in records:
        if isinstance(record, EvalAnswer):
            key = (record.arm, record.eval)
            first.setdefault(key, record)
            made[key] += 1
            if record.score is not None:
                scored.add(key)
    same: dict[tuple[str, str], list[EvalAnswer]] = {}
    for key, answer in first.items():
        if key not in scored:
            same.setdefault((answer.eval, answer.why), []).append(answer)
    return [_without_score(some, made[some[0].arm, name]) for (name, _), some in same.items()]


def _without_score(some: Sequence[EvalAnswer], items: int) -> str:
    who = f"{listed([answer.arm for answer in some])} {'has' if len(some) == 1 else 'have'}"
    if items == 1:
        return f"{who} no score on the only item of {some[0].eval}, {some[0].item}: {some[0].why}"
    return f"{who} no score on any of {items:,} items of {some[0].eval}, first on {some[0].item}: {some[0].why}"


def _at_once(asked: Asked, one: Mapping[str, Any], arm: str) -> int:
    """How many items an arm answers at a time: as all do, or as its own levers ask."""
    if arm == TWIN:
        return int(one["twin_batch_size"])
    spec = asked.targets.get(arm, TargetSpec())
    # A prefix cache serves one prompt at a time, and what it does to answers shows in no batch.
    return int(one["batch_size"]) if spec.law == spec else spec.batch


def stretches(one: Mapping[str, Any], name: str, arm: str, batch: int) -> list[Stretch]:
    """An eval cut for an arm: prompts of like length together, so that little of a `batch` is padding.

    The cut does not depend on what was answered before, so an answer has the same neighbours after a resume.
    """
    order = sorted(range(len(one["items"])), key=lambda place: (-int(one["items"][place]["tokens"]), place))
    size = batch * BATCHES
    return [
        Stretch(arm=arm, eval=name, number=start // size, places=tuple(order[start : start + size]), batch_size=batch)
        for start in range(0, len(order), size)
    ]


def probe_of(one: Mapping[str, Any]) -> float:
    """The noise of an eval's probe, 0 for none."""
    return float(one["probe"])


def settings(asked: Asked, name: str) -> Mapping[str, Any]:
    """The table of an eval in the experiment."""
    return next(one for one in asked.store.info["config"]["evals"] if one["name"] == name)


def proof_items(asked: Asked) -> list[tuple[str, int]]:
    """The items that drafts are proved on: (eval, place), in turn from each eval whose answers are generated."""
    names = [name for name in asked.evals if by_proof(asked, name)]
    longest = max((len(asked.evals[name]["items"]) for name in names), default=0)
    in_turn = [(name, place) for place in range(longest) for name in names if place < len(asked.evals[name]["items"])]
    return in_turn[:PROOF_ITEMS]


def expected(asked: Asked, contents: Contents) -> int:
    """How many answers and proofs the evals come to, drafts that are still to be proved taken for proved."""
    arms = [*asked.drafts, PROBE] if any(task.arm == PROBE for task in tasks(asked)) else list(asked.drafts)
    own = [one for name, one in asked.evals.items() for arm in arms if how(asked, contents, arm, name) == "own"]
    return sum(len(one["items"]) for one in own) + sum(needs_proof(asked, arm) for arm in asked.drafts)
