"""Logits to probabilities, and uniform numbers to tokens.

The same `Warper` turns the target's and the draft's logits into probabilities, so that both sides
of an acceptance ratio are warped alike. What it computes is defined by transformers' logits
processors; `top_p_mask` and `min_p_mask` are faster twins of two of them, held to them by tests.

Shapes: R rows, V vocabulary, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import (
    MinNewTokensLengthLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
)

from specq.core.errors import NonFiniteLogits
from specq.core.hashes import seed_of
from specq.core.types import Sampling
from specq.decoding.finite import advice

NUCLEUS_GUESS = 512
"""How many of the best tokens are sorted first for top-p; a flatter row falls back to a full sort."""


class Warper:
    """Warps logits of one request as transformers' `generate` would.

    Penalties and minimum length depend on the tokens before a row; temperature, top-k, top-p and
    min-p do not and are applied to all rows at once, in transformers' order.
    """

    def __init__(self, sampling: Sampling, *, prompt_tokens: int, eos_ids: Sequence[int]) -> None:
        self.sampling = sampling
        self.greedy = sampling.temperature == 0.0
        self._prompt_tokens, self._eos_ids = prompt_tokens, list(eos_ids)
        self._needs_text = sampling.repetition_penalty != 1.0 or (sampling.min_new_tokens > 0 and bool(eos_ids))
        self._processors: list[Callable[[Tensor, Tensor], Tensor]] | None = None

    def scores(self, ids: Sequence[int], logits: Tensor) -> Tensor:
        """Logits after penalties and minimum length, before temperature.

        Args:
            ids: all tokens before the last row, [T]; row r of R follows ids[: T - (R - 1) + r].
            logits: [R, V], any float type.

        Returns:
            [R, V] float32.

        Raises:
            NonFiniteLogits: a row has NaN, +inf, or nothing above -inf.
        """
        best = logits.amax(dim=-1)
        if not bool(torch.isfinite(best).all()):
            raise NonFiniteLogits(
                f"the model returned logits that are not finite (largest of a row: {best.tolist()}) "
                f"after {len(ids)} tokens",
                advice(str(logits.dtype).removeprefix("torch.")),
            )
        scores = logits.float()
        if not self._needs_text:
            return scores
        rows = scores.shape[0]
        every = torch.tensor([list(ids)], dtype=torch.long, device=scores.device)
        out = []
        for r in range(rows):
            row = scores[r : r + 1]
            prefix = every[:, : len(ids) - (rows - 1) + r]
            for processor in self._after_text(scores.device):
                row = processor(prefix, row)
            out.append(row)
        return torch.cat(out)

    def _after_text(self, device: torch.device) -> list[Callable[[Tensor, Tensor], Tensor]]:
        """The processors that look at the text; made where the logits are, since one keeps a tensor."""
        if self._processors is None:
            self._processors = []
            sampling = self.sampling
            if sampling.repetition_penalty != 1.0:
                self._processors.append(RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty)))
            if sampling.min_new_tokens > 0 and self._eos_ids:
                self._processors.append(
                    MinNewTokensLengthLogitsProcessor(
                        self._prompt_tokens, sampling.min_new_tokens, self._eos_ids, device=str(device)
                    )
                )
        return self._processors

    def warp(self, scores: Tensor) -> Tensor:
        """Scores to probabilities [R, V] float32; at temperature 0 one-hot at the argmax (first wins)."""
        if self.greedy:
            return torch.zeros_like(scores).scatter_(1, scores.argmax(dim=-1, keepdim=True), 1.0)
        # mps has no float64, which drawing needs: there probabilities go to the CPU.
        p = warp(scores, self.sampling)
        return p.cpu() if p.device.type == "mps" else p

    def probs(self, ids: Sequence[int], logits: Tensor) -> Tensor:
        """`warp` of `scores`."""
        return self.warp(self.scores(ids, logits))

    def argmax(self, ids: Sequence[int], logits: Tensor) -> Tensor:
        """The best token of each row, [R]; the lowest id wins a tie, as in transformers."""
        if self._needs_text:
            return self.scores(ids, logits).argmax(dim=-1)
        # bfloat16 to float32 keeps order, so the argmax needs no copy of the logits.
        best, token = logits.max(dim=-1)
        if not bool(torch.isfinite(best).all()):
            self.scores(ids, logits)
        return token


def warp(scores: Tensor, sampling: Sampling) -> Tensor:
    """Temperature, top-k, top-p and min-p, then softmax: [R, V] float32 to [R, V] float32.

    The order is that of transformers' `generate`. Temperature must be above 0.
    """
    none = torch.empty((scores.shape[0], 0), dtype=torch.long, device=scores.device)
    if sampling.temperature != 1.0:
        scores = TemperatureLogitsWarper(float(sampling.temperature))(none, scores)
    if sampling.top_k > 0:
        scores = TopKLogitsWarper(min(sampling.top_k, scores.shape[-1]))(none, scores)
    if sampling.top_p < 1.0:
        scores = scores.masked_fill(~top_p_mask(scores, sampling.top_p), -torch.inf)
    if sampling.min_p > 0.0:
        scores = scores.masked_fill(~min_p_mask(scores, sampling.min_p), -torch.inf)
    return scores.softmax(dim=-1)


def top_p_mask(scores: Tensor, top_p: float, *, guess: int = NUCLEUS_GUESS) -> Tensor:
    """Which tokens nucleus sampling keeps, [R, V] bool; the twin of transformers' TopPLogitsWarper.

    A token stays while the mass of all better tokens is below top_p; the best one always stays.
    Only the `guess` best tokens are sorted; when they do not hold the nucleus of every row, the
    whole row is.
    """
    probs = scores.softmax(dim=-1)
    for size in (min(guess, scores.shape[-1]), scores.shape[-1]):
        values, index = probs.topk(size, dim=-1)
        better = values.cumsum(dim=-1) - values
        if size == scores.shape[-1] or bool((better[:, -1] >= top_p).all()):
            break
    keep = better < top_p
    keep[:, 0] = True
    return torch.zeros_like(probs, dtype=torch.bool).scatter_(1, index, keep)


def min_p_mask(scores: Tensor, min_p: float) -> Tensor:
    """Which tokens have at least min_p times the best one's probability, [R, V] bool.

    The twin of transformers' MinPLogitsWarper, which sorts only to keep the best token.
    """
    probs = scores.softmax(dim=-1)
    best = probs.amax(dim=-1, keepdim=True)
    keep = probs >= min_p * best
    return keep.scatter_(1, probs.argmax(dim=-1, keepdim=True), True)


def draw(probs: Tensor, u: Tensor) -> Tensor:
    """Inverse-CDF draw: probabilities [..., V] (need not sum to 1) and uniforms [...] in [0, 1) to tokens [...].

    A token of probability 0 is never drawn. The sum runs in float64, so that 50,000 small terms
    do not blur the edges of the cells.
    """
    cdf = probs.cumsum(dim=-1, dtype=torch.float64)
    goal = (u.to(cdf.device, torch.float64) * cdf[..., -1]).unsqueeze(-1)
    # u < 1, so the goal stays below the total, and the first sum above it belongs to a token of positive
    # probability where sums never fall, as on the CPU. A parallel scan may let one fall by an ulp.
    token = torch.searchsorted(cdf, goal, right=True).clamp_(max=probs.shape[-1] - 1)
    if probs.device.type != "cpu":
        empty = probs.gather(-1, token) <= 0
        token = torch.where(empty, probs.argmax(dim=-1, keepdim=True), token)
    return token.squeeze(-1)


class Streams:
    """Three independent seeded streams of uniforms: for drafting, for accepting and for the token that is added.

    A stream that served two of these would make the tokens depend on each other
    (vllm-project/vllm pull request 54282 moved 3 percentage points of probability that way).
    """

    def __init__(self, seed: int) -> None:
        self.draft, self.accept, self.token = (
            np.random.default_rng(seed_of(seed, name)) for name in ("draft", "accept", "token")
        )
