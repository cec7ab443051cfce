"""What a run leaves behind to prove that it was lossless: an arm's own text, scored again.

At temperature 0 the text is fed to the target one row at a time, as plain decoding does, and every
place is noted where the target would have said something else. Above 0 the text's surprise is held
against the entropy of the law it should come from, and the steps against their expected number.

T counts new tokens; position 0 is the token that the prefill gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specq.core.errors import PromptError
from specq.core.records import Audited
from specq.core.types import DraftSpec, Prompt, Sampling
from specq.decoding import law
from specq.decoding.drafters import Drafter
from specq.decoding.drafters.chain import fit
from specq.decoding.law import Law
from specq.decoding.loop import NOTHING, step
from specq.decoding.request import Request
from specq.decoding.sampling import Warper
from specq.decoding.session import Session

NEAR_TIE = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.75}
"""Gaps between a draft's two best logits under which its argmax may differ from pass to pass."""

SCORE_ROWS = 64
"""How many tokens' logits `score` holds at a time."""


def along(
    session: Session,
    warper: Warper,
    prompt: Sequence[int],
    ids: Sequence[int],
    rows: int,
    vocabulary: int | None = None,
) -> Iterator[Tensor]:
    """A model's scores [1, V] float32 before each new token, the text fed `rows` tokens a pass.

    With `vocabulary` they stand on that many ids, as a draft's do on its target's.
    """
    session.restart()
    logits = session.forward(prompt, last_only=True)
    session.rollback(0)
    yield warper.scores(prompt, logits if vocabulary is None else fit(logits, vocabulary))
    for first in range(0, len(ids) - 1, rows):
        block = list(ids[first : min(first + rows, len(ids) - 1)])
        logits = session.forward(block)
        session.rollback(0)
        logits = logits if vocabulary is None else fit(logits, vocabulary)
        scores = warper.scores([*prompt, *ids[: first + len(block)]], logits)
        yield from scores.split(1)


@torch.inference_mode()
def gap_moves(
    session: Session,
    warper: Warper,
    prompt: Sequence[int],
    ids: Sequence[int],
    rows: int,
    blocks: Session | None = None,
) -> tuple[list[float], int]:
    """How the gap of the two best tokens moves from one-row to block passes, and how many argmaxes change.

    Position 0 is left out: the prefill is the same in both. `blocks` runs the block passes; None: `session` does.
    """
    pairs = []
    for scores in along(session, warper, prompt, ids, 1):
        best = scores.topk(2, dim=-1)
        pairs.append((best.indices[0], float(best.values[0, 0] - best.values[0, 1])))
    moves, ties = [], 0
    for t, scores in enumerate(along(session if blocks is None else blocks, warper, prompt, ids, rows)):
        if t:
            (first, second), gap = pairs[t][0].tolist(), pairs[t][1]
            moves.append(abs(float(scores[0, first] - scores[0, second]) - gap))
            ties += int(scores.argmax()) != first
    return moves, ties


@torch.inference_mode()
def differences(session: Session, warper: Warper, prompt: Sequence[int], ids: Sequence[int]) -> list[tuple[int, float]]:
    """Positions where plain decoding on this text would have said another token, and by how many logits."""
    found = []
    for t, scores in enumerate(along(session, warper, prompt, ids, 1)):
        gap = float(scores.max() - scores[0, ids[t]])
        # An equal score is a difference too when a lower id holds it, since plain decoding takes that one.
        if int(scores.argmax()) != ids[t]:
            found.append((t, gap))
    return found


def greedy(
    session: Session, warper: Warper, arm: str, prompt: Prompt, ids: Sequence[int], others: Sequence[int] | None
) -> Audited:
    """An arm's text at temperature 0 on the path of plain decoding, whose own text is `others`.

    A text that equals it needs no second look. None: there is no other text, as for a baseline that decodes
    another way than it is scored, and all of it is looked at.
    """
    first, gaps = None, []
    if others is not None:
        pairs = enumerate(zip(ids, others, strict=False))
        first = next((t for t, (mine, other) in pairs if mine != other), None)
    if first is not None or others is None:
        gaps = differences(session, warper, prompt.ids, ids)
        first = gaps[0][0] if first is None and gaps else first
    return Audited(
        arm=arm,
        prompt=prompt.id,
        positions=len(ids),
        first_difference=first,
        gaps=tuple((t, float(f"{gap:.4g}")) for t, gap in gaps),
    )


@torch.inference_mode()
def score(
    session: Session, prompt: Sequence[int], ids: Sequence[int], rows: int = SCORE_ROWS
) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of given tokens [T] float64, before any warping, and the argmax ids [T] int64.

    `rows` tokens are fed a pass, so that logits of no more than these are in memory.

    Raises:
        PromptError: there is no prompt, after which the first token could be scored.
        NonFiniteLogits: the model returned NaN or infinite logits.
    """
    if not prompt:
        raise PromptError("score: the prompt is empty: give at least one token before the continuation")
    plain = Warper(Sampling(), prompt_tokens=len(prompt), eos_ids=())
    logprobs, argmax = np.empty(len(ids)), np.empty(len(ids), dtype=np.int64)
    for t, scores in enumerate(along(session, plain, prompt, ids, rows) if ids else ()):
        logprobs[t] = float(scores[0].double().log_softmax(dim=-1)[ids[t]])
        argmax[t] = int(scores.argmax())
    return logprobs, argmax


@torch.inference_mode()
def text_law(
    session: Session, warper: Warper, prompt: Sequence[int], ids: Sequence[int], rows: int, vocabulary: int
) -> Law:
    """The warped law of each new token under a model, on the target's vocabulary, `rows` tokens a pass."""
    columns: list[tuple[float, ...]] = []
    close = NEAR_TIE.get(session.model.dtype, 1e-3)
    for t, scores in enumerate(along(session, warper, prompt, ids, max(1, rows), vocabulary)):
        best = scores.topk(2, dim=-1)
        near = float(best.values[0, 0] - best.values[0, 1]) < close and ids[t] in best.indices[0].tolist()
        p = warper.warp(scores)[0].double()
        inside = p > 0
        surprise = -p[inside].log()
        entropy = float((p[inside] * surprise).sum())
        variance = float((p[inside] * (surprise - entropy) ** 2).sum())
        hit = 0.5 if near else float(int(best.indices[0, 0]) == ids[t])
        gap = float(best.values[0, 0] - scores[0, ids[t]])
        columns.append((float(p[ids[t]]), entropy, variance, hit, gap, float(p.max())))
    names = ("p", "entropy", "variance", "hit", "gap", "confidence")
    return Law(**dict(zip(names, map(np.array, zip(*columns, strict=True)), strict=True)))


def expected_steps(
    spec: DraftSpec, target: Law, draft: Law, copies: tuple[np.ndarray, np.ndarray] | None = None
) -> tuple[float, float]:
    """Mean and variance of the steps that a model draft takes to emit a sampled text; `copies` as in law.steps."""
    # A token at the very edge of a truncated law may be scored 0 by rounding; the text has it, so it was not.
    stops = None if spec.stop_below is None else draft.p < spec.stop_below
    return law.steps(spec.rule, np.maximum(target.p, law.LEAST_P), draft.p, draft.hit, spec.k, copies, stops)


def lookup_steps(drafter: Drafter, warper: Warper, prompt: Sequence[int], ids: Sequence[int], k: int) -> int:
    """The steps that a lookup draft takes to emit the text; they follow from the text alone."""
    text = list(prompt) + list(ids)
    at, taken = len(prompt) + 1, 0
    drafter.start(text[:at], warper, np.random.default_rng(0))
    while at < len(text):
        reach = min(k, len(text) - at - 1)
        proposal = drafter.propose(text[:at], reach).ids if reach > 0 else []
        at += _hits(proposal, text, at) + 1
        taken += 1
        drafter.commit(text[:at])
    return taken


def lookup_copies(
    drafter: Drafter, warper: Warper, prompt: Sequence[int], ids: Sequence[int], k: int
) -> tuple[np.ndarray, np.ndarray]:
    """What a lookup draft would propose before each new token: how many of k tokens, and how many of them are right.

    Both [T] int; nothing is proposed before token 0, which the prefill gives.
    """
    text = list(prompt) + list(ids)
    proposed, matched = np.zeros((2, len(ids)), dtype=int)
    drafter.start(text[: len(prompt) + 1], warper, np.random.default_rng(0))
    for t in range(1, len(ids)):
        at = len(prompt) + t
        proposal = drafter.propose(text[:at], k).ids
        proposed[t], matched[t] = len(proposal), _hits(proposal, text, at)
    return proposed, matched


def _hits(proposal: Sequence[int], text: Sequence[int], at: int) -> int:
    hits = 0
    while hits < min(len(proposal), len(text) - at) and proposal[hits] == text[at + hits]:
        hits += 1
    return hits


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The first token of many steps: likeliest ids and -1 for all others, how often each came, its probability.

    `proposed` counts the steps in which the draft proposed something; where it is 0, the draws test plain sampling.
    """

    cells: tuple[int, ...]
    counts: tuple[int, ...]
    expected: tuple[float, ...]
    proposed: int


@torch.inference_mode()
def first_tokens(
    make: Sequence[Request], session: Session, drafter: Drafter | None, k: int, *, cells: int = 8
) -> Draws:
    """The first token of a step, drawn once for each request, against its exact law.

    All requests share one prompt, whose last token is fed by the step itself. Without a drafter the
    draws share one pass, since there is nothing to roll back.
    """
    ids = make[0].ids
    session.restart()
    if len(ids) > 1:
        session.forward(ids[:-1], last_only=True)
        session.rollback(0)
    logits = session.forward(ids[-1:])
    p = make[0].warper.probs(ids, logits)[0].double()
    best = p.topk(min(cells, int((p > 0).sum())))
    counts = dict.fromkeys((int(token) for token in best.indices), 0)
    rest = proposed = 0
    if drafter is not None:
        session.rollback(1)
    before = session.length
    for request in make:
        if drafter is None:
            request.take(NOTHING, logits)
        else:
            drafter.start(request.ids, request.warper, request.streams.draft)
            step(request, session, drafter, k)
            session.rollback(session.length - before)
            proposed += request.steps[-1].proposed > 0
        token = request.new_ids[0]
        if token in counts:
            counts[token] += 1
        else:
            rest += 1
    return Draws(
        cells=(*counts, -1),
        counts=(*counts.values(), rest),
        expected=(*(float(v) for v in best.values), max(0.0, 1.0 - float(best.values.sum()))),
        proposed=proposed,
    )


def continued(prompt: Prompt, token: int) -> Prompt:
    """The prompt with one more token at its end."""
    return Prompt(id=prompt.id, ids=(*prompt.ids, token), text=prompt.text, messages=prompt.messages, tags=prompt.tags)
