"""The target writes: held-out texts once, then texts to train on until their tokens or their seconds are over."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from specq.core.clock import now
from specq.core.errors import ConfigError, ModelError, PromptError
from specq.distill import overlap, shards
from specq.distill.given import Given, GivenText
from specq.distill.recipe import SELF, Recipe
from specq.distill.sampler import Ask, How, Text, write
from specq.distill.shards import Files
from specq.distill.shorten import last_hidden
from specq.distill.train import STEP_TOKENS
from specq.distill.work import HINT
from specq.models import cache, tokenizers

BATCH = 64
"""Rows that the target writes at once: a pass reads all its weights whatever the rows."""
ANSWER_TOKENS = 256
QUESTION_TOKENS = 48
_LEAVE = BATCH // 8
_SLACK = 1.05
_EMPTY = 8
_TELL_S = 5.0
_MARK = "<<specq-question>>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What stands before a user's first word, and between a question and its answer (empty without a template)."""

    start: tuple[int, ...]
    bridge: tuple[int, ...]

    def ask(self, number: int) -> Ask:
        """A text that the target writes from nothing."""
        return Ask(number=number, prompt=self.start, bridge=self.bridge, question_tokens=QUESTION_TOKENS)


def opening(tokenizer: Any) -> Opening:
    """Of a model's chat template; without one, the token that begins a text."""
    if tokenizer.chat_template:
        text = tokenizers.render(tokenizer, [{"role": "user", "content": _MARK}]).text
        before, _, after = text.partition(_MARK)
        start, bridge = (tuple(tokenizer(part, add_special_tokens=False)["input_ids"]) for part in (before, after))
        if start and bridge:
            return Opening(start=start, bridge=bridge)
    begin = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    start = tuple(tokenizer("\n", add_special_tokens=False)["input_ids"]) if begin is None else (begin,)
    return Opening(start=start, bridge=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The target as it is served, and what its texts have in common."""

    model: PreTrainedModel
    opening: Opening
    eos_ids: tuple[int, ...]
    context: int | None
    recipe: Recipe

    def _how(self, part: str, temperature: float, answer_tokens: int, leave: int) -> How:
        return How(
            temperature=temperature,
            seed=self.recipe.seed,
            part=part,
            answer_tokens=answer_tokens,
            most=self.context or 1 << 30,
            eos_ids=self.eos_ids,
            leave=leave,
        )

    def held_out(self, prompts: Sequence[tuple[int, ...]] | None, path: Path) -> None:
        """Write the texts that overlap is measured on, of these prompts or of the target's own.

        Raises:
            ModelError: the target ends all of them at once.
        """
        if path.is_file():
            return
        asks = [self.opening.ask(n) for n in range(overlap.PROMPTS)]
        if prompts is not None:
            asks = [Ask(number=n, prompt=ids) for n, ids in enumerate(prompts)]
        texts = write(self.model, asks, self._how("held out", overlap.TEMPERATURE, overlap.NEW_TOKENS, 0))
        if not texts:
            raise ModelError("the target ends every held-out text at once: give --prompts FILE with prompts it answers")
        shards.write(path, texts, {"asked": str(len(asks))})

    def train_texts(self, folder: Path, given: Given | None, say: Callable[[str], None]) -> Files:
        """Write files of texts into `folder` until there are enough; those that stand there are kept.

        Raises:
            PromptError, ConfigError: what came of it is too little for one step of training.
            DiskFull: the disk will not hold what is still to come.
        """
        recipe = self.recipe
        avoid = _keys(Files([folder / shards.HELD_OUT]), self.opening)
        written = 0
        while (folder / shards.NAME.format(written)).is_file():
            written += 1
        files = Files([folder / shards.NAME.format(n) for n in range(written)])
        seconds = float(files.about[-1]["seconds"]) if written else 0.0
        taken = int(files.about[-1].get("taken", BATCH * written)) if written else 0
        tokens = sum(entry.learned for entry in files.entries)
        told = now() - _TELL_S

        def tell(more: int, begin: float) -> None:
            nonlocal told
            if now() - told >= _TELL_S:
                told = now()
                say(_told(recipe, tokens + more, seconds + now() - begin))

        while not (tokens >= recipe.tokens if recipe.tokens else seconds >= recipe.sampling_s):
            left = recipe.tokens - tokens if recipe.tokens else None
            work = self._work(given, taken, left)
            if not (work.given or work.asks):
                break
            begin = now()
            texts = self._read(work.given) if work.given else self._write(work.asks, left, partial(tell, begin=begin))
            kept = [text for text in texts if _key(text.ids, text.start, self.opening) not in avoid]
            kept = kept if left is None else _first(kept, left)
            seconds += now() - begin
            tokens += sum(len(text.ids) - text.start for text in kept)
            size = max(len(work.asks), len(work.given))
            taken += size
            path = folder / shards.NAME.format(written)
            about = {"seconds": f"{seconds:.3f}", "dropped": str(size - len(kept)), "taken": str(taken)}
            shards.write(path, kept, about)
            written += 1
            if tokens == 0 and taken >= _EMPTY * BATCH:
                raise ModelError(
                    f"nothing came of {taken} texts: the target ended them at once, or asked what is held "
                    "out; give --texts FILE with prompts"
                )
            tell(0, now())
            _check_room(folder, path, tokens, seconds, recipe)
        found = Files([folder / shards.NAME.format(n) for n in range(written)])
        _check_enough(found, recipe)
        return found

    def _write(self, asks: Sequence[Ask], left: int | None, tell: Callable[[int], None]) -> list[Text]:
        leave = _LEAVE if len(asks) == BATCH else 0
        # The last answers are cut where all of them together would be more than is asked for.
        longest = ANSWER_TOKENS if left is None else min(ANSWER_TOKENS, -(-left // len(asks)))
        return write(self.model, asks, self._how("train", self.recipe.temperature, longest, leave), tell)

    @torch.inference_mode()
    def _read(self, given: Sequence[GivenText]) -> list[Text]:
        """The target's states along texts that stand already."""
        found = []
        for text in given:
            ids = torch.tensor([text.ids[:-1]], device=self.model.device)
            hidden = last_hidden(self.model, ids)[0, text.start - 1 :]
            found.append(Text(ids=text.ids, start=text.start, hidden=hidden.cpu().clone()))
        return found

    def _work(self, given: Given | None, taken: int, left: int | None) -> _Work:
        """The next texts: given ones once, then prompts again and again, or the target's own questions.

        At most BATCH, and no more than `left` tokens take; nothing where all is done.
        """
        rows = BATCH if left is None else min(BATCH, -(-left // ANSWER_TOKENS))
        if given is None:
            return _Work(asks=[self.opening.ask(n) for n in range(taken, taken + rows)])
        if taken < len(given.texts):
            some = given.texts[taken : taken + BATCH]
            running = accumulate((len(text.ids) - text.start for text in some), initial=0)
            return _Work(given=[text for text, before in zip(some, running, strict=False) if not left or before < left])
        if not given.prompts:
            return _Work()
        # Prompts of like length together: a batch waits for its longest one.
        ordered = sorted(given.prompts, key=len)
        first = taken - len(given.texts)
        round_, at = divmod(first, len(ordered))
        # Sampled, an answer differs each time; greedy, once is all there is.
        if round_ and self.recipe.temperature == 0:
            return _Work()
        return _Work(asks=[Ask(number=first + n, prompt=ids) for n, ids in enumerate(ordered[at : at + rows])])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    asks: Sequence[Ask] = ()
    given: Sequence[GivenText] = ()


def _first(texts: Sequence[Text], tokens: int) -> list[Text]:
    """The texts of the first so many learned tokens, the last one cut."""
    found = []
    for text in texts:
        if (size := min(tokens, len(text.ids) - text.start)) > 0:
            found.append(replace(text, ids=text.ids[: text.start + size], hidden=text.hidden[:size]))
            tokens -= size
    return found


def _key(ids: tuple[int, ...], start: int, opening: Opening) -> tuple[int, ...]:
    """What makes two texts the same: what was asked, or the whole where nothing was."""
    return ids if start <= len(opening.start) else ids[:start]


def _keys(held: Files, opening: Opening) -> set[tuple[int, ...]]:
    return {_key(entry.ids, entry.start, opening) for entry in held.entries}


def _told(recipe: Recipe, tokens: int, seconds: float) -> str:
    left = max(0.0, recipe.sampling_s - seconds)
    end = f"of {recipe.tokens}" if recipe.tokens else f"about {left:.0f} s left"
    return f"the target's texts: {tokens} tokens, {end}, {tokens / max(seconds, 1e-9):.0f} tokens/s"


def _check_room(folder: Path, path: Path, tokens: int, seconds: float, recipe: Recipe) -> None:
    """Stop before the disk is full: what is still to come is about like what came."""
    size = sum(file.stat().st_size for file in folder.glob("texts-*.safetensors"))
    share = tokens / recipe.tokens if recipe.tokens else seconds / recipe.sampling_s
    left = size * max(0.0, 1 / share - 1) if share else 0.0
    if left * _SLACK > shutil.disk_usage(path.parent).free:
        raise cache.full(folder, hint=HINT)


def _check_enough(files: Files, recipe: Recipe) -> None:
    tokens = sum(entry.learned for entry in files.entries)
    # Who asks for fewer than a step takes gets one of so many.
    if tokens >= min(STEP_TOKENS, recipe.tokens or STEP_TOKENS):
        return
    if recipe.texts != SELF:
        raise PromptError(
            f"{recipe.texts}: {tokens} tokens came of it, and one step of training takes {STEP_TOKENS}: give more or "
            "longer texts, more --minutes, or --texts self"
        )
    raise ConfigError(
        f"{tokens} tokens were sampled, and one step of training takes {STEP_TOKENS}: give more --minutes or --tokens"
    )
