"""In which dtype the products of training run: that of the target, unless this machine multiplies float32 far faster.

A processor without instructions for bfloat16 multiplies it several times more slowly than float32.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch

from specq.core import jsonl
from specq.core.clock import now
from specq.distill.loss import CHUNK, Head

FASTER = 1.5
"""How many times as fast float32 must be before it is taken: near ties would fall either way from run to run."""
_FILE = "products"
_ROUNDS = 3


@torch.no_grad()
def seconds(head: Head, dtype: torch.dtype) -> float:
    """Seconds of one product of a chunk of states with a part of the head in `dtype`; the best of three."""
    weight = head.weight[:4096].to(dtype)
    hidden = torch.randn(CHUNK, weight.shape[1], device=weight.device).to(dtype)
    best = math.inf
    for _ in range(_ROUNDS + 1):
        begin = now()
        float((hidden @ weight.T)[0, 0])
        best = min(best, now() - begin)
    return best


def chosen(head: Head, folder: Path) -> Head:
    """The head in the dtype to multiply in. What was chosen is kept in `folder`, and holds when work goes on."""
    note = folder / _FILE
    if note.is_file():
        wide = note.read_text(encoding="ascii") == "float32"
    else:
        wide = head.weight.dtype != torch.float32 and FASTER * seconds(head, torch.float32) < seconds(
            head, head.weight.dtype
        )
        jsonl.write_text_whole(note, "float32" if wide else str(head.weight.dtype).removeprefix("torch."))
    if not wide or head.weight.dtype == torch.float32:
        return head
    return Head(weight=head.weight.float(), bias=None if head.bias is None else head.bias.float())
