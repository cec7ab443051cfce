"""The law of what speculation writes, added up over every proposal and every outcome.

`by_definition` follows the papers in float64 and shares no code with the rules. `by_code` measures
the rules themselves: a rule is a step function of its uniforms, so bisection finds the exact share
of uniforms behind each outcome.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from toy import Tree

from specq.core.types import Rule
from specq.decoding import rules

Outcome = tuple[int, int, float]
"""Accepted, the node of the text after the step, probability."""
Outcomes = Callable[[int, int], list[Outcome]]
"""What a step of n proposals after the text of a node can come to."""
ALMOST_ONE = float(np.nextafter(1.0, 0.0))


def text_law(tree: Tree, outcomes: Outcomes, k: int, length: int) -> np.ndarray:
    """The law of the first `length` tokens that steps of at most k proposals write, [V ** length]."""
    return sum(steps_law(tree, outcomes, k, length, start=0).values())  # type: ignore[return-value]


def steps_law(tree: Tree, outcomes: Outcomes, k: int, length: int, *, start: int) -> dict[int, np.ndarray]:
    """By how many steps it took: the joint law with the text of `length` tokens, [V ** length].

    The first `start` tokens are the target's own and no step.
    """
    first = sum(tree.words**i for i in range(length))
    law: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(tree.words**length))
    offset = sum(tree.words**i for i in range(start))
    waiting = {(offset + i, start, 0): mass for i, mass in enumerate(tree.law(start))}
    while waiting:
        following: dict[tuple[int, int, int], float] = defaultdict(float)
        for (node, depth, steps), mass in waiting.items():
            if depth == length:
                law[steps][node - first] += mass
                continue
            for accepted, after, share in outcomes(node, min(k, length - depth - 1)):
                following[after, depth + accepted + 1, steps + 1] += mass * share
        waiting = following
    return law


def by_definition(tree: Tree, rule: Rule, *, fixed: Callable[[int], int] | None = None) -> Outcomes:
    """Outcomes from the definitions; `fixed` gives the proposal after a node where it is no draw."""
    p, q = (m.double().numpy() / m.double().numpy().sum(-1, keepdims=True) for m in (tree.p, tree.q))
    if rule == "greedy_draft" and fixed is None:
        fixed = lambda node: int(tree.best[node])  # noqa: E731
    if fixed is not None:
        q = np.eye(tree.words)[[fixed(node) for node in range(len(q))]]

    def token_wise(node: int, n: int) -> list[Outcome]:
        if n == 0:
            return [(0, tree.child(node, v), p[node, v]) for v in range(tree.words)]
        out: list[Outcome] = []
        for x in range(tree.words):
            if rule == "match":
                stay = p[node, x] * q[node, x]
                out.append((0, tree.child(node, x), p[node, x] * (1 - q[node, x])))
            else:
                stay = min(p[node, x], q[node, x])
            out += [(a + 1, after, stay * mass) for a, after, mass in token_wise(tree.child(node, x), n - 1)]
        if rule != "match":
            # The residual times the chance to refuse: both sum to 1 - sum min(p, q).
            out += [(0, tree.child(node, v), max(p[node, v] - q[node, v], 0.0)) for v in range(tree.words)]
        return out

    def whole_block(node: int, n: int) -> list[Outcome]:
        out: list[Outcome] = []
        for x in itertools.product(range(tree.words), repeat=n):
            nodes, a, drawn = [node], [1.0], 1.0
            for v in x:
                if q[nodes[-1], v] == 0:
                    drawn = 0.0
                    break
                drawn *= q[nodes[-1], v]
                a.append(min(a[-1] * p[nodes[-1], v] / q[nodes[-1], v], 1.0))
                nodes.append(tree.child(nodes[-1], v))
            if drawn == 0:
                continue
            above = 1.0
            for i in range(n, -1, -1):
                rest = np.maximum(a[i] * p[nodes[i]] - q[nodes[i]], 0.0) if i < n else p[nodes[i]]
                total = rest.sum()
                h = a[i] if i in (0, n) else total / (total + 1 - a[i]) if total + 1 - a[i] > 0 else 1.0
                law = rest / total if total > 0 else p[nodes[i]]
                out += [(i, tree.child(nodes[i], v), drawn * above * h * law[v]) for v in range(tree.words)]
                above *= 1 - h
        return out

    return whole_block if rule == "block" and fixed is None else token_wise


def by_code(
    tree: Tree, rule: Rule, *, verify: Any = rules.verify, fixed: Callable[[int], int] | None = None
) -> Outcomes:
    """Outcomes measured on `verify`, with proposals from the tree's q, or the ones that are fixed."""
    if rule == "greedy_draft" and fixed is None:
        fixed = lambda node: int(tree.best[node])  # noqa: E731
    known: dict[tuple[int, int], list[Outcome]] = {}

    def outcomes(node: int, n: int) -> list[Outcome]:
        if (node, n) not in known:
            depth = tree.depth_of(node)
            same = range(tree.first(depth), tree.first(depth + 1))
            for each in same:
                known[each, n] = []
            _measure(tree, rule, verify, fixed, list(same), n, known)
        return known[node, n]

    return outcomes


def _measure(
    tree: Tree,
    rule: Rule,
    verify: Any,
    fixed: Callable[[int], int] | None,
    nodes: list[int],
    n: int,
    known: dict[tuple[int, int], list[Outcome]],
) -> None:
    """Outcomes after many nodes at once: one row for each node and each proposal."""
    rows = []
    for node in nodes:
        paths = [([node], 1.0)]
        for _ in range(n):
            paths = [
                ([*path, tree.child(path[-1], v)], mass * float(tree.q[path[-1], v]) if fixed is None else mass)
                for path, mass in paths
                for v in (range(tree.words) if fixed is None else [fixed(path[-1])])
            ]
        rows += [(path, mass) for path, mass in paths if mass > 0]
    path = torch.tensor([path for path, _ in rows])
    x = (path[:, 1:] - 1) % tree.words
    q = None if fixed is not None else tree.q[path[:, :-1]]
    law = measured(rule, verify, tree.p[path], q, x)
    for row, (nodes_on_path, mass) in enumerate(rows):
        for accepted, at in enumerate(nodes_on_path):
            known[nodes_on_path[0], n] += [
                (accepted, tree.child(at, v), mass * float(law[row, accepted, v])) for v in range(tree.words)
            ]


def measured(rule: Rule, verify: Any, p: Tensor, q: Tensor | None, x: Tensor) -> Tensor:
    """P(accepted = i, token = v | x) of `verify`: p [R, n+1, V], q [R, n, V] or None, x [R, n] to [R, n+1, V]."""
    rows, n = x.shape
    words = p.shape[-1]
    one_hot = q is None or rule == "greedy_draft"
    out = torch.zeros(rows, n + 1, words, dtype=torch.float64)

    def call(u_accept: Tensor, u_token: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        here = None if q is None else q[:, first:]
        left = torch.full((rows,), n - first)
        return verify(rule, p[:, first:], here, x[:, first:], left, u_accept[:, first:], u_token)

    u_accept = torch.full((rows, n + 1), ALMOST_ONE, dtype=torch.float64)
    middle = torch.full((rows,), 0.5, dtype=torch.float64)
    if rule == "match":
        stay = torch.ones(rows, dtype=torch.float64)
        for i in range(n + 1):

            def drawn(u: Tensor, i: int = i) -> Tensor:
                u_accept[:, i] = u
                accepted, token = call(u_accept, middle, i)
                return torch.where(accepted > 0, x[:, i], token) if i < n else token

            law = _pieces(drawn, rows, words)
            out[:, i] = stay[:, None] * law
            if i < n:
                row = torch.arange(rows)
                out[row, i, x[:, i]] = 0.0
                stay = stay * law[row, x[:, i]]
        return out

    passes = torch.ones(rows, n + 1, dtype=torch.float64)
    token_wise = one_hot or rule == "rejection"
    for i in range(1, n + 1):
        u_accept[:] = ALMOST_ONE
        if token_wise:
            u_accept[:, : i - 1] = 0.0

        def reached(u: Tensor, i: int = i) -> Tensor:
            u_accept[:, i - 1] = u
            return call(u_accept, middle)[0] < i

        passes[:, i] = _pieces(lambda u: reached(u).long(), rows, 2)[:, 0]
    for i in range(n + 1):
        if token_wise:
            stands = passes[:, : i + 1].prod(dim=1) * (1 - passes[:, i + 1] if i < n else 1.0)
        else:
            stands = passes[:, i] * (1 - passes[:, i + 1 :]).prod(dim=1)
        u_accept[:] = ALMOST_ONE
        u_accept[:, slice(0, i) if token_wise else slice(max(0, i - 1), i)] = 0.0
        out[:, i] = stands[:, None] * _pieces(lambda u: call(u_accept, u)[1], rows, words)
    return out


def _pieces(value: Callable[[Tensor], Tensor], rows: int, values: int) -> Tensor:
    """The share of u in [0, 1) at which a rising step function takes each value, [rows, values]."""
    edges = torch.zeros(rows, values + 1, dtype=torch.float64)
    edges[:, values] = 1.0
    for v in range(values - 1):
        low, high = edges[:, v].clone(), torch.ones(rows, dtype=torch.float64)
        for _ in range(25):
            middle = (low + high) / 2
            below = value(middle) <= v
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        edges[:, v + 1] = low
    return edges.diff(dim=1)
