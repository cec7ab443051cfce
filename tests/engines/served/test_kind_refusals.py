"""What a server cannot do, or does in its own way, is said before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specq.core.errors import Unsupported
from specq.core.types import DraftSpec, Sampling, TargetSpec
from specq.engines.served.kinds import KINDS, weights
from specq.engines.served.kinds.base import Served

GREEDY = Sampling()
GGUF = "builtin:smollm2-135m"
LOOKUP = DraftSpec(method="lookup", k=4, rule="greedy_draft", max_ngram=3, min_ngram=3)


def cannot(kind: str, sampling: Sampling = GREEDY, *, model: str = "", **given: Any) -> str:
    name = model or (GGUF if kind in ("llamacpp", "ollama") else "org/model")
    return "\n".join(KINDS[kind].cannot(Served(weights=name, **given), sampling))


def drafted(kind: str, **draft: Any) -> str:
    model = GGUF if kind in ("llamacpp", "ollama") else "org/small"
    return cannot(kind, draft=DraftSpec(**{"method": "model", "model": model, "k": 4, "rule": "greedy_draft", **draft}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_arm_is_refused(kind: str) -> None:
    assert cannot(kind) == ""


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        ("vllm", ("greedy_draft", "rejection", "block")),
        ("llamacpp", ("greedy_draft", "rejection")),
        ("sglang", ("greedy_draft",)),
        ("mlx_lm", ("match",)),
        ("ollama", ()),
        ("openai", ()),
    ],
)
def test_a_rule_runs_as_another_one(kind: str, rules: tuple[str, ...]) -> None:
    for rule in ("greedy_draft", "rejection", "block", "match", "lossy_threshold"):
        said = drafted(kind, rule=rule, threshold=0.5 if rule == "lossy_threshold" else None)
        assert (said == "") is (rule in rules), (rule, said)
        if rules and rule not in rules:
            assert f'rule = "{rule}"' in said
            assert f'write rule = "{rules[0]}"' in said
            assert ("take threshold out" in said) is (rule == "lossy_threshold")


@pytest.mark.parametrize("kind", KINDS)
def test_an_early_exit_or_rounding_in_memory_is_taken_for_a_draft_model(kind: str) -> None:
    assert "early_exit" in drafted(kind, method="early_exit", layers=9, model=None) or kind in ("ollama", "openai")
    assert drafted(kind, method="early_exit", layers=9, model=None)
    if kind not in ("ollama", "openai"):
        rule = "match" if kind == "mlx_lm" else "greedy_draft"
        assert "type specq quantize MODEL --bits 4" in drafted(kind, model="self", bits=4, rule=rule)


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "sglang", "mlx_lm"])
def test_a_lookup_before_a_draft_model_is_left_out_in_silence(kind: str) -> None:
    rule = "match" if kind == "mlx_lm" else "greedy_draft"
    assert "take lookup_first out" in drafted(kind, lookup_first=True, rule=rule)
    assert drafted(kind, rule=rule) == ""


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "sglang", "mlx_lm"])
def test_a_stop_that_a_server_lacks_is_left_out_in_silence(kind: str) -> None:
    rule = "match" if kind == "mlx_lm" else "greedy_draft"
    told = drafted(kind, stop_below=0.4, rule=rule)
    assert told.startswith("stop_below = 0.4: ")
    assert "take stop_below out" in told


def test_other_weights_are_asked_of_a_server_that_has_its_own() -> None:
    for target in (TargetSpec(source="org/small"), TargetSpec(model="/m/w4"), TargetSpec(recipe="r.toml")):
        assert "other weights" in cannot("openai", target=target)
        assert "loads GGUF files alone" in cannot("ollama", target=target)


def test_a_lookup_that_a_server_lacks_is_run_all_the_same() -> None:
    assert cannot("vllm", draft=LOOKUP) == cannot("llamacpp", draft=LOOKUP) == cannot("sglang", draft=LOOKUP) == ""
    assert 'method = "lookup"' in cannot("mlx_lm", draft=LOOKUP)
    several = DraftSpec(method="lookup", k=4, rule="greedy_draft", max_ngram=3, min_ngram=1)
    assert "write min_ngram = 3" in cannot("llamacpp", draft=several)
    assert cannot("vllm", draft=several) == ""
    suffix = DraftSpec(method="lookup", k=4, rule="greedy_draft", match="suffix")
    assert cannot("vllm", draft=suffix) == ""
    for kind in ("llamacpp", "sglang"):
        assert 'match = "suffix"' in cannot(kind, draft=suffix)
        assert "min_ngram" not in cannot(kind, draft=suffix)


def test_a_cache_type_is_dropped() -> None:
    for kind, kept in {
        "vllm": ("q8",),
        "llamacpp": ("q8", "q4"),
        "sglang": ("q8", "q4"),
        "mlx_lm": ("q8", "q4"),
        "ollama": ("q8", "q4"),
        "openai": (),
    }.items():
        for cache in ("q8", "q4"):
            said = cannot(kind, target=TargetSpec(kv_cache=cache))  # type: ignore[arg-type]
            assert (said == "") is (cache in kept), (kind, cache, said)


def recipe(folder: Path, method: str) -> str:
    (folder / f"{method}.toml").write_text(f'method = "{method}"\nbits = 4\n')
    return str(folder / f"{method}.toml")


def model(folder: Path, **config: Any) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    return str(folder)


def test_weights_of_the_other_world_are_loaded(tmp_path: Path) -> None:
    packed = model(tmp_path / "ct", quantization_config={"quant_method": "compressed-tensors"})
    apple = model(tmp_path / "mlx", quantization={"group_size": 64, "bits": 4})
    plain = model(tmp_path / "plain")
    assert [weights.format_of(name) for name in (packed, apple, plain, "org/m")] == [
        "compressed-tensors",
        "mlx",
        "plain",
        "",
    ]
    for kind, good, bad in (("vllm", packed, apple), ("sglang", packed, apple), ("mlx_lm", apple, packed)):
        assert cannot(kind, model=plain, target=TargetSpec(model=good)) == ""
        assert "cannot load weights in the format" in cannot(kind, model=plain, target=TargetSpec(model=bad))
    assert "give a recipe of an mlx-... method" in cannot("mlx_lm", target=TargetSpec(recipe=recipe(tmp_path, "rtn")))
    assert cannot("vllm", target=TargetSpec(recipe=recipe(tmp_path, "rtn"))) == ""
    assert cannot("mlx_lm", target=TargetSpec(recipe=recipe(tmp_path, "mlx-rtn"))) == ""
    assert "give a recipe of rtn" in cannot("vllm", target=TargetSpec(recipe=recipe(tmp_path, "mlx-rtn")))


def test_a_folder_is_given_to_llamacpp(tmp_path: Path) -> None:
    folder = model(tmp_path / "plain")
    assert "convert_hf_to_gguf.py" in cannot("llamacpp", model=folder)
    assert "convert_hf_to_gguf.py" in cannot("llamacpp", target=TargetSpec(model=folder))
    assert cannot("llamacpp", model="/m/a.gguf", target=TargetSpec(model="/m/b.gguf")) == ""
    assert "llama-quantize" in cannot("llamacpp", target=TargetSpec(recipe=recipe(tmp_path, "rtn")))
    assert "convert_hf_to_gguf.py" in drafted("llamacpp", model=folder)
    assert "draft's model" in drafted("llamacpp", recipe="r.toml")
    with pytest.raises(Unsupported, match="loads GGUF files alone"):
        weights.gguf_file(folder)
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    assert weights.gguf_file(str(tmp_path / "a.gguf")) == tmp_path / "a.gguf"


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_a_server_that_always_stops_runs_answers_of_equal_lengths(kind: str) -> None:
    assert 'write lengths = "natural"' in cannot(kind, Sampling(ignore_eos=True))


def test_mlx_is_refused_equal_lengths_although_it_knows_the_end_tokens() -> None:
    assert "natural" in cannot("mlx_lm", Sampling(ignore_eos=True))
    assert cannot("mlx_lm", Sampling(ignore_eos=True, eos_ids=(2,))) == ""


def test_a_setting_without_a_field_is_left_out_in_silence() -> None:
    assert "top_k = 5" in cannot("openai", Sampling(top_k=5))
    assert "write top_k = 0" in cannot("openai", Sampling(top_k=5))
    for kind in ("llamacpp", "ollama", "mlx_lm"):
        assert "min_new_tokens = 3" in cannot(kind, Sampling(min_new_tokens=3))
    for kind in ("vllm", "sglang"):
        assert cannot(kind, Sampling(min_new_tokens=3)) == ""


def test_vllm_refuses_every_request_for_its_min_p_beside_a_draft() -> None:
    drawn = Sampling(temperature=0.7, min_p=0.1)
    assert "write min_p = 0.0" in cannot("vllm", drawn, draft=LOOKUP)
    assert cannot("vllm", drawn) == ""
    assert cannot("vllm", Sampling(temperature=0.7), draft=LOOKUP) == ""
    assert cannot("vllm", Sampling(min_p=0.1), draft=LOOKUP) == ""


def test_a_key_of_the_engine_is_left_out_in_silence() -> None:
    assert "threads = 2" in cannot("ollama", threads=2)
    assert "context = 512" in cannot("mlx_lm", context=512)
    assert 'dtype = "float16"' in cannot("llamacpp", dtype="float16")
    assert cannot("vllm", dtype="float16", threads=2, context=512) == ""


@pytest.mark.parametrize(
    ("kind", "arg"),
    [
        ("vllm", "--speculative-config"),
        ("vllm", "--speculative_config={}"),
        ("vllm", "--api-key"),
        ("llamacpp", "-ctk"),
        ("llamacpp", "--spec-synth-len"),
        ("sglang", "--speculative-num-steps=3"),
        ("mlx_lm", "--draft-model"),
        ("ollama", "--anything"),
    ],
)
def test_an_argument_changes_behind_the_plans_back_what_specq_sets(kind: str, arg: str) -> None:
    assert arg.partition("=")[0] in cannot(kind, args=(arg, "1"))


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "sglang", "mlx_lm"])
def test_an_argument_for_more_machines_is_refused(kind: str) -> None:
    assert cannot(kind, args=("--tensor-parallel-size", "2", "--distributed-executor-backend=ray")) == ""


def exactness(kind: str, temperature: float = 0.7, args: tuple[str, ...] = (), **draft: Any) -> str:
    spec = DraftSpec(**{"method": "model", "model": "m", "k": 4, "rule": "greedy_draft", **draft})
    found = KINDS[kind].verified(spec, Sampling(temperature=temperature), args)
    assert found.reason
    assert found.source
    return found.exactness


def test_a_lossy_or_unknown_method_is_called_lossless() -> None:
    assert exactness("vllm") == exactness("vllm", rule="block") == exactness("vllm", method="lookup") == "exact"
    assert exactness("llamacpp") == exactness("llamacpp", method="lookup") == "exact_by_match"
    assert exactness("llamacpp", rule="rejection") == "exact"
    assert exactness("mlx_lm", rule="match") == "exact_by_match"
    assert exactness("sglang", 0.0) == "exact"
    assert exactness("sglang") == "unknown"
    for arg in ("--speculative-accept-threshold-single=0.5", "--speculative_accept_threshold_acc"):
        assert exactness("sglang", 0.0, (arg, "0.5")) == "lossy"
    assert exactness("ollama") == exactness("openai") == "unknown"


def test_a_rule_is_told_that_the_server_does_not_run() -> None:
    rejection = DraftSpec(method="model", model="m", k=4, rule="rejection")
    assert KINDS["vllm"].verified(rejection, GREEDY).rule == "rejection"
    assert KINDS["llamacpp"].verified(LOOKUP, GREEDY).rule == "greedy_draft"
    assert KINDS["mlx_lm"].verified(rejection, GREEDY).rule == "match"


def test_a_servers_own_way_is_not_told() -> None:
    def said(kind: str, sampling: Sampling = GREEDY, **given: Any) -> str:
        return "\n".join(KINDS[kind].differs(Served(weights="m", **given), sampling))

    assert said("vllm") == said("llamacpp") == said("sglang") == ""
    assert "min_p before top_p" in said("vllm", Sampling(temperature=1, min_p=0.1, top_p=0.9))
    assert "never draws the end token" in said("llamacpp", Sampling(ignore_eos=True))
    assert "before the temperature" in said("mlx_lm", Sampling(temperature=0.7, top_p=0.9))
    assert "one at a time" in said("mlx_lm", Sampling(temperature=0.7))
    assert "as floats" in said("vllm", target=TargetSpec(kv_cache="q8"))
    assert "not in the prompt" in said("sglang", draft=LOOKUP)
    assert "--enable-deterministic-inference" in said("sglang", Sampling(temperature=1.0))
    assert said("sglang", Sampling(temperature=1.0), args=("--enable-deterministic-inference",)) == ""
    assert "nonce" in said("ollama")
    assert "nonce" in said("openai")
