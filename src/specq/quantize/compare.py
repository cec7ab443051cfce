"""A quantized folder beside its source: one forward pass through both, and do both read text alike?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specq.core.errors import ModelError, PromptError, TokenizerMismatch
from specq.models import headers, tokenizers
from specq.models.layers import first
from specq.models.quiet import quiet
from specq.models.refs import Resolved
from specq.quantize.contents import Contents
from specq.quantize.sample_text import MESSAGES, TEXTS

POSITIONS = 256
_ROW_TOKENS = 64
_CHUNK = 64
# Their decompressed weights are bfloat16 whatever dtype is asked for.
_BFLOAT16_ONLY = ("nvfp4", "mxfp4", "mxfp8")
Logits = Callable[[Sequence[int]], np.ndarray]


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
    """Send fixed text through both models, one at a time, and compare what they predict.

    The text is rendered by the source's tokenizer; rows end before either model's context does. The
    source's log-probabilities wait in memory, [positions, V] float32.
    """
    try:
        rows = _rows(source)
        run, words = _loaded(source)
        reference = [_log_softmax(run(row)) for row in rows]
        del run  # with it goes the source: two models may not fit
        run, other = _loaded(folder)
        notes = [f"the source ran {words}, this folder {other}"] if words != other else [f"both ran {words}"]
        return _measured(reference, (run(row) for row in rows), notes)
    except ModelError as error:
        return _nothing(f"no forward pass: {error}")
    except Exception as error:  # noqa: BLE001 - loaders of other libraries raise anything for a folder they cannot run
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        return _nothing(f"no forward pass: {type(error).__name__}: {why[:200]}")


def _nothing(note: str) -> Distance:
    return Distance(kl_mean=None, kl_worst=None, argmax_agreement=None, positions=0, notes=(note,))


def _measured(reference: Sequence[np.ndarray], given: Iterator[np.ndarray], notes: list[str]) -> Distance:
    total, worst, agree, positions = 0.0, 0.0, 0, 0
    for mine, logits in zip(reference, given, strict=True):
        width = min(mine.shape[1], logits.shape[1])  # padded vocabularies: the padding has no mass worth naming
        for at in range(0, len(mine), _CHUNK):
            p = mine[at : at + _CHUNK, :width].astype(np.float64)
            q = _log_softmax(logits[at : at + _CHUNK, :width]).astype(np.float64)
            with np.errstate(invalid="ignore"):
                # A token that the source never says adds nothing, and 0 times infinity would be NaN.
                kl = np.where(np.isneginf(p), 0.0, np.exp(p) * (p - q)).sum(axis=1)
            if not np.isfinite(kl).all():
                return _nothing(
                    "the forward pass gave NaN or infinite logits, or a token of the source no probability at all: "
                    "the weights or the source's are broken"
                )
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
    with np.errstate(invalid="ignore"):  # broken logits become NaN, which the caller looks for
        shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


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


def _loaded(contents: Contents) -> tuple[Logits, str]:
    """A function from ids to logits [T, V] float32 through the library that reads the folder, and how it computes."""
    kind = contents.declared.format
    return _mlx(contents) if kind.startswith("mlx") or kind in ("gptq", "awq") else _torch(contents)


def _fits_float32(contents: Contents) -> bool:
    import psutil

    return 5 * contents.elements < psutil.virtual_memory().available


def _torch(contents: Contents) -> tuple[Logits, str]:
    import torch
    from transformers import AutoModelForCausalLM

    exact = _fits_float32(contents)
    late = contents.declared.format.startswith(_BFLOAT16_ONLY)
    dtype = torch.float32 if exact and not late else torch.bfloat16
    with quiet():
        opened: Any = AutoModelForCausalLM.from_pretrained(
            contents.folder, dtype=dtype, local_files_only=True, trust_remote_code=False, output_loading_info=True
        )
    model, loaded = opened
    # transformers draws at random what it does not find, and says so in a warning only.
    if absent := sorted(map(str, [*loaded["missing_keys"], *loaded["mismatched_keys"]])):
        raise ModelError(
            f"transformers finds no weights for {len(absent)} tensors in {contents.folder} (first: {absent[0]}) and "
            "would draw them at random"
        )
    model.eval()

    @torch.no_grad()
    def run(ids: Sequence[int]) -> np.ndarray:
        with quiet():  # compressed-tensors unpacks at the first pass, with a bar
            return model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0].float().numpy()

    if exact and late:
        run([0])
        torch.nn.Module.float(model)  # transformers forbids it for what is still packed; nothing is any more
    return run, f"in {'float32' if exact else 'bfloat16 (memory)'} through transformers"


def _mlx(contents: Contents) -> tuple[Logits, str]:
    import mlx.core as mx
    from mlx.utils import tree_map
    from mlx_lm.utils import load_model

    model: Any
    with quiet():
        model, _ = load_model(contents.folder)
    exact = _fits_float32(contents)
    if exact:
        # Scales in float32 give the stored numbers unrounded.
        model.update(
            tree_map(lambda v: v.astype(mx.float32) if mx.issubdtype(v.dtype, mx.floating) else v, model.parameters())
        )

    def run(ids: Sequence[int]) -> np.ndarray:
        return np.array(model(mx.array([list(ids)]))[0].astype(mx.float32))

    return run, f"in {'float32' if exact else 'its own dtype (memory)'} through mlx-lm"


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
