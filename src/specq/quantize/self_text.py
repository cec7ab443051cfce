"""Calibration text that the model writes itself: questions from its own chat template, and its answers to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from specq.core import hashes, jsonl
from specq.core.errors import ModelError, Unsupported
from specq.core.types import Prompt, Sampling
from specq.models import tokenizers
from specq.models.facts import facts
from specq.models.refs import Resolved
from specq.quantize.recipes import Recipe

QUESTION_TOKENS = 48
ROW_TOKENS = 256
"""The longest row that is sampled, whatever the recipe's `tokens`: sampling is the slow part."""
_BATCH = 8
_MARK = "<<specq-question>>"


def write(source: Resolved, recipe: Recipe, path: Path, on_text: Callable[[int, int], None]) -> None:
    """Sample `samples` texts at temperature 1 and write them as JSONL; `on_text` is told (texts done, of how many).

    The template up to where a user would speak is continued into a question, the template with that
    question into an answer. A model without a template writes plain text. Each text has a seed of its own,
    so the file depends on the weights and the recipe's seed alone.

    Raises:
        ModelError: the model cannot be loaded, or writes nothing.
        NonFiniteLogits: its logits are not finite.
    """
    import torch
    from transformers import AutoModelForCausalLM

    from specq.models.quiet import quiet

    tokenizer = tokenizers.load(source)
    with quiet():
        model: Any = AutoModelForCausalLM.from_pretrained(
            source.folder, dtype="auto", local_files_only=True, use_safetensors=True
        )
    model.eval().requires_grad_(False)
    known = facts(source)
    longest = min(recipe.tokens, ROW_TOKENS, known.context or ROW_TOKENS)
    lines: list[dict[str, Any]] = []
    with torch.inference_mode():
        for first in range(0, recipe.samples, _BATCH):
            numbers = list(range(first, min(first + _BATCH, recipe.samples)))
            lines += _texts(_Sampler(model, tokenizer, known.eos_ids, recipe.seed, longest), numbers)
            on_text(len(lines), recipe.samples)
    if not (kept := [line for line in lines if line]):
        raise ModelError(f"{source.name} ends every text at once: give --calibration FILE instead of self")
    jsonl.write_lines_whole(path, kept)


class _Sampler:
    def __init__(self, model: Any, tokenizer: Any, eos_ids: tuple[int, ...], seed: int, longest: int) -> None:
        self.model, self.tokenizer, self.eos_ids, self.seed, self.longest = model, tokenizer, eos_ids, seed, longest

    def continued(self, prompts: list[tuple[int, ...]], part: str, numbers: list[int], most: int) -> list[str]:
        """What the model writes after each prompt, at temperature 1, without its special tokens."""
        from specq.decoding.batch import decode_batch
        from specq.decoding.loop import decode
        from specq.decoding.request import Request
        from specq.decoding.session import Session

        requests = []
        for ids, number in zip(prompts, numbers, strict=True):
            sampling = Sampling(
                temperature=1.0,
                max_new_tokens=max(1, min(most, self.longest - len(ids))),
                seed=hashes.seed_of(self.seed, "calibration", part, number),
            )
            prompt = Prompt(id=str(number), ids=ids)
            requests.append(
                Request(
                    prompt=prompt,
                    sampling=sampling,
                    eos_ids=self.eos_ids,
                    tokenizer=self.tokenizer,
                    rule="rejection",
                )
            )
        try:
            decode_batch(requests, self.model, None, 0)
        except Unsupported:
            # Windows and recurrent states cannot be ragged; one text after another can.
            for request in requests:
                decode(request, Session(self.model, keep="nothing"), None, 0)
        return [request.generation().text for request in requests]


def _texts(sampler: _Sampler, numbers: list[int]) -> list[dict[str, Any]]:
    """One JSONL line a number; {} where the model wrote nothing."""
    start = _start(sampler.tokenizer)
    if not sampler.tokenizer.chat_template:
        wrote = sampler.continued([start] * len(numbers), "text", numbers, sampler.longest)
        return [{"text": text} if text.strip() else {} for text in wrote]
    questions = sampler.continued([start] * len(numbers), "question", numbers, QUESTION_TOKENS)
    asked = [(n, q.strip()) for n, q in zip(numbers, questions, strict=True) if q.strip()]
    prompts = [tokenizers.render(sampler.tokenizer, [{"role": "user", "content": q}]).ids for _, q in asked]
    answers = sampler.continued(prompts, "answer", [n for n, _ in asked], sampler.longest) if asked else []
    lines: list[dict[str, Any]] = [{} for _ in range(len(numbers) - len(asked))]
    for (_, question), answer in zip(asked, answers, strict=True):
        turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        lines.append({"messages": turns if answer.strip() else turns[:1]})
    return lines


def _start(tokenizer: Any) -> tuple[int, ...]:
    """What stands before a user's first word; without a template the token that begins a text."""
    if tokenizer.chat_template:
        text = tokenizers.render(tokenizer, [{"role": "user", "content": _MARK}]).text
        return tuple(tokenizer(text.split(_MARK)[0], add_special_tokens=False)["input_ids"])
    begin = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    return tuple(tokenizer("\n", add_special_tokens=False)["input_ids"]) if begin is None else (begin,)
