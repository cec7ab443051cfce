"""Decoding through mlx-lm's own loops, plain or with a draft model, counted and timed from outside."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from mlx_lm.generate import generate_step, speculative_generate_step
from mlx_lm.sample_utils import (
    apply_min_p,
    apply_top_k,
    apply_top_p,
    categorical_sampling,
    greedy_sampler,
    make_repetition_penalty,
)

from specq.core.clock import Laps
from specq.core.errors import NonFiniteLogits, Unsupported
from specq.core.hashes import seed_of
from specq.core.types import DraftSpec, Finish, Generation, OnStep, Prompt, Sampling, Step
from specq.decoding.finite import advice
from specq.decoding.request import STOP_MARGIN
from specq.engines.base import one_each
from specq.engines.hf_decoder import check_prompt
from specq.engines.mlx_session import PREFILL, broken

if TYPE_CHECKING:
    from specq.engines.mlx_target import MLXTarget

Emitted = Generator[tuple[int, Any, bool], None, None]
"""Tokens, each with its log-probabilities [V] and whether the draft had proposed it."""
Processor = Callable[[Any, Any], Any]
# Longer than any text: mlx-lm's repetition penalty looks at so many of the last tokens.
_WHOLE_TEXT = 1 << 30


class MLXDecoder:
    """Generates with a target and at most one draft model. Keeps no state between requests.

    mlx-lm gives tokens and whether the draft had proposed them. Steps are rebuilt from that; their whole time
    stands in verify_s, drafting included, since the two cannot be told apart from outside.
    """

    def __init__(self, target: MLXTarget, draft: DraftSpec | None) -> None:
        self.target, self.draft = target, draft
        self.k = 0 if draft is None else draft.k
        self._contexts = [target.facts.context]
        self.notes: tuple[str, ...] = ()
        if draft is None:
            return
        if draft.method != "model" or draft.rule != "match" or draft.lookup_first or draft.stop_below is not None:
            first = " after a lookup" if draft.lookup_first else ""
            first += "" if draft.stop_below is None else f" with stop_below = {draft.stop_below}"
            raise Unsupported(
                f'draft of method "{draft.method}" by rule "{draft.rule}"{first}: the mlx engine has method = "model" '
                'with rule = "match"'
            )
        loaded = target.draft_model(draft)
        self._draft_kv, self.notes = loaded.kv, loaded.notes
        self._contexts.append(loaded.context)
        for role, name, kv in (("target", target.resolved.name, target.kv), ("draft", loaded.name, loaded.kv)):
            if not kv.trims or len(kv.new()) != len(kv.model.layers):
                raise Unsupported(
                    f"the {role} {name} keeps a cache that mlx-lm cannot roll back: allowed is a model whose every "
                    "layer is full attention, or no draft"
                )
        self._draft = _fitted(loaded.kv.model, loaded.vocabulary, target.facts.vocab)
        self._window = min((*target.kv.windows, *loaded.kv.windows), default=None)

    def warm_up(self, tokens: int) -> float:
        """Nothing is compiled ahead here: 0 seconds."""
        return 0.0

    def generate(
        self,
        prompts: Sequence[Prompt],
        sampling: Sampling | Sequence[Sampling],
        *,
        on_step: OnStep | None = None,
        batch_size: int = 1,
    ) -> list[Generation]:
        """Decode prompts one after another; `sampling` is one for all, or one a prompt.

        Raises:
            PromptError: a prompt is empty, or does not fit the context with what it may grow to.
            Unsupported: `batch_size` is not 1; with a draft, a text may outgrow a layer's window.
            NonFiniteLogits: the model returned NaN or infinite logits.
        """
        if batch_size != 1:
            raise Unsupported(f"batch_size = {batch_size} on the mlx engine: allowed is 1")
        each = list(zip(prompts, one_each(sampling, prompts), strict=True))
        for prompt, own in each:
            self._check(prompt, own)
        return [self._one(prompt, own, on_step) for prompt, own in each]

    def _check(self, prompt: Prompt, sampling: Sampling) -> None:
        for context in self._contexts:
            check_prompt(prompt, sampling, context, self.target.facts.vocab)
        if self.draft is None or self._window is None:
            return
        need = len(prompt.ids) + sampling.max_new_tokens + self.k
        if need >= self._window:
            raise Unsupported(
                f"prompt {prompt.id!r}: with its answer and a draft it may have {need} tokens, and beyond a window of "
                f"{self._window} mlx-lm rolls nothing back: shorten it, or decode it without a draft"
            )

    def _one(self, prompt: Prompt, sampling: Sampling, on_step: OnStep | None) -> Generation:
        ends = self.target.ends(sampling)
        ids: list[int] = []
        steps: list[Step] = []
        finish: Finish | None = None
        ttft_s, accepted, emitted = 0.0, 0, 0
        laps = Laps()
        tokens = self.tokens(prompt, sampling)
        while finish is None:
            token, logprobs, drafted = next(tokens)
            laps.lap("verify_s")
            ids.append(token)
            if not np.isfinite(np.asarray(logprobs)[token]):
                models = {"target": self.target.kv.model}
                models |= {} if self.draft is None else {"draft": self._draft_kv.model}
                raise NonFiniteLogits(
                    f"{self.target.resolved.name}: the model returned logits that are not finite after "
                    f"{len(prompt.ids) + len(ids) - 1} tokens",
                    broken(models) or advice(self.target.dtype),
                )
            finish = self._finish(ids, sampling, ends)
            laps.lap("rest_s")
            if len(ids) == 1:
                # The first token came from the prompt and belongs to no step.
                ttft_s = laps.total()
                laps.take()
                continue
            accepted, emitted = accepted + drafted, emitted + 1
            if drafted and finish is None:
                continue
            before = len(ids) - emitted
            step = Step(
                context=len(prompt.ids) + before,
                # mlx-lm drafts one token more than a block could need at the very end.
                proposed=min(self.k, sampling.max_new_tokens - before),
                accepted=accepted,
                emitted=emitted,
                draft_s=0.0,
                sample_s=0.0,
                copied=0,
                **laps.take(),
            )
            steps.append(step)
            if on_step is not None:
                on_step(step)
            accepted = emitted = 0
        # The loop works one token ahead: what it began for nothing must not run into the next request's time.
        tokens.close()
        mx.synchronize()
        return Generation(
            prompt_id=prompt.id,
            ids=tuple(ids),
            text=str(self.target.tokenizer.decode(ids, skip_special_tokens=True)),
            finish=finish,
            ttft_s=ttft_s,
            e2e_s=laps.total(),
            steps=tuple(steps),
            cache_share=self.target.kv.share(len(prompt.ids), [step.context + step.proposed for step in steps]),
        )

    def _finish(self, ids: Sequence[int], sampling: Sampling, ends: Sequence[int]) -> Finish | None:
        if ids[-1] in ends and not sampling.ignore_eos:
            return "eos"
        if sampling.stop:
            # Not more than the last tokens can hold a stop string that was not there before.
            most = max(len(stop.encode()) for stop in sampling.stop) + STOP_MARGIN
            text = str(self.target.tokenizer.decode(list(ids[-most:])))
            if any(stop in text for stop in sampling.stop):
                return "stop"
        return "length" if len(ids) >= sampling.max_new_tokens else None

    def tokens(self, prompt: Prompt, sampling: Sampling) -> Emitted:
        """The tokens of one request as they come; seeded anew."""
        mx.random.seed(seed_of(sampling.seed, "mlx"))
        sampler = make_sampler(sampling, self.target.facts.vocab)
        processors = make_processors(sampling, prompt.ids, self.target.ends(sampling))
        if self.draft is not None:
            yield from self._drafted(prompt, sampling, sampler, processors)
            return
        plain = generate_step(
            mx.array(list(prompt.ids)),
            self.target.kv.model,
            stream=mx.default_stream(mx.default_device()),
            max_tokens=sampling.max_new_tokens,
            sampler=sampler,
            logits_processors=processors,
            prompt_cache=self.target.kv.new(),
            prefill_step_size=PREFILL,
            **self.target.kv.settings(),
        )
        for token, logprobs in plain:
            yield int(token), logprobs, False

    def _drafted(self, prompt: Prompt, sampling: Sampling, sampler: Any, processors: list[Processor]) -> Emitted:
        """Token 1 from the prompt, as in plain decoding; mlx-lm's loop would draft before it."""
        cache, draft_cache = self.target.kv.new(), self._draft_kv.new()
        logits = self.target.kv.prefill(cache, prompt.ids)
        mx.eval(self._draft_kv.prefill(draft_cache, prompt.ids))
        whole = mx.array(list(prompt.ids))
        for processor in processors:
            logits = processor(whole, logits)
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        first = sampler(logprobs)
        mx.eval(first, logprobs)
        yield int(first.item()), logprobs[0], False
        yield from self.block(cache, draft_cache, first, prompt.ids, sampling.max_new_tokens - 1, sampler, processors)

    def block(
        self,
        cache: list[Any],
        draft_cache: list[Any],
        last: Any,
        before: Sequence[int],
        new: int,
        sampler: Any,
        processors: list[Processor],
    ) -> Emitted:
        """mlx-lm's loop from the token `last` [1] on, after caches that hold `before`; at most `new` tokens."""
        text = mx.array(list(before))
        stepped = speculative_generate_step(
            last,
            self.target.kv.model,
            self._draft,
            stream=mx.default_stream(mx.default_device()),
            num_draft_tokens=self.k,
            max_tokens=new,
            sampler=sampler,
            # The loop knows only what it was fed itself, and a penalty counts the prompt too.
            logits_processors=[partial(_after, text, processor) for processor in processors],
            prompt_cache=[*cache, *draft_cache],
            **self.target.kv.settings(),
        )
        with closing(stepped):
            for token, logprobs, drafted in stepped:
                yield int(token), logprobs, bool(drafted)


def _after(before: Any, processor: Processor, ids: Any, logits: Any) -> Any:
    """A processor's logits for a text that begins with `before`."""
    return processor(mx.concatenate([before, ids]), logits)


def make_sampler(sampling: Sampling, vocabulary: int) -> Callable[[Any], Any]:
    """Log-probabilities [1, V] to a token [1].

    The parts are mlx-lm's, in the order of transformers and of the reference engine: temperature, top-k, top-p,
    min-p. mlx-lm's own order has the temperature last and so another law.
    """
    if sampling.temperature == 0.0:
        return greedy_sampler

    def sampler(logprobs: Any) -> Any:
        scores = logprobs * (1.0 / sampling.temperature)
        if 0 < sampling.top_k < vocabulary:
            scores = apply_top_k(scores, sampling.top_k)
        if sampling.top_p < 1.0:
            scores = apply_top_p(scores, sampling.top_p)
        if sampling.min_p > 0.0:
            scores = apply_min_p(scores, sampling.min_p)
        return categorical_sampling(scores, 1.0)

    return sampler


def make_processors(sampling: Sampling, prompt: Sequence[int], ends: Sequence[int]) -> list[Processor]:
    """What happens to logits [1, V] before sampling, given all tokens so far: float32, penalty, minimum length."""
    # In bfloat16 the logarithm of the sum would round near logits to equal ones, and the lower id would win.
    processors: list[Processor] = [lambda ids, logits: logits.astype(mx.float32)]
    if sampling.repetition_penalty != 1.0:
        processors.append(make_repetition_penalty(float(sampling.repetition_penalty), _WHOLE_TEXT))
    if sampling.min_new_tokens > 0 and ends:
        columns, least = mx.array(list(ends)), len(prompt) + sampling.min_new_tokens

        def no_end_yet(ids: Any, logits: Any) -> Any:
            if len(ids) < least:
                logits[:, columns] = -mx.inf
            return logits

        processors.append(no_end_yet)
    return processors


def _fitted(model: Any, rows: int, vocabulary: int) -> Any:
    """A draft whose logits stand on the target's ids: padding beyond them must not be proposed."""
    if rows <= vocabulary:
        return model
    return lambda ids, cache: model(ids, cache=cache)[..., :vocabulary]
