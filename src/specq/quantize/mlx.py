"""Quantizing through mlx-lm into an MLX folder, on Linux CPUs and on macOS."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from specq.core.errors import RunFailed, Unsupported
from specq.models import headers
from specq.models.configs import reason
from specq.models.quiet import quiet
from specq.models.refs import Resolved
from specq.quantize import beside, mlx_methods
from specq.quantize.made import Made, OnProgress
from specq.quantize.mlx_methods import Role, Watch
from specq.quantize.recipes import Recipe

_NAMED = 3
# What mlx-lm and its models raise for weights or shapes that they do not expect.
_BREAKS = (ValueError, RuntimeError, LookupError, AttributeError, TypeError, NotImplementedError, AssertionError)


def need_mlx() -> None:
    """Refuse where mlx or mlx-lm cannot be imported.

    Raises:
        Unsupported: says what to install.
    """
    try:
        import mlx.core  # noqa: F401
        import mlx_lm  # noqa: F401
    except ImportError as error:
        package = "mlx-lm" if sys.platform == "darwin" else '"mlx-lm[cpu]"'
        why = str(error).splitlines()[0]
        raise Unsupported(f"mlx cannot be imported here ({why}): type: pip install {package}") from error


def check(recipe: Recipe, config: Mapping[str, Any]) -> None:
    """Refuse a recipe that mlx-lm cannot apply to a model with this config.json; reads no weights.

    Raises:
        Unsupported: mlx is absent, has no such architecture, or its AWQ does not know how that one's layers
            follow each other.
    """
    need_mlx()
    from mlx_lm.quant.awq import AWQ_MODEL_CONFIGS
    from mlx_lm.utils import _get_classes

    kind = str(config.get("model_type"))
    try:
        _get_classes(dict(config))
    except ValueError as error:
        raise Unsupported(f"mlx-lm has no model of the model_type {kind!r}: allowed is another model") from error
    if recipe.method == "mlx-awq" and kind not in AWQ_MODEL_CONFIGS:
        raise Unsupported(
            f"mlx-lm's AWQ does not know which layers of a {kind} model follow each other: allowed is "
            f'method = "mlx-gptq", or a model of {", ".join(sorted(AWQ_MODEL_CONFIGS))}'
        )


def load(name: str, folder: Path) -> Any:
    """The mlx-lm model of a folder; its weights are read when they are first used.

    Raises:
        Unsupported: mlx is absent, or mlx-lm cannot read the folder.
    """
    need_mlx()
    from mlx_lm.utils import load_model

    config = headers.read_json(folder / "config.json")
    try:
        with quiet():
            model, _ = load_model(folder, lazy=True, model_config=in_its_words(config, headers.tensors(folder)))
    except _BREAKS as error:
        raise Unsupported(f"mlx-lm cannot load {name} ({reason(error)}): give another model or engine") from error
    return model


def in_its_words(config: Mapping[str, Any], tensors: Collection[str]) -> dict[str, Any]:
    """What config.json says in keys that most of mlx-lm's models do not read, in those that they do.

    transformers 5 writes the base of rotary positions into rope_parameters alone, and mlx-lm would take its own
    default for it without a word. Where tying is not said, a head on disk says that it is not.
    """
    found: dict[str, Any] = {}
    rope = config.get("rope_parameters") or {}
    # By kind of layer where kinds differ: the first is what rope_theta meant before.
    kinds = {kind: one for kind, one in rope.items() if isinstance(one, Mapping)}
    main = kinds.get("full_attention") or rope
    for key in ("rope_theta", "partial_rotary_factor"):
        if main.get(key) is not None:
            found[key] = main[key]
    if main.get("rope_type", "default") != "default":
        found["rope_scaling"] = {key: value for key, value in main.items() if key != "rope_theta"}
    if "rope_theta" in (local := kinds.get("sliding_attention", {})):
        found["rope_local_base_freq"] = local["rope_theta"]
    if config.get("tie_word_embeddings") is None and config.get("text_config") is None:
        found["tie_word_embeddings"] = not any(name.startswith("lm_head.") for name in tensors)
    found = {key: value for key, value in found.items() if config.get(key) is None}
    if isinstance(inner := config.get("text_config"), Mapping) and (more := in_its_words(inner, ("lm_head.",))):
        more.pop("tie_word_embeddings", None)
        found["text_config"] = {**inner, **more}
    return found


def quantize(
    source: Resolved, recipe: Recipe, texts: Sequence[Sequence[int]], out: Path, on_progress: OnProgress
) -> Made:
    """Quantize a model folder into the empty or new folder `out`.

    `texts` are rows of token ids; empty for methods that read none. Equal sources, recipes, texts and versions
    give equal weight files.

    Raises:
        Unsupported: mlx-lm cannot load the model, or its method does not know the architecture.
        ConfigError: the group does not divide the columns of a layer, and the method stops at such a one.
        RunFailed: mlx-lm broke, or wrote values that are not finite. OSError: the folder could not be
            written.
    """
    config = headers.read_json(source.folder / "config.json")
    check(recipe, config)
    import mlx.core as mx

    model = load(source.name, source.folder)
    roles = mlx_methods.layer_roles(model, config)
    wanted = [name for name, role in roles.items() if mlx_methods.is_asked(recipe, role)]
    watch = Watch(on_progress=on_progress)
    mx.random.seed(recipe.seed)
    try:
        with quiet(), redirect_stdout(io.StringIO()):
            if recipe.method == "mlx-gptq":
                mlx_methods.gptq(model, recipe, texts, wanted, watch)
            elif recipe.method == "mlx-awq":
                mlx_methods.awq(model, recipe, texts, wanted, watch)
            else:
                mlx_methods.round_to_nearest(model, recipe, roles)
                for _, layer in watch(mlx_methods.leaves(model)):
                    # Rounding was only noted down so far, and all of it at once would need all weights in memory.
                    mx.eval(layer.parameters())
    except _BREAKS as error:
        raise RunFailed(
            f"mlx-lm could not quantize {source.name} by {recipe.method} ({reason(error)}): nothing was kept; "
            'method = "mlx-rtn" needs least of a model'
        ) from error
    _check_finite(model, recipe)
    _save(model, recipe, config, source.folder, out)
    return Made(fallen_back=tuple(watch.fallen_back), notes=tuple(_notes(model, recipe, roles, wanted)))


def _check_finite(model: Any, recipe: Recipe) -> None:
    import mlx.core as mx

    floats = [(name, value) for name, value in mlx_methods.parameters(model) if mlx_methods.is_float(value)]
    broken = [name for name, value in floats if not mx.isfinite(value).all().item()]
    if broken:
        raise RunFailed(
            f"{recipe.method} made {len(broken)} tensors with NaN or infinite values (first: {broken[0]}): "
            "nothing was kept; take more bits, other calibration text or another method"
        )


def _save(model: Any, recipe: Recipe, config: Mapping[str, Any], source: Path, out: Path) -> None:
    """Write the weights, the source's config.json with what was done, and all else as it was."""
    from mlx_lm.utils import save_model

    out.mkdir(parents=True, exist_ok=True)
    common = {"group_size": recipe.group_size, "bits": recipe.bits, "mode": "affine"}
    done: dict[str, Any] = dict(common)
    for name, layer in _quantized(model):
        how = {"group_size": layer.group_size, "bits": layer.bits, "mode": layer.mode}
        if how != common:
            done[name] = how
    with quiet():
        save_model(out, model, donate_model=True)
    # mlx-lm reads the first, and other tools look for the second.
    said = in_its_words(config, headers.tensors(source))
    whole = {**config, **said, "quantization": done, "quantization_config": done}
    (out / "config.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    beside.take_over(source, out)


def _quantized(model: Any) -> Iterator[tuple[str, Any]]:
    return ((name, layer) for name, layer in mlx_methods.leaves(model) if hasattr(layer, "bits"))


def _notes(model: Any, recipe: Recipe, roles: Mapping[str, Role], wanted: Sequence[str]) -> Iterator[str]:
    """What was asked for and not done, and what follows from how mlx-lm works."""
    done = {name for name, _ in _quantized(model)}
    if left := [name for name in wanted if name not in done]:
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        yield (
            f"{len(left)} of {len(wanted)} layers stay in floats, groups of {recipe.group_size} do not divide their "
            f"columns: {', '.join(left[:_NAMED])}{more}"
        )
    if "head" not in roles.values():
        if recipe.embeddings == "quantize":
            yield "the head is the embedding and was quantized with it"
        elif recipe.head == "quantize":
            yield "the head is the embedding and was kept with it"
    if recipe.method == "mlx-awq":
        yield f"AWQ read the texts one after another in rows of at most {recipe.tokens} tokens"
