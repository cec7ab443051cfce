"""A loaded target of the reference engine: it decodes, says what it is, and scores texts for audits."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specq.core.errors import Unsupported
from specq.core.hashes import seed_of
from specq.core.records import Audited, Divergence, FirstTokens, GapNoise, Sampled
from specq.core.types import CacheType, DraftSpec, Generation, Prompt, Sampling
from specq.decoding import audit, continuations
from specq.decoding import divergence as distances
from specq.decoding.compiled import CompiledSession
from specq.decoding.law import Law
from specq.decoding.probe import takes_blocks
from specq.decoding.quantized_cache import check_folder
from specq.decoding.sampling import Warper
from specq.decoding.session import Keep, Session
from specq.engines import assembled, hf_described, hf_laws
from specq.engines.base import Copies, Scores
from specq.engines.hf_decoder import HFDecoder
from specq.models import facts as model_facts
from specq.models import refs, tokenizers
from specq.models.refs import Resolved
from specq.quantize.in_memory import quantize_in_memory
from specq.quantize.replace import read_bytes

if TYPE_CHECKING:
    from specq.engines.hf import HFEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model as it was loaded: the bytes of its weights, what one decode step reads of them, and what was done.

    `bytes_per_token` None: as its facts say.
    """

    model: PreTrainedModel
    weight_bytes: int
    notes: tuple[str, ...]
    bytes_per_token: int | None = None


class HFTarget:
    """A loaded target, and the drafts that were loaded beside it. Closing it frees them all."""

    def __init__(self, engine: HFEngine, resolved: Resolved, loaded: Loaded) -> None:
        self.engine, self.resolved, self.model, self.loaded = engine, resolved, loaded.model, loaded
        self.kv_cache: CacheType | None = None
        self.tokenizer: PreTrainedTokenizerBase = tokenizers.load(resolved)
        self.facts = model_facts.facts(resolved)
        self.eos_ids: tuple[int, ...] = self.facts.eos_ids
        self._drafts: dict[DraftSpec, Loaded] = {}
        self._blocks: CompiledSession | None = None
        # A recurrent model is exact only token by token: a block would be another function of its state.
        self.takes_blocks = takes_blocks(resolved.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop all weights."""
        self._drafts.clear()
        self._blocks = None
        del self.model, self.loaded
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

    def decoder(self, draft: DraftSpec | None = None, *, prefix_cache: bool = False, slots: int = 1) -> HFDecoder:
        """A decoder for this target, of any number of `slots`; a draft model is loaded on first use and shared.

        Raises:
            Unsupported: the target or the draft cannot be rolled back, or the exit layer is out of range.
            TokenizerMismatch: the draft speaks other tokens.
        """
        return HFDecoder(self, draft, prefix_cache=prefix_cache)

    def with_cache(self, kind: CacheType | None) -> HFTarget:
        """The same weights and drafts with keys and values kept in 8 or 4 bits; None: as computed.

        Raises:
            Unsupported: the model's heads do not fit blocks of 32, or it keeps more than keys and values.
        """
        if kind == self.kv_cache:
            return self
        if kind is not None:
            check_folder(self.resolved.folder, kind)
        other = copy.copy(self)
        other.kv_cache = kind
        return other

    def session(self, keep: Keep) -> Session:
        """A session of the target with its kind of cache, uncompiled."""
        return Session(self.model, keep=keep, kv_cache=self.kv_cache)

    def draft_model(self, draft: DraftSpec) -> PreTrainedModel:
        """The second model of a draft; "self" is the target itself, or its rounded twin where bits are given."""
        return self.loaded_draft(draft).model

    def loaded_draft(self, draft: DraftSpec) -> Loaded:
        """The second model of a draft, loaded once for all specs that load the same.

        Raises:
            Unsupported: the draft names no model, or the target to round is quantized itself.
            ModelError, TokenizerMismatch: it cannot be loaded or speaks other tokens.
        """
        if draft.model is None:
            raise Unsupported("a draft of method 'model' names no model: give one, or \"self\"")
        dtype = draft.dtype or self.engine.dtype
        if draft.model == "self" and dtype == self.engine.dtype and draft.bits is None:
            return self.loaded
        key = dataclasses.replace(draft.proposer, dtype=dtype)
        if key not in self._drafts:
            self._drafts[key] = self._load_draft(draft, dtype)
        return self._drafts[key]

    def _load_draft(self, draft: DraftSpec, dtype: str) -> Loaded:
        if draft.bits is not None:
            model = self.model if dtype == self.engine.dtype else self.engine.load(self.resolved, dtype).model
            head = draft.head == "quantize"
            rounded = quantize_in_memory(
                model,
                bits=draft.bits,
                group_size=draft.group_size,
                head=head,
                prefill=draft.prefill,
                crossovers=self.engine.crossovers,
            )
            return Loaded(
                model=rounded.model,
                weight_bytes=rounded.bytes_held,
                notes=rounded.notes,
                bytes_per_token=read_bytes(rounded.model),
            )
        resolved = self.resolved if draft.model == "self" else refs.resolve(str(draft.model))
        if draft.model != "self":
            tokenizers.compare(self.tokenizer, tokenizers.load(resolved))
        return self.engine.load(resolved, dtype, prefill=draft.prefill, draft=draft.model != "self")

    def warper(self, prompt: Prompt, sampling: Sampling) -> Warper:
        """What turns the logits of a request into probabilities."""
        return Warper(sampling, prompt_tokens=len(prompt.ids), eos_ids=self.ends(sampling))

    def ends(self, sampling: Sampling) -> tuple[int, ...]:
        """The tokens that end a generation: the sampling's own, else the model's."""
        return self.eos_ids if sampling.eos_ids is None else sampling.eos_ids

    def describe(self) -> dict[str, Any]:
        """The fields of records.LoadedModel less `process` and `role`; sizes are those of the loaded tensors."""
        dtype = str(self.model.dtype).removeprefix("torch.")
        return {
            "name": self.resolved.name,
            "weight_bytes": self.loaded.weight_bytes,
            "bytes_per_token": self.loaded.bytes_per_token or self.facts.bytes_per_token(dtype),
            "cache_bytes_per_token": self.facts.cache_bytes_per_token(dtype),
            "parameters": self.facts.parameters,
            "dtype": dtype,
            "sha256": self.facts.weights_sha256,
            "notes": (*self.facts.notes, *self.loaded.notes),
        }

    def describe_draft(self, draft: DraftSpec) -> dict[str, Any] | None:
        """As `describe`, of a draft's second model, with the bytes that it adds; None where it has none."""
        return hf_described.draft(self, draft)

    def gap_noise(self, prompt: Prompt, ids: Sequence[int], rows: int) -> GapNoise:
        """The baseline against itself: its own text in one-row passes and in passes of `rows` rows.

        Where decoding is compiled, so are the latter: texts of compiled passes are scored in uncompiled ones.
        """
        rows = rows if self.takes_blocks else 1
        moves, ties = audit.gap_moves(*self._plain(prompt), prompt.ids, ids, rows, self._compiled_blocks(rows))
        rounded = tuple(float(f"{move:.4g}") for move in moves)
        return GapNoise(prompt=prompt.id, rows=rows, positions=len(moves), ties=ties, moves=rounded)

    def audit_greedy(self, arm: str, prompt: Prompt, ids: Sequence[int], baseline_ids: Sequence[int] | None) -> Audited:
        """An arm's text on the baseline's path at temperature 0; one that equals the baseline's needs no second look.

        `baseline_ids` None: there is no other text, as for the baseline itself, and all of it is looked at.
        """
        return audit.greedy(*self._plain(prompt), arm, prompt, ids, baseline_ids)

    def audit_sampled(
        self, arm: str, prompt: Prompt, repeat: int, generation: Generation, draft: DraftSpec | None, sampling: Sampling
    ) -> Sampled:
        """A sampled text against the law it should come from, and its steps against those expected."""
        return hf_laws.sampled(self, arm, prompt, repeat, generation, draft, sampling)

    def law(self, prompt: Prompt, ids: Sequence[int], sampling: Sampling) -> Law:
        """The target's law, after warping, of each token of a text."""
        return hf_laws.of_target(self, prompt, ids, sampling)

    def draft_law(
        self, draft: DraftSpec, prompt: Prompt, ids: Sequence[int], sampling: Sampling, k: int
    ) -> Law | Copies:
        """A draft's law, after warping, of each token of a text; of a lookup, what it would copy, up to k tokens."""
        return hf_laws.of_draft(self, draft, prompt, ids, sampling, k)

    def first_tokens(
        self, arm: str, prompt: Prompt, draft: DraftSpec | None, sampling: Sampling, draws: int
    ) -> FirstTokens:
        """The first token of a step over `draws` seeds against its exact law, after the prompt's likeliest token."""
        session, warper = self._plain(prompt, sampling)
        with torch.inference_mode():
            best = int(warper.argmax(prompt.ids, session.forward(prompt.ids, last_only=True)))
        longer = audit.continued(prompt, best)
        decoder = self.decoder(draft)
        seeds = [dataclasses.replace(sampling, seed=seed_of(sampling.seed, "first tokens", i)) for i in range(draws)]
        requests = [decoder.request(longer, seed) for seed in seeds]
        # Rolled back twice after a pass, which a window would not survive; an early exit's session keeps all anyway.
        own = draft is not None and draft.method != "early_exit"
        session = self.session("everything") if own else decoder.session
        found = audit.first_tokens(requests, session, decoder.drafter(), decoder.k)
        return FirstTokens(
            arm=arm,
            prompt=prompt.id,
            draws=draws,
            cells=found.cells,
            counts=found.counts,
            expected=found.expected,
            proposed=found.proposed,
        )

    def score(self, prompt_ids: Sequence[int], several: Sequence[Sequence[int]]) -> list[Scores]:
        """Log-probabilities of given tokens after a prompt, unwarped; logits of at most 64 tokens at a time.

        The prompt is read once, or once a continuation where the model cannot take tokens back. On a quantized cache
        each token is read by a pass of its own, as in decoding.
        """
        if self.takes_blocks:
            rows = self.rows(audit.SCORE_ROWS)
            found = continuations.scores(self.session("everything"), prompt_ids, several, rows)
        else:
            found = [audit.score(self.session("nothing"), prompt_ids, ids, 1) for ids in several]
        return [Scores(logprobs=logprobs, argmax=argmax) for logprobs, argmax in found]

    def logits(self, prompt: Prompt, ids: Sequence[int]) -> Iterator[np.ndarray]:
        """Logits [V] float32 before each token of `ids` after the prompt, unwarped; at most 64 at a time."""
        return assembled.logits(self.session("nothing"), prompt, ids, self.rows(audit.SCORE_ROWS))

    def divergence(self, arm: str, prompt: Prompt, ids: Sequence[int], baseline: HFTarget | np.ndarray) -> Divergence:
        """This target against the baseline's or its logits [T, V], both along `ids`, before any warping."""
        rows = self.rows(audit.SCORE_ROWS)
        if isinstance(baseline, np.ndarray):
            found = distances.divergence(baseline, self.session("nothing"), prompt.ids, ids, rows)
        else:
            rows, base = min(rows, baseline.rows(audit.SCORE_ROWS)), baseline.session("nothing")
            found = distances.divergence(base, self.session("nothing"), prompt.ids, ids, rows)
        return assembled.divergence(arm, prompt, found)

    def _compiled_blocks(self, rows: int) -> Session | None:
        """A session whose passes of `rows` rows are compiled, once for all prompts; None where nothing is compiled."""
        if not self.engine.compile:
            return None
        if self._blocks is None or self._blocks.rows != (rows,):
            self._blocks = CompiledSession(self.model, (rows,))
        return self._blocks

    def rows(self, rows: int) -> int:
        """How many tokens a pass over a given text may take; a quantized cache is read back as decoding does."""
        return rows if self.takes_blocks and self.kv_cache is None else 1

    def _plain(self, prompt: Prompt, sampling: Sampling | None = None) -> tuple[Session, Warper]:
        """A fresh session of the target, and the warper of a request."""
        return self.session("nothing"), self.warper(prompt, sampling or Sampling())
