"""Decoding with a loaded target: the drafter that a DraftSpec names, and the loop that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from specq.core.errors import NonFiniteLogits, PromptError, Unsupported
from specq.core.types import CacheType, DraftSpec, Generation, OnStep, Prompt, Sampling
from specq.decoding import finite
from specq.decoding.batch import BatchChain, BatchDrafter, BatchLookup, BatchLookupFirst, decode_batch
from specq.decoding.compiled import CompiledSession
from specq.decoding.drafters import Drafter
from specq.decoding.drafters.chain import EarlyExitDrafter, ModelDrafter
from specq.decoding.drafters.lookup import LookupDrafter, LookupFirstDrafter, NgramIndex, SuffixIndex
from specq.decoding.loop import decode
from specq.decoding.prefix import Slot
from specq.decoding.probe import check_drafting, keeps_prefixes
from specq.decoding.request import Request
from specq.decoding.rules import check_threshold
from specq.decoding.session import Keep, Session
from specq.engines.base import one_each
from specq.models import refs
from specq.models.facts import facts
from specq.models.refs import Resolved

if TYPE_CHECKING:
    from specq.engines.hf import HFTarget

# Rows of a compiled draft's graphs: after full acceptance it is fed two tokens, else one; after copied blocks more.
_ROWS, _CATCH_UP = (1, 2), 8


class HFDecoder:
    """Generates with a target and at most one draft. Keeps no state between requests, but for a prefix cache.

    With `prefix_cache` prompts that are decoded one at a time reuse the beginning that they share with the text before
    them; a draft's own model reads them whole. Batches read all of theirs.
    """

    def __init__(self, target: HFTarget, draft: DraftSpec | None, *, prefix_cache: bool = False) -> None:
        self.target, self.draft = target, draft
        self._own: Session | None = None
        self.k = 0 if draft is None else draft.k
        if draft is not None:
            check_threshold(draft.rule, draft.threshold)
        self._contexts = [target.facts.context]
        if draft is not None:
            separate = None
            if draft.method == "model" and draft.model not in (None, "self"):
                separate = refs.resolve(str(draft.model))
                self._contexts.append(facts(separate).context)
            check_drafting(draft, target.resolved.folder, None if separate is None else separate.folder)
        # An early exit shares the target's cache; plain decoding never rolls back.
        keep: Keep = "nothing" if draft is None else "everything" if draft.method == "early_exit" else "window"
        self.session = self._session("everything" if prefix_cache else keep)
        if prefix_cache:
            check_prefix_cache(target.resolved, compiled=target.engine.compile)
        self._slot = Slot(self.session) if prefix_cache else None
        self.drafter = self._drafter(draft)

    def _session(self, keep: Keep) -> Session:
        if not self.target.engine.compile:
            return self.target.session(keep)
        check_compiled(self.draft, self.target.kv_cache)
        return CompiledSession(self.target.model, (1, self.k + 1))

    def warm_up(self, tokens: int) -> float:
        """Compile what there is to compile for texts of up to `tokens` tokens; returns the seconds that it took."""
        compiled = [session for session in (self.session, self._own) if isinstance(session, CompiledSession)]
        for session in compiled:
            session.warm_up(tokens)
        return sum(session.compile_s for session in compiled)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the weights of a draft model of its own."""
        if self.draft is None or self.draft.method != "model":
            return ()
        loaded = self.target.loaded_draft(self.draft)
        return () if loaded is self.target.loaded else loaded.notes

    def generate(
        self,
        prompts: Sequence[Prompt],
        sampling: Sampling | Sequence[Sampling],
        *,
        on_step: OnStep | None = None,
        batch_size: int = 1,
        logprobs: bool = False,
    ) -> list[Generation]:
        """Decode prompts one after another, or `batch_size` at a time (each row equals its single run).

        `sampling` is one for all, or one a prompt.

        Raises:
            PromptError: a prompt is empty, or does not fit the context with what it may grow to.
            NonFiniteLogits: the model returned NaN or infinite logits; names the model and its draft.
        """
        each = zip(prompts, one_each(sampling, prompts), strict=True)
        requests = [self.request(prompt, own, on_step, logprobs) for prompt, own in each]
        try:
            self._decode(requests, batch_size)
        except NonFiniteLogits as error:
            found = f"{self.target.resolved.name}, {self._named()}: {error.found}"
            raise NonFiniteLogits(found, self._broken() or error.advice) from error
        return [request.generation() for request in requests]

    def _broken(self) -> str:
        """Which weights are not finite, of target or draft; "" where all are."""
        models = {"target": self.target.model}
        if self.draft is not None and self.draft.method == "model":
            models["draft"] = self.target.draft_model(self.draft)
        for who, model in models.items():
            if (name := finite.broken(model)) is not None:
                return f"{name} of the {who} {finite.WEIGHTS}"
        return ""

    def _named(self) -> str:
        if self.draft is None:
            return "plain decoding"
        first = " after lookup" if self.draft.lookup_first else ""
        return f"draft {self.draft.model or self.draft.method}{first}, k = {self.k}, {self.draft.rule}"

    def _decode(self, requests: list[Request], batch_size: int) -> None:
        if batch_size == 1:
            for request in requests:
                decode(request, self.session, self.drafter(), self.k, sync=self.target.sync, slot=self._slot)
                request.cache_share = getattr(self.session.cache, "quantized_share", None)
        elif self.target.engine.compile:
            raise Unsupported(f"compile = true beside batch_size {batch_size}: compiled passes take one row of text")
        else:
            for first in range(0, len(requests), batch_size):
                decode_batch(
                    requests[first : first + batch_size],
                    self.target.model,
                    self._batch_draft(),
                    self.k,
                    sync=self.target.sync,
                    kv_cache=self.target.kv_cache,
                )

    def request(
        self, prompt: Prompt, sampling: Sampling, on_step: OnStep | None = None, logprobs: bool = False
    ) -> Request:
        """A request of this decoder, checked against the contexts of target and draft."""
        for context in self._contexts:
            check_prompt(prompt, sampling, context, self.target.vocabulary)
        return Request(
            prompt=prompt,
            sampling=sampling,
            eos_ids=self.target.ends(sampling),
            tokenizer=self.target.tokenizer,
            rule="rejection" if self.draft is None else self.draft.rule,
            threshold=None if self.draft is None else self.draft.threshold,
            want_logprobs=logprobs,
            on_step=on_step,
        )

    def _drafter(self, draft: DraftSpec | None) -> Callable[[], Drafter | None]:
        """What makes a fresh drafter for each request; loads a second model now."""
        if draft is None:
            return lambda: None
        if draft.method == "lookup":
            return lambda: lookup(draft)
        other = self._by_model(draft)
        return (lambda: LookupFirstDrafter(lookup(draft), other)) if draft.lookup_first else (lambda: other)

    def _by_model(self, draft: DraftSpec) -> Drafter:
        # greedy_draft proposes the argmax; the other rules want proposals drawn from q.
        sampled = draft.rule != "greedy_draft"
        if draft.method == "early_exit":
            return EarlyExitDrafter(self.session, draft.layers or 0, sampled=sampled, stop_below=draft.stop_below)
        model = self.target.draft_model(draft)
        rows = (*_ROWS, _CATCH_UP) if draft.lookup_first else _ROWS
        compiled = self.target.engine.compile
        self._own = CompiledSession(model, rows) if compiled else Session(model, keep="everything")
        return ModelDrafter(self._own, sampled=sampled, vocabulary=self.target.vocabulary, stop_below=draft.stop_below)

    def _batch_draft(self) -> BatchDrafter | None:
        draft = self.draft
        if draft is None:
            return None
        if draft.method == "lookup":
            return BatchLookup(lambda: lookup(draft))
        chain = BatchChain(
            self.target.model if draft.method == "early_exit" else self.target.draft_model(draft),
            layers=draft.layers if draft.method == "early_exit" else None,
            sampled=draft.rule != "greedy_draft",
            vocabulary=self.target.vocabulary,
            stop_below=draft.stop_below,
        )
        return BatchLookupFirst(BatchLookup(lambda: lookup(draft)), chain) if draft.lookup_first else chain


def check_prefix_cache(model: Resolved, *, compiled: bool) -> None:
    """Refuse to keep a model's cache from request to request; its weights are not looked at.

    Raises:
        Unsupported: it keeps a state that cannot be taken back, or passes are compiled.
    """
    if not keeps_prefixes(model.folder):
        raise Unsupported(
            f"prefix_cache: {model.name} cannot be taken back to an earlier token exactly, as a shared beginning needs"
        )
    if compiled:
        raise Unsupported("compile = true beside prefix_cache: compiled passes begin every prompt anew; leave one out")


def check_compiled(draft: DraftSpec | None, kv_cache: CacheType | None) -> None:
    """Refuse what compiled passes cannot do beside an arm's draft and cache.

    Raises:
        Unsupported: the draft shares the target's cache, or the cache is quantized.
    """
    if draft is not None and draft.method == "early_exit":
        raise Unsupported(
            "compile = true beside early_exit: this draft shares the target's cache, which compiled passes keep to "
            "themselves; leave compile out, or draft with lookup or a model"
        )
    if kv_cache is not None:
        raise Unsupported(f'compile = true beside kv_cache = "{kv_cache}": allowed is one of the two')


def lookup(draft: DraftSpec) -> LookupDrafter:
    """A lookup drafter by n-grams or by the longest repeated suffix."""
    if draft.match == "suffix":
        return LookupDrafter(SuffixIndex(draft.min_ngram))
    return LookupDrafter(NgramIndex(draft.max_ngram, draft.min_ngram))


def check_prompt(prompt: Prompt, sampling: Sampling, context: int | None, vocabulary: int) -> None:
    """Refuse a prompt that is empty, does not fit, or has ids that the model has no row for.

    Raises:
        PromptError: says the lengths or the id, and what would fit.
    """
    if not prompt.ids:
        raise PromptError(f"prompt {prompt.id!r} is empty: give it at least one token")
    if not 0 <= min(prompt.ids) <= max(prompt.ids) < vocabulary:
        wrong = next(i for i in prompt.ids if not 0 <= i < vocabulary)
        raise PromptError(
            f"prompt {prompt.id!r} has the token id {wrong}; the model knows 0 to {vocabulary - 1}: "
            "encode it with the model's own tokenizer"
        )
    if context is None:
        return
    need = len(prompt.ids) + sampling.max_new_tokens
    if need > context:
        raise PromptError(
            f"prompt {prompt.id!r} has {len(prompt.ids)} tokens and may grow by {sampling.max_new_tokens}; "
            f"the model's context is {context}: shorten it, or set max_new_tokens to at most "
            f"{max(0, context - len(prompt.ids))}"
        )
