"""A draft's output head that has the rows of some ids alone.

The others get -inf, so that their probability is 0 whatever the sampling: q is the whole head's law given that the
token is one that is kept, and the proposals are drawn from just that q. Verification stays exact for the target, as for
any draft: what the draft never proposes comes from the residual.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from specq.core.errors import ModelError
from specq.models.kept import FILE, Kept


class KeptHead(nn.Module):
    """The rows `ids` of a linear layer, their outputs in the places that they have in the whole, -inf elsewhere."""

    ids: Tensor

    def __init__(self, head: nn.Linear, kept: Kept) -> None:
        super().__init__()
        self.in_features, self.out_features = head.in_features, head.out_features
        self.register_buffer("ids", torch.tensor(kept.ids, device=head.weight.device), persistent=False)
        self.rows = nn.Linear(head.in_features, len(kept.ids), bias=head.bias is not None, device="meta")
        self.rows.weight = nn.Parameter(head.weight.detach()[self.ids], requires_grad=False)
        if head.bias is not None:
            self.rows.bias = nn.Parameter(head.bias.detach()[self.ids], requires_grad=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden states [..., H] to logits [..., V]."""
        logits: Tensor = self.rows(hidden)
        whole = logits.new_full((*logits.shape[:-1], self.out_features), -torch.inf)
        return whole.index_copy_(-1, self.ids, logits)


def trimmed(model: PreTrainedModel, kept: Kept | None) -> PreTrainedModel:
    """The model with the kept rows in the place of its head, None: as it is; in place, before its layers are packed.

    A head that is no plain linear layer stays whole: see `told`.

    Raises:
        ModelError: the kept ids are of a head of another size.
    """
    head = model.get_output_embeddings()
    if kept is None or type(head) is not nn.Linear:
        return model
    if head.out_features != kept.rows:
        raise ModelError(
            f"{FILE} is of a head with {kept.rows} rows, and the model's has {head.out_features}: distill the model "
            "again, or remove the file"
        )
    name = next(name for name, module in model.named_modules() if module is head)
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, KeptHead(head, kept))
    return model


def told(model: PreTrainedModel, kept: Kept | None) -> tuple[str, ...]:
    """A line that says which ids a trimmed model proposes; none where nothing was asked."""
    if kept is None:
        return ()
    head = model.get_output_embeddings()
    if isinstance(head, KeptHead):
        return (f"head: {kept.words}",)
    return (f"head: all ids, for {type(head).__name__} is no plain linear layer",)
