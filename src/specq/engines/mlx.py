"""The MLX engine: mlx-lm's own decoding, on Apple silicon and on Linux CPUs, measured and audited like any other."""

from __future__ import annotations

from typing import Any

from specq.core.errors import Unsupported
from specq.core.types import Prefill
from specq.engines.base import Capabilities
from specq.engines.mlx_target import MLXTarget
from specq.models import headers, refs
from specq.models.refs import Resolved
from specq.quantize import mlx as mlx_models
from specq.quantize import mlx_methods, mlx_noise, recipes

CAPABILITIES = Capabilities(
    rules=("match",),
    methods=("model",),
    devices=("cpu", "mps", "cuda"),
    step_traces=True,
    logprobs=False,
    batches=False,
)
DTYPES = ("float32", "bfloat16", "float16")


class MLXEngine:
    """Opens MLX folders and plain transformers folders. Device "auto" is mlx's own; dtype "auto" the model's."""

    capabilities = CAPABILITIES

    def __init__(self, *, device: str = "auto", dtype: str = "auto") -> None:
        mlx_models.need_mlx()
        if dtype not in ("auto", *DTYPES):
            raise Unsupported(f"dtype {dtype!r}: allowed are auto, {', '.join(DTYPES)}")
        self.device, self.dtype = pick_device(device), dtype

    def open(self, model: str | Resolved, *, prefill: Prefill = "dense", noise: float = 0.0) -> MLXTarget:
        """Load a model by reference; `prefill` changes nothing, MLX has one kernel for few rows and many.

        `noise` perturbs the linear layers by that share of each row's spread.

        Raises:
            ModelError: there is no such model, or its folder is broken.
            Unsupported: mlx-lm cannot load it, or it has no linear layers to put noise on.
        """
        resolved = refs.resolve(model) if isinstance(model, str) else model
        loaded = self.load(resolved, self.dtype)
        if noise and not mlx_noise.add_noise(loaded, noise):
            raise Unsupported(f"{resolved.name} has no linear layers to put noise on")
        return MLXTarget(self, resolved, loaded)

    def load(self, resolved: Resolved, dtype: str, rounding: recipes.Recipe | None = None) -> Any:
        """The mlx-lm model of a folder, its floats cast to `dtype`, then rounded to nearest where that is asked for.

        Raises:
            Unsupported: mlx-lm cannot load it, or it holds weights in another library's format.
        """
        import mlx.core as mx
        from mlx.utils import tree_map

        config = headers.read_json(resolved.folder / "config.json")
        _check_format(resolved.name, config)
        model = mlx_models.load(resolved.name, resolved.folder)
        if dtype != "auto":
            wanted = getattr(mx, dtype)
            cast = {True: lambda value: value.astype(wanted), False: lambda value: value}
            model.update(tree_map(lambda value: cast[mlx_methods.is_float(value)](value), model.parameters()))
        if rounding is not None:
            mlx_methods.round_to_nearest(model, rounding, mlx_methods.layer_roles(model, config))
        mx.eval(model.parameters())
        return model


def pick_device(device: str) -> str:
    """The device of that name, in torch's words; "auto" is the one that mlx takes by itself.

    Raises:
        Unsupported: mlx has no such device here.
    """
    import mlx.core as mx

    if device == "cpu":
        mx.set_default_device(mx.cpu)
    own = "cpu" if mx.default_device() == mx.Device(mx.cpu) else "mps" if mx.metal.is_available() else "cuda"
    if device not in ("auto", own):
        raise Unsupported(
            f"device {device!r}: mlx runs on {own} here; use device auto{'' if own == 'cpu' else ' or cpu'}"
        )
    return own


def _check_format(name: str, config: dict[str, Any]) -> None:
    given = config.get("quantization_config")
    method = given.get("quant_method") if isinstance(given, dict) else None
    if method == "compressed-tensors":
        raise Unsupported(
            f"{name} holds compressed-tensors weights, which mlx-lm cannot read: turn the folder over with "
            "specq quantize --method mlx-from-ct, and give the new one"
        )
