"""From the words of a command to an experiment: which drafts are asked for, of which target, on which prompts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specq.core.errors import ConfigError
from specq.core.nouns import slug
from specq.experiment.explain import explain
from specq.experiment.schema import Experiment
from specq.models import refs

WORDS = (
    'a model (hub id, folder, GGUF file or built-in), "lookup", "lookup:suffix", "early_exit:25", "self:8", "self:4", '
    'or any but a lookup with "+lookup" or "+lookup:suffix" at its end: it drafts where nothing is found to copy; '
    'or any but a lookup with "+stop:0.4" at its end: a token that it gives less probability is the last of its step'
)
_STOP = re.compile(r"(.+)\+stop:([^+]*)")
_FIRST = re.compile(r"(.+)\+lookup(?::(ngram|suffix))?")


def lever(word: str) -> tuple[str, dict[str, Any]]:
    """The name and the keys of the draft lever that a word of the command line stands for.

    Raises:
        ConfigError: a word that begins like one of the short forms and is none, a lookup before a lookup, or a stop
            that is no probability, or of a lookup.
    """
    if (stop := _STOP.fullmatch(word)) is not None:
        name, keys = lever(stop[1])
        if keys["method"] == "lookup":
            raise ConfigError(f'drafts: "{word}" is no draft: a lookup has no probabilities to stop by; take +stop out')
        below = _probability(stop[2])
        if below is None:
            raise ConfigError(f'drafts: "{word}": allowed after +stop: is above 0 and below 1; type {stop[1]}+stop:0.4')
        return slug(f"{name}_stop{stop[2]}", "draft"), keys | {"stop_below": below}
    found = _FIRST.fullmatch(word)
    name, keys = _alone(word if found is None else found[1])
    if found is None:
        return name, keys
    if keys["method"] == "lookup":
        raise ConfigError(f'drafts: "{word}" is no draft: a lookup goes before another draft; allowed is {WORDS}')
    match = found[2] or "ngram"
    return f"{name}_lookup{'_suffix' if match == 'suffix' else ''}", keys | {"lookup_first": True, "match": match}


def _probability(word: str) -> float | None:
    try:
        found = float(word)
    except ValueError:
        return None
    return found if 0 < found < 1 else None


def _alone(word: str) -> tuple[str, dict[str, Any]]:
    kind, _, value = word.partition(":")
    keys: dict[str, Any] = {"kind": "draft"}
    if kind == "lookup" and value in ("", "ngram", "suffix"):
        return f"lookup{'_suffix' if value == 'suffix' else ''}", keys | {"method": "lookup", "match": value or "ngram"}
    if kind == "early_exit" and value.isdecimal():
        return f"early_exit{value}", keys | {"method": "early_exit", "layers": int(value)}
    if kind == "self" and value in ("4", "8"):
        return f"self{value}", keys | {"method": "model", "model": "self", "bits": int(value)}
    if kind in ("lookup", "early_exit", "self") or not word.strip():
        raise ConfigError(f'drafts: "{word}" is no draft; allowed is {WORDS}')
    return slug(Path(word).name, "draft"), keys | {"method": "model", "model": word}


def experiment(
    target: str,
    drafts: Sequence[str],
    prompts: Path,
    *,
    revision: str | None = None,
    engine: dict[str, Any] | None = None,
    workload: dict[str, Any] | None = None,
) -> Experiment:
    """An experiment with a lever for each draft, none of them twice.

    `engine` and `workload` hold keys of those tables. Texts end where the target ends them unless `workload` has other
    `lengths`: how far a draft is right past an end says nothing of what anybody is served.

    Raises:
        ConfigError: no draft, one twice, a word that is none, or a value out of range.
    """
    if not drafts:
        raise ConfigError(f"drafts: no DRAFT is given; allowed is {WORDS}")
    levers: dict[str, dict[str, Any]] = {}
    seen: dict[str, str] = {}
    # A model may be spelled in several ways, and mlx-lm's loop has one rule.
    own = {"rule": "match"} if (engine or {}).get("kind") == "mlx" else {}
    for word in drafts:
        name, keys = lever(word)
        alike = repr(keys | ({"model": refs.same(keys["model"])} if "model" in keys else {}))
        if alike in seen:
            also = "" if seen[alike] == word else f', as "{seen[alike]}" and as "{word}"'
            raise ConfigError(f'drafts: "{word}" is given twice{also}; give each draft once')
        seen[alike] = word
        while name in levers or name in ("baseline", "each"):
            name += "_"
        levers[name] = keys | (own if keys["method"] == "model" else {})
    values = {
        "name": "drafts",
        "question": f"Which draft for {target}: {', '.join(levers)}?",
        "target": {"model": target} | ({"revision": revision} if revision else {}),
        "engine": engine or {},
        "workload": {"prompts": str(prompts), "lengths": "natural", **(workload or {})},
        "levers": levers,
    }
    try:
        return Experiment.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"drafts: {explain(error, Experiment)}") from error
