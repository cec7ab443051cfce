"""The linear layers of a model folder, from its class and its config; no weights are loaded."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from specq.core.errors import ConfigError, ModelError, Unsupported
from specq.models.configs import reason
from specq.quantize.recipes import ROW, Recipe

Role = Literal["linear", "head", "gate"]
KERNEL_GROUPS = (32, 64, 128, 256)
"""Groups that packed 4-bit kernels take, in the order in which they are proposed."""
_NAMED = 3
# A router is small and decides which expert runs: rounding it costs much and saves nothing.
_GATE = re.compile(r"(^|\.)(gate|\w*router|router_gate|shared_expert_gate)(\.|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One linear layer [rows, columns]: rows are outputs, columns inputs.

    `name` is that of the module once experts that share one tensor stand apart:
    model.layers.0.mlp.experts.3.up_proj. A gate chooses among experts. `merged`: the model's class keeps it in one
    tensor with others.
    """

    name: str
    rows: int
    columns: int
    role: Role
    merged: bool = False

    @property
    def elements(self) -> int:
        """The number of weights."""
        return self.rows * self.columns


def skeleton(folder: Path) -> Any:
    """The model of a folder as its class builds it from config.json, in floats, without memory for its weights.

    Raises:
        Unsupported: transformers has no causal language model for such a config, or lacks a package to build it.
        ModelError: transformers cannot build the model from its config.
    """
    import torch
    from transformers import AutoModelForCausalLM

    from specq.decoding.runnable import load_config, model_class
    from specq.models.quiet import quiet

    config = load_config(folder)
    if model_class(config) is None:
        raise Unsupported(f"transformers has no causal language model of the model_type {config.model_type!r}")
    try:
        with quiet(), torch.device("meta"):
            if hasattr(config, "quantization_config"):
                del config.quantization_config
            return AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except ImportError as error:
        raise Unsupported(f"transformers lacks a package to build a {config.model_type} ({reason(error)})") from error
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, OSError) as error:
        raise ModelError(
            f"transformers cannot build the model of {folder} from its config.json ({reason(error)})"
        ) from error


def linear_layers(folder: Path) -> tuple[Layer, ...]:
    """All linear layers of a model folder, in the model's order.

    Raises:
        Unsupported: the model keeps its weights in Conv1D layers, as GPT-2 does, or transformers has no such model.
        ModelError: transformers cannot build the model from its config.
    """
    return of_model(skeleton(folder))


def of_model(model: Any) -> tuple[Layer, ...]:
    """All linear layers of a model, in its order.

    Raises:
        Unsupported: it keeps its weights in Conv1D layers.
    """
    import torch
    from transformers import Conv1D

    found: list[Layer] = []
    head = model.get_output_embeddings()
    for name, module in model.named_modules():
        if isinstance(module, Conv1D):
            raise Unsupported(
                f"{type(model).__name__} keeps its weights in Conv1D layers (first: {name}), which are no linear "
                "layers: allowed is a model of torch.nn.Linear layers, such as Llama, Qwen or Mistral"
            )
        if isinstance(module, torch.nn.Linear):
            role: Role = "head" if module is head else "gate" if is_gate(name) else "linear"
            found.append(Layer(name=name, rows=module.out_features, columns=module.in_features, role=role))
        found += _experts(name, module)
    return tuple(found)


def is_gate(name: str) -> bool:
    """Whether a module of that name chooses among experts."""
    return _GATE.search(name) is not None


def _experts(name: str, module: Any) -> list[Layer]:
    """The experts of a module that keeps them all in one tensor, each as layers of its own."""
    both, down = getattr(module, "gate_up_proj", None), getattr(module, "down_proj", None)
    if getattr(both, "ndim", 0) != 3 or getattr(down, "ndim", 0) != 3:
        return []
    assert both is not None
    experts, out, columns = both.shape
    if getattr(module, "is_transposed", False):
        out, columns = columns, out
    sizes = {"gate_proj": (out // 2, columns), "up_proj": (out // 2, columns), "down_proj": (columns, out // 2)}
    return [
        Layer(name=f"{name}.{i}.{part}", rows=rows, columns=width, role="linear", merged=True)
        for i in range(experts)
        for part, (rows, width) in sizes.items()
    ]


def asked(recipe: Recipe, layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers that a recipe asks to quantize: all linears, the head only when it says so, never a gate."""
    roles = ("linear", "head") if recipe.head == "quantize" else ("linear",)
    return tuple(layer for layer in layers if layer.role in roles)


def check_shapes(recipe: Recipe, layers: Sequence[Layer]) -> None:
    """Refuse a group that does not divide the columns of a layer, or is larger than they are.

    Raises:
        ConfigError: names the layers and the groups that would do.
    """
    group = recipe.group_size
    if group == ROW:
        return
    wanted = asked(recipe, layers)
    if not (wrong := [layer for layer in wanted if layer.columns % group]):
        return
    named = ", ".join(f"{layer.name} ({layer.columns} columns)" for layer in wrong[:_NAMED])
    more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    small = sum(layer.columns < group for layer in wrong)
    how = "is more columns than they have" if small == len(wrong) else "does not divide their columns"
    raise ConfigError(
        f"group_size = {group} {how}, in {len(wrong)} of {len(wanted)} layers: {named}{more}; "
        f"{_proposal(recipe, wanted)}"
    )


def _proposal(recipe: Recipe, layers: Sequence[Layer]) -> str:
    common = math.gcd(*(layer.columns for layer in layers))
    if (allowed := recipe.facts.groups) is not None:
        fits = [group for group in sorted(allowed) if group != ROW and common % group == 0]
        if not fits:
            return f'no group of method = "{recipe.method}" divides all layers'
        return f"allowed is {_list(fits)}: type --group-size {_nearest(fits, recipe.group_size)}"
    fits = [group for group in KERNEL_GROUPS if common % group == 0]
    if fits:
        return (
            f"allowed is {_list(fits)} (these divide all layers and have a packed kernel): "
            f"type --group-size {_nearest(fits, recipe.group_size)}"
        )
    others = [group for group in range(2, common + 1) if common % group == 0]
    row = "0 for one scale a row"
    return (
        f"allowed is {_list([*others[-4:], row])} (no group that divides all layers has a packed kernel): "
        f"type --group-size {_nearest(others, recipe.group_size) if others else ROW}"
    )


def _nearest(groups: Sequence[int], given: int) -> int:
    """The largest group that is not above the given one, else the smallest."""
    return max((group for group in groups if group <= given), default=groups[0])


def _list(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))
