"""The audit of a quantized folder: what is really in it, what it weighs, and how far it is from its source.

Works on any folder, made here or elsewhere: nothing is believed that headers and tensors can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from specq.models import headers
from specq.quantize import compare, contents, fits, grid, settings, sizes
from specq.quantize.audited import NO_KERNEL, CalibrationUsed, QuantAudit
from specq.quantize.contents import Contents, Layer, canonical
from specq.quantize.schemes import PACKED, Scheme

_DIFFERENCE = 0.02
_RUNS = {"int4pack": "(bfloat16, cpu or cuda)", "int8pack": "(bfloat16, cpu)"}
# Exponents alone, as OCP MX stores scales: 255 is NaN.
_E8M0_NAN = 255

NO_SOURCE = "not known: no source was given"


def audit_folder(
    folder: Path,
    source: Path | None,
    *,
    fallen_back: Collection[tuple[str, str]] = (),
    calibration: CalibrationUsed | None = None,
    asked: Collection[str] | None = None,
    forward: bool = True,
) -> QuantAudit:
    """Audit a folder of quantized weights, or of plain ones.

    Every floating tensor is read once, one at a time. The forward pass loads the source and then the
    folder; it is left out without a source and with `forward` False.

    Args:
        folder: a model folder: compressed-tensors, MLX, gptq, awq or plain floats.
        source: the folder that it was made from, or None.
        fallen_back: (layer, reason) of layers that the method rounded to nearest after all.
        calibration: what the method saw.
        asked: names of the layers that the recipe asked for; None: all linear layers but the head and gates.
        forward: whether to compare the two models' predictions.

    Raises:
        ModelError: no model folder, broken headers, a format that cannot be read here, or tensors that are not
            what config.json says.
    """
    found = contents.read(folder)
    origin = contents.read(source) if source is not None else None
    notes = _Notes()
    notes.add(*fits.check(found))
    quantized = [layer for layer in found.layers.values() if layer.scheme is not None]
    names = tuple(layer.name for layer in quantized if layer.role != "embedding")
    wanted = set(asked) if asked is not None else {layer.name for layer in found.of("linear")}
    disk = sum(path.stat().st_size for path in headers.weight_files(folder))
    predicted = _predicted(found, origin, _to_predict(found, asked), disk, notes)
    _note_layers(found, origin, quantized, notes)
    non_finite = tuple(_non_finite(folder))
    seen = compare.distance(origin, found) if origin is not None and forward else None
    same = compare.same_text(source, folder) if source is not None else None
    notes.add(*(seen.notes if seen else ()), *(same.notes if same else ()))
    if origin is not None:
        untied = any(layer.role == "head" and layer.scheme for layer in quantized)
        notes.add(*settings.notes(origin.folder, folder, untied=untied, ids=same is None or same.special_ids is None))
    if source is None:
        notes.add("no source was given: no comparison with it")
    shared = [layer.scheme for layer in found.of("linear") if layer.scheme]
    return QuantAudit(
        format=found.declared.format or f"float ({_float_dtype(found)})",
        bits=_same([scheme.bits for scheme in shared]),
        group_size=_same([scheme.group_size for scheme in shared]),
        symmetric=_same([scheme.symmetric for scheme in shared]),
        asked=len(wanted),
        quantized=names,
        skipped=tuple(_skipped(found, wanted, found.layers.values())),
        fallen_back=tuple((str(name), str(why)) for name, why in fallen_back),
        bits_per_weight=8 * found.bytes / found.elements,
        bits_per_quantized_weight=(
            8 * sum(layer.bytes for layer in quantized) / sum(layer.weights for layer in quantized)
            if quantized
            else None
        ),
        disk_bytes=disk,
        predicted_bytes=predicted,
        memory_bytes=found.bytes,
        embeddings=_part(found, "embedding"),
        head="tied" if found.tied else _part(found, "head"),
        non_finite=non_finite,
        kl_mean=seen.kl_mean if seen else None,
        kl_worst=seen.kl_worst if seen else None,
        argmax_agreement=seen.argmax_agreement if seen else None,
        positions=seen.positions if seen else 0,
        same_tokenizer=same.tokenizer if same else None,
        same_special_ids=same.special_ids if same else None,
        same_template=same.template if same else None,
        calibration=calibration,
        # What is stored quantized says nothing of the floats that it was made from.
        source_grid=NO_SOURCE if origin is None and quantized else _source_grid(origin or found, notes),
        kernel=_kernel(quantized),
        notes=tuple(notes.lines),
    )


class _Notes:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, *lines: str) -> None:
        self.lines += lines


def _same(values: list[Any]) -> Any:
    return values[0] if len(set(values)) == 1 else None


def _part(found: Contents, role: str) -> str:
    layers = found.of(role)
    if not layers:
        return "none"
    return "quantized" if any(layer.scheme for layer in layers) else "kept"


def _float_dtype(found: Contents) -> str:
    stored: Counter[str] = Counter()
    for info in found.tensors.values():
        if info.dtype in contents.FLOATS:
            stored[info.dtype] += info.elements
    return stored.most_common(1)[0][0] if stored else "none"


def _skipped(found: Contents, wanted: Collection[str], layers: Collection[Layer]) -> Iterator[tuple[str, str]]:
    """Linear layers and gates in floats, then what was asked for beside them and is in floats or missing."""
    here = {canonical(layer.name): layer for layer in layers}
    asked = {canonical(name): name for name in wanted}
    for layer in layers:
        if layer.scheme is None and (layer.role in ("linear", "gate") or canonical(layer.name) in asked):
            yield (
                layer.name,
                contents.why_kept(layer, found.declared) if found.declared.format else "nothing is quantized",
            )
    yield from ((name, "not in the folder") for key, name in sorted(asked.items()) if key not in here)


def _to_predict(found: Contents, asked: Collection[str] | None) -> set[str]:
    """What was asked for; in a folder without a recipe what its config asks for, and what is quantized beside that."""
    if asked is not None:
        return set(asked)
    linears = {layer.name for layer in found.of("linear") if not found.declared.ignored_by(layer.name)}
    return linears | {layer.name for layer in found.layers.values() if layer.scheme}


def _predicted(found: Contents, origin: Contents | None, wanted: set[str], disk: int, notes: _Notes) -> int | None:
    if origin is None:
        return None
    source_disk = sum(path.stat().st_size for path in headers.weight_files(origin.folder))
    if disk > source_disk:
        notes.add(f"the folder is larger than its source: {disk} bytes on disk, the source has {source_disk}")
    predicted = sizes.predicted_bytes(origin, sizes.schemes_of(found, wanted))
    if abs(disk - predicted) > _DIFFERENCE * predicted:
        notes.add(
            f"the size is not the one predicted: {disk} bytes on disk, {predicted} predicted for {len(wanted)} layers "
            f"({(disk - predicted) / predicted:+.1%})"
        )
    return predicted


def _note_layers(found: Contents, origin: Contents | None, quantized: list[Layer], notes: _Notes) -> None:
    if found.declared.format and not quantized:
        notes.add("config.json says that the weights are quantized, and none are")
    elif not quantized:
        notes.add("nothing is quantized: all weights are floats")
    kinds = Counter(layer.scheme.words() for layer in quantized if layer.scheme and layer.role != "embedding")
    if len(kinds) > 1:
        notes.add("mixed: " + "; ".join(f"{words} ({count} layers)" for words, count in kinds.most_common()))
    if gates := [layer.name for layer in quantized if layer.role == "gate"]:
        notes.add(f"router gates are quantized ({len(gates)}, for example {gates[0]}): tokens may go to other experts")
    if ordered := [layer for layer in quantized if layer.ordered]:
        rule = found.declared.rule(ordered[0].name)
        silent = "" if rule is not None and rule.act_order else ", of which config.json says nothing"
        notes.add(
            f"{len(ordered)} layers group their columns in an order of their own (an index, for example of "
            f"{ordered[0].name}){silent}: no packed kernel runs them, and other readers may ignore the order"
        )
    experts = [layer for layer in found.of("linear") if contents.is_expert(layer)]
    if experts:
        done = sum(layer.count for layer in experts if layer.scheme)
        kept = sum(1 for layer in found.of("gate") if not layer.scheme)
        total = sum(layer.count for layer in experts)
        notes.add(f"mixture of experts: {done} of {total} expert matrices quantized, {kept} router gates kept")
    if origin is not None and origin.tied and not found.tied:
        notes.add("the source's head is its embedding; here the head is stored on its own beside it")
    if found.config.get("tie_word_embeddings") is True and not found.tied:
        notes.add("config.json says that the head is the embedding, but the folder holds a quantized head")
    if origin is not None and quantized and _float_dtype(found) != _float_dtype(origin):
        notes.add(f"kept floats are {_float_dtype(found)}, the source's are {_float_dtype(origin)}")


def _non_finite(folder: Path) -> Iterator[str]:
    """Names of floating tensors, scales stored as exponents among them, that hold NaN or infinite values."""
    import torch
    from safetensors import safe_open

    for path in headers.weight_files(folder):
        infos = headers.read_header(path)
        with safe_open(path, "pt") as file:
            for name, info in infos.items():
                exponents = info.dtype in ("U8", "F8_E8M0") and name.endswith(("scale", "scales"))
                if exponents:
                    if bool((file.get_tensor(name).view(torch.uint8) == _E8M0_NAN).any()):
                        yield name
                elif info.dtype in contents.FLOATS:
                    if not bool(torch.isfinite(file.get_tensor(name)).all()):
                        yield name
                elif info.dtype.startswith("F8_") and not bool(torch.isfinite(file.get_tensor(name).float()).all()):
                    yield name


def _source_grid(origin: Contents, notes: _Notes) -> str | None:
    linears = origin.of("linear")
    schemes = [layer.scheme.words() for layer in linears if layer.scheme]
    if schemes:
        words, count = Counter(schemes).most_common(1)[0]
        text = f"stored quantized: {origin.declared.format}, {words} ({count} of {len(linears)} layers)"
    else:
        found = grid.source_grid(origin.folder, [layer.tensor for layer in linears])
        if found is None:
            return None
        text = found
    notes.add("the source was quantized before: where the grids agree, the cost looks smaller than it is")
    return text


def _kernel(quantized: list[Layer]) -> str:
    if not quantized:
        return f"{NO_KERNEL}nothing is quantized"
    linears = [layer for layer in quantized if layer.role != "embedding"] or quantized
    kinds = Counter(_kernel_of(layer, layer.scheme) for layer in linears if layer.scheme)
    return "; ".join(kind if len(kinds) == 1 else f"{kind} ({count} layers)" for kind, count in kinds.most_common())


def _kernel_of(layer: Layer, scheme: Scheme) -> str:
    if scheme.format.startswith("mlx"):
        return f"{scheme.format} on the MLX engine"
    if scheme.format not in PACKED or scheme.activations or scheme.group_size is None:
        return f"{NO_KERNEL}{scheme.format} runs on other engines"
    if contents.is_expert(layer):
        return f"{NO_KERNEL}transformers holds the experts of a layer as one tensor"
    from specq.quantize.kernels import kernel_for

    kernel = kernel_for(
        bits=scheme.bits,
        group_size=scheme.group_size,
        symmetric=scheme.symmetric,
        rows=layer.rows,
        columns=layer.columns,
        ordered=layer.ordered,
    )
    # In another dtype, or on another device, the same layer may run on none.
    return kernel if kernel.startswith(NO_KERNEL) else f"{kernel} {_RUNS[kernel]}"
