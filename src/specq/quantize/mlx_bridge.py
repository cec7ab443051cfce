"""A compressed-tensors folder of packed integers turned into an MLX folder: the same numbers on another engine.

Both formats pack little end first along the columns. compressed-tensors means (q - zero) * scale with signed q,
MLX q * scale + bias with unsigned q (mlx.core.quantize, "affine"); so bias = -(zero + 2^(bits-1)) * scale.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from specq.core.clock import now
from specq.core.errors import ConfigError, ModelError, Unsupported
from specq.models import headers
from specq.models.refs import Resolved
from specq.quantize import beside, mlx
from specq.quantize.declared import declared
from specq.quantize.made import Made, OnProgress
from specq.quantize.mlx_methods import GROUPS
from specq.quantize.recipes import GRID, ROW, Recipe, make

BITS = (2, 4, 8)
"""Widths that both formats pack alike: MLX puts 3, 5 and 6 bits elsewhere in a word."""
# Up to so many bits a zero point times a scale keeps its place on the grid when it is rounded to bfloat16.
_EXACT_BITS = 4


def turn_over(source: Resolved, recipe: Recipe, out: Path, on_progress: OnProgress) -> Made:
    """Write the MLX twin of a pack-quantized folder into the empty or new folder `out`.

    Integers stay bit for bit, scales in the model's dtype; biases are computed in float32 and rounded to it. A
    scale of a whole row is repeated for groups of 64, 32 or 128 columns. Bits, group and symmetry are the folder's.

    Raises:
        ModelError: the folder holds no pack-quantized weights, or they are broken.
        Unsupported: MLX has no layout for its bits, groups or column order; or mlx-lm cannot load the result.
        OSError, SafetensorError: the folder could not be written.
    """
    mlx.need_mlx()
    config = headers.read_json(source.folder / "config.json")
    files = headers.weight_files(source.folder)
    where = {name: path for path in files for name in headers.read_header(path)}
    grids = _grids(source, config, where)
    done: dict[str, Any] = {}
    started = now()
    out.mkdir(parents=True, exist_ok=True)
    for path in files:
        _write(path, where, grids, _dtype(config), done, out)
        left = (now() - started) / len(done) * (len(grids) - len(done)) if done else None
        on_progress(len(done), len(grids), left)
    _write_config({**config, **mlx.in_its_words(config, where)}, done, out)
    beside.take_over(source.folder, out)
    if (index := source.folder / headers.INDEX).is_file() and len(files) > 1:
        _write_index(index, out)
    mlx.load(source.name, out)
    return Made(notes=tuple(_notes(grids, str(_dtype(config)))))


def settled(source: Resolved, recipe: Recipe) -> Recipe:
    """The recipe with the bits, group and symmetry of the folder that is to be turned over; reads headers alone.

    Where layers differ it is what most of them have.

    Raises:
        ConfigError: the recipe gives one that the folder does not have.
        ModelError, Unsupported: as `turn_over`.
    """
    config = headers.read_json(source.folder / "config.json")
    grids = _grids(source, config, headers.tensors(source.folder))
    found = {key: Counter(getattr(grid, key) for grid in grids.values()) for key in GRID}
    given = recipe.to_json()
    for key, counts in found.items():
        if key in given and given[key] not in counts:
            has = " and ".join(json.dumps(value) for value in sorted(counts))
            raise ConfigError(
                f"{key} = {json.dumps(given[key])}: {source.name} has {key} = {has}, and "
                f'method = "{recipe.method}" keeps what a folder has: leave {key} out'
            )
    return make({**given, **{key: counts.most_common(1)[0][0] for key, counts in found.items()}})


def _grids(source: Resolved, config: Mapping[str, Any], tensors: Iterable[str]) -> dict[str, Any]:
    """The grid of each packed layer of a folder, all of them such as MLX can hold."""
    from specq.quantize import packed

    _check_format(source.name, config)
    names = sorted({layer for layer, _ in packed.split(tensors)})
    if not names:
        raise ModelError(f"{source.name} holds no packed weights: allowed is a folder of method rtn, gptq or awq")
    grids = packed.grids(declared(source.folder, config), names)
    for name, grid in grids.items():
        _check_grid(name, grid)
    return dict(grids)


def _check_format(name: str, config: Mapping[str, Any]) -> None:
    """Refuse a folder whose quantization_config is not all of it pack-quantized."""
    given = config.get("quantization_config")
    if not isinstance(given, dict) or given.get("quant_method") != "compressed-tensors":
        raise ModelError(
            f"{name} is no compressed-tensors folder: allowed is one that method rtn, gptq or awq made; "
            'for a model in floats take method = "mlx-rtn"'
        )
    groups = given.get("config_groups") or {}
    kinds = {str(group.get("format") or given.get("format")) for group in groups.values()}
    if kinds != {"pack-quantized"}:
        raise Unsupported(
            f"{name} holds {', '.join(sorted(kinds))} weights: allowed is pack-quantized (rtn, gptq, awq)"
        )


def _check_grid(name: str, grid: Any) -> None:
    if grid.bits not in BITS:
        raise Unsupported(f"{name} has {grid.bits}-bit weights: MLX packs alike only {', '.join(map(str, BITS))} bits")
    if grid.group_size != ROW and grid.group_size not in GROUPS:
        raise Unsupported(
            f"{name} has groups of {grid.group_size}: MLX has {', '.join(map(str, sorted(GROUPS)))}, "
            "or one scale a row that is repeated for them"
        )


def _dtype(config: Mapping[str, Any]) -> Any:
    """The floats of the model, in which transformers too holds the scales; None where config.json is silent."""
    import torch

    return getattr(torch, str(config.get("dtype") or config.get("torch_dtype")), None)


def _write(
    path: Path,
    where: Mapping[str, Path],
    grids: Mapping[str, Any],
    dtype: Any,
    done: dict[str, Any],
    out: Path,
) -> None:
    """The twin of one weight file; a layer goes where its integers lie. What was done is added to `done`."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    from specq.quantize import packed

    of = dict(_by_tensor(where, packed.PARTS, grids))
    tensors: dict[str, Any] = {}
    with safe_open(path, "pt") as file:
        for tensor in headers.read_header(path):
            layer = of.get(tensor)
            if layer is None:
                tensors[tensor] = file.get_tensor(tensor)
            elif tensor == f"{layer}.weight_packed":
                parts = {part: _read(where, f"{layer}.{part}") for part in packed.PARTS if f"{layer}.{part}" in where}
                converted, how = _layer(layer, grids[layer], parts, dtype)
                tensors |= {f"{layer}.{part}": value.contiguous() for part, value in converted.items()}
                done[layer] = how
    save_file(tensors, out / path.name, metadata={"format": "mlx"})


def _by_tensor(
    where: Mapping[str, Path], parts: tuple[str, ...], grids: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    return ((f"{layer}.{part}", layer) for layer in grids for part in parts if f"{layer}.{part}" in where)


def _read(where: Mapping[str, Path], name: str) -> Any:
    from safetensors import safe_open

    with safe_open(where[name], "pt") as file:
        return file.get_tensor(name)


def _layer(name: str, grid: Any, parts: Mapping[str, Any], dtype: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """One layer's tensors in MLX's layout, and its entry in config.json."""
    import torch

    from specq.quantize import packed

    read = packed.assemble(name, grid, parts)
    if read.order is not None:
        raise Unsupported(
            f"{name} has its columns in an order of its own (weight_g_idx), which MLX cannot hold: "
            "allowed is actorder none or static"
        )
    columns = read.q.shape[1]
    group = grid.group_size or next((size for size in GROUPS if columns % size == 0), 0)
    if not group or columns % group:
        raise Unsupported(f"{name} has {columns} columns, which no group of {', '.join(map(str, GROUPS))} divides")
    scales = read.scales.to(dtype or read.scales.dtype)
    zero = 2 ** (grid.bits - 1) + (torch.zeros_like(read.q[:, :1]) if read.zeros is None else read.zeros).float()
    biases = (-zero * scales.float()).to(scales.dtype)
    if grid.group_size == ROW:
        scales, biases = scales.expand(-1, columns // group), biases.expand(-1, columns // group)
    how = {"group_size": group, "bits": grid.bits, "mode": "affine"}
    return {"weight": parts["weight_packed"].view(torch.uint32), "scales": scales, "biases": biases}, how


def _write_config(config: Mapping[str, Any], done: Mapping[str, Any], out: Path) -> None:
    common = next(iter(done.values()))
    quantization = {**common, **{name: how for name, how in done.items() if how != common}}
    whole = {**config, "quantization": quantization, "quantization_config": quantization}
    if any(name.endswith("lm_head") for name in done):
        # A head with integers of its own is not the embedding, whatever the source's config.json says.
        whole["tie_word_embeddings"] = False
    (out / "config.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


def _write_index(index: Path, out: Path) -> None:
    found = {name: path.name for path in sorted(out.glob("model*.safetensors")) for name in headers.read_header(path)}
    total = sum(info.size for path in out.glob("model*.safetensors") for info in headers.read_header(path).values())
    (out / index.name).write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": found}, indent=2) + "\n", encoding="utf-8"
    )


def _notes(grids: Mapping[str, Any], dtype: str) -> Iterator[str]:
    if rows := sum(grid.group_size == ROW for grid in grids.values()):
        yield f"{rows} layers have one scale a row, repeated here for each group: same numbers, a larger folder"
    wide = sum(grid.bits > _EXACT_BITS and not grid.symmetric for grid in grids.values())
    if wide and dtype != "torch.float32":
        yield (
            f"{wide} layers have 8-bit zero points: rounded with their scales they may move weights "
            "by up to half a step of the grid"
        )
