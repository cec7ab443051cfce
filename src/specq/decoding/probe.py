"""Can this architecture take back tokens? Decided by trying, on a shrunken random copy of its config.

transformers' own flags answer too late or wrongly: `is_croppable` is known only after a forward
pass and is true for caches that `crop` corrupts, and recurrent states stay changed without a word.
So a few small random layers of the same kinds are run through random accept and refuse lengths,
and after each rollback their logits must equal those of a fresh prefill.
"""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)

from specq.core.errors import SpecqError, Unsupported
from specq.core.types import DraftSpec
from specq.decoding.session import Keep, Session, no_cache, takes

TOLERANCE = 1e-3
"""Largest change of a logit that counts as equal, as a share of the largest logit, in float32."""

SMALL: dict[str, int] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "n_embd": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "n_head": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "rotary_dim": 4,
    "sliding_window": 6,
    "attention_chunk_size": 6,
}

_VERDICTS: dict[tuple[str, Keep], str | None] = {}
"""What was found in this process, by config: several arms ask about the same model."""


def check_cache(folder: Path) -> None:
    """Refuse a model that keeps its state elsewhere than in a key-value cache; loads no weights.

    Raises:
        Unsupported: names the model's class.
    """
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if kind is not None and not takes(kind, "past_key_values"):
        raise Unsupported(no_cache(kind.__name__))


def check_rollback(folder: Path, *, drafting: bool) -> None:
    """Refuse a model whose cache cannot be rolled back; loads no weights.

    Args:
        folder: a transformers folder; only its config is read.
        drafting: the model will be run token by token and rolled back over several tokens at once
            (a draft model, or a target that shares its cache with an early exit).

    Raises:
        Unsupported: the architecture failed the probe, or could not be probed.
    """
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    keep: Keep = "everything" if drafting else "window"
    key = (config.to_json_string(use_diff=False), keep)
    if key not in _VERDICTS:
        _VERDICTS[key] = _verdict(config, keep)
    if (verdict := _VERDICTS[key]) is not None:
        raise Unsupported(verdict)


def check_drafting(spec: DraftSpec, target: Path, draft: Path | None) -> None:
    """`check_rollback` of all that a draft rolls back; a draft None is the target itself, or no model.

    Raises:
        Unsupported: as check_rollback.
    """
    check_rollback(target, drafting=spec.method == "early_exit")
    if spec.method == "model":
        check_rollback(target if draft is None else draft, drafting=True)


def _verdict(config: PreTrainedConfig, keep: Keep) -> str | None:
    """None when the rollback is exact, else one line that says what is wrong and what to do."""
    name = (config.architectures or [type(config).__name__])[0]
    advice = "run it without a draft, or in a server that keeps snapshots of such states"
    try:
        model = tiny(config)
        worst = rollback_error(model, keep)
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError, SpecqError) as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        return f"{name}: a small random copy of it could not be rolled back ({line}): {advice}"
    if worst > TOLERANCE:
        return (
            f"{name}: rolling its cache back is not exact (logits {worst:.1%} off a fresh prefill; "
            f"layers: {', '.join(_kinds(config))}): {advice}"
        )
    return None


def _kinds(config: PreTrainedConfig) -> list[str]:
    text = config.get_text_config(decoder=True)
    return sorted(set(getattr(text, "layer_types", None) or ["unnamed"]))


def tiny(config: PreTrainedConfig, *, seed: int = 0) -> PreTrainedModel:
    """A small random model with the same kinds of layers, float32, eager enough for any CPU."""
    small = shrink(config)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(small, dtype=torch.float32, trust_remote_code=False)
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            # The usual initial weights are so small that a wrong cache would hardly show.
            if parameter.dim() >= 2:
                parameter.data.normal_(0.0, parameter.shape[-1] ** -0.5, generator=generator)
    return model.eval().requires_grad_(False)


def shrink(config: PreTrainedConfig) -> PreTrainedConfig:
    """A copy of a config with small widths and few layers, one at least of each kind of layer."""
    small = copy.deepcopy(config)
    text = small.get_text_config(decoder=True)
    kv_heads = getattr(text, "num_key_value_heads", None)
    grouped = kv_heads is not None and kv_heads != getattr(text, "num_attention_heads", None)
    for key, value in SMALL.items():
        present = getattr(text, key, None)
        # Some configs derive head_dim; latent attention takes it for the rotary part, whose size it fixes elsewhere.
        derived = isinstance(getattr(type(text), key, None), property)
        latent = key == "head_dim" and hasattr(text, "qk_rope_head_dim")
        if isinstance(present, int) and not isinstance(present, bool) and not derived and not latent:
            setattr(text, key, min(present, value))
    if kv_heads is not None and not grouped:
        text.num_key_value_heads = text.num_attention_heads
    kinds = getattr(text, "layer_types", None)
    keep = _one_of_each(kinds) if kinds else list(range(min(2, text.num_hidden_layers)))
    text.num_hidden_layers = len(keep)
    if kinds:
        text.layer_types = [kinds[i] for i in keep]
    for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
        setattr(text, key, None)
    for key in ("quantization_config", "auto_map"):
        if hasattr(small, key):
            delattr(small, key)
    return small


def _one_of_each(kinds: list[str]) -> list[int]:
    """Indexes of the first two layers of each kind, in order."""
    seen: dict[str, int] = {}
    keep = []
    for i, kind in enumerate(kinds):
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= 2:
            keep.append(i)
    return keep


@torch.inference_mode()
def rollback_error(model: PreTrainedModel, keep: Keep, *, rounds: int = 12, seed: int = 0) -> float:
    """Largest difference of a logit after rollbacks against fresh prefills, over the largest logit.

    keep "window" feeds blocks and rolls each back, as a target does; "everything" feeds tokens one
    by one and rolls several back at once, as a draft does.
    """
    chance = random.Random(seed)
    vocabulary = model.config.get_text_config(decoder=True).vocab_size
    text = [chance.randrange(vocabulary) for _ in range(11)]
    session = Session(model, keep=keep)
    session.forward(text, last_only=True)
    session.rollback(0)
    worst = largest = 0.0
    for _ in range(rounds):
        block = [chance.randrange(vocabulary) for _ in range(chance.randint(1, 5))]
        if keep == "window":
            session.forward(block)
        else:
            for token in block:
                session.forward([token])
        kept = chance.randint(0, len(block))
        session.rollback(len(block) - kept)
        text += block[:kept]
        probe = chance.randrange(vocabulary)
        got = session.forward([probe])[-1]
        session.rollback(1)
        fresh: Any = model(input_ids=torch.tensor([[*text, probe]])).logits[0, -1]
        worst = max(worst, float((got - fresh).abs().max()))
        largest = max(largest, float(fresh.abs().max()))
    return worst / largest if largest > 0 else float("inf")
