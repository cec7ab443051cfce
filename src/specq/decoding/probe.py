"""Can this architecture take back tokens? Decided by trying, on a shrunken random copy of its config.

transformers' own flags answer too late or wrongly: `is_croppable` is known only after a forward
pass and is true for caches that `crop` corrupts, and recurrent states stay changed without a word.
So a few small random layers of the same kinds are run through random accept and refuse lengths,
and after each rollback their logits must equal those of a fresh prefill.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from specq.core.errors import Unsupported
from specq.core.types import DraftSpec
from specq.decoding.runnable import is_recurrent, layer_kinds, load_config, model_class, named, reason
from specq.decoding.session import CACHES, Keep, Session, cache_name, shallow
from specq.decoding.shrink import FIRST_TOKEN, VOCABULARY, tiny
from specq.models import layers

TOLERANCE = 1e-3
"""Largest change of a logit that counts as equal, as a share of the largest logit, in float32."""

Use = Literal["target", "draft", "exit", "prefix"]
"""What is rolled back: blocks of a target, single tokens of a draft, a target's own first layers, or whole texts."""

_VERDICTS: dict[tuple[str, Use], str | None] = {}
"""What was found in this process, by config: several arms ask about the same model."""

# What transformers raises where a config, a cache or a list of layers is not what it expected.
_BREAKS: tuple[type[Exception], ...] = (
    RuntimeError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    ImportError,
    AssertionError,
    StrictDataclassError,
    Unsupported,
)


def check_rollback(folder: Path, use: Use) -> None:
    """Refuse a model that cannot be used so in an arm with a draft; loads no weights.

    Args:
        folder: a transformers folder; only its config is read.
        use: "target" rolls back a block after each pass, "draft" several passes of one token at once,
            "exit" those of the first layers on the whole model's cache, "prefix" an earlier text to a shared beginning.

    Raises:
        Unsupported: the architecture failed the probe, or could not be probed.
        ModelError: transformers does not accept config.json.
    """
    config = load_config(folder)
    key = (config.to_json_string(use_diff=False), use)
    if key not in _VERDICTS:
        _VERDICTS[key] = verdict(config, use)
    if (found := _VERDICTS[key]) is not None:
        raise Unsupported(found)


def takes_blocks(folder: Path) -> bool:
    """Whether a pass over several tokens on a filled cache, and its rollback, are exact for this model."""
    try:
        check_rollback(folder, "target")
    except Unsupported:
        return False
    return True


def keeps_prefixes(folder: Path) -> bool:
    """Whether a cache may be kept from prompt to prompt: taken back to anywhere in it, then read on in a block."""
    try:
        check_rollback(folder, "prefix")
    except Unsupported:
        return False
    return True


def check_drafting(spec: DraftSpec, target: Path, draft: Path | None) -> None:
    """`check_rollback` of all that a draft rolls back; a draft None is the target itself, or no model.

    Raises:
        Unsupported, ModelError: as check_rollback.
    """
    check_rollback(target, "target")
    if spec.method == "early_exit":
        check_rollback(target, "draft")
        _check_exit(target, spec.layers or 1)
        check_rollback(target, "exit")
    if spec.method == "model":
        check_rollback(target if draft is None else draft, "draft")


def _check_exit(folder: Path, count: int) -> None:
    """Refuse an exit before the first layer that counts tokens: positions come from its keys."""
    kinds = layers.kinds(load_config(folder).get_text_config(decoder=True).to_dict())
    first = next((i for i, kind in enumerate(kinds) if kind in ("attention", "sliding")), 0)
    if 1 <= count <= first:
        raise Unsupported(
            f"layers = {count}: none of them keeps keys and values, as a draft must: allowed is {first + 1} or more"
        )


def verdict(config: PreTrainedConfig, use: Use) -> str | None:
    """None when the rollback is exact, else one line that says what is wrong and what to do."""
    name, kind = named(config), model_class(config)
    if kind is None or cache_name(kind) != CACHES[0] or not kind._supports_default_dynamic_cache():
        return _recurrent(config, name)
    try:
        model = tiny(config)
        model(input_ids=torch.tensor([_text(random.Random(0), 11)]))
    except _BREAKS as error:
        if is_recurrent(config):
            return _recurrent(config, name)
        return (
            f"{name}: specq could not build a small copy of this architecture to test cache rollback "
            f"({reason(error)}): run it without a draft"
        )
    try:
        if use in ("exit", "prefix"):
            worst = exit_error(model) if use == "exit" else prefix_error(model)
        else:
            worst = rollback_error(model, "window" if use == "target" else "everything")
    except _BREAKS:
        worst = float("inf")
    if worst <= TOLERANCE:
        return None
    if is_recurrent(config):
        return _recurrent(config, name)
    if use == "exit":
        return (
            f"{name}: its first layers do not run alone (embeddings or keys that belong to all layers): "
            'use method = "lookup" or "model" in place of "early_exit"'
        )
    kinds = layer_kinds(config)
    return (
        f"{name}{f' ({kinds})' if kinds else ''}: with its cache, passes over several tokens or taking tokens back are "
        "not exact, and a draft needs both: run it without a draft"
    )


def _recurrent(config: PreTrainedConfig, name: str) -> str:
    kinds = layer_kinds(config)
    return (
        f"{name} keeps a recurrent state{f' ({kinds})' if kinds else ''}, which cannot take tokens back: "
        "run it without a draft, or take a model whose layers are all attention"
    )


def _text(chance: random.Random, length: int) -> list[int]:
    return [chance.randrange(FIRST_TOKEN, VOCABULARY) for _ in range(length)]


class _Worst:
    """The largest difference of a logit from a fresh prefill, as a share of the largest logit."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._difference = self._largest = 0.0

    def see(self, text: Sequence[int], got: Tensor) -> None:
        fresh: Any = self._model(input_ids=torch.tensor([list(text)])).logits[0, -1]
        self._difference = max(self._difference, float((got - fresh).abs().nan_to_num(torch.inf).max()))
        self._largest = max(self._largest, float(fresh.abs().max()))

    def share(self) -> float:
        return self._difference / self._largest if self._largest > 0 else float("inf")


@torch.inference_mode()
def rollback_error(model: PreTrainedModel, keep: Keep, *, rounds: int = 12, seed: int = 0) -> float:
    """Largest difference of a logit after rollbacks against fresh prefills, over the largest logit.

    keep "window" feeds blocks and rolls each back, as a target does; "everything" feeds tokens one
    by one and rolls several back at once, as a draft does.
    """
    chance, worst = random.Random(seed), _Worst(model)
    text = _text(chance, 11)
    session = Session(model, keep=keep)
    session.forward(text, last_only=True)
    session.rollback(0)
    for _ in range(rounds):
        block = _text(chance, chance.randint(1, 5))
        if keep == "window":
            session.forward(block)
        else:
            for token in block:
                session.forward([token])
        kept = chance.randint(0, len(block))
        session.rollback(len(block) - kept)
        text += block[:kept]
        probe = _text(chance, 1)
        got = session.forward(probe)[-1]
        session.rollback(1)
        worst.see([*text, *probe], got)
    return worst.share()


@torch.inference_mode()
def prefix_error(model: PreTrainedModel, *, rounds: int = 6, seed: int = 0) -> float:
    """The same for a cache of everything that goes back to anywhere in its text, the first pass too, and reads on."""
    chance, worst = random.Random(seed), _Worst(model)
    text = _text(chance, 11)
    session = Session(model, keep="everything")
    session.forward(text, last_only=True)
    for _ in range(rounds):
        for token in _text(chance, 3):
            session.forward([token])
            text.append(token)
        kept, more = chance.randint(1, len(text) - 1), _text(chance, chance.randint(1, 6))
        session.rollback(len(text) - kept)
        text = [*text[:kept], *more]
        worst.see(text, session.forward(more, last_only=True)[-1])
    return worst.share()


@torch.inference_mode()
def exit_error(model: PreTrainedModel, *, rounds: int = 3, seed: int = 0) -> float:
    """The same for the model's first layers on the whole model's cache, against a fresh prefill of these layers."""
    chance = random.Random(seed)
    count = model.config.get_text_config(decoder=True).num_hidden_layers - 1
    view = shallow(model, count)
    worst, whole, first = _Worst(view), Session(model, keep="everything"), Session(view, keep="everything")
    text = _text(chance, 11)
    whole.forward(text, last_only=True)
    for _ in range(rounds):
        first.cache.layers = whole.cache.layers[:count]
        block = _text(chance, 3)
        for i, token in enumerate(block):
            worst.see([*text, *block[: i + 1]], first.forward([token])[-1])
        first.rollback(len(block))
        whole.forward(block)
        text += block
    return worst.share()
