"""Command lines: everything that an arm can be, in the server's own words."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from specq.core.errors import Unsupported
from specq.core.types import DraftSpec, Sampling, TargetSpec
from specq.engines.served.kinds import KINDS, llamacpp, ollama, vllm
from specq.engines.served.kinds.base import HOST, Served

ENVIRON = {
    "SPECQ_VLLM_PYTHON": "/v/bin/python",
    "SPECQ_SGLANG_PYTHON": "/s/bin/python",
    "SPECQ_LLAMA_SERVER": "/l/llama-server",
}
STARTED = ("vllm", "llamacpp", "mlx_lm", "sglang")
MODEL = DraftSpec(method="model", model="small", k=3, rule="greedy_draft")
LOOKUP = DraftSpec(method="lookup", k=5, rule="greedy_draft", max_ngram=3, min_ngram=3)


def argv(kind: str, environ: dict[str, str] = ENVIRON, **given: Any) -> tuple[str, ...]:
    return KINDS[kind].command(Served(weights="/m/big", **given), 4321, environ=environ).argv


def value(words: Sequence[str], flag: str) -> str:
    assert words.count(flag) == 1, f"{flag} in {words}"
    return words[words.index(flag) + 1]


def test_vllm_is_started_from_this_python_or_from_a_module_that_serves_nothing() -> None:
    words = argv("vllm")
    assert words[:5] == ("/v/bin/python", "-m", "vllm.entrypoints.cli.main", "serve", "/m/big")


def test_a_program_on_the_path_is_not_found(tmp_path: Path) -> None:
    for name in ("vllm", "llama-server", "sglang", "ollama"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": str(tmp_path)}
    assert argv("vllm", environ)[:2] == (str(tmp_path / "vllm"), "serve")
    assert argv("llamacpp", environ)[0] == str(tmp_path / "llama-server")
    assert argv("sglang", environ)[:2] == (str(tmp_path / "sglang"), "serve")
    assert argv("ollama", environ) == (str(tmp_path / "ollama"), "serve")


def test_a_server_that_is_not_installed_says_not_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llamacpp.importlib.util, "find_spec", lambda name: None)
    for kind, named in {
        "vllm": "SPECQ_VLLM_PYTHON",
        "sglang": "SPECQ_SGLANG_PYTHON",
        "llamacpp": "SPECQ_LLAMA_SERVER",
        "ollama": "install it",
        "openai": "url = ",
    }.items():
        with pytest.raises(Unsupported, match=f'kind = "{kind}".*{named}.*url = |url = '):
            argv(kind, {"PATH": "/nowhere"})


def test_xllamacpp_is_overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llamacpp.importlib.util, "find_spec", lambda name: object())
    assert argv("llamacpp", {"PATH": "/nowhere"})[:2] == (sys.executable, str(llamacpp.HOSTED))
    assert argv("llamacpp", {"SPECQ_LLAMA_SERVER": "/x/python3.11"})[:2] == ("/x/python3.11", str(llamacpp.HOSTED))
    assert llamacpp.HOSTED.is_file()


@pytest.mark.parametrize("kind", STARTED)
def test_a_server_listens_to_the_world_or_elsewhere(kind: str) -> None:
    assert value(argv(kind), "--host") == HOST == "127.0.0.1"
    assert value(argv(kind), "--port") == "4321"


@pytest.mark.parametrize("kind", STARTED)
def test_an_arm_with_a_quantized_folder_serves_the_baselines_weights(kind: str) -> None:
    for target in (TargetSpec(model="/m/other"), TargetSpec(source="/m/other")):
        words = argv(kind, target=target)
        assert words[words.index("/m/other") - 1] in ("--model", "--model-path", "serve")
        assert "/m/big" not in words


@pytest.mark.parametrize("kind", STARTED)
def test_prompts_of_other_arms_are_kept_where_nobody_asked(kind: str) -> None:
    off = {
        "vllm": "--no-enable-prefix-caching",
        "llamacpp": "--no-cache-prompt",
        "mlx_lm": "--prompt-cache-size",
        "sglang": "--disable-radix-cache",
    }[kind]
    assert off in argv(kind)
    assert off not in argv(kind, prefix_cache=True)


def test_slots_of_a_batch_share_a_window_that_nobody_named() -> None:
    given: dict[str, Any] = {"weights": "m.gguf", "target": TargetSpec(batch=2), "slots": 2}
    (said,) = llamacpp.cannot(Served(**given), Sampling())
    assert "shares the model's own window out among 2 slots: write context in [engine]" in said
    assert llamacpp.cannot(Served(**given, context=512), Sampling()) == ()


def test_context_and_slots_are_mixed_up() -> None:
    given: dict[str, Any] = {"context": 1000, "slots": 4, "seed": 7}
    words = argv("vllm", dtype="bfloat16", **given)
    assert (value(words, "--max-model-len"), value(words, "--max-num-seqs"), value(words, "--seed")) == (
        "1000",
        "4",
        "7",
    )
    assert value(words, "--dtype") == "bfloat16"
    words = argv("llamacpp", **given)
    assert (value(words, "--ctx-size"), value(words, "--parallel"), value(words, "--seed")) == ("4000", "4", "7")
    assert value(argv("llamacpp"), "--ctx-size") == "0"
    words = argv("sglang", **given)
    assert (value(words, "--context-length"), value(words, "--max-running-requests")) == ("1000", "4")
    assert value(argv("mlx_lm", slots=4), "--decode-concurrency") == "4"


def test_a_quantized_cache_is_left_as_it_was() -> None:
    words = argv("llamacpp", target=TargetSpec(kv_cache="q4"))
    assert (value(words, "--cache-type-k"), value(words, "--cache-type-v")) == ("q4_0", "q4_0")
    assert value(words, "--flash-attn") == "on"
    assert value(argv("llamacpp", target=TargetSpec(kv_cache="q8")), "--cache-type-k") == "q8_0"
    assert value(argv("vllm", target=TargetSpec(kv_cache="q8")), "--kv-cache-dtype") == "fp8"
    assert value(argv("sglang", target=TargetSpec(kv_cache="q4")), "--kv-cache-dtype") == "fp4_e2m1"
    words = argv("mlx_lm", target=TargetSpec(kv_cache="q8"))
    # By default mlx-lm begins after 5000 tokens, which no short prompt has.
    assert (value(words, "--kv-bits"), value(words, "--quantized-kv-start")) == ("8", "0")
    assert not any("cache-type" in word or "kv-" in word for kind in STARTED for word in argv(kind))


def test_ollamas_settings_are_given_as_arguments(tmp_path: Path) -> None:
    (tmp_path / "ollama").write_text("#!/bin/sh\n")
    (tmp_path / "ollama").chmod(0o755)
    served = Served(weights="/m/big.gguf", target=TargetSpec(kv_cache="q8"), context=2048, slots=3)
    environ = {"PATH": str(tmp_path)}
    made = ollama.command(served, 4321, environ=environ)
    assert made.env["OLLAMA_HOST"] == "127.0.0.1:4321"
    assert (made.env["OLLAMA_KV_CACHE_TYPE"], made.env["OLLAMA_FLASH_ATTENTION"]) == ("q8_0", "1")
    assert (made.env["OLLAMA_CONTEXT_LENGTH"], made.env["OLLAMA_NUM_PARALLEL"]) == ("2048", "3")
    create = ollama.creation(served, 4321, tmp_path / "Modelfile", environ=environ)
    assert create is not None
    assert create.argv[1:] == ("create", "specq-big", "-f", str(tmp_path / "Modelfile"))
    assert create.env["OLLAMA_HOST"] == "127.0.0.1:4321"
    assert ollama.modelfile_of(served) == "FROM /m/big.gguf\n"
    known = Served(weights="llama3.2")
    assert ollama.name_of(known) == "llama3.2"
    assert ollama.creation(known, 4321, tmp_path / "Modelfile", environ=environ) is None


def test_a_draft_model_runs_under_another_rule_or_length() -> None:
    given: dict[str, Any] = {"draft": MODEL, "draft_weights": "/m/small"}
    config = json.loads(value(argv("vllm", **given), "--speculative-config"))
    assert config == {"num_speculative_tokens": 3, "method": "draft_model", "model": "/m/small"}
    words = argv("llamacpp", **given)
    assert value(words, "--spec-draft-model") == "/m/small"
    assert [value(words, f"--spec-draft-{name}") for name in ("n-max", "n-min", "p-min")] == ["3", "3", "0"]
    assert "--spec-draft-sampling" not in words
    words = argv("sglang", **given)
    assert value(words, "--speculative-algorithm") == "STANDALONE"
    steps = [value(words, f"--speculative-{name}") for name in ("num-steps", "eagle-topk", "num-draft-tokens")]
    assert steps == ["3", "1", "4"]
    words = argv("mlx_lm", **given)
    assert (value(words, "--draft-model"), value(words, "--num-draft-tokens")) == ("/m/small", "3")


def test_sampled_proposals_are_not_asked_for() -> None:
    for rule, more in {
        "rejection": {"draft_sample_method": "probabilistic"},
        "block": {"draft_sample_method": "probabilistic", "rejection_sample_method": "block"},
    }.items():
        draft = DraftSpec(method="model", model="small", k=3, rule=rule)  # type: ignore[arg-type]
        config = vllm.speculation(draft, "/m/small")
        assert {key: config[key] for key in more} == more
    draft = DraftSpec(method="model", model="small", k=3, rule="rejection")
    assert value(argv("llamacpp", draft=draft, draft_weights="/m/small"), "--spec-draft-sampling") == "probabilistic"


def test_a_lookup_is_another_one_on_the_server() -> None:
    config = json.loads(value(argv("vllm", draft=LOOKUP), "--speculative-config"))
    assert config == {"num_speculative_tokens": 5, "method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 3}
    suffix = vllm.speculation(DraftSpec(method="lookup", match="suffix", k=8, rule="greedy_draft"), None)
    assert suffix == {"num_speculative_tokens": 8, "method": "suffix", "suffix_decoding_max_cached_requests": 0}
    words = argv("llamacpp", draft=LOOKUP)
    assert value(words, "--spec-type") == "ngram-simple"
    assert [value(words, f"--spec-ngram-simple-size-{name}") for name in "nm"] == ["3", "5"]
    words = argv("sglang", draft=LOOKUP)
    assert (value(words, "--speculative-algorithm"), value(words, "--speculative-num-draft-tokens")) == ("NGRAM", "6")


@pytest.mark.parametrize("kind", STARTED)
def test_arguments_of_the_user_are_dropped_or_come_first(kind: str) -> None:
    assert argv(kind, args=("--tensor-parallel-size", "2"))[-2:] == ("--tensor-parallel-size", "2")


def test_threads_are_left_to_the_server() -> None:
    words = argv("llamacpp", threads=1)
    assert (value(words, "--threads"), value(words, "--threads-batch")) == ("1", "1")
    for kind in ("vllm", "sglang"):
        made = KINDS[kind].command(Served(weights="m", threads=2), 1, environ=ENVIRON)
        assert made.env == {"OMP_NUM_THREADS": "2"}
