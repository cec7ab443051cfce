"""A loaded target of the MLX engine: it decodes, says what it is, and scores texts for audits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from specq.core.errors import Unsupported
from specq.core.records import Audited, Divergence, FirstTokens, GapNoise, Sampled
from specq.core.types import CacheType, DraftSpec, Generation, Prompt, Sampling
from specq.decoding import audit
from specq.decoding.law import Law
from specq.decoding.sampling import Warper
from specq.decoding.session import Session
from specq.engines import assembled
from specq.engines.base import Scores
from specq.engines.mlx_drafts import LoadedDraft, described, rounding
from specq.models import facts as model_facts
from specq.models import refs, tokenizers
from specq.models.facts import DTYPE_BYTES
from specq.models.refs import Resolved
from specq.quantize import mlx_methods

if TYPE_CHECKING:
    from specq.engines.mlx import MLXEngine

KV_BITS: dict[CacheType, int] = {"q8": 8, "q4": 4}
TOGETHER = "mlx-lm: the time of a step stands in verify_s, drafting and sampling included"


class MLXTarget:
    """A loaded target, and the drafts that were loaded beside it. Closing it frees them all."""

    def __init__(self, engine: MLXEngine, resolved: Resolved, model: Any, *, bits: int | None = None) -> None:
        from specq.engines.mlx_session import KVCache

        self.engine, self.resolved, self.bits = engine, resolved, bits
        self.tokenizer: Any = tokenizers.load(resolved)
        self.facts = model_facts.facts(resolved)
        self.eos_ids: tuple[int, ...] = self.facts.eos_ids
        self.kv: Any = KVCache(model, bits, self.facts.head_dim, resolved.name)
        floats = [value for _, value in mlx_methods.parameters(model) if mlx_methods.is_float(value)]
        self.dtype = str(max(floats, key=lambda value: value.size).dtype).rpartition(".")[2]
        self.weight_bytes = sum(value.nbytes for _, value in mlx_methods.parameters(model))
        # One set of weights in views with other caches: a run asks for them again and again.
        self._views: dict[int | None, MLXTarget] = {bits: self}
        self._models: dict[tuple[Any, ...], tuple[Resolved, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop all weights."""
        import mlx.core as mx

        self._views.clear()
        self._models.clear()
        del self.kv
        mx.clear_cache()

    def with_cache(self, kind: CacheType | None) -> MLXTarget:
        """The same weights with keys and values, a draft's too, in 8 or 4 bits from the first token on.

        Raises:
            Unsupported: mlx-lm cannot quantize this model's cache.
        """
        bits = None if kind is None else KV_BITS[kind]
        if bits not in self._views:
            view = MLXTarget(self.engine, self.resolved, self.kv.model, bits=bits)
            view._views, view._models = self._views, self._models
            self._views[bits] = view
        return self._views[bits]

    def decoder(self, draft: DraftSpec | None = None, *, prefix_cache: bool = False, slots: int = 1) -> Any:
        """An MLXDecoder for this target; a draft model is loaded on first use and shared after that.

        Raises:
            Unsupported: the draft is no model by rule "match", a cache cannot be rolled back, or prompts are to share
                a cache or passes.
            TokenizerMismatch: the draft speaks other tokens.
        """
        from specq.engines.mlx_decoder import MLXDecoder

        if prefix_cache or slots > 1:
            raise Unsupported("the mlx engine decodes one prompt at a time and keeps no cache between prompts")
        return MLXDecoder(self, draft)

    def draft_model(self, draft: DraftSpec) -> LoadedDraft:
        """The second model of a draft; "self" is the target, or a rounded copy of it where bits are asked for."""
        from specq.engines.mlx_session import KVCache

        if draft.model is None:
            raise Unsupported("a draft of method 'model' names no model: give one, or \"self\"")
        if draft.recipe is not None:
            raise Unsupported("a draft by a recipe is made first: give the folder that it makes as the draft's model")
        dtype, own = draft.dtype or self.engine.dtype, draft.model == "self"
        rounded = None if draft.bits is None else rounding(draft)
        key = (draft.model, dtype, rounded)
        if own and rounded is None and dtype == self.engine.dtype:
            resolved, model = self.resolved, self.kv.model
        else:
            if key not in self._models:
                resolved = self.resolved if own else refs.resolve(draft.model)
                tokenizers.compare(self.tokenizer, tokenizers.load(resolved))
                self._models[key] = resolved, self.engine.load(resolved, dtype, rounded)
            resolved, model = self._models[key]
        facts = model_facts.facts(resolved)
        return LoadedDraft(
            name=resolved.name,
            kv=KVCache(model, self.bits, facts.head_dim, resolved.name),
            vocabulary=facts.vocab,
            context=facts.context,
            notes=() if rounded is None else (f"draft rounded to nearest in memory: {rounded.words()}",),
        )

    def ends(self, sampling: Sampling) -> tuple[int, ...]:
        """The tokens that end a generation: the sampling's own, else the model's."""
        return self.eos_ids if sampling.eos_ids is None else sampling.eos_ids

    def describe(self) -> dict[str, Any]:
        """The fields of records.LoadedModel less `process` and `role`; sizes are those of the loaded tensors."""
        notes = [TOGETHER]
        if self.bits is not None:
            notes.append(f"keys and values, a draft's too, in {self.bits} bits from the first token on")
        if any(hasattr(layer, "bits") for _, layer in mlx_methods.leaves(self.kv.model)):
            notes.append("mlx: packed weights run every pass, there is no dense copy for the prompt")
        return {
            "name": self.resolved.name,
            "weight_bytes": self.weight_bytes,
            "bytes_per_token": self.facts.bytes_per_token(self.dtype),
            "cache_bytes_per_token": self.kv.bytes_per_token(self.facts.cache_elements, DTYPE_BYTES[self.dtype]),
            "parameters": self.facts.parameters,
            "dtype": self.dtype,
            "sha256": self.facts.weights_sha256,
            "notes": (*self.facts.notes, *notes),
        }

    def describe_draft(self, draft: DraftSpec) -> dict[str, Any] | None:
        """As `describe`, of a draft's second model, which shares no weights; None where it has none."""
        return described(self, draft)

    def score(self, prompt_ids: Sequence[int], several: Sequence[Sequence[int]]) -> list[Scores]:
        """Log-probabilities of given tokens after a prompt, unwarped; logits of at most 64 tokens at a time."""
        rows = self.rows(audit.SCORE_ROWS)
        found = [audit.score(self.session(), prompt_ids, ids, rows) for ids in several]
        return [Scores(logprobs=logprobs, argmax=argmax) for logprobs, argmax in found]

    def gap_noise(self, prompt: Prompt, ids: Sequence[int], rows: int) -> GapNoise:
        """The baseline against itself: its own text in one-row passes and in passes of `rows` rows."""
        rows = self.rows(rows)
        moves, ties = audit.gap_moves(self.session(), self.warper(prompt), prompt.ids, ids, rows)
        rounded = tuple(float(f"{move:.4g}") for move in moves)
        return GapNoise(prompt=prompt.id, rows=rows, positions=len(moves), ties=ties, moves=rounded)

    def audit_greedy(self, arm: str, prompt: Prompt, ids: Sequence[int], baseline_ids: Sequence[int] | None) -> Audited:
        """An arm's text on the baseline's path at temperature 0."""
        return audit.greedy(self.session(), self.warper(prompt), arm, prompt, ids, baseline_ids)

    def audit_sampled(
        self, arm: str, prompt: Prompt, repeat: int, generation: Generation, draft: DraftSpec | None, sampling: Sampling
    ) -> Sampled:
        """A sampled text against the law it should come from, and its steps against those expected."""
        from specq.engines import mlx_audit

        return mlx_audit.sampled(self, arm, prompt, repeat, generation, draft, sampling)

    def law(self, prompt: Prompt, ids: Sequence[int], sampling: Sampling) -> Law:
        """The target's law, after warping, of each token of a text."""
        from specq.engines import mlx_audit

        return mlx_audit.text_law(self, None, prompt, ids, sampling)

    def draft_law(self, draft: DraftSpec, prompt: Prompt, ids: Sequence[int], sampling: Sampling, k: int) -> Law:
        """A draft's law, after warping, of each token of a text."""
        from specq.engines import mlx_audit

        return mlx_audit.text_law(self, draft, prompt, ids, sampling)

    def first_tokens(
        self, arm: str, prompt: Prompt, draft: DraftSpec | None, sampling: Sampling, draws: int
    ) -> FirstTokens:
        """The first token of a step over `draws` seeds against its exact law, after the prompt's likeliest token."""
        from specq.engines import mlx_audit

        return mlx_audit.first_tokens(self, arm, prompt, draft, sampling, draws)

    def logits(self, prompt: Prompt, ids: Sequence[int]) -> Iterator[np.ndarray]:
        """Logits [V] float32 before each token of `ids` after the prompt, unwarped; at most 64 at a time."""
        return assembled.logits(self.session(), prompt, ids, self.rows(audit.SCORE_ROWS))

    def divergence(self, arm: str, prompt: Prompt, ids: Sequence[int], baseline: Any) -> Divergence:
        """This target against the baseline's or its logits [T, V], both read along `ids` after the prompt.

        Raises:
            Unsupported: the baseline is another engine's.
        """
        from specq.engines import mlx_audit

        if not isinstance(baseline, MLXTarget | np.ndarray):
            raise Unsupported("the mlx engine compares with a baseline of its own: give both arms engine kind mlx")
        return mlx_audit.divergence(self, arm, prompt, ids, baseline)

    def rows(self, rows: int) -> int:
        """How many tokens a pass over a given text may take; a quantized cache is read back as decoding does."""
        return rows if self.kv.trims and self.bits is None else 1

    def session(self, draft: LoadedDraft | None = None) -> Session:
        """A fresh session of the target, or of a draft."""
        from specq.engines.mlx_session import as_session

        return as_session(self.kv if draft is None else draft.kv, self.dtype)

    def warper(self, prompt: Prompt, sampling: Sampling | None = None) -> Warper:
        """The warper of a request; a fixed text needs that of temperature 0."""
        sampling = sampling or Sampling()
        return Warper(sampling, prompt_tokens=len(prompt.ids), eos_ids=self.ends(sampling))
