"""Which bytes a model's weights are counted with: given ones, asked bits, a file's tensors, or config.json's word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specq.core.errors import ModelError
from specq.core.nouns import counted as counts
from specq.lab import size_linears, size_packed, size_parameters
from specq.lab.size_find import Found
from specq.lab.size_parameters import Count
from specq.lab.size_weights import NOMINAL, Weights, in_bits, nominal, spread
from specq.models import headers
from specq.models.gguf_header import GgufTensor
from specq.models.layers import first, size

_FLOATS = {"F32": "fp32", "BF16": "bf16", "F16": "fp16", "F64": "fp64"}
_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_EMBEDDINGS = ("embed_tokens", "wte", "word_embeddings", "embed_in", "embeddings", "tok_embeddings", "token_embd")
_HEADS = ("lm_head", "embed_out", "output", "output_layer")
_EXPERTS = (".experts.", ".switch_mlp.", "_exps.")
# Parts of a model that see or hear: held, and read by no token of text.
_ASIDE = ("vision", "visual", "audio", "multi_modal", "mm_", "image", "embed_vision", "embed_audio")
_BITS_OF = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "w4"}
Measured = tuple[Weights, list[str]]


def measure(
    found: Found,
    config: Mapping[str, Any],
    *,
    asked: str | None = None,
    given: int | None = None,
    parameters: int | None = None,
) -> Measured:
    """The weights of a model, and notes on them; `config` is its language part.

    `given` bytes go before `asked` bits (a name of NOMINAL), these before what is stored, and that before what
    config.json says. `parameters` replaces the number of weights that is counted.

    Raises:
        ModelError: nothing tells how many bytes there are, or a header is broken.
    """
    stored: Weights | None = None
    counted: Count | None
    if found.gguf is not None:
        stored = _of_tensors(found.gguf.tensors, config, "", None)
        counted = _count_of(stored, found.gguf.tensors)
    else:
        counted = size_parameters.count(found.place, config)
    if parameters is not None:
        counted = _rescaled(counted, parameters)
    if given is not None:
        return spread(given, counted, "given"), []
    if asked is not None:
        return _nominal(found.place, config, counted, asked)
    if stored is not None:
        return stored, []
    return _folder(found.folder, config, counted) or _by_config(found, config, counted)


def _rescaled(counted: Count | None, parameters: int) -> Count:
    if counted is None:
        return Count(total=parameters, embedding=0)
    part = parameters / counted.total
    return Count(
        total=parameters,
        embedding=round(counted.embedding * part),
        expert=round(counted.expert * part),
        experts=counted.experts,
        active=counted.active,
    )


def _nominal(place: str, config: Mapping[str, Any], counted: Count | None, asked: str) -> Measured:
    if counted is None:
        raise ModelError(
            f"{place}: the weights of model_type {config.get('model_type')!r} are not counted here, and none are in "
            "the folder; missing is their number: give --parameters N, as 7e9, or --weights-bytes N"
        )
    notes = []
    if NOMINAL[asked] < 16:
        notes.append(
            f"{asked} is nominal, {NOMINAL[asked]} bits for each weight: scales, and what stays in 16 bits, come on "
            "top; --weights-bytes N, a quantized folder or a GGUF file count them"
        )
    return nominal(counted, asked), notes


def _by_config(found: Found, config: Mapping[str, Any], counted: Count | None) -> Measured:
    """Without weights: in the dtype that config.json names, or the bits that it says they are quantized to."""
    notes = []
    if found.folder is not None and any(found.folder.glob("*.bin")):
        notes.append("the folder's pickled weights are not read: they are counted as config.json says")
    if ahead := size(config, "num_nextn_predict_layers", "mtp_num_hidden_layers"):
        notes.append(
            f"{counts(ahead, 'layer')} for drafting the next tokens: not counted; an engine that drafts with them "
            "holds them too"
        )
    how = first(config, "quantization_config", "compression_config", "quantization")
    asked: str | None = "bf16"
    named = first(config, "torch_dtype", "dtype")
    plain = _DTYPES.get(str(named).removeprefix("torch."), "bf16")
    if isinstance(how, dict):
        if counted is not None and (told := _packed(found.place, config, how, counted, plain)):
            return told[0], [*notes, *told[1]]
        asked = _quantized_bits(how)
    elif named:
        asked = plain
    if asked is None:
        raise ModelError(
            f"{found.place} says that weights are quantized, not to how many bits, and none are in the folder: give "
            f"--weights-bytes N, or --weights with one of {', '.join(NOMINAL)}"
        )
    weights, more = _nominal(found.place, config, counted, asked)
    return weights, [*notes, *more]


def _packed(
    place: str, config: Mapping[str, Any], how: Mapping[str, Any], counted: Count, plain: str
) -> Measured | None:
    """Bytes by quantization_config and the config's shapes, with a note that says what counts; None where it cannot."""
    if (own := size_parameters.count(place, config)) is None:
        return None
    tied = not own.embedding
    vocab, hidden = size(config, "vocab_size"), size(config, "hidden_size", "n_embd", "d_model")
    table, wide = (vocab, size(config, "word_embed_proj_dim") or hidden), NOMINAL[plain] // 8
    found = size_packed.packed(place, config, how, total=own.total, table=table, wide=wide)
    if found is None:
        return None
    # Another number of weights than the shapes have was given: the bits stay.
    part = counted.total / own.total
    heads = "embedding" if size_linears.HEAD not in found.left else "embedding and head"
    left = [name for name in found.left if name != size_linears.HEAD]
    more = ""
    if left:
        some = f"{left[0]}, ..." if left[1:] else left[0]
        more = f", and {counts(len(left), 'linear layer')} that it leaves ({some}),"
    packs = found.table < wide * table[0] * table[1]
    stay = "norms and routers" if packs else f"{heads}, norms and routers"
    note = (
        f"the weights' bytes are counted from config.json: {counts(found.packed, 'linear layer')} as its "
        f"quantization_config says, scales and zero points included; {stay}{more} in {plain}"
    )
    weights = Weights(
        bytes=round(found.bytes * part),
        precision=in_bits(found.bytes, own.total),
        origin="counted",
        parameters=counted.total,
        used=counted.read,
        looked_up=0.0 if tied else found.table * part,
        expert=found.expert * part,
        experts=own.experts,
        active=own.active,
    )
    return weights, [note]


def _quantized_bits(how: Mapping[str, Any]) -> str | None:
    """The name of NOMINAL for what quantization_config says, or None."""
    method = str(how.get("quant_method"))
    if method in _BITS_OF:
        return _BITS_OF[method]
    if how.get("load_in_4bit") or how.get("load_in_8bit"):
        return "w4" if how.get("load_in_4bit") else "w8"
    bits, groups = first(how, "bits", "w_bit", "num_bits"), how.get("config_groups")
    if bits is None and isinstance(groups, dict):
        found = [(one.get("weights") or {}).get("num_bits") for one in groups.values() if isinstance(one, dict)]
        bits = next((one for one in found if one), None)
    return f"w{bits}" if f"w{bits}" in NOMINAL else None


def _folder(folder: Path | None, config: Mapping[str, Any], counted: Count | None) -> Measured | None:
    """The safetensors of a folder, or what their index says of them; None without either."""
    if folder is None or not any((folder / name).is_file() for name in (headers.SINGLE, headers.INDEX)):
        return None
    if not (folder / headers.SINGLE).is_file():
        index = headers.read_json(folder / headers.INDEX)
        mapped, meta = index.get("weight_map"), index.get("metadata")
        shards = set(map(str, mapped.values())) if isinstance(mapped, dict) else set()
        total = meta.get("total_size") if isinstance(meta, dict) else None
        if isinstance(total, int) and total > 0 and not any((folder / name).is_file() for name in shards):
            note = f"the weights' bytes are those that {headers.INDEX} states; the weights are not here"
            return spread(total, counted, "stored"), [note]
    tensors = headers.tensors(folder)
    kinds: Counter[str] = Counter()
    for one in tensors.values():
        kinds[one.dtype] += one.size
    plain = all(kind in _FLOATS for kind in kinds)
    listed = [
        GgufTensor(name=name, kind=one.dtype, axes=len(one.shape), elements=one.elements, size=one.size)
        for name, one in tensors.items()
    ]
    precision = _FLOATS[kinds.most_common(1)[0][0]] if plain and kinds else ""
    if plain:
        return _of_tensors(listed, config, precision, None), []
    notes = [] if counted else [
        f"how many weights the packed ones stand for is not counted for model_type {config.get('model_type')!r}: "
        "--parameters N gives their bits, and the batch at the ridge"
    ]  # fmt: skip
    return _of_tensors(listed, config, "", counted or Count(total=0, embedding=0)), notes


def _of_tensors(
    tensors: Sequence[GgufTensor], config: Mapping[str, Any], precision: str, counted: Count | None
) -> Weights:
    """Weights by their tensors. `counted` replaces the elements, of packed tensors that do not tell their weights."""
    tied = config.get("tie_word_embeddings") is True or not any(_is(one.name, _HEADS) for one in tensors)
    if tied and any(_is(one.name, _EMBEDDINGS) for one in tensors):
        # Some checkpoints store a tied table twice; it is held once.
        tensors = [one for one in tensors if not _is(one.name, _HEADS)]
    looked_up = [] if tied else [one for one in tensors if _is(one.name, _EMBEDDINGS)]
    aside = [one for one in tensors if _aside(one.name)]
    expert = [one for one in tensors if any(part in one.name for part in _EXPERTS)]
    experts, active = size_parameters.experts_of(config) if expert else (1, 1)
    size, parameters = sum(one.size for one in tensors), _elements(tensors)
    used = parameters - _elements(looked_up) - _elements(aside) - round(_elements(expert) * (1 - active / experts))
    if counted is not None:
        parameters, used = counted.total, counted.read if counted.total else 0
    return Weights(
        bytes=size,
        precision=precision or in_bits(size, parameters),
        origin="stored",
        parameters=parameters or None,
        used=used or None,
        looked_up=sum(one.size for one in looked_up),
        aside=sum(one.size for one in aside),
        expert=sum(one.size for one in expert),
        experts=experts,
        active=active,
    )


def _count_of(weights: Weights, tensors: Sequence[GgufTensor]) -> Count:
    """A GGUF file's own weights, to be held in other bits."""
    looked_up = [one for one in tensors if weights.looked_up and _is(one.name, _EMBEDDINGS)]
    expert = [one for one in tensors if weights.expert and any(part in one.name for part in _EXPERTS)]
    return Count(
        total=_elements(tensors),
        embedding=_elements(looked_up),
        expert=_elements(expert),
        experts=weights.experts,
        active=weights.active,
    )


def _elements(tensors: Sequence[GgufTensor]) -> int:
    return sum(one.elements for one in tensors)


def _is(name: str, words: Sequence[str]) -> bool:
    """Whether a tensor is one of these modules' own."""
    return not _aside(name) and name.split(".")[-2:-1] != [] and name.split(".")[-2] in words


def _aside(name: str) -> bool:
    return any(part.startswith(_ASIDE) for part in name.split("."))
