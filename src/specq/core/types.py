"""What crosses the contracts between packages: plain, frozen, keyword-only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from specq.core.served import ServedAnswer

Rule = Literal["rejection", "greedy_draft", "match", "block", "lossy_threshold"]
EXACT_RULES: tuple[Rule, ...] = ("rejection", "greedy_draft", "match", "block")
"""What comes out has the target's law: only these may be called lossless, and each is held to it by tests."""
LOSSY_RULES: tuple[Rule, ...] = ("lossy_threshold",)
"""What comes out may be another text than the target's; each has the word lossy in its name."""
RULES: tuple[Rule, ...] = (*EXACT_RULES, *LOSSY_RULES)
Method = Literal["model", "lookup", "early_exit"]
METHODS: tuple[Method, ...] = ("model", "lookup", "early_exit")
Match = Literal["ngram", "suffix"]
Prefill = Literal["dense", "packed"]
PREFILLS: tuple[Prefill, ...] = ("dense", "packed")
CacheType = Literal["q8", "q4"]
CACHE_BLOCK = 32
CACHE_BLOCK_BYTES: dict[CacheType, int] = {"q8": 34, "q4": 18}
"""Bytes that a block of CACHE_BLOCK keys or values and its 16-bit scale take in a quantized cache."""
Finish = Literal["eos", "stop", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are drawn; the same for the target and its draft.

    Temperature 0 is greedy. top_k = 0, top_p = 1, min_p = 0 and repetition_penalty = 1 switch
    those off. `eos_ids` None means the model's own; `ignore_eos` decodes to max_new_tokens.
    `stop` strings end a generation at the first token that completes one of them.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    min_new_tokens: int = 0
    max_new_tokens: int = 64
    stop: tuple[str, ...] = ()
    eos_ids: tuple[int, ...] | None = None
    ignore_eos: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One request: its messages, the rendered text and the token ids that the model sees."""

    id: str
    ids: tuple[int, ...]
    text: str = ""
    messages: tuple[dict[str, str], ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """What an arm changes about the target, as data; the baseline changes nothing.

    `source` is another model in the place of the experiment's target, None: that one. At most one of `recipe` (a
    recipe file: the source is quantized by it) and `model` (a folder of the experiment's target that is quantized
    already) is given. `prefill` says what runs passes of many rows through packed weights: a dense
    copy ("dense": as fast as unquantized, memory of both) or the packed kernel ("packed": memory saved).
    `kv_cache` is how keys and values are kept: as computed (None), or in 8 or 4 bits. `clean` and `select` are the
    steps that give its prompts fewer tokens, as in prompts.types.Steps. With `prefix_cache` what a prompt begins with
    like an earlier one is not read again. `batch` is how many requests are answered at once.
    """

    source: str | None = None
    recipe: str | None = None
    model: str | None = None
    prefill: Prefill = "dense"
    kv_cache: CacheType | None = None
    clean: bool = False
    select: float | int | None = None
    prefix_cache: bool = False
    batch: int = 1

    @property
    def weights(self) -> TargetSpec:
        """The same weights, with the cache as computed and prompts as they are: what targets of one load share."""
        return replace(self.loaded, kv_cache=None)

    @property
    def loaded(self) -> TargetSpec:
        """The same target whatever becomes of its prompts and however it is asked: what an engine opens."""
        return replace(self.law, clean=False, select=None)

    @property
    def law(self) -> TargetSpec:
        """The same target asked one prompt at a time, all of it read: what outputs depend on, but for rounding."""
        return replace(self, prefix_cache=False, batch=1)

    @property
    def changes_prompts(self) -> bool:
        """Whether its prompts and items are transformed before it reads them."""
        return self.clean or self.select is not None

    @property
    def reading(self) -> str:
        """What decides how prompts and items are read: the model in the target's place, and what transforms them.

        "" reads them as the experiment's target does.
        """
        steps = ["clean"] * self.clean + [f"select {self.select}"] * (self.select is not None)
        return ", ".join(([self.source] if self.source else []) + (["prompts: " + " + ".join(steps)] if steps else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSpec:
    """A draft as data: every engine translates it into its own settings.

    `model` is a model reference (hub id, folder, GGUF file, built-in, or "self") for the method
    `model`; `layers` is the exit layer of `early_exit`; `match` says how `lookup` finds the earlier
    place: by n-grams of `max_ngram` to `min_ngram` tokens (the most recent place wins), or by the
    longest suffix that occurred before, of at least `min_ngram` tokens (the first place wins).

    `lookup_first` puts such a lookup before the methods `model` and `early_exit`: where it finds a place the whole
    block is copied, elsewhere the whole block is drafted.

    A draft model may be quantized: by a `recipe` file, made once and loaded from its folder; or, where it is
    the target itself, in memory by rounding to nearest at `bits` (4 or 8), `group_size` columns a scale (0:
    one scale a row), the output head too with `head` "quantize". `prefill` is as in TargetSpec.

    `threshold` belongs to the rule lossy_threshold alone: the share of its best token's probability that the
    target must give a proposal.

    With `stop_below` the methods `model` and `early_exit` end a block early: a proposal that the draft itself gives a
    probability below it is the last of its step. None: always k.
    """

    method: Method
    k: int
    rule: Rule = "rejection"
    model: str | None = None
    dtype: str | None = None
    layers: int | None = None
    match: Match = "ngram"
    max_ngram: int = 3
    min_ngram: int = 1
    lookup_first: bool = False
    recipe: str | None = None
    bits: int | None = None
    group_size: int = 0
    head: Literal["keep", "quantize"] = "keep"
    prefill: Prefill = "dense"
    threshold: float | None = None
    stop_below: float | None = None

    @property
    def lossy(self) -> bool:
        """Whether what comes out may be another text than the target's."""
        return self.rule in LOSSY_RULES

    @property
    def proposer(self) -> DraftSpec:
        """The same model whatever becomes of its proposals: what drafts that share one have in common."""
        return replace(self.alone, k=1, rule="rejection", threshold=None, stop_below=None)

    @property
    def alone(self) -> DraftSpec:
        """The same draft without a lookup before it."""
        return replace(self, lookup_first=False, match="ngram", max_ngram=3, min_ngram=1) if self.lookup_first else self

    @property
    def lookup(self) -> DraftSpec:
        """The lookup that goes before this draft, as a draft of its own."""
        return DraftSpec(
            method="lookup",
            k=self.k,
            rule=self.rule,
            match=self.match,
            max_ngram=self.max_ngram,
            min_ngram=self.min_ngram,
            threshold=self.threshold,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One target pass of decoding and what it emitted.

    `context` counts the tokens before the step, `proposed` and `accepted` the draft's tokens,
    `emitted` what the user got (an end inside the block cuts it). Seconds add up to the step:
    drafting, the target's pass, turning logits into tokens (warping, verifying, sampling) and
    the rest (rolling caches back, stop checks, bookkeeping). A plain step proposes nothing. `copied`
    counts the proposals that a lookup copied from the text: all of a step's, or none.
    """

    context: int
    proposed: int
    accepted: int
    emitted: int
    draft_s: float
    verify_s: float
    sample_s: float
    rest_s: float
    copied: int = 0


OnStep = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The answer to one prompt.

    `ids` are the new tokens (an eos that ended it is the last of them); token 1 came from the
    prefill and belongs to no step. `ttft_s` runs from the request to the first token, `e2e_s`
    to the last. `logprobs` holds log p of each new token after warping when it was asked for. `cache_share`
    is the share of the keys and values that attention read from a quantized cache, None without one. `served` is what
    a server told beside it, None of an engine of this process; its `ids` are () where the server gives none.
    `cached_tokens` counts the prompt's tokens that a prefix cache held, None without one. Of `batch` requests at once,
    None alone, `batch_s` runs from the first request to the last token of all.
    """

    prompt_id: str
    ids: tuple[int, ...]
    text: str
    finish: Finish
    ttft_s: float
    e2e_s: float
    steps: tuple[Step, ...] = ()
    logprobs: tuple[float, ...] | None = None
    cache_share: float | None = None
    served: ServedAnswer | None = None
    cached_tokens: int | None = None
    batch: int | None = None
    batch_s: float | None = None

    @property
    def new_tokens(self) -> int:
        """How many tokens it has; of a server that gives no ids, as it was counted there."""
        return len(self.ids) if self.served is None or self.ids else self.served.tokens
