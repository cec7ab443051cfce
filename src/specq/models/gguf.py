"""GGUF files: what their header says, and a plain transformers folder made from one."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import specq
from specq.core.errors import ModelError
from specq.models import cache, gguf_header
from specq.models.check import check_folder, is_whole
from specq.models.gguf_header import MAGIC
from specq.models.quiet import quiet

NOT_QUANTIZED = ("F32", "F16", "BF16", "F64")
ORIGIN = "specq.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What a GGUF file says about itself.

    `kind` is the number format of most elements of the linears (Q4_1, F16, ...). `context` is in
    tokens. Ids are None where the file names none; `eot_id` ends a turn where that is another token
    than `eos_id`.
    """

    architecture: str
    kind: str
    context: int | None
    eos_id: int | None
    eot_id: int | None
    pad_id: int | None
    adds_bos: bool | None

    @property
    def quantized(self) -> bool:
        """Whether the linears lie on a coarser grid than 16-bit floats."""
        return self.kind not in NOT_QUANTIZED


def read_header(path: Path) -> GgufHeader:
    """Read a GGUF file's header; no tensor is loaded.

    Raises:
        ModelError: the file is no GGUF, is truncated, has no tensors or is one part of several.
    """
    found = gguf_header.read(path, whole=False)
    value = found.values.get
    if found.parts > 1:
        raise ModelError(
            f"{path} is one part of {found.parts}: join them first with: llama-gguf-split --merge {path} OUT.gguf"
        )
    architecture = value("general.architecture")
    if not isinstance(architecture, str) or not found.tensors:
        raise ModelError(f"{path} is a GGUF file without a model (no architecture or no tensors)")
    kinds: Counter[str] = Counter()
    for tensor in found.tensors:
        if tensor.name.startswith("blk.") and tensor.axes >= 2:
            kinds[tensor.kind] += tensor.elements
    if not kinds:
        raise ModelError(f"{path} is a GGUF file without the layers of a language model (architecture {architecture})")
    return GgufHeader(
        architecture=architecture,
        kind=kinds.most_common(1)[0][0],
        context=value(f"{architecture}.context_length"),
        eos_id=value("tokenizer.ggml.eos_token_id"),
        eot_id=value("tokenizer.ggml.eot_token_id"),
        pad_id=value("tokenizer.ggml.padding_token_id"),
        adds_bos=value("tokenizer.ggml.add_bos_token"),
    )


def _check_magic(path: Path) -> None:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != MAGIC:
        raise ModelError(f"{path} is not a GGUF file: it starts with {magic!r}, a GGUF starts with {MAGIC!r}")


def convert(path: Path, out: Path, *, scratch: Path, source: str, sha256: str) -> None:
    """Write a GGUF file as a plain transformers folder with bfloat16 safetensors.

    The folder loads with AutoModelForCausalLM.from_pretrained(out, local_files_only=True), stops at
    the file's own eos and keeps its chat template; specq.json in it names `source` (no path), its
    sha256 and the notes that every report repeats. `scratch` is an existing folder for passing use.

    Raises:
        ModelError: transformers cannot read this architecture, or weights are missing from the file.
    """
    header = read_header(path)
    # transformers prefers what lies beside a GGUF over the GGUF itself, so it gets the file alone.
    alone = scratch / "alone"
    alone.mkdir()
    (alone / "model.gguf").symlink_to(path.resolve())
    try:
        with quiet():
            _save(header, alone, out)
    except (ValueError, NotImplementedError, KeyError, ImportError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk, not the model
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(
            f"transformers cannot read {path} (architecture {header.architecture}): {why[:200]}; "
            "give the original safetensors model instead"
        ) from error
    notes = []
    if header.quantized:
        notes.append(f"weights were quantized before: {header.kind}")
    elif header.kind != "BF16":
        notes.append(f"weights were rounded to bfloat16 from {header.kind}")
    origin = {
        "source": source,
        "sha256": sha256,
        "kind": header.kind,
        "notes": notes,
        "specq": specq.__version__,
    }
    (out / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")


def _save(header: GgufHeader, folder: Path, out: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    given: dict[str, Any] = {"gguf_file": "model.gguf", "local_files_only": True}
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, output_loading_info=True, **given)
    model, info = loaded
    if missing := sorted(info["missing_keys"]):
        # transformers fills these with random numbers and goes on.
        raise ValueError(f"{len(missing)} weights are missing, the first is {missing[0]}")
    tokenizer = AutoTokenizer.from_pretrained(folder, **given)
    # The leftover quantization settings block saving, though the weights are plain by now.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model, "quantization_method"):
        del model.quantization_method
    _set_ends(header, model, tokenizer)
    _set_bos(header, tokenizer)
    if context := getattr(model.config, "max_position_embeddings", None) or header.context:
        tokenizer.model_max_length = context
    # True is the loader's default, not the file's wish; decoding would eat spaces before punctuation.
    tokenizer.clean_up_tokenization_spaces = False
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def _set_ends(header: GgufHeader, model: Any, tokenizer: Any) -> None:
    """The GGUF tokenizer that transformers builds may name another eos than the file does."""
    eos = header.eos_id if header.eos_id is not None else model.config.eos_token_id
    if isinstance(eos, int):
        model.config.eos_token_id = eos
        ends = [eos, header.eot_id] if header.eot_id not in (None, eos) else eos
        model.generation_config.eos_token_id = ends
        if tokenizer.eos_token_id != eos:
            tokenizer.eos_token = tokenizer.convert_ids_to_tokens(eos)
    if tokenizer.pad_token_id is None and header.pad_id is not None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(header.pad_id)


def _set_bos(header: GgufHeader, tokenizer: Any) -> None:
    """Make the tokenizer put a bos first exactly when the file says so."""
    from tokenizers.processors import TemplateProcessing

    bos = tokenizer.bos_token_id
    if header.adds_bos is None or bos is None:
        return
    adds = tokenizer("a")["input_ids"][:1] == [bos]
    if adds == header.adds_bos:
        return
    start = f"{tokenizer.bos_token} " if header.adds_bos else ""
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{start}$A",
        pair=f"{start}$A {start}$B",
        special_tokens=[(tokenizer.bos_token, bos)] if header.adds_bos else [],
    )


def folder_of(path: Path) -> Path:
    """The plain folder of a GGUF file: converted once into the cache, under the file's sha256.

    Raises:
        ModelError: the file is no GGUF or cannot be converted.
        DiskFull: the cache's disk is full.
    """
    _check_magic(path)
    sha256 = cache.file_sha256(path)

    def make(scratch: Path) -> Path:
        convert(path, scratch / "model", scratch=scratch, source=path.name, sha256=sha256)
        check_folder(scratch / "model")
        return scratch / "model"

    return cache.build(cache.root() / "gguf" / sha256, make, is_whole=converted)


def converted(folder: Path) -> bool:
    """Whether a folder is a whole conversion; the origin is written last."""
    return (folder / ORIGIN).is_file() and is_whole(folder)
