"""What is pasted into other engines is what was forecast: their rule, their tokens, their way of finding n-grams."""

from __future__ import annotations

import dataclasses
import json
import tomllib

import pytest

from specq.core.types import DraftSpec, Rule
from specq.experiment.levers import Lever
from specq.forecast import settings
from specq.forecast.settings import Way

MODEL = DraftSpec(method="model", model="org/small", k=4)
LOOKUP = DraftSpec(method="lookup", k=4, rule="greedy_draft", max_ngram=5, min_ngram=2)
SELF = DraftSpec(method="model", model="self", bits=4, k=1)
FIRST = DraftSpec(method="model", model="org/small", k=4, lookup_first=True, max_ngram=7, min_ngram=4)


def ways(draft: DraftSpec, k: int = 3, rule: Rule = "rejection") -> dict[str, Way]:
    return {way.engine: way for way in settings.ways("org/big", "d", draft, k, rule)}


def test_each_engine_is_forecast_by_the_rule_that_it_runs() -> None:
    rules = {name: way.rule for name, way in ways(MODEL).items()}
    assert rules == {
        "specq": "rejection",
        "vllm": "greedy_draft",
        "llama.cpp": "greedy_draft",
        "transformers": "rejection",
        "mlx-lm": "match",
    }


@pytest.mark.parametrize("draft", [MODEL, LOOKUP], ids=["model", "lookup"])
def test_what_vllm_gets_is_json_with_the_k_that_was_chosen(draft: DraftSpec) -> None:
    pasted = ways(draft, k=7)["vllm"].paste
    config = json.loads(pasted.split("'")[1])
    assert config["num_speculative_tokens"] == 7
    if draft is LOOKUP:
        assert (config["prompt_lookup_max"], config["prompt_lookup_min"]) == (5, 2)
    else:
        assert config["model"] == "org/small"


@pytest.mark.parametrize(
    "draft",
    [
        MODEL,
        LOOKUP,
        DraftSpec(method="early_exit", layers=9, k=2),
        DraftSpec(method="model", model="self", bits=4, k=1),
    ],
    ids=["model", "lookup", "early", "self"],
)
def test_what_specq_gets_is_a_lever_that_it_reads(draft: DraftSpec) -> None:
    read = tomllib.loads(ways(draft, k=5, rule="greedy_draft")["specq"].paste)["levers"]["d"]
    lever = Lever(**read)
    assert (lever.k, lever.rule, lever.method, lever.bits, lever.layers) == (
        5,
        "greedy_draft",
        draft.method,
        draft.bits,
        draft.layers,
    )
    if draft is LOOKUP:
        assert (lever.max_ngram, lever.min_ngram) == (5, 2)


def test_an_engine_that_cannot_says_why_and_pastes_nothing() -> None:
    for draft in (LOOKUP, DraftSpec(method="model", model="self", bits=8, k=1), DraftSpec(method="early_exit", k=1)):
        for way in ways(draft).values():
            assert bool(way.paste) != bool(way.why_not)
            assert (way.rule is None) == bool(way.why_not)
    assert ways(DraftSpec(method="lookup", k=2, match="suffix"))["vllm"].rule is None


def test_a_draft_by_a_recipe_is_pasted_without_it_or_as_a_model_that_others_can_load() -> None:
    found = ways(DraftSpec(method="model", model="self", recipe="r.toml", k=1))
    (table,) = tomllib.loads(found["specq"].paste)["levers"].values()
    assert table == {
        "kind": "draft",
        "method": "model",
        "model": "self",
        "recipe": "r.toml",
        "k": 3,
        "rule": "rejection",
    }
    assert "specq quantize org/big --recipe r.toml" in found["vllm"].why_not
    of_other = ways(DraftSpec(method="model", model="org/small", recipe="r.toml", k=1))["llama.cpp"]
    assert (of_other.paste, "specq quantize org/small --recipe r.toml" in of_other.why_not) == ("", True)


def test_a_lookup_before_a_draft_is_lost_or_pasted_into_an_engine_that_has_none() -> None:
    found = ways(FIRST)
    lever = Lever(**tomllib.loads(found["specq"].paste)["levers"]["d"])
    assert lever.draft() == dataclasses.replace(FIRST, k=3)
    suffix = dataclasses.replace(FIRST, match="suffix", max_ngram=3)
    assert Lever(**tomllib.loads(ways(suffix)["specq"].paste)["levers"]["d"]).draft() == dataclasses.replace(
        suffix, k=3
    )
    for name in ("vllm", "llama.cpp", "transformers", "mlx-lm"):
        assert (found[name].paste, found[name].rule, bool(found[name].why_not)) == ("", None, True)
