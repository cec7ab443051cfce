"""Opening quantized folders: packed integers onto real kernels, everything else as transformers loads it.

transformers turns compressed-tensors weights into dense ones on the first pass, so such a model is never
faster than its source. Here weight-only `pack-quantized` folders keep their integers, and so do those of AutoGPTQ and
AutoAWQ, which transformers reads with further packages alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedModel,
)
from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

from specq.core.errors import ModelError
from specq.core.types import Prefill
from specq.decoding.drafters.kept_head import trimmed
from specq.decoding.runnable import load_config
from specq.models import headers, quiet
from specq.models.kept import Kept
from specq.quantize import autogptq, contents, experts, packed
from specq.quantize.audited import NO_KERNEL
from specq.quantize.contents import Contents
from specq.quantize.crossovers import Crossovers
from specq.quantize.declared import check_objects
from specq.quantize.packed import IntWeights
from specq.quantize.recipes import ROW, Treatment
from specq.quantize.replace import Quantized, Swap
from specq.quantize.schemes import Scheme

COMPRESSED = "compressed-tensors"
_OLDER = ("gptq", "awq")
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def check_readable(folder: Path) -> None:
    """Refuse a quantized folder that load_quantized would refuse for its format or for a package that is missing.

    Whether its tensors fit its config.json is asked elsewhere.

    Raises:
        ModelError: says what reads it.
    """
    from transformers.quantizers import AutoHfQuantizer

    config = headers.read_json(folder / "config.json")
    settings = _settings(folder, config)
    experts.check_folder(folder)
    if _not_packed(settings) is None:
        return
    try:
        AutoHfQuantizer.from_config(dict(settings), pre_quantized=True).validate_environment(device_map=None)
    except ImportError as error:
        raise ModelError(_no_package(folder, str(settings["quant_method"]), error)) from error
    except (ValueError, RuntimeError, TypeError, KeyError) as error:
        raise ModelError(
            f"transformers cannot load {folder}, quantized by {settings['quant_method']}: {_first(error)}"
        ) from error


def load_dense(folder: Path, *, dtype: torch.dtype, attention: str = "sdpa") -> PreTrainedModel:
    """The model of a folder whose integers are read here, with all its weights dequantized to `dtype`.

    Raises:
        ModelError: the folder is in another format, or its tensors do not fit together.
    """
    settings = _settings(folder, headers.read_json(folder / "config.json"))
    if why := _not_packed(settings):
        raise ModelError(f"{folder}: its integers are not read here ({why})")
    experts.check_folder(folder)
    with _Files(folder) as files:
        return _dense(folder, files, _schemes(contents.read(folder)), dtype, attention)


def load_quantized(
    folder: Path,
    *,
    dtype: str = "auto",
    device: str = "cpu",
    attention: str = "sdpa",
    prefill: Prefill = "dense",
    head: Treatment = "keep",
    crossovers: Crossovers | None = None,
    kept: Kept | None = None,
) -> Quantized:
    """Load a quantized folder in eval mode; the layers that a packed kernel can hold run on it.

    `prefill` "dense" keeps a bfloat16 twin of each such layer, which takes over from a measured number of rows
    on, or from that of `crossovers`: fast prompts, memory of both. "packed" keeps the integers alone. `head`
    "quantize" rounds a head that the folder keeps in floats to 8 bits, one scale a row. Equals the dequantized
    model within bfloat16's rounding; in float32 all layers are dense and equal it bit for bit. Of a head only the
    `kept` rows are held, None: all.

    Raises:
        ModelError: the folder is in a format that nothing here reads, or its tensors do not fit together.
    """
    config = headers.read_json(folder / "config.json")
    settings = _settings(folder, config)
    wanted = _DTYPES.get(str(config.get("dtype") or config.get("torch_dtype")) if dtype == "auto" else dtype)
    wanted = torch.bfloat16 if wanted is None else wanted
    experts.check_folder(folder)
    found = contents.read(folder) if settings["quant_method"] in (COMPRESSED, *_OLDER) else None
    why = _not_packed(settings)
    if found is None or why:
        model = _by_transformers(folder, settings, wanted, attention)
        # Some formats come out in the dtype of their scales, which float32 activations do not multiply with.
        torch.nn.Module.to(model, device=device, dtype=wanted)
        layers = sorted({name.rpartition(".")[0] for name in headers.tensors(folder) if _is_scale(name)})
        swap = Swap(trimmed(model, kept), prefill, dict.fromkeys(layers, f"{NO_KERNEL}{why}"), crossovers)
    else:
        with _Files(folder) as files:
            schemes = _schemes(found)
            model = _dense(folder, files, schemes, wanted, attention)
            torch.nn.Module.to(model, device)
            swap = Swap(trimmed(model, kept), prefill, {}, crossovers)
            for name, scheme in schemes.items():
                swap.put(name, files.layer(name, scheme), dequantized=True)
    if head == "quantize":
        swap.round_head()
    return swap.result(str(settings.get("format") or settings["quant_method"]))


def without_kernels(folder: Path) -> str:
    """Why no layer of a quantized folder can run on a packed kernel; "" where some may.

    Raises:
        ModelError: the folder is in a format that nothing here reads.
    """
    return _not_packed(_settings(folder, headers.read_json(folder / "config.json"))) or ""


def _settings(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    check_objects(folder, config)
    settings = config.get("quantization_config") or config.get("compression_config")
    if config.get("quantization") and not (settings or {}).get("quant_method"):
        raise ModelError(f'{folder} is an MLX folder, which engine kind "hf" does not read: use engine kind "mlx"')
    if not isinstance(settings, dict) or not settings.get("quant_method"):
        raise ModelError(f"{folder}/config.json names no quant_method: allowed is {COMPRESSED}, or a model in floats")
    method = settings["quant_method"]
    if method not in AUTO_QUANTIZATION_CONFIG_MAPPING:
        raise ModelError(
            f"{folder} is quantized by {method!r}, which the installed transformers does not know: "
            f"allowed are {', '.join(sorted(AUTO_QUANTIZATION_CONFIG_MAPPING))}, or a model in floats"
        )
    return settings


def _schemes(found: Contents) -> dict[str, Scheme]:
    """How each quantized layer is stored, by name."""
    schemes = {name: layer.scheme for name, layer in sorted(found.layers.items()) if layer.scheme is not None}
    packed.grids(found.declared, (name for name, scheme in schemes.items() if scheme.format == packed.FORMAT))
    return schemes


def _is_scale(name: str) -> bool:
    return name.endswith((".weight_scale", ".weight_scale_inv", ".scales"))


def _not_packed(settings: Mapping[str, Any]) -> str | None:
    """Why a folder cannot go through our own reading, or None where it can."""
    method = settings["quant_method"]
    if method in _OLDER:
        return None
    if method != COMPRESSED:
        return f"quant_method {method}"
    groups = list((settings.get("config_groups") or {}).values())
    formats = {str(group.get("format") or settings.get("format")) for group in groups}
    if formats != {packed.FORMAT}:
        return ", ".join(sorted(formats)) or "no config_groups"
    if any(group.get("input_activations") or group.get("output_activations") for group in groups):
        return "activations are quantized too"
    if settings.get("kv_cache_scheme"):
        return "the folder quantizes the key-value cache"
    if settings.get("transform_config"):
        return "the folder transforms its activations"
    return None


class _Files:
    """The tensors of a folder by name, read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[str, Any] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> _Files:
        headers.tensors(self.folder)
        for path in headers.weight_files(self.folder):
            handle = safe_open(path, framework="pt")
            self._handles.append(handle.__enter__())
            self._open.update(dict.fromkeys(self._handles[-1].keys(), self._handles[-1]))
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.__exit__(None, None, None)

    @property
    def names(self) -> list[str]:
        """All tensor names."""
        return list(self._open)

    def tensor(self, name: str) -> Tensor:
        """One tensor."""
        found: Tensor = self._open[name].get_tensor(name)
        return found

    def layer(self, name: str, scheme: Scheme) -> IntWeights:
        """The integers of one layer."""
        names = autogptq.PARTS if scheme.format in _OLDER else packed.PARTS
        parts = {part: self.tensor(f"{name}.{part}") for part in names if f"{name}.{part}" in self._open}
        if scheme.format in _OLDER:
            return autogptq.assemble(scheme, parts)
        grid = packed.Grid(bits=scheme.bits, group_size=scheme.group_size or ROW, symmetric=scheme.symmetric)
        return packed.assemble(name, grid, parts)


def _dense(
    folder: Path, files: _Files, schemes: Mapping[str, Scheme], dtype: torch.dtype, attention: str
) -> PreTrainedModel:
    """The model with all weights dequantized and no trace of quantization: one dense copy in memory."""
    config = load_config(folder)
    del config.quantization_config
    parts = (*packed.PARTS, *autogptq.PARTS)
    inside = {f"{layer}.{part}" for layer in schemes for part in parts}
    weights = {name: files.tensor(name) for name in files.names if name not in inside}
    for name, scheme in schemes.items():
        weights[f"{name}.weight"] = files.layer(name, scheme).dense(dtype)
    kind: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    model = _loaded(folder, kind, None, config=config, state_dict=weights, dtype=dtype, attn_implementation=attention)
    if (folder / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    return model


def _by_transformers(folder: Path, settings: dict[str, Any], dtype: torch.dtype, attention: str) -> PreTrainedModel:
    more: dict[str, Any] = {}
    if settings["quant_method"] == COMPRESSED:
        from transformers import CompressedTensorsConfig

        # Dequantized while loading: else the first pass that is measured would do it.
        more["quantization_config"] = CompressedTensorsConfig(dequantize=True)
    return _loaded(
        folder,
        AutoModelForCausalLM,
        folder,
        dtype=dtype,
        attn_implementation=attention,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        **more,
    )


@quiet.quiet()
def _loaded(folder: Path, kind: Any, *args: Any, **settings: Any) -> PreTrainedModel:
    method = headers.read_json(folder / "config.json")["quantization_config"]["quant_method"]
    try:
        model, info = kind.from_pretrained(*args, output_loading_info=True, **settings)
    except ImportError as error:
        raise ModelError(_no_package(folder, method, error)) from error
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ModelError(f"transformers cannot load {folder}, quantized by {method}: {_first(error)}") from error
    if missing := sorted(info["missing_keys"]):
        raise ModelError(
            f"{folder} lacks {len(missing)} of the weights its config asks for (first: {missing[0]}); "
            "transformers would make them up at random: get the whole checkpoint"
        )
    ready: PreTrainedModel = model.eval().requires_grad_(False)
    return ready


def _no_package(folder: Path, method: str, error: ImportError) -> str:
    return (
        f"{folder} is quantized by {method}, and the package that reads it is not installed ({_first(error)}): "
        "install it, or quantize the source anew with specq quantize"
    )


def _first(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
