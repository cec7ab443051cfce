"""A model made of some of another's decoder layers: its config, its weights, and the proof that the two agree.

Config and weights are cut apart from each other: the config decides what transformers builds, the weights are copied
into that. `check` then holds the result against the target's own modules with their list of layers cut, so that
whatever a config says by a layer's place (windows, rotary settings, dense or mixed layers) is found to be the layer's
own, or refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from specq.core.errors import Unsupported
from specq.decoding.session import embedding
from specq.models import layers
from specq.models.configs import reason

_LAYER_INDEXES = re.compile(r".*(layer|attn).*_(ids|idxs|indices)")
# Counts of leading layers of another kind.
_LEADING = ("first_k_dense_replace", "num_dense_layers", "max_window_layers")
PROBE_TOKENS = 12


def depth(config: PreTrainedConfig) -> int:
    """How many decoder layers a config has."""
    return int(config.get_text_config(decoder=True).num_hidden_layers)


def shortened(config: PreTrainedConfig, keep: Sequence[int]) -> PreTrainedConfig:
    """The config of the layers `keep`: their number, and what it says of single layers.

    Raises:
        Unsupported: transformers does not accept the result.
    """
    text = config.get_text_config(decoder=True)
    values = config.to_dict()
    part = values["text_config"] if config is not text and "text_config" in values else values
    total = depth(config)
    for key, value in list(part.items()):
        part[key] = _of_layers(key, value, list(keep), total)
    for key in _LEADING:
        if isinstance(value := part.get(key), int) and not isinstance(value, bool):
            part[key] = sum(i < value for i in keep)
    part[type(text).attribute_map.get("num_hidden_layers", "num_hidden_layers")] = len(keep)
    try:
        found = type(config).from_dict(values)
    except Exception as error:  # a config class is a stranger's code and may raise anything
        raise Unsupported(_cannot(type(config).__name__, reason(error))) from error
    before, after = (layers.kinds(one.get_text_config(decoder=True).to_dict()) for one in (config, found))
    # A short probe would not show a window that it does not reach.
    if after != tuple(before[i] for i in keep):
        raise Unsupported(_cannot(type(config).__name__, "its config does not carry over what single layers are"))
    return found


def _of_layers(key: str, value: Any, keep: list[int], total: int) -> Any:
    """A value that speaks of single layers, made to speak of those that are kept."""
    if not isinstance(value, list | tuple) or "token" in key:
        return value
    if _LAYER_INDEXES.fullmatch(key):
        return [keep.index(i) for i in value if i in keep]
    return [value[i] for i in keep] if len(value) == total else value


def layer_list(model: PreTrainedModel) -> str:
    """The dotted name of the model's one list of decoder layers.

    Raises:
        Unsupported: there is none, or more than one of that length.
    """
    total = depth(model.config)
    found = [name for name, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m) == total]
    if len(found) != 1:
        raise Unsupported(_cannot(type(model).__name__, f"it has {len(found)} lists of {total} layers, expected one"))
    return found[0]


def build(target: PreTrainedModel, keep: Sequence[int]) -> PreTrainedModel:
    """The shortened model in the target's dtype, on its device, with weights of its own, in eval mode.

    Raises:
        Unsupported: transformers cannot build it, or its weights have other names or shapes.
    """
    name, config = layer_list(target), shortened(target.config, keep)
    state = dict(_renamed(target, name, keep))
    attention = getattr(target.config, "_attn_implementation", None)
    try:
        model = AutoModelForCausalLM.from_config(
            config, dtype=target.dtype, **({"attn_implementation": attention} if attention else {})
        )
        model.load_state_dict(state, strict=True)
    except Exception as error:  # the model's class is a stranger's code and may raise anything
        raise Unsupported(_cannot(type(target).__name__, reason(error))) from error
    return model.to(target.device).eval().requires_grad_(False)


def _renamed(target: PreTrainedModel, listed: str, keep: Sequence[int]) -> Iterator[tuple[str, Tensor]]:
    head = f"{listed}."
    place = {str(old): str(new) for new, old in enumerate(keep)}
    for name, tensor in target.state_dict().items():
        if not name.startswith(head):
            yield name, tensor
            continue
        number, _, rest = name.removeprefix(head).partition(".")
        if number in place:
            yield f"{head}{place[number]}.{rest}", tensor


@torch.inference_mode()
def check(target: PreTrainedModel, model: PreTrainedModel, keep: Sequence[int]) -> None:
    """Hold the shortened model against the target's own layers, and its logits against its head.

    Raises:
        Unsupported: they differ, are not finite, or the forward does not run.
    """
    rows = embedding(target).shape[0]
    ids = (torch.arange(1, PROBE_TOKENS + 1, device=target.device) * 7919 % rows)[None]
    try:
        logits = model(input_ids=ids, use_cache=False).logits
        hidden = last_hidden(model, ids)
        headed = model.get_output_embeddings()(hidden)
        with _cut(target, keep, model.config):
            expected = target(input_ids=ids, use_cache=False).logits
    except Unsupported:
        raise
    except Exception as error:
        raise Unsupported(_cannot(type(target).__name__, reason(error))) from error
    if not bool(torch.isfinite(logits).all()):
        raise Unsupported(
            f"the logits of layers {', '.join(map(str, keep))} alone are not finite in "
            f"{str(logits.dtype).removeprefix('torch.')}, though the weights are: name other --layers"
        )
    if not _close(logits, expected):
        raise Unsupported(
            _cannot(type(target).__name__, "its config does not carry over what single layers are, logits differ")
        )
    if not _close(logits, headed):
        raise Unsupported(
            _cannot(type(target).__name__, "its logits are not its head's of the last hidden state (a cap or a scale)")
        )


def last_hidden(model: PreTrainedModel, ids: Tensor, **more: Any) -> Tensor:
    """What the head reads: hidden states [B, T, H] after the final norm, without a cache.

    Raises:
        Unsupported: the model has no body apart from its head.
    """
    body = model.base_model
    if body is model:
        raise Unsupported(_cannot(type(model).__name__, "its body cannot be run without its head"))
    states = body(input_ids=ids, use_cache=False, **more).last_hidden_state
    assert isinstance(states, Tensor)
    return states


@contextmanager
def _cut(target: PreTrainedModel, keep: Sequence[int], config: PreTrainedConfig) -> Iterator[None]:
    """The target with its list of layers cut; put back at the end."""
    parent_name, _, name = layer_list(target).rpartition(".")
    parent = target.get_submodule(parent_name)
    whole = parent.get_submodule(name)
    assert isinstance(whole, nn.ModuleList)
    own, text = target.config, target.config.get_text_config(decoder=True)
    inside = {id(module) for layer in whole for module in layer.modules()}
    # Layers keep the config that they were made from; what runs them must know how many there are.
    held_by = ((m, m.__dict__.get("config")) for m in target.modules() if id(m) not in inside)
    holders = [module for module, held in held_by if held is own or held is text]
    before = [module.__dict__["config"] for module in holders]
    parent._modules[name] = nn.ModuleList([whole[i] for i in keep])
    for module, held in zip(holders, before, strict=True):
        module.__dict__["config"] = config if held is own else config.get_text_config(decoder=True)
    try:
        yield
    finally:
        parent._modules[name] = whole
        for module, held in zip(holders, before, strict=True):
            module.__dict__["config"] = held


def _close(a: Tensor, b: Tensor) -> bool:
    # The same weights through the same kernels: rounding moves far less than this, a layer that is another one more.
    loose = 1e-3 if a.dtype == torch.float32 else 0.02
    return float((a - b).abs().max()) <= loose * max(1.0, float(b.abs().max()))


def _cannot(name: str, why: str) -> str:
    return f"{name} cannot be shortened here: {why}; give a target of another architecture, such as Llama or Qwen"
