"""A lever of an experiment file: one named change from the baseline, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from specq.core.errors import ConfigError
from specq.core.types import EXACT_RULES, METHODS, CacheType, DraftSpec, Match, Method, Prefill, Rule, TargetSpec
from specq.prompts.types import Steps, check_select
from specq.quantize.recipes import ROW

Kind = Literal["draft", "quantize", "kv_cache", "model", "prompt", "prefix_cache", "batch"]
KINDS: tuple[Kind, ...] = ("draft", "quantize", "kv_cache", "model", "prompt", "prefix_cache", "batch")
LATER_KINDS = ("engine",)
LOSSLESS_KINDS: tuple[Kind, ...] = ("draft", "prefix_cache", "batch")
"""What must leave a target's outputs as they are: an arm with one is held against the same arm without any."""
SELF = "self"
"""A draft's model that is its arm's own target."""
Dtype = Literal["auto", "float32", "bfloat16", "float16"]

_LOOKUP_DEFAULTS: dict[str, dict[str, Any]] = {
    "ngram": {"match": "ngram", "max_ngram": 3, "min_ngram": 1},
    "suffix": {"match": "suffix", "min_ngram": 1},
}
# Before another draft a lookup proposes only what it is surer of: shorter places are found at almost every step.
_FIRST_DEFAULTS: dict[str, dict[str, Any]] = {
    "ngram": {"match": "ngram", "max_ngram": 5, "min_ngram": 3},
    "suffix": {"match": "suffix", "min_ngram": 3},
}
_OF_A_LOOKUP = ("match", "max_ngram", "min_ngram")
# Groups of a draft that is its target rounded in memory: what the packed kernels take at 8 and at 4 bits.
_GROUPS = {8: ROW, 4: 32}
_OF_A_DRAFT = ("method", "k", "rule", "threshold")
# The keys that only some methods of drafts and some kinds read, and the one that each needs. A key that would be
# ignored is an error, for its author expects an effect.
_OF_METHOD: dict[str, tuple[str, ...]] = {
    "model": (
        *(*_OF_A_DRAFT, "model", "dtype", "recipe", "bits", "group_size", "head", "prefill", "stop_below"),
        *("lookup_first", *_OF_A_LOOKUP),
    ),
    "lookup": (*_OF_A_DRAFT, *_OF_A_LOOKUP),
    "early_exit": (*_OF_A_DRAFT, "layers", "stop_below", "lookup_first", *_OF_A_LOOKUP),
}
_OF_KIND: dict[str, tuple[str, ...]] = {
    "quantize": ("recipe", "model", "prefill"),
    "kv_cache": ("type",),
    "model": ("model",),
    "prompt": ("clean", "select"),
    "prefix_cache": (),
    "batch": ("size",),
}
_NEEDED = {"model": "model", "early_exit": "layers", "kv_cache": "type", "batch": "size"}


class Table(BaseModel):
    """A TOML table: frozen, no unknown keys, no silent conversions, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def refuse_later(key: str, given: Any, later: tuple[str, ...], now: tuple[str, ...]) -> None:
    """Refuse a word that specq knows but this version cannot do.

    Raises:
        ValueError: `given` is one of `later`.
    """
    if given in later:
        allowed = ", ".join(f'"{word}"' for word in now)
        raise ValueError(f'{key} = "{given}": not in this version, allowed is {allowed}')


def _checked(check: Callable[[], object]) -> None:
    """Run a check of another package as this one's own. Raises ValueError."""
    try:
        check()
    except ConfigError as error:
        raise ValueError(str(error)) from error


class Lever(Table):
    """One named change: of the draft, the target, its cache or prompts, or of how requests are answered.

    draft: which method proposes, how many tokens a step (`k`), under which verification rule. `rule`
    defaults to greedy_draft for lookup, whose proposals carry no probabilities, and to rejection for the
    rest; lossy_threshold reads a `threshold`, and no other rule does. `match`, `max_ngram` and `min_ngram`
    are None unless the method is lookup, or `lookup_first` puts one before the draft. `stop_below` ends a block at the
    first token that a draft other than lookup is less sure of. A draft model is quantized
    by a `recipe`, or, for model "self", in memory at `bits`.
    quantize: the target by a `recipe`, or a folder (`model`) that is quantized already.
    kv_cache: its `type`. model: the `model` that stands in the target's place. prompt: `clean`, then `select` to a
    share or a number of tokens. prefix_cache: nothing. batch: its `size`. Keys that a kind does not read are None.
    """

    kind: Kind
    method: Method | None = None
    k: int | None = Field(default=None, ge=1, le=64)
    rule: Rule | None = None
    threshold: float | None = Field(default=None, gt=0, lt=1)
    stop_below: float | None = Field(default=None, gt=0, lt=1)
    model: str | None = Field(default=None, min_length=1)
    dtype: Dtype | None = None
    layers: int | None = Field(default=None, ge=1)
    match: Match | None = None
    max_ngram: int | None = Field(default=None, ge=1, le=64)
    min_ngram: int | None = Field(default=None, ge=1, le=64)
    lookup_first: bool | None = None
    recipe: str | None = Field(default=None, min_length=1)
    bits: Literal[4, 8] | None = None
    group_size: int | None = Field(default=None, ge=0)
    head: Literal["keep", "quantize"] | None = None
    prefill: Prefill | None = None
    type: CacheType | None = None
    clean: bool | None = None
    select: float | int | None = None
    size: int | None = Field(default=None, ge=2, le=1024)

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_kind(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        kind, method = values.get("kind"), values.get("method")
        refuse_later("kind", kind, LATER_KINDS, KINDS)
        defaults: dict[str, Any] = {}
        if kind == "draft":
            if method is None:
                raise ValueError("method is missing: give " + ", ".join(f'"{word}"' for word in METHODS))
            defaults = {"k": 4, "rule": "greedy_draft" if method == "lookup" else "rejection"}
        if method == "lookup":
            defaults |= _LOOKUP_DEFAULTS.get(values.get("match") or "ngram", {})
        elif values.get("lookup_first") is True:
            defaults |= _FIRST_DEFAULTS.get(values.get("match") or "ngram", {})
        if values.get("bits") in _GROUPS:
            defaults |= {"group_size": _GROUPS[values["bits"]], "head": "keep"}
        if kind == "quantize" or (kind == "draft" and (values.get("recipe") or values.get("bits"))):
            defaults["prefill"] = "dense"
        if kind == "prompt":
            defaults["clean"] = True
            if values.get("select") is not None:
                # Before its type is looked at, so that one line says what both of its types allow.
                _checked(lambda: check_select(values["select"]))
        return {**values, **{key: value for key, value in defaults.items() if values.get(key) is None}}

    @model_validator(mode="after")
    def _keys_of_the_kind(self) -> Lever:
        reader = str(self.method) if self.kind == "draft" else self.kind
        said = f'method = "{reader}"' if self.kind == "draft" else f'kind = "{reader}"'
        own = _OF_METHOD[reader] if self.kind == "draft" else _OF_KIND[reader]
        for key in sorted({key for keys in (*_OF_METHOD.values(), *_OF_KIND.values()) for key in keys} - set(own)):
            if getattr(self, key) is not None:
                allowed = f"allowed is {', '.join(own)}" if own else "it reads no key beside its kind"
                raise ValueError(f"{key}: {said} does not read it, {allowed}")
        needed = _NEEDED.get(reader)
        if needed and getattr(self, needed) is None:
            raise ValueError(f"{needed} is missing: {said} needs it")
        if self.kind == "quantize" and (self.recipe is None) == (self.model is None):
            raise ValueError("give either recipe (a file of configs/quantize) or model (a folder that is quantized)")
        if self.kind == "model" and self.model == SELF:
            raise ValueError('model = "self": that is the target itself, allowed is another model')
        if self.kind == "prompt":
            _checked(lambda: Steps(clean=bool(self.clean), select=self.select))
        self._check_rule()
        self._check_lookup()
        self._check_bits()
        return self

    def _check_rule(self) -> None:
        if self.rule == "lossy_threshold" and self.threshold is None:
            raise ValueError(
                'threshold is missing: rule = "lossy_threshold" needs a share above 0 and below 1; with 0.3 a proposal '
                "stands where the target gives it at least 0.3 times the probability of its best token"
            )
        if self.rule in EXACT_RULES and self.threshold is not None:
            raise ValueError(
                f'threshold: rule = "{self.rule}" is exact and does not read it, allowed with rule = "lossy_threshold"'
            )

    def _check_lookup(self) -> None:
        if self.kind == "draft" and self.method != "lookup" and not self.lookup_first:
            for key in _OF_A_LOOKUP:
                if getattr(self, key) is not None:
                    raise ValueError(
                        f'{key}: method = "{self.method}" reads it with lookup_first = true; give both, or neither'
                    )
        if self.match == "suffix" and self.max_ngram is not None:
            raise ValueError('max_ngram: match = "suffix" has no longest length, allowed is min_ngram')
        if self.max_ngram is not None and self.min_ngram is not None and self.min_ngram > self.max_ngram:
            raise ValueError(f"min_ngram = {self.min_ngram}: allowed is 1 to max_ngram ({self.max_ngram})")

    def _check_bits(self) -> None:
        if self.kind != "draft" or self.method != "model":
            return
        if self.bits is not None and self.recipe is not None:
            raise ValueError("bits beside recipe: a recipe has its own bits, give one of the two")
        if self.bits is not None and self.model != SELF:
            raise ValueError(f'bits: allowed is model = "self"; quantize "{self.model}" by a recipe')
        for key in ("group_size", "head"):
            if getattr(self, key) is not None and self.bits is None:
                raise ValueError(f"{key}: it goes with bits, and a recipe has its own")
        if self.bits == 8 and self.group_size != ROW:
            raise ValueError(f"group_size = {self.group_size}: bits = 8 takes 0, one scale a row")
        if self.prefill is not None and self.bits is None and self.recipe is None and self.model == SELF:
            raise ValueError("prefill: a draft in floats has no packed weights, allowed with bits or recipe")

    def draft(self) -> DraftSpec | None:
        """The draft as engines take it; None for other kinds."""
        if self.method is None:
            return None
        return DraftSpec(
            method=self.method,
            k=self.k or 4,
            rule=self.rule or "rejection",
            model=self.model,
            dtype=self.dtype,
            layers=self.layers,
            match=self.match or "ngram",
            max_ngram=self.max_ngram or 3,
            min_ngram=self.min_ngram or 1,
            lookup_first=bool(self.lookup_first),
            recipe=self.recipe,
            bits=self.bits,
            group_size=self.group_size or ROW,
            head=self.head or "keep",
            prefill=self.prefill or "dense",
            threshold=self.threshold,
            stop_below=self.stop_below,
        )

    def change(self, target: TargetSpec) -> TargetSpec:
        """The target with this lever's change; a draft changes nothing about it."""
        if self.kind == "quantize":
            return replace(target, recipe=self.recipe, model=self.model, prefill=self.prefill or "dense")
        if self.kind == "kv_cache":
            return replace(target, kv_cache=self.type)
        if self.kind == "prompt":
            return replace(target, clean=bool(self.clean), select=self.select)
        if self.kind == "prefix_cache":
            return replace(target, prefix_cache=True)
        if self.kind == "batch":
            return replace(target, batch=self.size or 1)
        return replace(target, source=self.model) if self.kind == "model" else target
