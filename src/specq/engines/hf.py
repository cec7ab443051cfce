"""The reference engine: any transformers causal LM on cpu, cuda or mps, exact and instrumented."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from specq.core.errors import ModelError, Unsupported
from specq.core.types import METHODS, RULES, Prefill
from specq.decoding.drafters import kept_head
from specq.decoding.drafters.kept_head import trimmed
from specq.decoding.runnable import check_class, has_attention
from specq.engines.base import Capabilities
from specq.engines.devices import pick_device as pick_device
from specq.engines.hf_target import HFTarget, Loaded
from specq.models import kept, refs
from specq.models.facts import facts
from specq.models.kept import Kept
from specq.models.quiet import quiet
from specq.models.refs import Resolved
from specq.quantize.crossovers import Crossovers
from specq.quantize.declared import is_quantized
from specq.quantize.dense import lacks_kernels, pack
from specq.quantize.load import load_dense, load_quantized, without_kernels
from specq.quantize.noise import add_noise
from specq.quantize.replace import held_bytes, read_bytes

CAPABILITIES = Capabilities(
    rules=RULES,
    methods=METHODS,
    devices=("cpu", "cuda", "mps"),
    step_traces=True,
    logprobs=True,
    batches=True,
    lookup_first=True,
    stop_below=True,
    prefix_cache=True,
)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class HFEngine:
    """Opens models. Device "auto" takes cuda, then mps, then cpu; dtype "auto" takes the model's own.

    `packed` lays weights out for the CPU's kernels once (faster, see quantize.dense);
    `device_map` "auto" spreads a model over devices through accelerate. `compile` decodes through compiled
    graphs of fixed row counts. `crossovers` are the row counts that packed layers hand passes over at, as far as
    they are known; this engine measures each of the others once.
    """

    capabilities = CAPABILITIES

    def __init__(
        self,
        *,
        device: str = "auto",
        dtype: str = "auto",
        attention: str = "sdpa",
        threads: int | None = None,
        device_map: str | None = None,
        packed: bool = True,
        compile: bool = False,
        crossovers: Crossovers | None = None,
    ) -> None:
        if dtype not in ("auto", *DTYPES):
            raise Unsupported(f"dtype {dtype!r}: allowed are auto, {', '.join(DTYPES)}")
        self.device = pick_device(device)
        self.dtype, self.attention, self.device_map, self.packed = dtype, attention, device_map, packed
        self.compile = compile
        self.crossovers = Crossovers() if crossovers is None else crossovers
        if threads is not None:
            torch.set_num_threads(threads)

    def open(self, model: str | Resolved, *, prefill: Prefill = "dense", noise: float = 0.0) -> HFTarget:
        """Load a model by reference; raises ModelError before anything heavy happens if it cannot work.

        `prefill` says what runs passes of many rows through packed weights: see TargetSpec. `noise` perturbs the
        weights as quantize.noise says; 0 leaves them.
        """
        resolved = refs.resolve(model) if isinstance(model, str) else model
        return HFTarget(self, resolved, self.load(resolved, self.dtype, prefill=prefill, noise=noise))

    def load(
        self,
        resolved: Resolved,
        dtype: str,
        *,
        prefill: Prefill = "dense",
        noise: float = 0.0,
        draft: bool = False,
    ) -> Loaded:
        """The model in eval mode; quantized weights on packed kernels, others packed where that pays.

        As a `draft` its head has the rows that its folder keeps for that alone; spread by device_map it is whole.

        Raises:
            Unsupported: it keeps no state between passes, is an encoder, or lacks the attention implementation.
            ModelError: transformers cannot load it, or weights are missing.
        """
        check_class(resolved.folder, self.attention)
        quantized = is_quantized(resolved.folder)
        ids = kept.read(resolved.folder) if draft and not self.device_map else None
        if quantized and noise:
            found = self._load_perturbed(resolved, dtype, noise)
        elif quantized:
            found = self._load_quantized(resolved, dtype, prefill, ids)
        else:
            found = self._load_floats(resolved, dtype, noise, ids)
        slow = lacks_kernels(found.model.dtype, self.device)
        return replace(found, notes=(*found.notes, slow)) if slow else found

    def _load_floats(self, resolved: Resolved, dtype: str, noise: float, ids: Kept | None) -> Loaded:
        placed: dict[str, Any] = {"device_map": self.device_map} if self.device_map else {}
        if has_attention(resolved.folder):
            placed["attn_implementation"] = self.attention
        try:
            with quiet():
                loaded: Any = AutoModelForCausalLM.from_pretrained(
                    resolved.folder,
                    dtype=DTYPES.get(dtype, "auto"),
                    local_files_only=True,
                    trust_remote_code=False,
                    use_safetensors=True,
                    output_loading_info=True,
                    **placed,
                )
        except (OSError, ValueError, ImportError, RuntimeError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            if "ignore_mismatched_sizes" in first:
                first = "the shapes of its weights do not fit its config; get the config that belongs to them"
            raise ModelError(f"transformers cannot load {resolved.name}: {first}") from error
        model, info = loaded
        if missing := sorted(info["missing_keys"]):
            raise ModelError(
                f"{resolved.name} lacks {len(missing)} of the weights its config asks for (first: {missing[0]}); "
                "transformers would make them up at random: get the whole checkpoint"
            )
        model.eval().requires_grad_(False)
        told = _perturb(resolved, model, noise) if noise else ()
        model = trimmed(model, ids)
        if not self.device_map:
            torch.nn.Module.to(model, self.device)
        parameters = sum(p.numel() * p.element_size() for p in model.parameters())
        linears = sum(isinstance(module, torch.nn.Linear) for module in model.modules())
        packed = pack(model) if self.packed and self.device == "cpu" and not self.device_map else 0
        notes = (
            *((f"packed {packed} of {linears} linear layers",) if packed else ()),
            *told,
            *kept_head.told(model, ids),
        )
        # What is spread over devices may lie outside of memory.
        weight_bytes = parameters if self.device_map else held_bytes(model)
        read = read_bytes(model) if ids is not None else None
        return Loaded(model=model, weight_bytes=weight_bytes, notes=notes, bytes_per_token=read)

    def _load_perturbed(self, resolved: Resolved, dtype: str, noise: float) -> Loaded:
        """Quantized weights made floats, for the grid of their integers would swallow the noise."""
        own = facts(resolved).dtype if dtype == "auto" else dtype
        if without_kernels(resolved.folder):
            # What is not read here transformers makes dense.
            model = self._load_quantized(resolved, own, "dense", None).model
        else:
            model = load_dense(resolved.folder, dtype=DTYPES.get(own, torch.bfloat16), attention=self.attention)
        told = _perturb(resolved, model, noise)
        torch.nn.Module.to(model, self.device)
        if self.packed and self.device == "cpu":
            pack(model)
        return Loaded(model=model, weight_bytes=held_bytes(model), notes=told)

    def _load_quantized(self, resolved: Resolved, dtype: str, prefill: Prefill, ids: Kept | None) -> Loaded:
        if self.device_map:
            raise Unsupported(
                f"{resolved.name} is quantized, and device_map spreads models in floats only: leave it out"
            )
        found = load_quantized(
            resolved.folder,
            dtype=dtype,
            device=self.device,
            attention=self.attention,
            prefill=prefill,
            crossovers=self.crossovers,
            kept=ids,
        )
        if self.packed and self.device == "cpu":
            pack(found.model)
        return Loaded(
            model=found.model,
            # Counted once more: a head that was packed lies beside the embedding that it is.
            weight_bytes=held_bytes(found.model),
            notes=(*found.notes, *kept_head.told(found.model, ids)),
            bytes_per_token=read_bytes(found.model),
        )


def _perturb(resolved: Resolved, model: torch.nn.Module, noise: float) -> tuple[str, ...]:
    """Put noise on a model, and say where it reaches too little of it."""
    reached = add_noise(model, noise)
    if not reached.noisy:
        raise Unsupported(f"{resolved.name} has no linear layers to put noise on")
    return (reached.lacks,) if reached.lacks else ()
