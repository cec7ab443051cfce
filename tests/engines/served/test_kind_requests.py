"""What each kind of server is asked: the same prompt, drawn in the same way, as far as it lets itself be told."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from specq.core.errors import Unsupported
from specq.core.types import Prompt, Sampling
from specq.engines.served.kinds import KINDS

PROMPT = Prompt(id="p1", ids=(5, 6, 7), text="<|user|>hi", messages=({"role": "user", "content": "hi"},))
SAMPLING = Sampling(temperature=0.7, top_k=20, top_p=0.9, min_p=0.1, max_new_tokens=32, stop=("\n\n",), seed=2**40 + 3)
IDS, TEXT = ("vllm", "llamacpp", "sglang"), ("ollama", "mlx_lm")


def body(kind: str, sampling: Sampling = SAMPLING, *, prompt: Prompt = PROMPT, cold: str | None = None) -> Any:
    asked = KINDS[kind].request(prompt, sampling, id="p1", model="m", cold=cold)
    assert asked.id == "p1"
    assert asked.headers["Content-Type"] == "application/json"
    return json.loads(asked.body)


def drawn(kind: str, sampling: Sampling = SAMPLING) -> Any:
    """The fields that say how to draw, wherever the kind has them."""
    given = body(kind, sampling)
    return given.get("options") or given.get("sampling_params") or given


PATHS = {
    "vllm": "/v1/completions",
    "llamacpp": "/completion",
    "ollama": "/api/generate",
    "mlx_lm": "/v1/completions",
    "sglang": "/generate",
    "openai": "/v1/chat/completions",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_goes_to_another_path_or_is_not_streamed(kind: str) -> None:
    assert KINDS[kind].request(PROMPT, SAMPLING, id="p1", model="m").path == PATHS[kind]
    assert body(kind)["stream"] is True


def test_the_servers_own_template_or_tokenizer_is_applied_where_ids_can_be_sent() -> None:
    assert body("vllm")["prompt"] == [5, 6, 7]
    assert body("llamacpp")["prompt"] == [5, 6, 7]
    assert body("sglang")["input_ids"] == [5, 6, 7]
    assert body("ollama")["prompt"] == "<|user|>hi"
    assert body("ollama")["raw"] is True
    assert body("mlx_lm")["prompt"] == "<|user|>hi"
    assert body("openai")["messages"] == [{"role": "user", "content": "hi"}]
    assert body("openai", prompt=Prompt(id="p1", ids=(), text="Once"))["prompt"] == "Once"


@pytest.mark.parametrize("kind", TEXT)
def test_a_prompt_without_text_goes_out_empty(kind: str) -> None:
    with pytest.raises(Unsupported, match='prompt "p1" has token ids alone, and this kind of server takes text'):
        body(kind, prompt=Prompt(id="p1", ids=(5, 6)))


@pytest.mark.parametrize("kind", [*IDS, *TEXT])
def test_a_servers_default_filter_is_left_on(kind: str) -> None:
    plain = drawn(kind, Sampling(temperature=1.0))
    assert (plain["temperature"], plain["top_p"], plain["min_p"]) == (1.0, 1.0, 0.0)
    assert plain["top_k"] == (-1 if kind == "sglang" else 0)
    told = drawn(kind)
    assert (told["temperature"], told["top_k"], told["top_p"], told["min_p"]) == (0.7, 20, 0.9, 0.1)


def test_openai_gets_fields_that_it_does_not_have() -> None:
    assert set(body("openai")) == {
        *("model", "stream", "stream_options", "messages", "max_tokens", "temperature", "top_p", "seed", "stop")
    }


@pytest.mark.parametrize(
    ("kind", "key"), [("vllm", "max_tokens"), ("llamacpp", "n_predict"), ("sglang", "max_new_tokens")]
)
def test_another_budget_of_tokens_is_asked_for(kind: str, key: str) -> None:
    assert drawn(kind)[key] == 32


def test_a_seed_overflows_or_means_a_random_one() -> None:
    assert drawn("vllm")["seed"] == 2**40 + 3
    assert drawn("llamacpp", Sampling(seed=2**32 - 1))["seed"] == 0
    assert 0 <= drawn("llamacpp")["seed"] < 2**32 - 1
    assert 0 <= drawn("ollama")["seed"] < 2**31
    assert 0 <= drawn("sglang")["sampling_seed"] < 2**31
    assert drawn("llamacpp")["seed"] == (2**40 + 3) % (2**32 - 1)


def test_mlx_is_kept_from_batching_by_a_seed_that_draws_nothing() -> None:
    assert "seed" not in body("mlx_lm", Sampling(seed=5))
    assert body("mlx_lm", Sampling(seed=5, temperature=1.0))["seed"] == 5


def test_llamacpp_applies_the_temperature_after_its_filters() -> None:
    assert body("llamacpp")["samplers"] == ["temperature", "top_k", "top_p", "min_p"]
    penalized = body("llamacpp", Sampling(repetition_penalty=1.2, max_new_tokens=10))
    assert penalized["samplers"][0] == "penalties"
    assert (penalized["repeat_penalty"], penalized["repeat_last_n"]) == (1.2, 13)


@pytest.mark.parametrize("kind", IDS)
def test_an_answer_of_a_set_length_stops_early(kind: str) -> None:
    equal = drawn(kind, Sampling(ignore_eos=True, stop=("x",)))
    assert equal["ignore_eos"] is True
    assert "stop" not in equal
    assert drawn(kind)["stop"] == ["\n\n"]
    assert drawn(kind)["ignore_eos"] is False


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_the_models_own_end_tokens_stand_beside_those_that_were_told(kind: str) -> None:
    told = drawn(kind, Sampling(eos_ids=(2, 9)))
    assert (told["ignore_eos"], told["stop_token_ids"]) == (True, [2, 9])
    assert "stop_token_ids" not in drawn(kind, Sampling(eos_ids=(2, 9), ignore_eos=True))


def test_mlx_draws_an_end_token_where_it_is_to_go_on() -> None:
    assert body("mlx_lm", Sampling(ignore_eos=True, eos_ids=(2,)))["logit_bias"] == {"2": -1e9}


def test_a_cold_prompt_is_read_from_a_cache() -> None:
    salt = body("vllm", cold="lookup@4#1/" + "n" * 200)["cache_salt"]
    assert re.fullmatch("[0-9a-f]{1,128}", salt), "vLLM takes no other characters, and no more"
    assert salt != body("vllm", cold="n-1")["cache_salt"]
    assert body("sglang", cold="n-1")["extra_key"] == "n-1"
    assert body("llamacpp", cold="n-1")["cache_prompt"] is False
    assert body("ollama", cold="n-1")["prompt"] == "n-1\n<|user|>hi"
    assert body("mlx_lm", cold="n-1")["prompt"] == "n-1\n<|user|>hi"
    assert body("openai", cold="n-1")["messages"] == [{"role": "user", "content": "n-1\nhi"}]
    assert PROMPT.messages[0]["content"] == "hi"


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_prompt_is_read_cold(kind: str) -> None:
    given = body(kind)
    assert given.get("cache_prompt", True) is True
    assert not {"cache_salt", "extra_key"} & set(given)
    assert "n-1" not in json.dumps(given)


@pytest.mark.parametrize("kind", ["vllm", "mlx_lm", "openai"])
def test_the_servers_count_of_tokens_is_not_asked_for(kind: str) -> None:
    assert body(kind)["stream_options"] == {"include_usage": True}


def test_token_ids_are_not_asked_for() -> None:
    assert body("vllm")["return_token_ids"] is True
    assert body("llamacpp")["return_tokens"] is True
