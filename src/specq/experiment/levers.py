"""A lever of an experiment file: one named change from the baseline, as data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from specq.core.types import METHODS, DraftSpec, Match, Method, Rule

LATER_KINDS = ("quantize", "kv_cache", "model", "prompt", "prefix_cache", "batch", "engine")
Dtype = Literal["auto", "float32", "bfloat16", "float16"]

_LOOKUP_DEFAULTS: dict[str, dict[str, Any]] = {
    "ngram": {"match": "ngram", "max_ngram": 3, "min_ngram": 1},
    "suffix": {"match": "suffix", "min_ngram": 1},
}
# The keys that only some methods read. A key that would be ignored is an error, for its author expects an effect.
_METHOD_KEYS: dict[str, tuple[str, ...]] = {
    "model": ("model", "dtype"),
    "lookup": ("match", "max_ngram", "min_ngram"),
    "early_exit": ("layers",),
}
_NEEDED = {"model": "model", "early_exit": "layers"}


class Table(BaseModel):
    """A TOML table: frozen, no unknown keys, no silent conversions, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def refuse_later(key: str, given: Any, later: tuple[str, ...], now: str) -> None:
    """Refuse a word that specq knows but this version cannot do.

    Raises:
        ValueError: `given` is one of `later`.
    """
    if given in later:
        raise ValueError(f'{key} = "{given}": not in this version, allowed is "{now}"')


class Lever(Table):
    """A draft: which method proposes, how many tokens a step (`k`), under which verification rule.

    `rule` defaults to greedy_draft for lookup, whose proposals carry no probabilities, and to
    rejection for the rest. `match`, `max_ngram` and `min_ngram` are None unless the method is lookup.
    """

    kind: Literal["draft"]
    method: Method
    k: int = Field(default=4, ge=1, le=64)
    rule: Rule
    model: str | None = Field(default=None, min_length=1)
    dtype: Dtype | None = None
    layers: int | None = Field(default=None, ge=1)
    match: Match | None = None
    max_ngram: int | None = Field(default=None, ge=1, le=64)
    min_ngram: int | None = Field(default=None, ge=1, le=64)

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_method(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        refuse_later("kind", values.get("kind"), LATER_KINDS, "draft")
        method = values.get("method")
        if method not in METHODS:
            return values
        filled = dict(values)
        if filled.get("rule") is None:
            filled["rule"] = "greedy_draft" if method == "lookup" else "rejection"
        if method == "lookup":
            defaults = _LOOKUP_DEFAULTS.get(filled.get("match") or "ngram", {})
            filled.update({key: value for key, value in defaults.items() if filled.get(key) is None})
        return filled

    @model_validator(mode="after")
    def _keys_of_the_method(self) -> Lever:
        own = _METHOD_KEYS[self.method]
        for key in sorted({key for keys in _METHOD_KEYS.values() for key in keys} - set(own)):
            if getattr(self, key) is not None:
                raise ValueError(f'{key}: method = "{self.method}" does not read it, allowed is {", ".join(own)}')
        needed = _NEEDED.get(self.method)
        if needed and getattr(self, needed) is None:
            raise ValueError(f'{needed} is missing: method = "{self.method}" needs it')
        if self.match == "suffix" and self.max_ngram is not None:
            raise ValueError('max_ngram: match = "suffix" has no longest length, allowed is min_ngram')
        if self.max_ngram is not None and self.min_ngram is not None and self.min_ngram > self.max_ngram:
            raise ValueError(f"min_ngram = {self.min_ngram}: allowed is 1 to max_ngram ({self.max_ngram})")
        return self

    def draft(self) -> DraftSpec:
        """The draft as engines take it."""
        return DraftSpec(
            method=self.method,
            k=self.k,
            rule=self.rule,
            model=self.model,
            dtype=self.dtype,
            layers=self.layers,
            match=self.match or "ngram",
            max_ngram=self.max_ngram or 3,
            min_ngram=self.min_ngram or 1,
        )
