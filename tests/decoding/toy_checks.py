"""The checks of exactness. Each takes the pieces it judges, so that a planted bug runs through the same check.

Each returns a p-value: the chance of something as odd from code that is right.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from toy import PROMPT, MemoWarper, Toy, Tree, model_drafter, runs, tree

from specq.core.types import Rule, Sampling
from specq.decoding import law, rules
from specq.decoding.drafters import Drafter
from specq.decoding.request import Request
from specq.decoding.sampling import Streams, draw
from specq.stats.counts import g_test, holm

ALARM = 1e-3
"""A family of checks fails when its smallest p-value after Holm is below this."""
CONTROL = 1e-6
"""A planted bug counts as caught below this: it would alarm in any family of up to 1,000 checks."""

Uniforms = Callable[[int, int], tuple[Tensor, Tensor, Tensor]]
"""Rows and k to uniforms for drafting [rows, k], accepting [rows, k + 1] and the added token [rows]."""


def alarms(p_values: dict[str, float]) -> list[str]:
    """The checks of a family that fail."""
    return [
        f"{name}: p = {p_values[name]:.2g}"
        for name, adjusted in zip(p_values, holm(list(p_values.values())), strict=True)
        if adjusted < ALARM
    ]


def fits(counts: np.ndarray, law: np.ndarray) -> float:
    """p-value of a G-test with all cells that expect fewer than 5 draws in one; an impossible draw gives 0."""
    law = law / law.sum()
    if counts[law == 0].any():
        return 0.0
    small = law * counts.sum() < 5
    pooled = np.append(counts[~small], counts[small].sum()), np.append(law[~small], law[small].sum())
    return g_test(pooled[0].tolist(), pooled[1].tolist())


def separate(seed: int) -> Uniforms:
    """Uniforms from the code's own three streams."""
    streams = Streams(seed)

    def uniforms(rows: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
        shapes = ((streams.draft, (rows, k)), (streams.accept, (rows, k + 1)), (streams.token, (rows,)))
        draft, accept, token = (torch.from_numpy(stream.random(shape)) for stream, shape in shapes)
        return draft, accept, token

    return uniforms


def propose(at: Tree, rule: Rule, nodes: Tensor, u: Tensor) -> tuple[Tensor, Tensor | None]:
    """A proposal after each node, [R], and the q that it was drawn from, [R, V]."""
    if rule == "greedy_draft":
        return at.best[nodes], None
    return draw(at.q[nodes], u), at.q[nodes]


def batched(
    at: Tree,
    rule: Rule,
    k: int,
    length: int,
    rows: int,
    *,
    verify: Any = rules.verify,
    propose: Any = propose,
    uniforms: Uniforms | None = None,
) -> tuple[Tensor, Tensor]:
    """Texts of `length` tokens as nodes [rows], and how many proposals their first step accepted, [rows]."""
    uniforms = uniforms or separate(7)
    nodes, depth = torch.zeros(rows, dtype=torch.long), torch.zeros(rows, dtype=torch.long)
    first: Tensor | None = None
    inner = len(at.p)
    while (active := (depth < length).nonzero().squeeze(1)).numel():
        n = (length - depth[active] - 1).clamp(max=k)
        u_draft, u_accept, u_token = uniforms(len(active), k)
        path, qs = [nodes[active]], []
        for j in range(k):
            # What lies past the end of a row is padding, and any node will do.
            here = torch.where(path[-1] < inner, path[-1], 0)
            token, q = propose(at, rule, here, u_draft[:, j])
            qs.append(q)
            path.append(at.child(here, token))
        past = torch.stack(path, dim=1)
        x = (past[:, 1:] - 1) % at.words
        q = None if qs[0] is None else torch.stack(qs, dim=1)
        p = at.p[torch.where(past < inner, past, 0)]
        accepted, token = verify(rule, p, q, x, n, u_accept, u_token)
        nodes[active] = at.child(past.gather(1, accepted[:, None]).squeeze(1), token)
        depth[active] += accepted + 1
        first = accepted if first is None else first
    assert first is not None
    return nodes, first


def drawn_law(at: Tree, rule: Rule, *, k: int = 2, length: int = 3, rows: int = 100_000, **pieces: Any) -> float:
    """Texts that the batched rules write against the target's law."""
    nodes, _ = batched(at, rule, k, length, rows, **pieces)
    cells = at.words**length
    return fits(np.bincount((nodes - at.first(length)).numpy(), minlength=cells), at.law(length))


def drawn_accepted(at: Tree, rule: Rule, k: int, *, rows: int = 100_000, **pieces: Any) -> float:
    """Accepted lengths of a first step of k proposals against the closed form, summed over all texts."""
    _, first = batched(at, rule, k, k + 1, rows, **pieces)
    return fits(np.bincount(first.numpy(), minlength=k + 1), accepted_law(at, rule, k))


def accepted_law(at: Tree, rule: Rule, k: int) -> np.ndarray:
    """P(N = 0..k) of a step after the prompt: the closed form given a text, averaged over the target's texts."""
    out = np.zeros(k + 1)
    for text, mass in zip(itertools.product(range(at.words), repeat=k), at.law(k), strict=True):
        if mass > 0:
            tail = law.survival(rule, *along(at, text), 0, k)
            out += mass * (tail - np.append(tail[1:], 0.0))
    return out


def along(at: Tree, text: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p, q and "is the draft's argmax" of each token of a text after the prompt."""
    nodes = [0]
    for token in text[:-1]:
        nodes.append(at.child(nodes[-1], token))
    p, q = (m[nodes, list(text)].double().numpy() for m in (at.p, at.q))
    return p, q, at.best[nodes].numpy() == np.asarray(text)


def loop_law(
    pair: Toy,
    rule: Rule,
    sampling: Sampling,
    *,
    k: int = 2,
    count: int = 2000,
    drafter: Drafter | None,
    fresh: bool = False,
    **pieces: Any,
) -> float:
    """Three tokens that the real loop writes against the target's law.

    Tokens 2 to 4, since the prefill gives token 1; tokens 1 to 3 where each run has `fresh` streams.
    """
    done = runs(pair, rule, replace(sampling, max_new_tokens=4), k, count, drafter=drafter, fresh=fresh, **pieces)
    words = pair.words
    counts = np.zeros((words, words, words))
    for one in done:
        bookkeeping(one)
        counts[tuple(one.new_ids[:3] if fresh else one.new_ids[1:])] += 1
    at = tree(pair, sampling, 4)
    return fits(counts.ravel(), at.law(3) if fresh else at.law(4).reshape(words, -1).sum(axis=0))


def bookkeeping(one: Request) -> None:
    """What must hold of the steps of any finished request."""
    assert sum(step.emitted for step in one.steps) + 1 == len(one.new_ids)
    context = len(one.prompt.ids) + 1
    for number, step in enumerate(one.steps, start=1):
        assert step.context == context
        assert 0 <= step.accepted <= step.proposed
        if number < len(one.steps) or one.finish == "length":
            assert step.emitted == step.accepted + 1
        else:
            assert step.accepted <= step.emitted <= step.accepted + 1
        context += step.emitted


def loop_accepted(
    pair: Toy,
    rule: Rule,
    sampling: Sampling,
    k: int,
    *,
    tokens: int = 20,
    count: int = 60,
    drafter: Drafter | None = None,
    eos: Sequence[int] = (),
    **pieces: Any,
) -> tuple[float, float]:
    """Accepted lengths and step counts of the real loop against their closed forms, given the texts.

    Given a text, each step's length differs from its closed form by noise of known variance, and so
    does each text's number of steps: two sums, two z-tests.
    """
    drafter = drafter or model_drafter(pair, rule)
    done = runs(pair, rule, replace(sampling, max_new_tokens=tokens), k, count, drafter=drafter, eos=eos, **pieces)
    over = variance = steps_over = steps_variance = 0.0
    warper = MemoWarper(sampling, prompt_tokens=len(PROMPT), eos_ids=())
    for one in done:
        bookkeeping(one)
        p, q, hit = scored(pair, warper, one)
        for step in one.steps:
            start = step.context - len(PROMPT)
            reach = min(step.proposed, len(p) - start)
            assert step.accepted <= reach
            tail = law.survival(rule, p, q, hit, start, reach)
            mass = tail - np.append(tail[1:], 0.0)
            mean = mass @ np.arange(reach + 1)
            over += step.accepted - mean
            variance += mass @ (np.arange(reach + 1) - mean) ** 2
        mean, spread = law.steps(rule, p, q, hit, k)
        steps_over += len(one.steps) - mean
        steps_variance += spread
    return two_sided(over, variance), two_sided(steps_over, steps_variance)


def scored(pair: Toy, warper: Any, one: Request) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p, q and "is the draft's argmax" of each new token of a request, by teacher forcing."""
    p, q, hit = [], [], []
    for at in range(len(PROMPT), len(one.ids)):
        before, token = one.ids[:at], one.ids[at]
        here = before[-2], before[-1]
        p.append(float(warper.probs(before, pair.target[here][None])[0, token]))
        q.append(float(warper.probs(before, pair.draft[here][None])[0, token]))
        hit.append(int(warper.argmax(before, pair.draft[here][None])) == token)
    return np.asarray(p), np.asarray(q), np.asarray(hit)


def two_sided(over: float, variance: float) -> float:
    """p-value of a sum that should be 0 with this variance."""
    if variance < 1e-9:
        return 1.0 if abs(over) < 1e-6 else 0.0
    return math.erfc(abs(over) / math.sqrt(2 * variance))
