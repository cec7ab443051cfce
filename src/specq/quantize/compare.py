"""A quantized folder beside its source: one forward pass through both, and do both read text alike?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specq.core.errors import ModelError, PromptError, TokenizerMismatch
from specq.models import headers, tokenizers
from specq.models.configs import reason
from specq.models.layers import first
from specq.models.refs import Resolved
from specq.quantize import follows
from specq.quantize.contents import Contents, is_expert
from specq.quantize.passes import Opened, opened
from specq.quantize.sample_text import MESSAGES, TEXTS

POSITIONS = 256
_ROW_TOKENS = 64
_CHUNK = 64
_WEIGHT_ROWS = 512
_RELATED = 0.5
_OTHER = "is that the model it was made of?"
BROKEN = "this folder's forward pass gave NaN or infinite logits"
"""How the note begins of a folder that cannot predict, made of a source that can."""
SOURCE_BROKEN = "the source's own forward pass gave NaN or infinite logits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far a folder's next-token distributions are from the source's, on `positions` positions.

    KL(source || folder) in nats, mean and worst; None where one of the two gave non-finite logits.
    """

    kl_mean: float | None
    kl_worst: float | None
    argmax_agreement: float | None
    positions: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SameText:
    """Whether a folder reads text as its source does; None where one of the two has no tokenizer."""

    tokenizer: bool | None
    special_ids: bool | None
    template: bool | None
    notes: tuple[str, ...]


def distance(source: Contents, folder: Contents) -> Distance:
    """Send fixed text through both models, one at a time, and compare what they predict and their weights.

    The text is rendered by the source's tokenizer; rows end before either model's context does. The
    source's log-probabilities wait in memory, [positions, V] float32.
    """
    fits, notes = _alike(source, folder)
    if not fits:
        return _nothing(*notes)
    try:
        rows = _rows(source)
        model = opened(source)
        reference = [_log_softmax(model.logits(row)) for row in rows]
        weights = _some_weights(source, model)
        words = model.words
        del model  # two models may not fit
        if not all((np.isfinite(mine) | np.isneginf(mine)).all() for mine in reference):
            return _nothing(*notes, f"{SOURCE_BROKEN}: its weights are broken, and there is nothing to compare with")
        model = opened(folder)
        ran = f"the source ran {words}, this folder {model.words}" if words != model.words else f"both ran {words}"
        others = _unrelated(weights, model) or follows.notes(source, folder, model)
        return _measured(reference, map(model.logits, rows), [*notes, ran, *others])
    except ModelError as error:
        # The audit is kept in the folder, and a path would tell others about this machine.
        said = str(error).replace(str(folder.folder), "this folder").replace(str(source.folder), "the source")
        return _nothing(*notes, f"no forward pass: {said}")
    except Exception as error:  # noqa: BLE001 - loaders of other libraries raise anything for a folder they cannot run
        return _nothing(*notes, f"no forward pass: {type(error).__name__}: {reason(error)}")


def _nothing(*notes: str) -> Distance:
    return Distance(kl_mean=None, kl_worst=None, argmax_agreement=None, positions=0, notes=notes)


def _alike(source: Contents, folder: Contents) -> tuple[bool, list[str]]:
    """Whether a folder can have been made of a source by the shapes of its layers, and what speaks against it."""
    mine, other = (
        {layer.name: layer for layer in contents.of("linear", "embedding") if not is_expert(layer)}
        for contents in (source, folder)
    )
    shared = [name for name in mine if name in other]
    if mine and not shared:
        return True, [f"no layer of the source has a name of this folder's: {_OTHER}"]
    sizes = {name: tuple(f"{one.rows} x {one.columns}" for one in (mine[name], other[name])) for name in shared}
    # A vocabulary that was padded has more rows in one of the two.
    unlike = [name for name, (a, b) in sizes.items() if a != b and mine[name].role != "embedding"]
    if unlike:
        first = unlike[0]
        return False, [
            f"{len(unlike)} of {len(shared)} layers have another shape in the source, such as {first} "
            f"({sizes[first][0]}, here {sizes[first][1]}): {_OTHER}; nothing was compared with it"
        ]
    notes = [
        f"the vocabulary has {mine[name].rows} rows in the source and {other[name].rows} here: {_OTHER}"
        for name in shared
        if mine[name].rows != other[name].rows
    ]
    for absent, where in (
        ([name for name in mine if name not in other], "of the source are not in this folder"),
        ([name for name in other if name not in mine], "of this folder are not in the source"),
    ):
        if absent:
            notes.append(f"{len(absent)} layers {where}, such as {absent[0]}: {_OTHER}")
    return True, notes


def _some_weights(source: Contents, model: Opened) -> dict[str, np.ndarray]:
    """Weights of the first, the middle and the last linear layer, the first rows of each."""
    names = [layer.name for layer in source.of("linear") if not is_expert(layer)]
    found = {name: model.weight(name) for name in {*names[:1], *names[len(names) // 2 :][:1], *names[-1:]}}
    # Copied: a view would keep the whole model.
    return {name: weight[:_WEIGHT_ROWS].copy() for name, weight in found.items() if weight is not None}


def _unrelated(weights: Mapping[str, np.ndarray], model: Opened) -> list[str]:
    """Says so where no layer looked at follows the source's.

    Column by column, for AWQ and SmoothQuant move scales between columns: the cosine of each, and their median.
    Rounding to 2 bits leaves more than 0.8, weights of another training give 0.
    """
    found = []
    for mine in ((weight, model.weight(name)) for name, weight in weights.items()):
        if mine[1] is None or mine[1].shape[1:] != mine[0].shape[1:]:
            continue
        a, b = (rows.astype(np.float64) for rows in (mine[0], mine[1][: len(mine[0])]))
        with np.errstate(all="ignore"):
            cosines = (a * b).sum(0) / np.sqrt((a * a).sum(0) * (b * b).sum(0))
        if np.isfinite(cosines).any():
            found.append(float(np.median(cosines[np.isfinite(cosines)])))
    if not found or max(found) >= _RELATED:
        return []
    return [
        f"the weights do not follow the source's (correlation at most {max(0.0, *found):.2f} in {len(found)} layers "
        f"looked at): {_OTHER}"
    ]


def _measured(reference: Sequence[np.ndarray], given: Iterator[np.ndarray], notes: list[str]) -> Distance:
    total, worst, agree, positions = 0.0, 0.0, 0, 0
    for mine, logits in zip(reference, given, strict=True):
        width = min(mine.shape[1], logits.shape[1])  # padded vocabularies: the padding has no mass worth naming
        for at in range(0, len(mine), _CHUNK):
            p = mine[at : at + _CHUNK, :width].astype(np.float64)
            q = _log_softmax(logits[at : at + _CHUNK, :width]).astype(np.float64)
            if not (np.isfinite(q) | np.isneginf(q)).all():
                return _nothing(
                    *notes, f"{BROKEN}, where the source's are finite: rounding or a stored number broke it"
                )
            with np.errstate(invalid="ignore"):
                # A token that the source never says adds nothing, and 0 times infinity would be NaN.
                kl = np.where(np.isneginf(p), 0.0, np.exp(p) * (p - q)).sum(axis=1)
            if not np.isfinite(kl).all():
                return _nothing(*notes, "this folder gives a token of the source no probability at all")
            total, worst = total + float(kl.sum()), max(worst, float(kl.max()))
            agree += int((p.argmax(axis=1) == q.argmax(axis=1)).sum())
            positions += len(p)
    if positions < POSITIONS:
        notes = [*notes, f"the forward pass saw {positions} positions, fewer than {POSITIONS}: the context is short"]
    return Distance(
        kl_mean=max(0.0, total / positions),
        kl_worst=max(0.0, worst),
        argmax_agreement=agree / positions,
        positions=positions,
        notes=tuple(notes),
    )


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):  # broken logits become NaN, which the caller looks for; huge ones minus infinity
        shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
        return (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).astype(np.float32)


def _rows(source: Contents) -> list[list[int]]:
    tokenizer = tokenizers.load(_resolved(source.folder))
    context = int(source.config.get("max_position_embeddings") or source.config.get("n_positions") or _ROW_TOKENS)
    rows = [list(tokenizers.render(tokenizer, text).ids) for text in TEXTS]
    if tokenizer.chat_template:
        with suppress(PromptError):  # a template for other roles: the raw texts are enough
            rows.append(list(tokenizers.render(tokenizer, MESSAGES).ids))
    return [row[: min(context, _ROW_TOKENS)] for row in rows if len(row) > 1]


def _resolved(folder: Path) -> Resolved:
    return Resolved(name=str(folder), kind="folder", folder=folder)


def same_text(source: Path, folder: Path) -> SameText:
    """Compare tokens by id, special ids and the rendered chat template of two folders."""
    try:
        mine, other = tokenizers.load(_resolved(source)), tokenizers.load(_resolved(folder))
    except ModelError as error:
        return SameText(tokenizer=None, special_ids=None, template=None, notes=(str(error),))
    notes = []
    try:
        tokenizers.compare(mine, other)
        same = True
    except TokenizerMismatch as error:
        same = False
        notes.append(str(error).replace("target", "source").replace("draft", "folder").split("; allowed")[0])
    if same and any(mine(text)["input_ids"] != other(text)["input_ids"] for text in TEXTS):
        same = False
        notes.append("the same text becomes other tokens: the files split or normalise it differently")
    for setting in ("truncation", "padding"):
        if (saved := _setting(folder, setting)) != _setting(source, setting):
            same = False
            notes.append(f"tokenizer.json has {setting} = {saved}, which the source has not: engines will apply it")
    special = _special(source, mine), _special(folder, other)
    differing = [f"{k} {v} -> {special[1].get(k)}" for k, v in special[0].items() if special[1].get(k) != v]
    if differing:
        notes.append(f"special ids differ: {', '.join(differing)}")
    return SameText(
        tokenizer=same,
        special_ids=not differing,
        template=_rendered(mine) == _rendered(other),
        notes=tuple(notes),
    )


def _setting(folder: Path, name: str) -> Any:
    path = folder / "tokenizer.json"
    return headers.read_json(path).get(name) if path.is_file() else None


def _special(folder: Path, tokenizer: Any) -> dict[str, Any]:
    found = {f"{name} token": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad", "unk")}
    config, path = headers.read_json(folder / "config.json"), folder / "generation_config.json"
    generation = headers.read_json(path) if path.is_file() else {}
    for name in ("bos", "eos"):  # the ids that end a text: generation_config.json decides, else config.json
        given = first(generation, f"{name}_token_id")
        given = first(config, f"{name}_token_id") if given is None else given
        found[f"{name} of the model"] = sorted(given) if isinstance(given, list) and len(given) > 1 else given
    return found


def _rendered(tokenizer: Any) -> list[str | None]:
    """A question alone and a talk, as text: templates that are written differently may still say the same."""
    if not tokenizer.chat_template:
        return [None]
    texts: list[str | None] = []
    for messages in (MESSAGES[:1], MESSAGES):
        try:
            texts.append(tokenizers.render(tokenizer, messages).text)
        except PromptError as error:
            texts.append(str(error))
    return texts
