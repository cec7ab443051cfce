"""Toy models whose whole law can be written down, and sessions that run them in the real loop.

A toy is a pair of tables: logits of the next token given the last two, [V, V, V], for target and
draft. All texts of a few tokens form a tree; node 0 is the prompt and child v of node c is
c * V + v + 1, so that a batch of texts is a batch of node numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from specq.core.types import EXACT_RULES, Prompt, Rule, Sampling
from specq.decoding.drafters import Drafter
from specq.decoding.drafters.chain import ModelDrafter
from specq.decoding.loop import decode
from specq.decoding.request import Request
from specq.decoding.sampling import Streams, Warper

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
CELLS: list[tuple[Rule, str]] = [(rule, name) for rule in EXACT_RULES for name in SAMPLINGS]


def one_thread() -> Iterator[None]:
    """For a module fixture: one thread, and what was before when the module is through."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@dataclass(frozen=True, kw_only=True, eq=False)
class Toy:
    """Logits of the next token after each pair of tokens, [V, V, V] float32, of target and draft."""

    target: Tensor
    draft: Tensor

    @property
    def words(self) -> int:
        return self.target.shape[-1]


def toy(words: int, *, order: int = 2, spread: float = 1.0, apart: float = 1.0, seed: int = 1) -> Toy:
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
        return self._recall("probs", ids, logits)

    def argmax(self, ids: Sequence[int], logits: Tensor) -> Tensor:
        return self._recall("argmax", ids, logits)

    def _recall(self, what: str, ids: Sequence[int], logits: Tensor) -> Tensor:
        # Without a penalty the tokens before do not matter.
        key = (what, *(ids if self._needs_text else ()), logits.numpy().tobytes())
        if (found := self.known.get(key)) is None:
            found = self.known[key] = getattr(super(), what)(ids, logits)
        return found


@dataclass(slots=True)
class LightRequest(Request):
    """A request that is handed its warper and its streams: making them costs as much as a short run."""

    def __post_init__(self) -> None:
        self.ids = list(self.prompt.ids)


class Letters:
    """A tokenizer whose token n is the n-th letter."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return "".join(chr(ord("a") + i) for i in ids)


def request(
    sampling: Sampling,
    rule: Rule,
    *,
    prompt: Sequence[int] = PROMPT,
    eos: Sequence[int] = (),
    threshold: float | None = None,
) -> Request:
    """A request as an engine makes it."""
    return Request(
        prompt=Prompt(id="toy", ids=tuple(prompt)),
        sampling=sampling,
        eos_ids=tuple(eos),
        tokenizer=cast(Any, Letters()),
        rule=rule,
        threshold=threshold,
    )


def model_drafter(pair: Toy, rule: Rule) -> Drafter:
    """The draft as an engine builds it for the rule."""
    return ModelDrafter(cast(Any, ToySession(pair.draft)), sampled=rule != "greedy_draft", vocabulary=pair.words)


def runs(
    pair: Toy,
    rule: Rule,
    sampling: Sampling,
    k: int,
    count: int,
    *,
    drafter: Drafter | None,
    target: Any = None,
    make: Any = LightRequest,
    warper: Any = MemoWarper,
    streams: Any = Streams,
    eos: Sequence[int] = (),
    fresh: bool = False,
) -> list[Request]:
    """`count` runs of the real loop on one pair of sessions.

    The streams run on from one run to the next; with `fresh` each run has its own, with seeds 0, 1, ...
    """
    session = ToySession(pair.target) if target is None else target
    shared, chance = warper(sampling, prompt_tokens=len(PROMPT), eos_ids=eos), streams(sampling.seed)
    prompt, letters = Prompt(id="toy", ids=PROMPT), Letters()
    out = []
    for seed in range(count):
        one = make(prompt=prompt, sampling=sampling, eos_ids=tuple(eos), tokenizer=letters, rule=rule)
        one.warper, one.streams = shared, streams(seed) if fresh else chance
        decode(one, cast(Any, session), drafter, k)
        out.append(one)
    return out


def run(pair: Toy, one: Request, k: int) -> Request:
    """Run one request through the real loop with the toy's own draft."""
    decode(one, cast(Any, ToySession(pair.target)), model_drafter(pair, one.rule), k)
    return one


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

    def first(self, depth: int) -> int:
        """The first node whose text has `depth` tokens."""
        return sum(self.words**i for i in range(depth))

    def depth_of(self, node: int) -> int:
        return next(d for d in range(self.depth + 1) if node < self.first(d + 1))

    def law(self, length: int) -> np.ndarray:
        """The target's law of the first `length` tokens, [V ** length], the first token slowest."""
        law, nodes = np.ones(1), np.zeros(1, dtype=int)
        p = self.p.double().numpy()
        for _ in range(length):
            law = (law[:, None] * p[nodes]).ravel()
            nodes = self.child(nodes[:, None], np.arange(self.words)).ravel()
        return law / law.sum()


@lru_cache(maxsize=32)
def tree(pair: Toy, sampling: Sampling, depth: int) -> Tree:
    """The tree of a toy under a sampling, with the code's own warping."""
    warper = Warper(sampling, prompt_tokens=len(PROMPT), eos_ids=())
    texts: list[list[int]] = [list(PROMPT)]
    for text in texts:
        if len(text) - len(PROMPT) < depth - 1:
            texts.extend([*text, v] for v in range(pair.words))
    p = [warper.probs(text, pair.target[text[-2], text[-1]][None]) for text in texts]
    q = [warper.probs(text, pair.draft[text[-2], text[-1]][None]) for text in texts]
    best = [warper.argmax(text, pair.draft[text[-2], text[-1]][None]) for text in texts]
    return Tree(words=pair.words, depth=depth, p=torch.cat(p), q=torch.cat(q), best=torch.cat(best))
