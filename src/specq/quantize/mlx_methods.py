"""What mlx-lm's methods do to a model in memory, with their traps mended for the call."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest.mock import patch

import numpy as np

from specq.core.clock import now
from specq.core.errors import ConfigError
from specq.quantize import mlx_blas
from specq.quantize.layers import is_gate
from specq.quantize.made import OnProgress
from specq.quantize.recipes import Recipe

Role = Literal["linear", "head", "gate", "embedding"]
GROUPS = (64, 32, 128)
"""Columns a scale that MLX's affine kernels have."""


@dataclass(slots=True)
class Watch:
    """Stands where mlx-lm shows a progress bar: tells how far a method is, and hears what it says.

    `blocks` names the layers of each decoder block, for methods that go by blocks.
    """

    on_progress: OnProgress
    fallen_back: list[tuple[str, str]] = field(default_factory=list)
    blocks: Sequence[Sequence[str]] = ()
    started: float = field(default_factory=now)
    stdout: Any = field(default_factory=lambda: sys.stdout)
    stderr: Any = field(default_factory=lambda: sys.stderr)
    at: int = 0

    def __call__(self, steps: Iterable[Any], *, total: int | None = None, desc: str = "") -> Iterator[Any]:
        """A bar over `steps`, `total` of them where they have no length."""
        of = len(steps) if isinstance(steps, Sequence) else total or 0
        for self.at, step in enumerate(steps):
            self.tell(self.at, of)
            yield step
        self.tell(of, of)

    def tell(self, done: int, of: int) -> None:
        """Report so many layers or blocks done."""
        left = (now() - self.started) / done * (of - done) if done else None
        # Kept from before both were held back: what mlx-lm writes there is not shown, what is told here is.
        with redirect_stdout(self.stdout), redirect_stderr(self.stderr):
            self.on_progress(done, of, left)

    def write(self, line: str) -> None:
        """A line beside the bar: AWQ says there that a block got no better by its scales."""
        if "falling back" in line:
            why = "AWQ's scales did not lower the error of its block: rounded to nearest"
            self.fallen_back += [(name, why) for name in self.blocks[self.at]]


def layer_roles(model: Any, config: Mapping[str, Any]) -> dict[str, Role]:
    """What each layer that mlx-lm could quantize is, by its name, in the model's order."""
    import mlx.nn as nn

    inner = config.get("text_config")
    rows = config.get("vocab_size") or (inner.get("vocab_size") if isinstance(inner, Mapping) else None)
    found: dict[str, Role] = {}
    for name, layer in leaves(model):
        if not hasattr(layer, "to_quantized"):
            continue
        if isinstance(layer, nn.Embedding):
            found[name] = "embedding"
        elif is_gate(name):
            found[name] = "gate"
        else:
            # Decoder layers are numbered; what stands outside them and has the vocabulary's rows is the head.
            outside = not any(part.isdigit() for part in name.split("."))
            found[name] = "head" if outside and layer.weight.shape[0] == rows else "linear"
    return found


def is_asked(recipe: Recipe, role: Role) -> bool:
    """Whether the recipe asks for layers of this role: a gate never, embedding and head when it says so."""
    if role == "embedding":
        return recipe.embeddings == "quantize"
    return role == "linear" or (role == "head" and recipe.head == "quantize")


def leaves(model: Any) -> list[tuple[str, Any]]:
    """All layers without layers in them, by name, in the model's order."""
    import mlx.nn as nn

    return _flat(model.leaf_modules(), is_leaf=nn.Module.is_module)


def parameters(model: Any) -> list[tuple[str, Any]]:
    """All arrays by name, in the model's order."""
    return _flat(model.parameters())


def is_float(value: Any) -> bool:
    """Whether an mlx array holds floats."""
    import mlx.core as mx

    return bool(mx.issubdtype(value.dtype, mx.floating))


def _flat(tree: Any, **how: Any) -> list[tuple[str, Any]]:
    from mlx.utils import tree_flatten

    found: Any = tree_flatten(tree, **how)
    return list(found)


def round_to_nearest(model: Any, recipe: Recipe, roles: Mapping[str, Role]) -> None:
    """Round the layers that the recipe asks for to nearest, in the model itself; nothing is computed yet."""
    from mlx_lm.convert import mixed_quant_predicate_builder
    from mlx_lm.utils import quantize_model

    # The group is always given: left to its default, mlx-lm writes null for it into config.json.
    mixed: Any = mixed_quant_predicate_builder(recipe.mix, model, recipe.group_size) if recipe.mix else None

    def predicate(name: str, layer: Any) -> Any:
        if name not in roles or not is_asked(recipe, roles[name]):
            return False
        return True if mixed is None else mixed(name, layer)

    quantize_model(model, {}, recipe.group_size, recipe.bits, mode="affine", quant_predicate=predicate)


def gptq(model: Any, recipe: Recipe, texts: Sequence[Sequence[int]], wanted: Sequence[str], watch: Watch) -> None:
    """Quantize the wanted layers by GPTQ (arXiv 2210.17323), in the model itself, each text fed whole by itself."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx_lm.models.switch_layers import SwitchLinear
    from mlx_lm.quant import gptq as library

    group, layers = recipe.group_size, dict(leaves(model))
    fits = [name for name in wanted if layers[name].weight.shape[-1] % group == 0]
    watch.fallen_back += [
        (name, "GPTQ takes linear layers only: rounded to nearest")
        for name in fits
        if type(layers[name]) not in (nn.Linear, SwitchLinear)
    ]

    def bar(steps: Iterable[Any], *, total: int, desc: str) -> Iterable[Any]:
        # The first bar is over the texts, the second over the layers.
        return watch(_guarded(steps, watch), total=total) if desc == "Quantizing" else steps

    # In bfloat16 the sums of products round so coarsely that they are no Hessians any more.
    catcher = patch.object(library, "Catcher", mlx_blas.catcher(library.Catcher))
    with (
        _in_float32(model),
        _hidden(model, fits),
        mlx_blas.linear_layers(),
        catcher,
        patch.object(library, "tqdm", bar),
    ):
        library.gptq_quantize(model, _Rows(texts), recipe.bits, group, recipe.bits, group, batch_size=1)
        mx.eval(model.parameters())


def _guarded(steps: Iterable[Any], watch: Watch) -> Iterator[Any]:
    """GPTQ's layers, with the identity in place of a Hessian that has no Cholesky factor.

    mlx does not say when a factorisation fails, and GPTQ would go on with what was left. With the identity
    no error moves from one column to the next, which is rounding to nearest.
    """
    import mlx.core as mx

    for place, (name, caught) in steps:
        if not _is_positive(np.array(caught.H)):
            caught.H = mx.eye(caught.module.weight.shape[-1])
            watch.fallen_back.append((name, "its Hessian is not positive definite: rounded to nearest"))
        yield place, (name, caught)


def _is_positive(hessian: np.ndarray) -> bool:
    """Whether it can be factorised in float32 with GPTQ's damping of 1 % of its mean diagonal."""
    if hessian.ndim != 2:
        # No text reached the layer.
        return False
    damped = hessian + 0.01 * np.diag(hessian).mean() * np.eye(len(hessian), dtype=np.float32)
    try:
        return bool(np.isfinite(np.linalg.cholesky(damped)).all())
    except np.linalg.LinAlgError:
        return False


class _Rows:
    """Rows of different lengths for a loop that cuts an array: one row at a time, unpadded and whole."""

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, place: slice) -> Any:
        import mlx.core as mx

        return mx.array([list(text) for text in self._texts[place]])


def awq(model: Any, recipe: Recipe, texts: Sequence[Sequence[int]], wanted: Sequence[str], watch: Watch) -> None:
    """Quantize the wanted layers by AWQ (arXiv 2306.00978), in the model itself.

    Raises:
        ConfigError: the group does not divide the columns of a layer.
    """
    import mlx.core as mx
    from mlx_lm.quant import awq as library

    group, layers = recipe.group_size, dict(leaves(model))
    if unfit := [name for name in wanted if layers[name].weight.shape[-1] % group]:
        raise ConfigError(
            f"group_size = {group} does not divide the columns of {len(unfit)} layers (first: {unfit[0]}): "
            f"allowed is one of {', '.join(map(str, GROUPS))} that does"
        )
    watch.blocks = [[name for name in wanted if f".layers.{i}." in f".{name}"] for i in range(len(model.layers))]
    inside = {name for block in watch.blocks for name in block}
    watch.fallen_back += [
        (name, "AWQ scales decoder layers only: rounded to nearest") for name in wanted if name not in inside
    ]
    known = library.AWQ_MODEL_CONFIGS[model.model_type]
    with _in_float32(model), _hidden(model, wanted), mlx_blas.linear_layers(), patch.object(library, "tqdm", watch):
        library.awq_quantize(
            model,
            mx.array(stacked(texts, recipe.tokens)),
            known,
            group_size=group,
            bits=recipe.bits,
            embed_group_size=group,
            embed_bits=recipe.bits,
        )
        mx.eval(model.parameters())


def stacked(texts: Sequence[Sequence[int]], longest: int) -> list[list[int]]:
    """Texts one after another, cut into rows of one length, at most `longest`; no token is left out.

    The last row reaches back into the one before it where the tokens do not come out even.
    """
    stream = [token for text in texts for token in text]
    size = min(longest, len(stream))
    starts = [*range(0, len(stream) - size, size), len(stream) - size]
    return [stream[start : start + size] for start in starts]


@contextmanager
def _in_float32(model: Any) -> Iterator[None]:
    """Hold the model's floats in float32; afterwards each is again what it was, scales what their weights were."""
    import mlx.core as mx
    from mlx.utils import tree_map, tree_map_with_path

    before = {name: value.dtype for name, value in parameters(model) if is_float(value)}
    model.update(tree_map(lambda value: value.astype(mx.float32) if is_float(value) else value, model.parameters()))
    yield

    def back(name: str, value: Any) -> Any:
        dtype = before.get(name) or before.get(f"{name.rpartition('.')[0]}.weight")
        return value.astype(dtype) if is_float(value) and dtype is not None else value

    model.update(tree_map_with_path(back, model.parameters()))


@contextmanager
def _hidden(model: Any, wanted: Iterable[str]) -> Iterator[None]:
    """Hide every layer but the wanted ones from methods that quantize all that they find."""
    import mlx.nn as nn
    from mlx.utils import tree_unflatten

    class Kept(nn.Module):
        """Works as the layer does, shows no weights, and stays itself when it is asked to become quantized."""

        def __init__(self, layer: Any) -> None:
            super().__init__()
            # Bound methods: a layer kept as an attribute would be found as a child.
            self.call = layer.__call__
            self.as_linear = getattr(layer, "as_linear", None)

        def __call__(self, *args: Any) -> Any:
            return self.call(*args)

        def to_quantized(self, **how: Any) -> Any:
            return self

    chosen = set(wanted)
    kept = [(name, layer) for name, layer in leaves(model) if hasattr(layer, "to_quantized") and name not in chosen]
    if kept:
        model.update_modules(tree_unflatten([(name, Kept(layer)) for name, layer in kept]))
    yield
    if kept:
        model.update_modules(tree_unflatten(kept))
