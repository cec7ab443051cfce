"""Quantizing through llmcompressor into a compressed-tensors folder, on machines without a GPU too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specq.core.errors import RunFailed, SpecqError, Unsupported
from specq.models import tokenizers
from specq.models.configs import reason
from specq.models.quiet import quiet
from specq.models.refs import Resolved
from specq.quantize import beside, experts
from specq.quantize.dense import lacks_kernels
from specq.quantize.layers import Layer, asked
from specq.quantize.made import Made, OnProgress
from specq.quantize.recipes import ROW, Recipe
from specq.quantize.watched import libraries, watched

PRESETS = {"w8a8": "W8A8", "fp8": "FP8_DYNAMIC", "nvfp4": "NVFP4", "mxfp4": "MXFP4"}
# How often a method walks through all layers: SmoothQuant does so before GPTQ, round-to-nearest never.
_PASSES = {"gptq": 1, "awq": 1, "nvfp4": 1, "w8a8": 2}
_SMOOTHING = 0.5
_EXAMPLES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")


def check(recipe: Recipe, architecture: str) -> None:
    """Refuse what llmcompressor would do wrongly or not at all; reads no weights.

    Raises:
        Unsupported: embeddings are to be quantized, or the method does not know how this architecture's layers
            follow each other.
    """
    if recipe.embeddings == "quantize":
        raise Unsupported(
            f'embeddings = "quantize": method = "{recipe.method}" keeps them in floats; '
            'allowed is "keep", or an mlx-* method'
        )
    known, what = _mappings(recipe.method)
    if known and architecture not in known:
        raise Unsupported(
            f"{what} does not know which layers of {architecture} follow each other, and would guess: allowed is "
            f'method = "{"gptq" if recipe.method == "awq" else "fp8"}", or one of the {len(known)} architectures that '
            f"it knows, such as {', '.join(name for name in _EXAMPLES if name in known)}"
        )


def _mappings(method: str) -> tuple[set[str], str]:
    """The architectures for which a method that moves scales between layers has a map; empty for the others."""
    if method not in ("awq", "w8a8"):
        return set(), ""
    libraries()
    if method == "awq":
        from llmcompressor.modifiers.transform.awq.dynamic_mappings import AWQ_DYNAMIC_MAPPING_REGISTRY
        from llmcompressor.modifiers.transform.awq.mappings import AWQ_MAPPING_REGISTRY

        return {*AWQ_MAPPING_REGISTRY, *AWQ_DYNAMIC_MAPPING_REGISTRY}, "AWQ"
    from llmcompressor.modifiers.transform.smoothquant.dynamic_mappings import SMOOTHQUANT_DYNAMIC_MAPPING_REGISTRY
    from llmcompressor.modifiers.transform.smoothquant.utils import MAPPINGS_REGISTRY

    return {*MAPPINGS_REGISTRY, *SMOOTHQUANT_DYNAMIC_MAPPING_REGISTRY}, "SmoothQuant"


def quantize(
    source: Resolved,
    recipe: Recipe,
    texts: Sequence[Sequence[int]],
    out: Path,
    on_progress: OnProgress,
    *,
    layers: Sequence[Layer],
) -> Made:
    """Quantize a model folder into the empty or new folder `out`.

    `texts` are rows of token ids, fed one after another without padding; empty for methods that read none.
    Equal sources, recipes, texts and versions give equal weight files.

    Raises:
        RunFailed: llmcompressor broke. OSError, SafetensorError: the folder could not be written.
    """
    import torch
    from transformers import AutoModelForCausalLM

    wanted = asked(recipe, layers)
    with watched(_PASSES.get(recipe.method, 0), tuple(layer.name for layer in wanted), on_progress) as watch:
        with torch.random.fork_rng():
            torch.manual_seed(recipe.seed)
            model: Any = AutoModelForCausalLM.from_pretrained(
                source.folder, dtype="auto", local_files_only=True, trust_remote_code=False, use_safetensors=True
            )
            widened = bool(texts) and _widen(model)
            _run(model, source, recipe, texts, [layer.name for layer in layers if layer not in wanted])
            if widened:
                model.to(torch.bfloat16)
            _save(model, source, out)
        watch.finish()
    return Made(fallen_back=tuple(watch.fallen_back))


def _widen(model: Any) -> bool:
    """Put a bfloat16 model into float32 where passes over texts are several times as fast in it; whether it was done.

    What is saved is bfloat16 again: a weight on its grid, at most 128 steps from zero, rounds to the same step.
    """
    import torch

    dtypes = {tensor.dtype for tensor in model.parameters() if tensor.is_floating_point()}
    if dtypes != {torch.bfloat16} or torch.cuda.is_available() or not lacks_kernels(torch.bfloat16, "cpu"):
        return False
    model.float()
    return True


def _run(model: Any, source: Resolved, recipe: Recipe, texts: Sequence[Sequence[int]], ignore: Sequence[str]) -> None:
    oneshot = libraries()
    try:
        oneshot(
            model=model,
            processor=tokenizers.load(source),
            recipe=_modifiers(recipe, list(ignore)),
            dataset=_loader(texts) if texts else None,
            # The default draws texts and their order from the global random state.
            shuffle_calibration_samples=False,
            # A head that is quantized must be another tensor than the embedding, which is kept.
            tie_word_embeddings=recipe.head == "keep",
        )
    except (SpecqError, OSError):
        raise
    except Exception as error:  # it raises bare Exception too; nothing is swallowed
        raise RunFailed(
            f"llmcompressor could not quantize {source.name} by {recipe.method} ({reason(error)}): "
            'nothing was kept; method = "rtn" needs least of a model'
        ) from error


def _loader(texts: Sequence[Sequence[int]]) -> Any:
    """One row a batch, as long as it is: padding would count as text, and a stack would cut the longer rows."""
    import torch
    from torch.utils.data import DataLoader

    rows = [torch.tensor([list(text)]) for text in texts]
    batches: Any = [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in rows]
    return DataLoader(batches, batch_size=None)


def _modifiers(recipe: Recipe, ignore: list[str]) -> list[Any]:
    """The recipe in llmcompressor's terms; a module is ignored by its exact name."""
    from llmcompressor.modifiers.gptq import GPTQModifier
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from llmcompressor.modifiers.transform.awq import AWQModifier
    from llmcompressor.modifiers.transform.smoothquant import SmoothQuantModifier

    if recipe.method in PRESETS:
        given: dict[str, Any] = {"targets": "Linear", "scheme": PRESETS[recipe.method], "ignore": ignore}
        if recipe.method == "w8a8":
            return [SmoothQuantModifier(smoothing_strength=_SMOOTHING, ignore=ignore), GPTQModifier(**given)]
        return [QuantizationModifier(**given)]
    given = {"config_groups": {"group_0": _scheme(recipe)}, "ignore": ignore}
    if recipe.method == "gptq":
        return [GPTQModifier(**given)]
    rounding = QuantizationModifier(**given)
    return [AWQModifier(), rounding] if recipe.method == "awq" else [rounding]


def _scheme(recipe: Recipe) -> Any:
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    by_row = recipe.group_size == ROW
    weights = QuantizationArgs(
        num_bits=recipe.bits,
        type="int",
        symmetric=recipe.symmetric,
        strategy="channel" if by_row else "group",
        group_size=None if by_row else recipe.group_size,
    )
    return QuantizationScheme(targets=["Linear"], weights=weights)


def _save(model: Any, source: Resolved, out: Path) -> None:
    """Write the weights and their config.json; all else is the source's own."""
    import torch
    from transformers import GenerationConfig

    # Written from memory, these would differ from the source's, and some would be refused.
    model.generation_config = GenerationConfig()
    if any(".experts." in name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)):
        experts.keep_names(model)
    with quiet():
        model.save_pretrained(out, save_compressed=True)
    for name in ("generation_config.json", "recipe.yaml"):
        (out / name).unlink(missing_ok=True)
    beside.take_over(source.folder, out)
