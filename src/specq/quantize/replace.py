"""Putting packed layers into a model, and counting what it then holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel

from specq.core.types import Prefill
from specq.decoding.drafters.kept_head import KeptHead
from specq.quantize.audited import NO_KERNEL
from specq.quantize.crossovers import Crossovers
from specq.quantize.dense import PackedLinear, blocked
from specq.quantize.kernels import KernelLinear, kernel_of
from specq.quantize.packed import IntWeights, round_to_nearest
from specq.quantize.recipes import ROW

# The kernels add up in float32 and the dense layers round their weights: both lie well within this of each other.
_LARGEST_ERROR = 0.01
# What transformers leaves in a layer that it made dense: held, and read by no pass.
_LEFT_OVER = ("weight_scale", "weight_zero_point", "weight_global_scale", "input_scale", "input_global_scale")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantized:
    """A model on quantized weights.

    `format` is the folder's own word, or "in memory". `kernels` names the packed kernel of each quantized layer,
    or says "no kernel here: " and why. `dense_from` holds, for each kind of layer, the row count from which the
    way for many rows takes over (None: never). `bytes_held` counts everything that stays in memory, dense twins too.
    """

    model: PreTrainedModel
    format: str
    kernels: Mapping[str, str]
    dense_from: Mapping[str, int | None]
    bytes_held: int

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for each kernel or reason why there is none, with its layers counted, then the row counts."""
        counted = Counter(self.kernels.values())
        return (
            *(f"{count} layers: {kernel}" for kernel, count in sorted(counted.items())),
            *(f"{kind}: {_many(rows)}" for kind, rows in self.dense_from.items()),
        )


def _many(rows: int | None) -> str:
    return "packed at any row count" if rows is None else f"dense from {rows} rows on (measured)"


class Swap:
    """Replaces linear layers of a model by packed ones, one after the other.

    `kernels` maps the name of each layer that was put to its kernel, or to "no kernel here: " and why.
    `crossovers` None: all row counts are measured here.
    """

    def __init__(
        self, model: PreTrainedModel, prefill: Prefill, kernels: dict[str, str], crossovers: Crossovers | None = None
    ) -> None:
        self.model, self.prefill, self.kernels = model, prefill, kernels
        self.crossovers = Crossovers() if crossovers is None else crossovers
        self._put: dict[str, list[KernelLinear]] = defaultdict(list)

    def put(self, name: str, weights: IntWeights, *, dequantized: bool = False) -> None:
        """Run a layer on its integers; one that no kernel holds becomes dense and dequantized.

        `dequantized`: the layer has the dequantized weights already.
        """
        try:
            old = self.model.get_submodule(name)
        except AttributeError:
            self.kernels[name] = f"{NO_KERNEL}transformers merges this layer with others"
            return
        if isinstance(old, KeptHead):
            name, weights, old = f"{name}.rows", weights.of_rows(old.ids), old.rows
        if not isinstance(old, nn.Linear | PackedLinear):
            self.kernels[name] = f"{NO_KERNEL}{type(old).__name__} is no plain linear layer"
            return
        plain = old if dequantized and isinstance(old, nn.Linear) else _plain(old, weights)
        device = plain.weight.device.type
        kernel = kernel_of(weights, device=device, dtype=plain.weight.dtype)
        new: nn.Module = plain
        if not kernel.startswith(NO_KERNEL):
            fast = KernelLinear(weights, kernel, bias=plain.bias, device=device)
            if _agrees(fast, plain):
                fast.dense = blocked(plain) if self.prefill == "dense" else None
                self._put[f"{kernel} {fast.out_features} x {fast.in_features}"].append(fast)
                new = fast
            else:
                kernel = f"{NO_KERNEL}torch's kernel gives other numbers than the dequantized layer"
        if new is plain and isinstance(old, PackedLinear):
            # A float32 model's rounded twin runs as the model does.
            new = blocked(plain)
        self.kernels[name] = kernel
        parent, _, last = name.rpartition(".")
        setattr(self.model.get_submodule(parent), last, new)

    def round_head(self) -> None:
        """Round a head in floats to 8 bits, one scale a row; a head on integers stays as it is."""
        head = self.model.get_output_embeddings()
        if isinstance(head, nn.Linear | PackedLinear):
            name = next(name for name, module in self.model.named_modules() if module is head)
            if name not in self.kernels:
                self.put(name, round_to_nearest(weight_of(head), 8, ROW))

    def measure(self) -> dict[str, int | None]:
        """Set and return, for each kind of layer, from which row count on the way for many rows is faster."""
        found = {kind: self.crossovers.set(layers) for kind, layers in sorted(self._put.items())}
        for kind, layers in self._put.items():
            if found[kind] is None:
                for layer in layers:
                    layer.dense = None
        return found

    def result(self, name: str) -> Quantized:
        """What was made, in a format of that name, with the row counts measured."""
        return Quantized(
            model=self.model,
            format=name,
            kernels=self.kernels,
            dense_from=self.measure(),
            bytes_held=held_bytes(self.model),
        )


def weight_of(linear: nn.Linear | PackedLinear) -> torch.Tensor:
    """The weights [out_features, in_features] of a dense layer in either layout."""
    return linear.dense_weight if isinstance(linear, PackedLinear) else linear.weight.detach()


def _plain(old: nn.Linear | PackedLinear, weights: IntWeights) -> nn.Linear:
    dtype = old.dtype if isinstance(old, PackedLinear) else old.weight.dtype
    device = torch.device("cpu") if isinstance(old, PackedLinear) else old.weight.device
    plain = nn.Linear(old.in_features, old.out_features, bias=False, device="meta")
    plain.weight = nn.Parameter(weights.dense(dtype).to(device), requires_grad=False)
    if old.bias is not None:
        plain.bias = nn.Parameter(old.bias.detach(), requires_grad=False)
    return plain


@torch.inference_mode()
def _agrees(fast: KernelLinear, plain: nn.Linear) -> bool:
    generator = torch.Generator().manual_seed(0)
    for rows in (1, 5):
        x = torch.randn(rows, fast.in_features, generator=generator).to(plain.weight)
        right, found = plain(x).float(), fast(x).float()
        # Not-a-number compares false, so it never agrees.
        if not bool((found - right).norm() <= _LARGEST_ERROR * right.norm()):
            return False
    return True


def held_bytes(*models: nn.Module) -> int:
    """Bytes of all weights and buffers that models hold, each piece of memory once, dense twins included."""
    return _bytes_of(module for model in models for module in model.modules())


def read_bytes(model: PreTrainedModel) -> int:
    """Bytes of weights that one decode step of one row reads: dense twins and the input embedding are left out.

    Of a mixture's experts all count.
    """
    unread = {id(model.get_input_embeddings())}
    unread |= {id(module.dense) for module in model.modules() if isinstance(module, KernelLinear)}
    return _bytes_of((module for module in model.modules() if id(module) not in unread), _LEFT_OVER)


def _bytes_of(modules: Iterable[nn.Module], without: Collection[str] = ()) -> int:
    """Bytes of what these modules hold themselves, each piece of memory once, `without` tensors of those names."""
    held: dict[int, int] = {}
    packed: dict[int, int] = {}
    for module in modules:
        if isinstance(module, PackedLinear):
            packed[id(module._packed)] = module.weight_bytes
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None and name not in without:
                storage = tensor.untyped_storage()
                held[storage.data_ptr()] = storage.nbytes()
    return sum(packed.values()) + sum(held.values())
