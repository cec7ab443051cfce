"""Is the model that config.json describes the one whose layers are stored? Before any weight loads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from specq.core.errors import ModelError, Unsupported
from specq.models import layers as model_layers
from specq.quantize import layers, whole
from specq.quantize.contents import Contents, Layer, canonical, is_expert
from specq.quantize.stored import FIX, is_known

_PLACE = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
# Where embeddings are narrower than what the layers pass on.
_NARROW = ("word_embed_proj_dim", "embedding_size", "embedding_dim", "input_embedding_size")


def check(found: Contents) -> list[str]:
    """Refuse a folder whose config.json asks for other layers than are stored, or for tensors that are not there.

    Returns what else there is to say: tensors that nothing reads, or that transformers has no such model to compare
    with. Linear layers whose names the model's class does not know are passed over, for transformers may rename or
    join tensors.

    Raises:
        ModelError: names the first layer or tensor that does not fit, what config.json says and what is stored.
    """
    _count(found)
    _embedding(found)
    try:
        model = layers.skeleton(found.folder)
    except Unsupported as error:
        return [f"whether a tensor is missing was not looked at: {error}"]
    # Its layers may be no linear ones, and then none of these can be compared.
    with suppress(Unsupported):
        _linears(found, layers.of_model(model))
    return whole.check(found, model)


def _linears(found: Contents, linears: Sequence[layers.Layer]) -> None:
    wanted = {canonical(layer.name): (layer.rows, layer.columns) for layer in linears}
    known = dict(_known(found, wanted))
    for name, layer in known.items():
        read = layer.scheme is None or is_known(layer.scheme)
        if read and layer.count == 1 and (layer.rows, layer.columns) != wanted[name]:
            raise ModelError(
                f"{found.folder}: {layer.tensor} holds {layer.rows} x {layer.columns} weights, and config.json makes "
                f"the layer {wanted[name][0]} x {wanted[name][1]}: {FIX}"
            )
    heads = {canonical(layer.name) for layer in linears if layer.role == "head"}
    missing = [name for name in wanted if name not in known and name not in heads]
    stored = {layer.name for layer in known.values()}
    others = [layer for layer in found.of("linear", "gate") if layer.name not in stored]
    if missing and not others and not any(is_expert(layer) for layer in found.layers.values()):
        raise ModelError(
            f"{found.folder} lacks {len(missing)} of the {len(wanted) - len(heads)} linear layers that config.json "
            f"asks for (first: {missing[0]}): {FIX}"
        )


def check_quantized(found: Contents, engine: str) -> None:
    """Refuse a quantized folder that an engine would fail to load: it does not fit, or nothing here reads its format.

    Folders in floats are passed over.

    Raises:
        ModelError: as `check`, or says what reads it.
    """
    if not found.declared.format:
        return
    check(found)
    if engine == "mlx" and found.declared.format == "gptq":
        raise ModelError(
            f'{found.folder} is a gptq folder, which engine kind "mlx" does not read: type --set engine.kind=hf'
        )
    if engine == "hf":
        from specq.quantize import load

        load.check_readable(found.folder)


def _count(found: Contents) -> None:
    said = model_layers.count(found.config)
    places = {int(at[1]): layer.tensor for layer in found.of("linear") if (at := _PLACE.search(layer.name)) is not None}
    if not said or not places:
        return
    # Heads that predict further tokens are stored as layers after the last.
    most = said + int(found.config.get("num_nextn_predict_layers") or 0)
    stored = max(places) + 1
    if stored > most or stored < said:
        raise ModelError(
            f"{found.folder}/config.json says {said} layers, and {stored} are stored (the last with "
            f"{places[stored - 1]}): {FIX}"
        )


def _embedding(found: Contents) -> None:
    embeddings = found.of("embedding")
    if len(embeddings) != 1:
        return
    (layer,) = embeddings
    hidden = model_layers.size(found.config, "hidden_size", "n_embd", "d_model", "dim")
    vocabulary = model_layers.size(found.config, "vocab_size")
    narrow = any(found.config.get(key) for key in _NARROW)
    for what, said, stored in (
        ("vocab_size", vocabulary, layer.rows),
        ("hidden_size", 0 if narrow else hidden, layer.columns),
    ):
        if said and said != stored:
            raise ModelError(
                f"{found.folder}: {layer.tensor} holds {layer.rows} x {layer.columns} weights, and config.json says "
                f"{what} = {said}: {FIX}"
            )


def _known(found: Contents, wanted: Mapping[str, object]) -> Iterator[tuple[str, Layer]]:
    """The stored linear layers that the model's class has too, under its own names."""
    for layer in found.of("linear", "gate", "head"):
        name = canonical(layer.name)
        for spelled in (name, f"model.{name}", name.removeprefix("model.")):
            if spelled in wanted:
                yield spelled, layer
                break
