"""Which drafts, caches and samplings a kind of server has no way to run: one sentence each, before anything loads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from specq.core.nouns import listed
from specq.core.types import CacheType, DraftSpec, Method, Rule, Sampling
from specq.engines.served.kinds.base import Served


def unable(title: str, draft: DraftSpec | None, methods: Sequence[Method], rules: Sequence[Rule]) -> tuple[str, ...]:
    """What a server that runs drafts of some methods, verified by some rules, cannot do of a draft.

    `rules` are those of the draft's method, the usual one first.
    """
    if draft is None:
        return ()
    if not methods:
        return (f"{title} cannot be told to draft: take the draft out, or run it on another kind of engine",)
    if draft.method not in methods:
        allowed = " or ".join(f'"{method}"' for method in methods)
        return (f'method = "{draft.method}": {title} has no such draft, allowed is {allowed}; kind = "hf" runs all',)
    found = []
    if draft.lookup_first:
        found.append(f"lookup_first = true: {title} drafts in one way at a time; take lookup_first out")
    if draft.stop_below is not None:
        found.append(
            f"stop_below = {draft.stop_below}: {title} has no stop that keeps the token which the draft is unsure of; "
            'take stop_below out, or run it with kind = "hf"'
        )
    if draft.bits is not None:
        source = "MODEL" if draft.model in (None, "self") else draft.model
        found.append(
            f"bits = {draft.bits}: {title} rounds no draft in memory; type specq quantize {source} --bits {draft.bits} "
            "and give the folder as the draft's model"
        )
    if draft.rule not in rules:
        allowed = listed([f'"{rule}"' for rule in rules])
        found.append(
            f'rule = "{draft.rule}": {title} verifies by {allowed}; write rule = "{rules[0]}"'
            + (" and take threshold out" if draft.lossy else "")
        )
    return tuple(found)


def one_length(title: str, draft: DraftSpec) -> tuple[str, ...]:
    """Refuse a lookup by n-grams of several lengths, for a server that looks up one."""
    if draft.method != "lookup" or draft.match != "ngram" or draft.max_ngram == draft.min_ngram:
        return ()
    return (
        f"max_ngram = {draft.max_ngram} and min_ngram = {draft.min_ngram}: {title} looks up n-grams of one length; "
        f"write min_ngram = {draft.max_ngram}",
    )


def no_suffix(title: str, draft: DraftSpec) -> tuple[str, ...]:
    """Refuse a lookup by the longest suffix, for a server that has n-grams alone."""
    if draft.method != "lookup" or draft.match != "suffix":
        return ()
    return (f'match = "suffix": {title} looks up n-grams alone; write match = "ngram"',)


def no_cache(title: str, kind: CacheType | None, allowed: Sequence[CacheType] = ()) -> tuple[str, ...]:
    """Refuse a type of key-value cache that a server lacks."""
    if kind is None or kind in allowed:
        return ()
    names = listed([f'"{one}"' for one in allowed])
    words = f"allowed is {names}" if allowed else "it has no quantized cache"
    return (f'kv_cache type = "{kind}": {title} cannot keep it, {words}; change the lever or take it out',)


def no_settings(title: str, served: Served, lacks: Sequence[Literal["context", "dtype", "threads"]]) -> tuple[str, ...]:
    """Refuse keys of [engine] that a server has no option for."""
    return tuple(
        f"{name} = {json.dumps(value)}: {title} has no such option; take it out of [engine]"
        for name in lacks
        if (value := getattr(served, name)) is not None
    )


def no_keys(title: str, sampling: Sampling, lacks: Sequence[str]) -> tuple[str, ...]:
    """Refuse keys of a sampling that are switched on and that a server has no field for."""
    off = Sampling()
    return tuple(
        f"{name} = {getattr(sampling, name)}: {title} has no such setting; write {name} = {getattr(off, name)}"
        for name in lacks
        if getattr(sampling, name) != getattr(off, name)
    )
