"""What is pasted into other engines is what was forecast: their rule, their tokens, their way of finding n-grams."""

from __future__ import annotations

import dataclasses
import json
import shlex
import tomllib
from typing import Any

import pytest

from specq.core.types import DraftSpec, Match, Rule
from specq.engines.served.kinds import llamacpp, vllm
from specq.experiment.levers import Lever
from specq.forecast import settings
from specq.forecast.settings import Way

MODEL = DraftSpec(method="model", model="org/small", k=4)
LOOKUP = DraftSpec(method="lookup", k=4, rule="greedy_draft", max_ngram=5, min_ngram=2)
SELF = DraftSpec(method="model", model="self", bits=4, k=1)
FIRST = DraftSpec(method="model", model="org/small", k=4, lookup_first=True, max_ngram=7, min_ngram=4)


KS: dict[Rule, int] = {"rejection": 5, "greedy_draft": 2, "match": 1, "block": 6}


def found(draft: DraftSpec, k: int = 3, rule: Rule = "rejection", **more: bool) -> list[Way]:
    return list(settings.ways("org/big", "d", draft, rule, dict.fromkeys(KS, k), **more))


def ways(draft: DraftSpec, k: int = 3, rule: Rule = "rejection") -> dict[str, Way]:
    """Of each engine the first way."""
    return {way.engine: way for way in reversed(found(draft, k, rule))}


def config(way: Way) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(shlex.split(way.paste)[-1])
    return read


def test_each_engine_is_forecast_by_every_rule_that_it_has_with_the_k_that_is_best_for_it() -> None:
    told = [(way.engine, way.rule, way.k) for way in settings.ways("org/big", "d", MODEL, "block", KS)]
    assert told == [
        ("specq", "block", 6),
        ("vllm", "greedy_draft", 2),
        ("vllm", "rejection", 5),
        ("vllm", "block", 6),
        ("llama.cpp", "greedy_draft", 2),
        ("llama.cpp", "rejection", 5),
        ("transformers", "rejection", 5),
        ("mlx-lm", "match", 1),
    ]
    only = settings.ways("org/big", "d", MODEL, "match", {"match": 4})
    assert {way.k for way in only} == {4}


def test_at_temperature_0_an_engine_has_one_way_since_all_rules_do_the_same() -> None:
    names = [way.engine for way in found(MODEL, greedy=True)]
    assert names == ["specq", "vllm", "llama.cpp", "transformers", "mlx-lm"]


def test_vllm_samples_its_proposals_and_verifies_by_the_block_where_that_is_pasted() -> None:
    by_rule = {way.rule: config(way) for way in found(MODEL, 7) if way.engine == "vllm"}
    base = {"num_speculative_tokens": 7, "method": "draft_model", "model": "org/small"}
    assert by_rule == {
        "greedy_draft": base,
        "rejection": base | {"draft_sample_method": "probabilistic"},
        "block": base | {"draft_sample_method": "probabilistic", "rejection_sample_method": "block"},
    }


@pytest.mark.parametrize("greedy", [True, False])
def test_a_stop_is_carried_where_an_engine_has_it_and_said_to_be_lacking_elsewhere(greedy: bool) -> None:
    told = found(dataclasses.replace(MODEL, stop_below=0.4), 7, greedy=greedy)
    by_engine = {way.engine: way for way in reversed(told)}
    lever = Lever(**tomllib.loads(by_engine["specq"].paste)["levers"]["d"])
    assert lever.draft() == dataclasses.replace(MODEL, stop_below=0.4, k=7)
    assert "assistant_confidence_threshold = 0.4; " in by_engine["transformers"].paste
    assert "scikit-learn" in by_engine["transformers"].note
    assert "--spec-draft-n-max 7 --spec-draft-n-min 0 --spec-draft-p-min 0.4" in by_engine["llama.cpp"].paste
    assert all("drops it" in way.note for way in told if way.engine == "llama.cpp")
    assert all("proposes k tokens" in way.note for way in told if way.engine in ("vllm", "mlx-lm"))
    assert {way.engine for way in told if way.foreseen} == {"specq", "transformers"}
    early = ways(DraftSpec(method="early_exit", layers=9, k=2, stop_below=0.25))
    assert "target.generation_config.assistant_confidence_threshold = 0.25; " in early["transformers"].paste


@pytest.mark.parametrize("draft", [MODEL, LOOKUP], ids=["model", "lookup"])
def test_what_is_pasted_is_what_specqs_own_servers_are_started_with(draft: DraftSpec) -> None:
    for way in found(draft, 7):
        asked = dataclasses.replace(draft, k=7, rule=way.rule or draft.rule)
        if way.engine == "vllm":
            assert config(way) == vllm.speculation(asked, "org/small")
        if way.engine == "llama.cpp":
            assert shlex.split(way.paste)[3:] == list(llamacpp.speculation(asked, "DRAFT.gguf"))


@pytest.mark.parametrize("match", ["ngram", "suffix"])
def test_a_lookup_elsewhere_carries_no_forecast_of_specqs_own_search(match: Match) -> None:
    told = found(dataclasses.replace(LOOKUP, match=match), rule="greedy_draft")
    assert [way.engine for way in told if way.foreseen and way.paste] == ["specq"]
    assert all("measure it there" in way.note for way in told if way.paste and way.engine != "specq")


def test_lookups_that_engines_have_are_not_denied() -> None:
    ngram, suffix = ways(LOOKUP), ways(dataclasses.replace(LOOKUP, match="suffix"))
    assert "--spec-type ngram-simple --spec-ngram-simple-size-n 5" in ngram["llama.cpp"].paste
    assert "one length, 5" in ngram["llama.cpp"].note
    assert config(suffix["vllm"])["method"] == "suffix"
    assert "arctic-inference" in suffix["vllm"].note
    assert (suffix["llama.cpp"].paste, "ngram-map-k4v" in suffix["llama.cpp"].why_not) == ("", True)
    assert "max_matching_ngram_size=5" in ngram["transformers"].paste


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
    assert ways(DraftSpec(method="lookup", k=2, match="suffix"))["transformers"].rule is None


def test_a_draft_by_a_recipe_is_pasted_without_it_or_as_a_model_that_others_can_load() -> None:
    told = ways(DraftSpec(method="model", model="self", recipe="r.toml", k=1))
    (table,) = tomllib.loads(told["specq"].paste)["levers"].values()
    assert table == {
        "kind": "draft",
        "method": "model",
        "model": "self",
        "recipe": "r.toml",
        "k": 3,
        "rule": "rejection",
    }
    assert "specq quantize org/big --recipe r.toml" in told["vllm"].why_not
    of_other = ways(DraftSpec(method="model", model="org/small", recipe="r.toml", k=1))["llama.cpp"]
    assert (of_other.paste, "specq quantize org/small --recipe r.toml" in of_other.why_not) == ("", True)


def test_a_lookup_before_a_draft_is_lost_or_pasted_into_an_engine_that_has_none() -> None:
    told = ways(FIRST)
    lever = Lever(**tomllib.loads(told["specq"].paste)["levers"]["d"])
    assert lever.draft() == dataclasses.replace(FIRST, k=3)
    suffix = dataclasses.replace(FIRST, match="suffix", max_ngram=3)
    assert Lever(**tomllib.loads(ways(suffix)["specq"].paste)["levers"]["d"]).draft() == dataclasses.replace(
        suffix, k=3
    )
    for name in ("vllm", "llama.cpp", "transformers", "mlx-lm"):
        assert (told[name].paste, told[name].rule, bool(told[name].why_not)) == ("", None, True)
