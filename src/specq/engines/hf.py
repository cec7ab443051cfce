"""The reference engine: any transformers causal LM on cpu, cuda or mps, exact and instrumented."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from specq.core.errors import ModelError, PromptError, Unsupported
from specq.core.types import METHODS, RULES, DraftSpec, Generation, Prompt, Sampling
from specq.decoding.batch import BatchChain, BatchDrafter, BatchLookup, decode_batch
from specq.decoding.drafters import Drafter
from specq.decoding.drafters.chain import EarlyExitDrafter, ModelDrafter
from specq.decoding.drafters.lookup import LookupDrafter, NgramIndex, SuffixIndex
from specq.decoding.loop import decode
from specq.decoding.probe import check_rollback
from specq.decoding.request import Request
from specq.decoding.session import Session
from specq.engines.base import Capabilities, OnStep
from specq.engines.packing import pack
from specq.models import facts as model_facts
from specq.models import refs, tokenizers
from specq.models.refs import Resolved

CAPABILITIES = Capabilities(
    rules=RULES, methods=METHODS, devices=("cpu", "cuda", "mps"), step_traces=True, logprobs=True, batches=True
)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class HFEngine:
    """Opens models. Device "auto" takes cuda, then mps, then cpu; dtype "auto" takes the model's own.

    `packed` lays bfloat16 weights out for the CPU's kernels once (same numbers, faster);
    `device_map` "auto" spreads a model over devices through accelerate.
    """

    capabilities = CAPABILITIES

    def __init__(
        self,
        *,
        device: str = "auto",
        dtype: str = "auto",
        attention: str = "sdpa",
        threads: int | None = None,
        device_map: str | None = None,
        packed: bool = True,
    ) -> None:
        if dtype not in ("auto", *DTYPES):
            raise Unsupported(f"dtype {dtype!r}: allowed are auto, {', '.join(DTYPES)}")
        self.device = pick_device(device)
        self.dtype, self.attention, self.device_map, self.packed = dtype, attention, device_map, packed
        if threads is not None:
            torch.set_num_threads(threads)

    def open(self, model: str | Resolved) -> HFTarget:
        """Load a model by reference; raises ModelError before anything heavy happens if it cannot work."""
        resolved = refs.resolve(model) if isinstance(model, str) else model
        return HFTarget(self, resolved, self.load(resolved, self.dtype))

    def load(self, resolved: Resolved, dtype: str) -> PreTrainedModel:
        """The model's weights, in eval mode, packed where that pays."""
        placed: dict[str, Any] = {"device_map": self.device_map} if self.device_map else {}
        try:
            model = AutoModelForCausalLM.from_pretrained(
                resolved.folder,
                dtype=DTYPES.get(dtype, "auto"),
                attn_implementation=self.attention,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                **placed,
            )
        except (OSError, ValueError, ImportError, RuntimeError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ModelError(f"transformers cannot load {resolved.name}: {first}") from error
        model.eval().requires_grad_(False)
        if not self.device_map:
            model.to(self.device)
        if self.packed and self.device == "cpu" and not self.device_map:
            pack(model)
        return model


class HFTarget:
    """A loaded target, and the drafts that were loaded beside it. Closing it frees them all."""

    def __init__(self, engine: HFEngine, resolved: Resolved, model: PreTrainedModel) -> None:
        self.engine, self.resolved, self.model = engine, resolved, model
        self.tokenizer: PreTrainedTokenizerBase = tokenizers.load(resolved)
        self.facts = model_facts.facts(resolved)
        self.eos_ids: tuple[int, ...] = self.facts.eos_ids
        self._drafts: dict[tuple[str, str], PreTrainedModel] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop all weights."""
        self._drafts.clear()
        del self.model
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    @property
    def sync(self) -> Callable[[], None] | None:
        """Waits for the device, or None where work is done when a call returns."""
        return {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize}.get(self.engine.device)

    @property
    def vocabulary(self) -> int:
        """How many logits the target has."""
        return int(self.model.get_output_embeddings().out_features)

    def encode(self, text: str | Sequence[dict[str, str]], *, id: str = "prompt") -> Prompt:
        """A prompt from plain text, or from chat messages through the model's template."""
        messages = () if isinstance(text, str) else tuple(text)
        rendered = tokenizers.render(self.tokenizer, text if isinstance(text, str) else list(text))
        return Prompt(id=id, ids=tuple(rendered.ids), text=rendered.text, messages=messages)

    def decoder(self, draft: DraftSpec | None = None) -> HFDecoder:
        """A decoder for this target; a draft model is loaded on first use and shared after that.

        Raises:
            Unsupported: the target or the draft cannot be rolled back, or the exit layer is out of range.
            TokenizerMismatch: the draft speaks other tokens.
        """
        return HFDecoder(self, draft)

    def draft_model(self, draft: DraftSpec) -> PreTrainedModel:
        """The second model of a draft; "self" is the target itself."""
        assert draft.model is not None
        dtype = draft.dtype or self.engine.dtype
        if draft.model == "self" and dtype == self.engine.dtype:
            return self.model
        key = (draft.model, dtype)
        if key not in self._drafts:
            resolved = self.resolved if draft.model == "self" else refs.resolve(draft.model)
            check_rollback(resolved.folder, drafting=True)
            if draft.model != "self":
                tokenizers.compare(self.resolved, resolved)
            self._drafts[key] = self.engine.load(resolved, dtype)
        return self._drafts[key]


class HFDecoder:
    """Generates with a target and at most one draft. Keeps no state between requests."""

    def __init__(self, target: HFTarget, draft: DraftSpec | None) -> None:
        self.target, self.draft = target, draft
        self.k = 0 if draft is None else draft.k
        if draft is not None:
            check_rollback(target.resolved.folder, drafting=draft.method == "early_exit")
        shares_cache = draft is not None and draft.method == "early_exit"
        self.session = Session(target.model, keep="everything" if shares_cache else "window")
        self._make = self._drafter(draft)

    def generate(
        self,
        prompts: Sequence[Prompt],
        sampling: Sampling,
        *,
        on_step: OnStep | None = None,
        batch_size: int = 1,
        logprobs: bool = False,
    ) -> list[Generation]:
        """Decode prompts one after another, or `batch_size` at a time (each row equals its single run).

        Raises:
            PromptError: a prompt is empty, or does not fit the context with what it may grow to.
            NonFiniteLogits: the model returned NaN or infinite logits.
        """
        requests = [self._request(prompt, sampling, on_step, logprobs) for prompt in prompts]
        if batch_size == 1:
            for request in requests:
                decode(request, self.session, self._make(), self.k, sync=self.target.sync)
        else:
            for first in range(0, len(requests), batch_size):
                decode_batch(requests[first : first + batch_size], self.target.model, self._batch_draft(), self.k)
        return [request.generation() for request in requests]

    def _request(self, prompt: Prompt, sampling: Sampling, on_step: OnStep | None, logprobs: bool) -> Request:
        check_prompt(prompt, sampling, self.target.facts.context)
        return Request(
            prompt=prompt,
            sampling=sampling,
            eos_ids=self.target.eos_ids if sampling.eos_ids is None else sampling.eos_ids,
            tokenizer=self.target.tokenizer,
            rule="rejection" if self.draft is None else self.draft.rule,
            want_logprobs=logprobs,
            on_step=on_step,
        )

    def _drafter(self, draft: DraftSpec | None) -> Callable[[], Drafter | None]:
        """What makes a fresh drafter for each request; loads a second model now."""
        if draft is None:
            return lambda: None
        # greedy_draft proposes the argmax; the other rules want proposals drawn from q.
        sampled = draft.rule != "greedy_draft"
        if draft.method == "lookup":
            return lambda: lookup(draft)
        if draft.method == "early_exit":
            exit_layer = draft.layers or 0
            early = EarlyExitDrafter(self.session, exit_layer, sampled=sampled)
            return lambda: early
        session = Session(self.target.draft_model(draft), keep="everything")
        model = ModelDrafter(session, sampled=sampled, vocabulary=self.target.vocabulary)
        return lambda: model

    def _batch_draft(self) -> BatchDrafter | None:
        draft = self.draft
        if draft is None:
            return None
        if draft.method == "lookup":
            return BatchLookup(lambda: lookup(draft))
        return BatchChain(
            self.target.model if draft.method == "early_exit" else self.target.draft_model(draft),
            layers=draft.layers if draft.method == "early_exit" else None,
            sampled=draft.rule != "greedy_draft",
            vocabulary=self.target.vocabulary,
        )


def lookup(draft: DraftSpec) -> LookupDrafter:
    """A lookup drafter: n-grams up to max_ngram, or the longest repeated suffix when it is 0."""
    if draft.max_ngram == 0:
        return LookupDrafter(SuffixIndex(draft.min_ngram))
    return LookupDrafter(NgramIndex(draft.max_ngram, draft.min_ngram))


def check_prompt(prompt: Prompt, sampling: Sampling, context: int) -> None:
    """Refuse a prompt that is empty or does not fit.

    Raises:
        PromptError: says the lengths and what would fit.
    """
    if not prompt.ids:
        raise PromptError(f"prompt {prompt.id!r} is empty: give it at least one token")
    need = len(prompt.ids) + sampling.max_new_tokens
    if need > context:
        raise PromptError(
            f"prompt {prompt.id!r} has {len(prompt.ids)} tokens and may grow by {sampling.max_new_tokens}; "
            f"the model's context is {context}: shorten it, or set max_new_tokens to at most "
            f"{max(0, context - len(prompt.ids))}"
        )


def pick_device(device: str) -> str:
    """ "auto" to cuda, mps or cpu, whichever is there first.

    Raises:
        Unsupported: the device is unknown or absent.
    """
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, there in present.items() if there)
    if device not in present:
        raise Unsupported(f"device {device!r}: allowed are auto, {', '.join(present)}")
    if not present[device]:
        raise Unsupported(f"device {device!r} is not on this machine: use device auto or cpu")
    return device
