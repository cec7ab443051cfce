"""Training the kept layers on the target's states: batches, schedule, and checkpoints that a kill leaves whole."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from specq.core.clock import now
from specq.core.errors import RunFailed
from specq.distill import loss as losses
from specq.distill.loss import Head
from specq.distill.recipe import Recipe
from specq.distill.shards import Entry, Files, batches, padded
from specq.distill.shorten import last_hidden

STATE = "training.safetensors"
STEP_TOKENS = 1024
"""Learned tokens of a step, at least."""
LEARNING_RATE = 1.5e-3
LAST_RATE = 0.02
"""The share of the rate that is left at the end of the cosine."""
WARM_UP = 0.03
CLIP = 1.0
VALUE_EVERY = 8
"""The loss itself is computed at one step in so many: its gradient does not need it."""
CHECKPOINT_S = 60.0
TELL_S = 20.0
_BETAS = (0.9, 0.95)
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(slots=True)
class Done:
    """What training has done so far; `curve` holds (step, learned tokens, loss)."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    curve: list[tuple[int, int, float]] = field(default_factory=list)


def trained(model: PreTrainedModel) -> dict[str, nn.Parameter]:
    """The parameters that learn, by name: the layers and the final norm; embeddings and head stay the target's."""
    held = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    held |= {id(p) for p in model.get_output_embeddings().parameters()}
    return {name: p for name, p in model.named_parameters() if id(p) not in held}


def train(
    model: PreTrainedModel,
    head: Head,
    files: Files,
    recipe: Recipe,
    folder: Path,
    say: Callable[[str], None],
    *,
    limit_s: float,
    checkpoint_s: float = CHECKPOINT_S,
) -> Done:
    """Train the layers of a float32 model in place until the recipe's steps, or `limit_s` seconds, are over.

    Goes on from the checkpoint in `folder` where there is one. With `steps` the outcome depends on the texts and the
    seed alone, whether or not it was interrupted; by the clock the schedule follows the time.

    Raises:
        RunFailed: loss or gradient are not finite.
    """
    learning = trained(model)
    for p in learning.values():
        p.requires_grad_(True)
    # A rate that differs from step to step is set before each; the update itself is fused.
    optimizer = torch.optim.AdamW(learning.values(), lr=LEARNING_RATE, betas=_BETAS, weight_decay=0.0)
    done = _restore(folder / STATE, learning, optimizer)
    started, before = now(), done.seconds
    saved = told = started
    order = islice(batches(files.entries, STEP_TOKENS, recipe.seed), done.steps, None)
    for batch in order:
        done.seconds = before + now() - started
        share = done.steps / recipe.steps if recipe.steps else done.seconds / limit_s
        if share >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate(share)
        texts = [files.entries[i] for i in batch]
        value = _step(model, head, files, texts, recipe, done.steps % VALUE_EVERY == 0)
        norm = float(nn.utils.clip_grad_norm_(learning.values(), CLIP))
        if not math.isfinite(norm) or (value is not None and not math.isfinite(value)):
            raise RunFailed(
                f"training broke at step {done.steps + 1}: loss {value}, gradient {norm}; nothing was made. Try "
                "--temperature 1, another --loss or other texts"
            )
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        done.steps += 1
        done.tokens += sum(text.learned for text in texts)
        if value is not None:
            done.curve.append((done.steps, done.tokens, round(value, 6)))
        if now() - told >= TELL_S:
            told = now()
            say(_told(done, recipe, before + told - started, limit_s))
        if now() - saved >= checkpoint_s:
            done.seconds = before + now() - started
            _save(folder / STATE, learning, optimizer, done)
            saved = now()
    _save(folder / STATE, learning, optimizer, done)
    for p in learning.values():
        p.requires_grad_(False)
    return done


def rate(share: float) -> float:
    """The learning rate after a share of the training: a rising line, then a cosine."""
    if share < WARM_UP:
        return LEARNING_RATE * max(share, 0.1 * WARM_UP) / WARM_UP
    fall = 0.5 * (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP)))
    return LEARNING_RATE * (LAST_RATE + (1 - LAST_RATE) * fall)


def _step(
    model: PreTrainedModel, head: Head, files: Files, texts: Sequence[Entry], recipe: Recipe, value: bool
) -> float | None:
    """One pass over a batch and its gradient; the loss where it was asked for."""
    device = model.device
    ids, learned = (tensor.to(device) for tensor in padded(texts))
    half = head.weight.dtype in (torch.bfloat16, torch.float16)
    with torch.autocast(device.type, dtype=torch.bfloat16) if half else nullcontext():
        hidden = last_hidden(model, ids)[learned]
    target = torch.cat([files.hidden(text) for text in texts]).to(device)
    found, slope = losses.gradient(
        hidden.detach(), target, head, loss=recipe.loss, temperature=recipe.loss_temperature, value=value
    )
    hidden.backward(slope.to(hidden.dtype))
    return found


def _told(done: Done, recipe: Recipe, seconds: float, limit_s: float) -> str:
    last = [loss for *_, loss in done.curve[-4:]]
    mean = f"{sum(last) / len(last):.3f}" if last else "not known yet"
    left = limit_s - seconds
    end = f"of {recipe.steps}" if recipe.steps else f"about {max(0.0, left):.0f} s left"
    return f"training: step {done.steps}, {end}, {recipe.loss} {mean}, {done.tokens / seconds:.0f} tokens/s"


def _save(path: Path, learning: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer, done: Done) -> None:
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    for name, p in learning.items():
        state: dict[str, Any] = optimizer.state.get(p, {})
        tensors[f"weight {name}"] = p.detach()
        tensors |= {f"{key} {name}": value for key, value in state.items()}
    part = path.with_name(path.name + ".part")
    save_file(
        {name: t.contiguous().cpu() for name, t in tensors.items()}, part, metadata={"done": json.dumps(asdict(done))}
    )
    part.replace(path)


def _restore(path: Path, learning: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> Done:
    """Weights and moments of a checkpoint, and what was done by then; nothing where there is none."""
    from safetensors import safe_open

    if not path.is_file():
        return Done()
    with safe_open(path, framework="pt") as file:
        values = json.loads(file.metadata()["done"])
        done = Done(**{**values, "curve": [(s, t, v) for s, t, v in values["curve"]]})
        there = set(file.keys())
        for name, p in learning.items():
            p.data.copy_(file.get_tensor(f"weight {name}"))
            # An expert that no token has reached yet has no moments.
            if f"step {name}" in there:
                kept = {key: file.get_tensor(f"{key} {name}") for key in _MOMENTS}
                optimizer.state[p] = {key: t if key == "step" else t.to(p.device) for key, t in kept.items()}
    return done


@torch.no_grad()
def floor(model: PreTrainedModel, head: Head) -> float:
    """Seconds of the products that a learned token needs, as measured here: what no fusing can go below.

    Three products with the head (both laws, and the gradient), three with each layer.
    """
    rows = losses.CHUNK
    hidden = torch.randn(2 * rows, head.weight.shape[1], device=model.device).to(head.weight.dtype)
    slope = torch.randn(rows, head.weight.shape[0], device=model.device).to(head.weight.dtype)
    best = math.inf
    for _ in range(3):
        begin = now()
        head.logits(hidden)
        out = slope @ head.weight
        float(out[0, 0])
        best = min(best, now() - begin)
    layers = sum(p.numel() for p in trained(model).values() if p.dim() >= 2)
    return best / rows * (1 + layers / head.weight.numel())
