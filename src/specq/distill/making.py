"""The whole of a distillation: check, cut, let the target write, train, measure, and give the folder its name."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, PreTrainedModel

import specq
from specq.core import hashes, jsonl
from specq.core.errors import ModelError, PromptError, Unsupported
from specq.core.nouns import counted
from specq.decoding import finite
from specq.decoding.runnable import check_class
from specq.distill import given, overlap, products, recipe, shards, shorten, train, vocabulary, work, writing
from specq.distill.artifact import FILE, Distilled
from specq.distill.loss import CHUNK, Head
from specq.distill.recipe import SELF, Recipe
from specq.distill.shards import Files
from specq.distill.writing import Writer
from specq.engines.hf import HFEngine
from specq.models import facts as model_facts
from specq.models import kept, refs, tokenizers
from specq.models.configs import load_config
from specq.models.facts import DTYPE_BYTES, Facts
from specq.models.quiet import quiet
from specq.models.refs import Resolved
from specq.quantize import beside, room
from specq.quantize.dense import pack

CURVE_POINTS = 40
# torch and transformers once they are imported.
_LIBRARIES = 700_000_000
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """What is known before weights load; `stay` are the ids that no vocabulary leaves out."""

    source: Resolved
    known: Facts
    keep: tuple[int, ...]
    given: given.Given | None
    prompts: tuple[tuple[int, ...], ...] | None
    tokenizer: Any
    stay: tuple[int, ...]


def make(target: str, asked: Recipe, out: Path, *, resume: bool, revision: str | None, say: Say) -> Distilled:
    """Distill a target into the new folder `out`; what can be refused is refused before weights load.

    What is done is kept in DIR.part until the folder is whole; `resume` goes on from there.

    Raises:
        ConfigError, PromptError, ModelError, Unsupported, RunFolderError: the recipe, texts, model or folder.
        RunFailed: training broke. DiskFull: too little space.
    """
    source = refs.resolve(target, revision=revision)
    final = work.check_out(out, source.folder, resume=resume)
    checked = _check(source, asked)
    with work.opened(final, _identity(asked, source, checked.keep)) as part:
        return _made(checked, asked, part, final, say)


def _check(source: Resolved, asked: Recipe) -> _Checked:
    room.refuse_quantized(source.name, source.folder)
    check_class(source.folder)
    known = model_facts.facts(source)
    keep = recipe.chosen(asked.layers, shorten.depth(load_config(source.folder)))
    shorten.shortened(load_config(source.folder), keep)
    _check_memory(source.name, known, len(keep))
    tokenizer = tokenizers.load(source)
    texts, prompts = None, None
    if asked.texts != SELF:
        path = Path(asked.texts)
        texts = given.texts(path, tokenizer, context=known.context)
        if not texts.prompts:
            _check_tokens(path, sum(len(text.ids) - text.start for text in texts.texts))
    if asked.prompts is not None:
        prompts = given.held_out(
            Path(asked.prompts), tokenizer, overlap.PROMPTS, context=known.context, new_tokens=overlap.NEW_TOKENS
        )
        if texts is not None:
            given.check_apart(texts, prompts, asked.texts, asked.prompts)
    stay = vocabulary.always(tokenizer, known.eos_ids, known.vocab)
    if asked.vocabulary is not None:
        vocabulary.check(asked.vocabulary, stay, known.vocab)
    opening = writing.opening(tokenizer)
    least = len(opening.start) + len(opening.bridge) + (writing.QUESTION_TOKENS if opening.bridge else 0) + 32
    if asked.texts == SELF and known.context is not None and known.context < least:
        raise Unsupported(
            f"{source.name} has a context of {known.context} tokens, and its own texts take {least}: give --texts FILE "
            "and --prompts FILE"
        )
    return _Checked(source=source, known=known, keep=keep, given=texts, prompts=prompts, tokenizer=tokenizer, stay=stay)


def _check_tokens(path: Path, tokens: int) -> None:
    if tokens < train.STEP_TOKENS:
        raise PromptError(
            f"{path}: {tokens} tokens to learn, and one step of training takes {train.STEP_TOKENS}: give more or "
            "longer texts, or prompts that the target answers"
        )


def _check_memory(name: str, known: Facts, layers: int) -> None:
    """Refuse what will not fit: target and draft, and weights, gradients and two moments of what learns in float32."""
    import psutil

    embedded = known.vocab * known.hidden * (1 if known.tied else 2)
    learned = max(0, known.parameters - embedded) * layers // known.layers
    need = 2 * known.weight_bytes + 4 * embedded + 20 * learned + 24 * CHUNK * known.vocab + _LIBRARIES
    free = psutil.virtual_memory().available
    if need > free:
        raise ModelError(
            f"{name} needs about {need / 1e9:.1f} GB of memory to be distilled into {layers} layers and "
            f"{free / 1e9:.1f} GB are free: close other programs, keep fewer layers, or give a smaller target"
        )


def _identity(asked: Recipe, source: Resolved, keep: tuple[int, ...]) -> dict[str, Any]:
    """What must be the same for work to go on: the recipe, the target's weights, the texts. A path is no part of it."""
    values: dict[str, Any] = {**asked.to_json(), "layers": list(keep)}
    for key in ("texts", "prompts"):
        if values[key] not in (None, SELF):
            path = Path(values[key])
            values[key] = f"{path.name} {hashes.of_file(path)[:16]}"
    return {"target": model_facts.facts(source).weights_sha256, **values}


def _made(checked: _Checked, asked: Recipe, part: Path, final: Path, say: Say) -> Distilled:
    source, known = checked.source, checked.known
    say("loading the target, and checking what its layers make alone")
    engine = HFEngine(packed=False, attention=_attention(source.folder))
    with quiet():
        target = engine.load(source, "auto").model
        if (tensor := finite.broken(target)) is not None:
            raise ModelError(f"{source.name}: {tensor} {finite.WEIGHTS}")
        model = shorten.build(target, checked.keep)
    shorten.check(target, model, checked.keep)
    head = products.chosen(Head.of(target), part)
    if head.weight.dtype != target.dtype:
        slow, fast = (str(one).removeprefix("torch.") for one in (target.dtype, head.weight.dtype))
        say(f"{slow} is slow on this machine: texts and training are computed in {fast}")
        target.float()
    if engine.device == "cpu":
        pack(target)
    writer = Writer(
        model=target,
        opening=writing.opening(checked.tokenizer),
        eos_ids=known.eos_ids,
        context=known.context,
        recipe=asked,
    )
    asks = overlap.PROMPTS if checked.prompts is None else len(checked.prompts)
    say(f"the target answers {counted(asks, 'held-out prompt')}")
    writer.held_out(checked.prompts, part / shards.HELD_OUT)
    held = Files([part / shards.HELD_OUT])
    before = overlap.measure(model, held, head)
    say(f"overlap before training: {before.values.mean():.3f}")
    say(
        f"{asked.minutes:g} minutes: {asked.sampling_s / 60:.1f} for the target's texts, "
        f"{asked.training_s(asked.sampling_s) / 60:.1f} for training, the rest to load and to measure"
    )
    files = writer.train_texts(part, checked.given, say)
    sampled_s = float(files.about[-1]["seconds"])
    ids = vocabulary.most_frequent(files.entries, asked.vocabulary, checked.stay, known.vocab)
    # What it said is on disk: its weights make room.
    del target, writer
    dtypes = {name: p.dtype for name, p in model.named_parameters()}
    _cast(model, dict.fromkeys(dtypes, torch.float32))
    floor = train.floor(model, head)
    done = train.train(model, head, files, asked, part, say, limit_s=asked.training_s(sampled_s))
    _cast(model, dtypes)
    say(f"trained {counted(done.steps, 'step')}, {done.tokens} tokens; measuring what is saved, as it is served")
    folder = _saved(model, source, part / "model")
    if ids is not None:
        kept.write(folder, ids, known.vocab)
    draft = refs.resolve(str(folder))
    with quiet():
        served = HFEngine(attention=engine.attention).load(draft, "auto").model
    after = overlap.measure(served, held, head, ids)
    made = Distilled(
        folder=final,
        recipe=_identity(asked, source, checked.keep),
        layers=checked.keep,
        source=source.name,
        source_sha256=known.weights_sha256,
        source_notes=source.notes,
        texts=_texts(files, sampled_s),
        training=_training(done, floor, head),
        held_out={
            "prompts": len(held.entries),
            "asked": int(held.about[0]["asked"]),
            "positions": len(after.values),
            "source": SELF if asked.prompts is None else Path(asked.prompts).name,
            "temperature": overlap.TEMPERATURE,
        },
        overlap={
            "before": overlap.as_json(overlap.interval(before)),
            "after": overlap.as_json(overlap.interval(after)),
            "gain": overlap.as_json(overlap.gain(before, after)),
            "argmax_agreement": {"before": round(before.agreement, 5), "after": round(after.agreement, 5)},
        },
        cost=_cost(known, model_facts.facts(draft), ids),
        notes=() if checked.given is None else checked.given.notes,
        versions={name: metadata.version(name) for name in ("torch", "transformers")} | {"specq": specq.__version__},
        device=engine.device,
        vocabulary=None if ids is None else vocabulary.told(ids, checked.stay, known.vocab, files.entries, after),
    )
    jsonl.write_whole(folder / FILE, made.to_json())
    work.finish(part, folder, final)
    return made


def _attention(folder: Path) -> str:
    try:
        check_class(folder, "sdpa")
    except Unsupported:
        return "eager"
    return "sdpa"


def _cast(model: PreTrainedModel, dtypes: Mapping[str, torch.dtype]) -> None:
    """Each parameter in its dtype; buffers, such as rotary tables, stay as they are."""
    for name, p in model.named_parameters():
        p.data = p.data.to(dtypes[name])


def _saved(model: PreTrainedModel, source: Resolved, folder: Path) -> Path:
    """Write the model as a plain folder with the target's tokenizer, templates and generation settings."""
    if folder.exists():
        shutil.rmtree(folder)
    # transformers refuses to write settings that it reads, such as top_k without do_sample; the target's file is taken.
    model.generation_config = GenerationConfig()
    with quiet():
        model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    beside.take_over(source.folder, folder)
    # A target that was distilled itself has ids of its own.
    (folder / kept.FILE).unlink(missing_ok=True)
    return folder


def _texts(files: Files, seconds: float) -> dict[str, Any]:
    learned = sum(entry.learned for entry in files.entries)
    return {
        "texts": len(files.entries),
        "tokens": learned,
        "tokens_read": sum(len(entry.ids) for entry in files.entries),
        "dropped": sum(int(about["dropped"]) for about in files.about),
        "seconds": round(seconds, 1),
        "tokens_per_s": round(learned / seconds, 1),
    }


def _training(done: train.Done, floor_s: float, head: Head) -> dict[str, Any]:
    return {
        "products": str(head.weight.dtype).removeprefix("torch."),
        "steps": done.steps,
        "tokens": done.tokens,
        "seconds": round(done.seconds, 1),
        "tokens_per_s": round(done.tokens / done.seconds, 1),
        "products_tokens_per_s": round(1 / floor_s, 1),
        "learning_rate": train.LEARNING_RATE,
        "curve": curve(done.curve),
    }


def curve(values: Sequence[tuple[int, int, float]], points: int = CURVE_POINTS) -> list[list[float]]:
    """At most `points` of a curve: (step, tokens) where each stretch ends, and its mean loss."""
    edges = np.linspace(0, len(values), min(points, len(values)) + 1).astype(int)
    stretches = [values[a:b] for a, b in pairwise(edges)]
    return [[s[-1][0], s[-1][1], round(sum(v for *_, v in s) / len(s), 5)] for s in stretches]


def _cost(target: Facts, draft: Facts, ids: Sequence[int] | None) -> dict[str, Any]:
    """Of one token in one row: multiply-adds with the weights, and bytes that are read of them; `ids` are kept."""
    adds = {"draft": round(draft.read_elements[0]), "target": round(target.read_elements[0])}
    read = {"draft": draft.bytes_per_token(), "target": target.bytes_per_token()}
    if ids is not None:
        spared = (draft.vocab - len(ids)) * draft.hidden
        for both, each in ((adds, 1), (read, DTYPE_BYTES[draft.dtype])):
            both |= {"whole_head": both["draft"], "draft": both["draft"] - spared * each}
    ratios = {"multiply_adds": adds, "bytes": read}
    return {name: {**both, "ratio": round(both["draft"] / both["target"], 4)} for name, both in ratios.items()}
