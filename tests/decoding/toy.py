"""Toy models whose whole law can be written down, and sessions that run them in the real loop.

A toy is a pair of tables: logits of the next token given the last two, [V, V, V], for target and
draft. All texts of a few tokens form a tree; node 0 is the prompt and child v of node c is
c * V + v + 1, so that a batch of texts is a batch of node numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specq.core.types import RULES, Prompt, Rule, Sampling
from specq.decoding.drafters.chain import ModelDrafter
from specq.decoding.loop import decode
from specq.decoding.request import Request
from specq.decoding.sampling import Warper

PROMPT = (0, 1, 0)
TEMPERATURES = (0.5, 1.0, 1.5)
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "top-k": {"top_k": 3},
    "top-p": {"top_p": 0.8},
    "penalty": {"repetition_penalty": 1.4},
}
SAMPLINGS = {
    f"T={t} {name}": Sampling(temperature=t, **settings) for t in TEMPERATURES for name, settings in FILTERS.items()
}
CELLS: list[tuple[Rule, str]] = [(rule, name) for rule in RULES for name in SAMPLINGS]


@dataclass(frozen=True, kw_only=True)
class Toy:
    """Logits of the next token after each pair of tokens, [V, V, V] float32, of target and draft."""

    target: Tensor
    draft: Tensor

    @property
    def words(self) -> int:
        return self.target.shape[-1]


def toy(words: int, *, order: int = 2, spread: float = 1.6, apart: float = 1.0, seed: int = 0) -> Toy:
    """A random pair; the draft's logits are the target's plus noise of size `apart`."""
    rng = np.random.default_rng(seed)
    first = words if order == 2 else 1
    target = rng.normal(0.3, spread, (first, words, words))
    draft = target + rng.normal(0.0, apart, target.shape)
    shape = (words, words, words)
    return Toy(
        target=torch.tensor(np.broadcast_to(target, shape).copy(), dtype=torch.float32),
        draft=torch.tensor(np.broadcast_to(draft, shape).copy(), dtype=torch.float32),
    )


class ToySession:
    """What the loops need of a session; each row of logits comes from the tokens that it really holds."""

    keep = "everything"
    device = torch.device("cpu")

    def __init__(self, table: Tensor) -> None:
        self.rows = [[row[None] for row in block] for block in table]
        self.passes = self.fed = 0
        self.restart()

    def restart(self) -> None:
        self.held: list[int] = []

    @property
    def length(self) -> int:
        return len(self.held)

    def forward(self, ids: Sequence[int], *, last_only: bool = False) -> Tensor:
        assert len(ids) > 0
        at = len(self.held)
        self.held += ids
        self.passes += 1
        self.fed += len(ids)
        # Before the first token stands token 0.
        text = [0, *self.held]
        rows = [self.rows[text[i]][text[i + 1]] for i in range(len(text) - 2 if last_only else at, len(text) - 1)]
        return rows[0] if len(rows) == 1 else torch.cat(rows)

    def rollback(self, tokens: int) -> None:
        assert 0 <= tokens <= len(self.held)
        if tokens:
            del self.held[-tokens:]


class MemoWarper(Warper):
    """A warper that remembers: the same tokens and the same logits, to the byte, have the same probabilities."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.known: dict[Any, Tensor] = {}

    def probs(self, ids: Sequence[int], logits: Tensor) -> Tensor:
        key = (*ids, logits.numpy().tobytes())
        if (found := self.known.get(key)) is None:
            found = self.known[key] = super().probs(ids, logits)
        return found


class Letters:
    """A tokenizer whose token n is the n-th letter."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return "".join(chr(ord("a") + i) for i in ids)


def request(
    sampling: Sampling, rule: Rule, *, prompt: Sequence[int] = PROMPT, eos: Sequence[int] = (), make: Any = Request
) -> Request:
    """A request for the loop; `make` takes its place where a test plants a bug."""
    return make(
        prompt=Prompt(id="toy", ids=tuple(prompt)),
        sampling=sampling,
        eos_ids=tuple(eos),
        tokenizer=Letters(),
        rule=rule,
    )


def model_drafter(pair: Toy, rule: Rule) -> ModelDrafter:
    """The draft as the engine would build it for the rule."""
    return ModelDrafter(ToySession(pair.draft), sampled=rule != "greedy_draft", vocabulary=pair.words)


Drafters = Callable[[Toy, Rule], Any]


def runs(
    pair: Toy,
    rule: Rule,
    sampling: Sampling,
    k: int,
    count: int,
    *,
    drafters: Drafters = model_drafter,
    make: Any = Request,
    eos: Sequence[int] = (),
    prompt: Sequence[int] = PROMPT,
) -> list[Request]:
    """`count` runs of the real loop with seeds 0, 1, ..."""
    target, drafter = ToySession(pair.target), drafters(pair, rule)
    warper = MemoWarper(sampling, prompt_tokens=len(prompt), eos_ids=eos)
    out = []
    for seed in range(count):
        one = request(replace(sampling, seed=seed), rule, make=make, eos=eos, prompt=prompt)
        one.warper = warper
        decode(one, target, drafter, k)
        out.append(one)
    return out


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Warped probabilities after every text of fewer than `depth` tokens: p and q [N, V] float32.

    `best` is what the draft proposes when it does not sample, [N].
    """

    words: int
    depth: int
    p: Tensor
    q: Tensor
    best: Tensor

    def child(self, node: Any, token: Any) -> Any:
        return node * self.words + token + 1

    def law(self, length: int) -> np.ndarray:
        """The target's law of the first `length` tokens, [V ** length], the first token slowest."""
        law, nodes = np.ones(1), np.zeros(1, dtype=int)
        p = self.p.double().numpy()
        for _ in range(length):
            law = (law[:, None] * p[nodes]).ravel()
            nodes = self.child(nodes[:, None], np.arange(self.words)).ravel()
        return law / law.sum()


@lru_cache(maxsize=64)
def _tree(pair: Toy, sampling: Sampling, depth: int, warper: Any, draft_warper: Any) -> Tree:
    words = pair.words
    make = {"prompt_tokens": len(PROMPT), "eos_ids": ()}
    target, draft = warper(sampling, **make), draft_warper(sampling, **make)
    texts: list[list[int]] = [list(PROMPT)]
    for text in texts:
        if len(text) - len(PROMPT) < depth - 1:
            texts.extend([*text, v] for v in range(words))
    rows = [(text, pair.target[text[-2], text[-1]][None], pair.draft[text[-2], text[-1]][None]) for text in texts]
    return Tree(
        words=words,
        depth=depth,
        p=torch.cat([target.probs(text, logits) for text, logits, _ in rows]),
        q=torch.cat([draft.probs(text, logits) for text, _, logits in rows]),
        best=torch.cat([draft.argmax(text, logits) for text, _, logits in rows]),
    )


def tree(pair: Toy, sampling: Sampling, depth: int, *, warper: Any = Warper, draft_warper: Any = Warper) -> Tree:
    """The tree of a toy under a sampling, with the code's own warping."""
    return _tree(pair, sampling, depth, warper, draft_warper)
