"""The loss between two laws over the whole vocabulary, and its gradient, in chunks of rows.

Both laws come from hidden states through one head, so no row of logits outlives its chunk. The laws of the gradient
are in the head's dtype where t is 1, for the product that follows would round them anyway; those of the value are in
float32. With z the draft's logits, t the temperature, q = softmax(z / t) and p the target's law:

    kl       sum_v p log(p / q)         d/dz = (q - p) / t
    overlap  1 - sum_v min(p, q)        d/dz_j = q_j (sum_v q_v [q_v < p_v] - [q_j < p_j]) / t

Shapes: N rows, H hidden size, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from specq.distill.recipe import Loss

CHUNK = 128
"""Rows whose logits are there at once: 25 MB of bfloat16 for both laws at a vocabulary of 49,152, and as much again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A frozen output head: weight [V, H] and bias [V] or None, in the dtype that the target is served in."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, model: PreTrainedModel) -> Head:
        """The head of a model whose linear layers are plain; its tensors are shared with it."""
        head = model.get_output_embeddings()
        bias = getattr(head, "bias", None)
        return cls(weight=head.weight.detach(), bias=None if bias is None else bias.detach())

    def logits(self, hidden: Tensor) -> Tensor:
        """[N, H] to [N, V], in the head's dtype."""
        return functional.linear(hidden.to(self.weight.dtype), self.weight, self.bias)

    def law(self, hidden: Tensor, temperature: float) -> Tensor:
        """[N, H] to probabilities [N, V] float32."""
        return _softmax(self.logits(hidden), temperature)


@torch.no_grad()
def gradient(
    hidden: Tensor,
    target: Tensor,
    head: Head,
    *,
    loss: Loss,
    temperature: float,
    value: bool = True,
    chunk: int = CHUNK,
) -> tuple[float | None, Tensor]:
    """The mean loss over N rows and its gradient with respect to `hidden`.

    Args:
        hidden: the draft's states after its final norm [N, H].
        target: the target's at the same positions [N, H].
        head: of both.
        loss: which of the two.
        temperature: of both laws, above 0.
        value: also compute the loss itself, which costs a few passes more; else it is None.
        chunk: rows at once.

    Returns:
        the loss or None, and the gradient [N, H] in the head's dtype.
    """
    rows, total = hidden.shape[0], 0.0
    dtype, size = head.weight.dtype, head.weight.shape[0]
    found = torch.empty_like(hidden, dtype=dtype)
    # One room for all chunks: such large tensors cost more to get than to fill.
    room = torch.empty(2 * min(chunk, rows), size, dtype=dtype, device=hidden.device)
    laws = torch.empty_like(room, dtype=dtype if temperature == 1.0 else torch.float32)
    for first in range(0, rows, chunk):
        part = slice(first, first + chunk)
        # One product for both laws: the head is the largest matrix, and is read once.
        both = torch.cat([hidden[part].to(dtype), target[part].to(dtype)])
        logits, law = room[: len(both)], laws[: len(both)]
        torch.mm(both, head.weight.t(), out=logits)
        if head.bias is not None:
            logits += head.bias
        torch.softmax(_cooled(logits, temperature), dim=-1, out=law)
        if value:
            total += _value(logits, loss, temperature)
        q, p = law.chunk(2)
        if loss == "kl":
            slope = q.sub_(p)
        else:
            below = (q < p).to(q.dtype)
            slope = q.mul_((q * below).sum(dim=-1, keepdim=True).sub(below))
        found[part] = slope.to(dtype) @ head.weight
    return (total / rows if value else None), found.div_(rows * temperature)


def _value(logits: Tensor, loss: Loss, temperature: float) -> float:
    """The loss of a chunk, summed over its rows, from the logits of draft and target, in float32."""
    lq, lp = torch.log_softmax(_cooled(logits, temperature), dim=-1, dtype=torch.float32).chunk(2)
    if loss == "kl":
        return float((lp.exp() * (lp - lq)).sum())
    return float((1 - torch.minimum(lp, lq).exp().sum(dim=-1)).sum())


def _softmax(logits: Tensor, temperature: float) -> Tensor:
    return torch.softmax(_cooled(logits, temperature), dim=-1, dtype=torch.float32)


def _cooled(logits: Tensor, temperature: float) -> Tensor:
    # Divided in float32: rounding a quotient of bfloat16 once more would blur the law.
    return logits if temperature == 1.0 else logits.float() / temperature
