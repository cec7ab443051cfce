"""Which ids a draft of this folder may propose: a file beside the weights, read and checked without loading them.

The folder's own head stays whole, so that every loader has an ordinary model, and the folder is a target like any
other. Where specq drafts with it, only the rows of these ids are multiplied. The rows are no second set of weights:
they are taken from the folder's head when it is loaded, so the two cannot part. To cut a head by frequency, without
training it for that, is what FR-Spec does (arXiv 2502.14856).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specq.core import jsonl
from specq.core.errors import ModelError
from specq.models import headers

FILE = "specq_vocabulary.json"
ID_BYTES = 8
"""Of each id in the table that says where a row's logit goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The ids that are kept, rising, of the `rows` of the whole head."""

    ids: tuple[int, ...]
    rows: int

    def size_of(self, whole: int) -> int:
        """The elements or bytes that are left of so many in the whole head, without the table of ids."""
        return whole * len(self.ids) // self.rows

    @property
    def words(self) -> str:
        """How many of how many."""
        return f"{len(self.ids):,} of {self.rows:,} ids"


def path(folder: Path) -> Path | None:
    """The file of a folder, None where a draft of it has the whole vocabulary."""
    found = folder / FILE
    return found if found.is_file() else None


def read(folder: Path) -> Kept | None:
    """The ids that a draft of this folder keeps; None: all.

    Raises:
        ModelError: the file is not as `write` left it, or belongs to a head of another size.
    """
    if (file := path(folder)) is None:
        return None
    value = headers.read_json(file)
    ids, rows = value.get("ids"), value.get("rows")
    if not isinstance(rows, int) or not isinstance(ids, list) or not all(type(one) is int for one in ids):
        raise ModelError(
            f'{file}: expected whole numbers "rows" and "ids": distill the model again, or remove the file'
        )
    if not ids or sorted(set(ids)) != ids or ids[0] < 0 or ids[-1] >= rows:
        raise ModelError(
            f"{file}: its ids must rise, from 0 to {rows - 1}, one or more: distill the model again, or remove it"
        )
    stored = headers.read_json(folder / "config.json").get("vocab_size")
    if stored is not None and stored != rows:
        raise ModelError(
            f"{file} is of a head with {rows} rows, and config.json says {stored}: distill the model again, or remove "
            "the file"
        )
    return Kept(ids=tuple(ids), rows=rows)


def write(folder: Path, ids: Sequence[int], rows: int) -> None:
    """Say which ids of a head of so many rows a draft of this folder keeps."""
    jsonl.write_whole(folder / FILE, {"rows": rows, "ids": sorted(ids)})
