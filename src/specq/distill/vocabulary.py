"""Which ids a draft's head keeps: the most frequent ones of what it was trained on, and those that always stay.

The folder keeps the whole head and is trained with it, for it is to load everywhere as an ordinary model, also as a
target; the kept ids lie beside it (models.kept) and count where specq drafts with it. A head of which the other rows
are zero would not do: logits of 0 are no small ones, and an architecture without a bias in its head cannot say less.
The mass that the target's law has on other ids bounds what is lost: sum_v min(p, q) <= the kept ids' share of p.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from specq.core.errors import ConfigError
from specq.distill import overlap
from specq.distill.overlap import Measured
from specq.distill.shards import Entry
from specq.stats.bootstrap import mean_difference


def always(tokenizer: Any, eos_ids: Iterable[int], rows: int) -> tuple[int, ...]:
    """The ids that stay whatever the text: special tokens, and those that end a text; rising, below `rows`."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    found = {*tokenizer.all_special_ids, *eos_ids, *(i for i, token in added.items() if token.special)}
    return tuple(sorted(i for i in found if 0 <= i < rows))


def check(asked: int, stay: Sequence[int], rows: int) -> None:
    """Refuse a number of ids that leaves out what stays, or leaves nothing out.

    Raises:
        ConfigError: says what is allowed.
    """
    if not len(stay) < asked < rows:
        why = (
            f"the target has {rows} ids"
            if asked >= rows
            else f"{len(stay)} ids are special or end a text and always stay"
        )
        raise ConfigError(
            f"--vocabulary {asked}: {why}; allowed is {len(stay) + 1} to {rows - 1}, or leave it out for the whole head"
        )


def most_frequent(texts: Iterable[Entry], count: int | None, stay: Sequence[int], rows: int) -> tuple[int, ...] | None:
    """`count` ids, rising: those of `stay`, and the most frequent of the learned tokens; None where none were asked.

    Of equally frequent ones those are taken that are more frequent in the whole texts, prompts too, then the lower ids,
    which tokenizers made of merges gave to more frequent pieces.
    """
    if count is None:
        return None
    learned, whole = np.zeros((2, rows), dtype=np.int64)
    for text in texts:
        np.add.at(learned, list(text.ids[text.start :]), 1)
        np.add.at(whole, list(text.ids), 1)
    learned[list(stay)] = np.iinfo(np.int64).max
    order = np.lexsort((np.arange(rows), -whole, -learned))
    return tuple(sorted(order[:count].tolist()))


def told(
    ids: Sequence[int], stay: Sequence[int], rows: int, texts: Iterable[Entry], measured: Measured
) -> dict[str, Any]:
    """What a draft keeps of the vocabulary, how many ids its texts have, and what of the target's law it gives up."""
    assert measured.kept is not None
    assert measured.lost is not None
    return {
        "ids": len(ids),
        "rows": rows,
        "always": len(stay),
        "seen": len({token for text in texts for token in text.ids[text.start :]}),
        "mass_lost": overlap.as_json(overlap.mean(measured.lost, measured.of)),
        "overlap": overlap.as_json(overlap.mean(measured.kept, measured.of)),
        "overlap_gain": overlap.as_json(mean_difference(measured.values, measured.kept, measured.of)),
    }
