"""Which weights a kind of server can load, and where they lie: folders for some, GGUF files for others."""

from __future__ import annotations

from pathlib import Path

from specq.core.errors import ModelError, Unsupported
from specq.engines.served.kinds.base import Served
from specq.models import fetch, headers, refs
from specq.quantize import recipes

GGUF = ".gguf"


def gguf_file(name: str, *, download: bool = True) -> Path:
    """The GGUF file that a model's name means: a file, or that of a built-in.

    Raises:
        Unsupported: it is no GGUF file.
        ModelError: there is no such file, or a built-in that is not in the cache and may not be downloaded.
    """
    if sentences := no_gguf("llama.cpp", name):
        raise Unsupported(sentences[0])
    if name.startswith(fetch.PREFIX):
        return fetch.gguf_file(name, download=download)
    path = Path(name).expanduser().absolute()
    if not path.is_file():
        raise ModelError(f"no such file: {name!r}; give a .gguf file or builtin:smollm2-135m")
    return path


def folder(name: str, *, revision: str | None = None, download: bool = True) -> Path:
    """The folder of config.json and safetensors that a model's name means.

    Raises:
        ModelError, DiskFull: as refs.resolve.
    """
    return refs.resolve(name, revision=revision, fetch=download).folder


def no_gguf(title: str, name: str) -> tuple[str, ...]:
    """Refuse what is no GGUF file and no built-in, which has one."""
    if name.startswith(fetch.PREFIX) or name.endswith(GGUF):
        return ()
    return (
        f"{name}: {title} loads GGUF files alone; convert it with llama.cpp's convert_hf_to_gguf.py and give the .gguf "
        "file",
    )


def only_gguf(title: str, served: Served) -> tuple[str, ...]:
    """Refuse weights of an arm that are no GGUF file, its draft's too."""
    found = []
    if served.target.recipe is not None:
        found.append(
            f"recipe = {served.target.recipe}: it makes a folder of safetensors, and {title} loads GGUF files alone; "
            "make one with llama-quantize and give it as the lever's model"
        )
    else:
        found += no_gguf(title, served.loads)
    if served.draft is not None and served.draft.method == "model" and served.draft.model not in (None, "self"):
        found += no_gguf(title, served.draft_weights or str(served.draft.model))
    if served.draft is not None and served.draft.recipe is not None:
        found.append(
            f"recipe = {served.draft.recipe}: it makes a folder of safetensors, and {title} loads GGUF files alone; "
            "make one with llama-quantize and give it as the draft's model"
        )
    return tuple(found)


def only_folders(title: str, served: Served, *, mlx: bool) -> tuple[str, ...]:
    """Refuse weights of an arm in the other world's format: MLX's own, or those of llmcompressor and its like."""
    found = []
    draft = served.draft
    draft_recipe = None if draft is None else draft.recipe
    for recipe in (served.target.recipe, draft_recipe):
        if recipe is not None and (method := recipes.load(Path(recipe)).method).startswith("mlx-") is not mlx:
            kinds = "an mlx-... method" if mlx else "rtn, gptq, awq, w8a8 or fp8"
            found.append(f"recipe = {recipe}: {title} cannot load what {method} makes; give a recipe of {kinds}")
    named = [served.loads, served.draft_weights or ("" if draft is None else draft.model)]
    for name in named:
        if name and (format_of(name) == "mlx") is not mlx and format_of(name) not in ("plain", ""):
            found.append(f"{name}: {title} cannot load weights in the format {format_of(name)}; give another folder")
    return tuple(found)


def format_of(name: str) -> str:
    """How a folder's weights are packed: "plain", "mlx", or the method that config.json names; "" for no folder."""
    config = Path(name).expanduser() / "config.json"
    if not config.is_file():
        return ""
    given = headers.read_json(config)
    if isinstance(of := given.get("quantization_config"), dict):
        return str(of.get("quant_method") or ("mlx" if "group_size" in of else "unnamed"))
    return "mlx" if isinstance(given.get("quantization"), dict) else "plain"
