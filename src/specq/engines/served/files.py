"""Where the weights of a server lie on this machine, and what is known of them without loading them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specq.core.types import DraftSpec
from specq.engines.served.kinds.base import UNKNOWN
from specq.engines.served.kinds.weights import GGUF, folder, gguf_file
from specq.models import cache, fetch, refs
from specq.models import facts as model_facts

NAMED = ("openai", "ollama")
"""Kinds whose models go by names that the server knows."""
OF_GGUF = ("llamacpp", "ollama")


def is_named(kind: str, model: str) -> bool:
    """Whether a model goes by a name that only the server knows."""
    return kind in NAMED and not (kind in OF_GGUF and (model.endswith(GGUF) or model.startswith(fetch.PREFIX)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a model as the server holds it: in the `dtype` that it is started with, else as it is stored."""

    weight_bytes: int
    bytes_per_token: int
    cache_bytes_per_token: int
    parameters: int
    dtype: str
    sha256: str
    eos_ids: tuple[int, ...]
    notes: tuple[str, ...]


class Places:
    """From names of models to the files that a kind of server loads."""

    def __init__(self, kind: str, *, revision: str | None = None, fetch: bool = True) -> None:
        self._kind, self._revision, self._fetch = kind, revision, fetch

    def of(self, name: str) -> str:
        """The GGUF file or the folder of a model; the name itself where only the server knows it.

        Raises:
            UserError: there is none.
        """
        if is_named(self._kind, name):
            return name
        if self._kind in OF_GGUF:
            return str(gguf_file(name, download=self._fetch))
        return str(folder(name, revision=self._revision, download=self._fetch))

    def of_draft(self, draft: DraftSpec, target: str) -> str | None:
        """Those of a draft's own model: "self" is the target's; None where it has no model.

        Raises:
            UserError: there is none.
        """
        if draft.method != "model":
            return None
        if draft.model in (None, "self"):
            return target
        if self._kind in OF_GGUF:
            return str(gguf_file(str(draft.model), download=self._fetch))
        return str(folder(str(draft.model), download=self._fetch))


def facts(kind: str, name: str, *, revision: str | None, started: bool, dtype: str | None = None) -> Known | None:
    """What the files of a model say; None where they are not on this machine, or it is not known whether they are it.

    `dtype` is what the server is told to hold floats in, None: as they are stored.

    Raises:
        UserError: the model is broken or cannot be found.
    """
    if not started or is_named(kind, name):
        return None
    resolved = refs.resolve(name, revision=revision)
    found = model_facts.facts(resolved)
    if kind not in OF_GGUF:
        return Known(
            weight_bytes=found.weight_bytes_in(dtype),
            bytes_per_token=found.bytes_per_token(dtype),
            cache_bytes_per_token=found.cache_bytes_per_token(dtype),
            parameters=found.parameters,
            dtype=dtype or found.dtype,
            sha256=found.weights_sha256,
            eos_ids=found.eos_ids,
            notes=found.notes,
        )
    file = gguf_file(name)
    stored, read = gguf_bytes(file, tied=found.tied)
    return Known(
        weight_bytes=stored,
        bytes_per_token=read,
        # Keys and values are kept in 16 bits where no lever says otherwise.
        cache_bytes_per_token=found.cache_bytes_per_token("float16"),
        parameters=found.parameters,
        dtype=gguf_dtype(file),
        sha256=cache.file_sha256(file),
        eos_ids=found.eos_ids,
        notes=found.notes,
    )


def gguf_bytes(file: Path, *, tied: bool) -> tuple[int, int]:
    """Bytes of all tensors of a GGUF file, and of those that one pass of one row reads."""
    from specq.models import gguf_header

    sizes = {tensor.name: tensor.size for tensor in gguf_header.read(file).tensors}
    embedding = 0 if tied or "output.weight" not in sizes else sizes.get("token_embd.weight", 0)
    return sum(sizes.values()), sum(sizes.values()) - embedding


def gguf_dtype(file: Path) -> str:
    """The number format of most of a GGUF file's weights, as its tools name it."""
    from specq.models.gguf import read_header

    return read_header(file).kind


def described(name: str, known: Known | None) -> dict[str, Any]:
    """The fields of records.LoadedModel less `process` and `role`; 0 and "unknown" where nothing is known."""
    if known is None:
        return {
            "name": name,
            **dict.fromkeys(("weight_bytes", "bytes_per_token", "cache_bytes_per_token", "parameters"), 0),
            "dtype": UNKNOWN,
            "sha256": UNKNOWN,
            "notes": ("the server's files are not known here, nor is what it made of them",),
        }
    names = ("weight_bytes", "bytes_per_token", "cache_bytes_per_token", "parameters", "dtype", "sha256", "notes")
    return {"name": name, **{one: getattr(known, one) for one in names}}
