"""Levers of an experiment file: which keys go together, and what is refused in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from specq.core.errors import ConfigError
from specq.core.types import DraftSpec, TargetSpec
from specq.experiment import config

WHOLE = """
[target]
model = "org/big"
[workload]
prompts = "prompts.jsonl"
[levers.lookup]
kind = "draft"
method = "lookup"
[levers.small]
kind = "draft"
method = "model"
model = "org/small"
k = 3
[levers.early]
kind = "draft"
method = "early_exit"
layers = 5
[levers.w4]
kind = "quantize"
recipe = "w4.toml"
[levers.self4]
kind = "draft"
method = "model"
model = "self"
bits = 4
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "whole.toml"
    path.write_text(WHOLE)
    return path


def refused(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config.load(path, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults_of_quantized_weights_and_drafts_are_filled_in(file: Path) -> None:
    levers = config.load(file).levers
    assert levers["w4"].change(TargetSpec(kv_cache="q8")) == TargetSpec(recipe="w4.toml", kv_cache="q8")
    draft = levers["self4"].draft()
    assert draft is not None
    assert (draft.bits, draft.group_size, draft.head, draft.prefill) == (4, 32, "keep", "dense")
    assert levers["lookup"].change(TargetSpec()) == TargetSpec()


def test_a_lever_forgets_what_another_one_changed(file: Path) -> None:
    levers = config.load(
        file, ['levers.other={kind="model", model="x"}', 'levers.c={kind="kv_cache", type="q8"}']
    ).levers
    whole = TargetSpec(source="x", recipe="w4.toml", kv_cache="q8")
    for order in (("other", "w4", "c"), ("c", "w4", "other"), ("w4", "c", "other")):
        found = TargetSpec()
        for name in order:
            found = levers[name].change(found)
        assert found == whole
    assert whole.weights == TargetSpec(source="x", recipe="w4.toml")


def test_a_lookup_before_a_draft_copies_what_is_short_or_does_not_reach_the_draft(file: Path) -> None:
    keys = 'kind="draft", method="model", model="x", lookup_first=true'
    asked = {"a": keys, "b": f'{keys}, match="suffix"', "c": f"{keys}, max_ngram=9, min_ngram=4"}
    levers = config.load(file, [f"levers.{name}={{{own}}}" for name, own in asked.items()]).levers
    found = {name: draft for name in asked if (draft := levers[name].draft()) is not None}
    assert [(one.match, one.max_ngram, one.min_ngram) for one in found.values()] == [
        *(("ngram", 5, 3), ("suffix", 3, 3), ("ngram", 9, 4))
    ]
    assert all(one.lookup_first and one.rule == "rejection" for one in found.values())
    # One model serves them all, and a draft alone too.
    assert {one.proposer for one in found.values()} == {DraftSpec(method="model", model="x", k=1)}
    assert found["c"].lookup == DraftSpec(method="lookup", k=4, max_ngram=9, min_ngram=4)
    assert config.load(file, ['levers.a={kind="draft", method="model", model="x", lookup_first=false}'])


def test_a_threshold_does_not_reach_the_draft(file: Path) -> None:
    text = 'levers.l={kind="draft", method="lookup", rule="lossy_threshold", threshold=0.3}'
    draft = config.load(file, [text]).levers["l"].draft()
    assert draft is not None
    assert (draft.rule, draft.threshold, draft.lossy) == ("lossy_threshold", 0.3, True)
    assert draft.proposer == DraftSpec(method="lookup", k=1)


def test_a_recipe_is_found_beside_the_file(file: Path) -> None:
    (file.parent / "w4.toml").touch()
    assert config.load(file).levers["w4"].recipe == str(file.parent / "w4.toml")


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("levers.lookup.layers=3", '[levers.lookup] layers: method = "lookup" does not read it'),
        (
            "levers.early.model=x",
            'model: method = "early_exit" does not read it, allowed is method, k, rule, threshold, layers',
        ),
        ("levers.small.max_ngram=3", 'max_ngram: method = "model" reads it with lookup_first = true'),
        ("levers.lookup.lookup_first=true", 'lookup_first: method = "lookup" does not read it'),
        ('levers.w={kind="quantize", recipe="r.toml", lookup_first=true}', 'lookup_first: kind = "quantize" does not'),
        ("levers.lookup.stop_below=0.4", 'stop_below: method = "lookup" does not read it'),
        ("levers.early.stop_below=1.0", "allowed is above 0 to below 1"),
        ("levers.early.stop_below=0.0", "allowed is above 0 to below 1"),
        (
            'levers.d={kind="draft",method="early_exit",layers=1,match="suffix"}',
            'match: method = "early_exit" reads it',
        ),
        (
            'levers.d={kind="draft",method="model",model="x",lookup_first=true,min_ngram=6}',
            "min_ngram = 6: allowed is 1 to max_ngram (5)",
        ),
        ('levers.new={kind="draft", method="model"}', "[levers.new] model is missing"),
        ('levers.new={kind="draft", method="early_exit"}', "layers is missing"),
        ('levers.new={kind="draft"}', '[levers.new] method is missing: give "model", "lookup", "early_exit"'),
        ('levers.lookup.match="prefix"', "match"),
        ('levers.lookup={kind="draft",method="lookup",match="suffix",max_ngram=3}', "max_ngram: match"),
        ("levers.lookup.min_ngram=9", "min_ngram = 9: allowed is 1 to max_ngram (3)"),
        ("levers.small.threshold=0.3", 'threshold: rule = "rejection" is exact and does not read it'),
        ('levers.small.rule="lossy_threshold"', 'threshold is missing: rule = "lossy_threshold" needs a share'),
        (
            'levers.l={kind="draft", method="lookup", rule="lossy_threshold", threshold=1.0}',
            "allowed is above 0 to below 1",
        ),
        (
            'levers.l={kind="draft", method="lookup", rule="lossy_threshold", threshold=0.0}',
            "threshold = 0.0: allowed is",
        ),
        ('levers.w={kind="quantize", recipe="r.toml", threshold=0.3}', 'threshold: kind = "quantize" does not read it'),
        ('levers.w={kind="quantize"}', "give either recipe (a file of configs/quantize) or model"),
        ('levers.w={kind="quantize", recipe="r.toml", model="w"}', "give either recipe"),
        ('levers.w={kind="quantize", recipe="r.toml", k=2}', 'k: kind = "quantize" does not read it'),
        ('levers.w={kind="quantize", recipe="r.toml", prefill="fast"}', 'allowed is "dense", "packed"'),
        ('levers.m={kind="model"}', 'model is missing: kind = "model" needs it'),
        ('levers.m={kind="model", model="self"}', 'model = "self": that is the target itself'),
        (
            'levers.m={kind="model", model="x", recipe="r.toml"}',
            'recipe: kind = "model" does not read it, allowed is model',
        ),
        ('levers.m={kind="batch"}', 'size is missing: kind = "batch" needs it'),
        ('levers.m={kind="batch", size=1}', "size"),
        ('levers.m={kind="prefix_cache", size=2}', 'size: kind = "prefix_cache" does not read it, it reads no key'),
        ('levers.m={kind="quantize", recipe="r", size=2}', 'size: kind = "quantize" does not read it'),
        ('levers.m={kind="engine"}', 'kind = "engine": not in this version, allowed is "draft", "quantize"'),
        ('levers.c={kind="kv_cache"}', 'type is missing: kind = "kv_cache" needs it'),
        ('levers.c={kind="kv_cache", type="q5"}', 'type = "q5": allowed is "q8", "q4"'),
        ("levers.small.bits=8", 'bits: allowed is model = "self"'),
        ('levers.s={kind="draft", method="model", model="self", bits=3}', "bits = 3: allowed is 4, 8"),
        ('levers.s={kind="draft", method="model", model="self", bits=8, group_size=64}', "bits = 8 takes 0"),
        ('levers.s={kind="draft", method="model", model="self", bits=8, recipe="r"}', "bits beside recipe"),
        ('levers.s={kind="draft", method="model", model="self", head="quantize"}', "head: it goes with bits"),
        ("levers.lookup.bits=8", 'bits: method = "lookup" does not read it'),
        ('engine={kind="mlx", compile=true}', 'compile = true: kind = "mlx" compiles nothing'),
        ('levers.each={kind="draft", method="lookup"}', '"each" cannot name a lever'),
        ('levers."a b"={kind="draft", method="lookup"}', "cannot name a lever"),
        ('workload.stop=["END"]', 'lengths = "equal" ignores every stop'),
        ("workload.min_new_tokens=65", "allowed is 0 to max_new_tokens (64)"),
        ('arms.run=["small + small"]', "names one lever twice"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(file: Path, override: str, says: str) -> None:
    assert says in refused(file, override)
