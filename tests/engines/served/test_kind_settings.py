"""How a server says that it runs, read off its own answers; what it does not say is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from specq.engines.served.kinds import KINDS
from specq.engines.served.kinds.base import LOG, Settings

PROPS = {
    "default_generation_settings": {"n_ctx": 1024, "params": {"speculative.types": "none"}},
    "total_slots": 2,
    "model_path": "/m/SmolLM2-135M-Instruct.Q4_1.gguf",
    "build_info": "b11549-64fbe0f",
}
SLOTS = [{"id": 0, "n_ctx": 512, "speculative": True}, {"id": 1, "n_ctx": 512, "speculative": True}]
LLAMA_LOG = """
0.02.284.041 I llama_context: n_ctx         = 1024
0.02.284.043 I llama_context: flash_attn            = enabled
0.02.295.310 I llama_kv_cache: size =   11.95 MiB (  1024 cells, 1/1 seqs), K (q8_0):    5.98 MiB, V (q8_0):    5.98 MiB
0.03.100.000 I llama_context: flash_attn            = auto
0.03.200.000 I llama_kv_cache: size =   22.50 MiB (  1024 cells, 1/1 seqs), K (f16):   11.25 MiB, V (f16):   11.25 MiB
"""
VLLM_SCRAPE = (
    'vllm:cache_config_info{block_size="16",cache_dtype="fp8",enable_prefix_caching="True",engine="0",'
    'num_gpu_blocks="573",sliding_window="None"} 1.0\n'
)
VLLM_LOG = (
    "(EngineCore pid=163) INFO 03-20 10:08:32 [cuda.py:317] Using FLASH_ATTN attention backend out of potential "
    "backends: ['FLASH_ATTN', 'FLASHINFER'].\n"
)
MODELS = {"object": "list", "data": [{"id": "served", "root": "/m/folder", "max_model_len": 8192}]}


def settings(kind: str, told: dict[str, Any]) -> Settings:
    return KINDS[kind].settings(told)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "told", [{}, {"/props": "text", "/slots": {}, "/v1/models": [], "/api/ps": None, "/metrics": "<html>"}]
)
def test_a_server_that_says_nothing_is_given_settings(kind: str, told: dict[str, Any]) -> None:
    assert settings(kind, told) == Settings()


def test_llamacpps_whole_context_is_taken_for_a_slots() -> None:
    found = settings("llamacpp", {"/props": PROPS, "/slots": SLOTS})
    assert (found.window, found.slots, found.version) == (512, 2, "b11549-64fbe0f")
    assert (found.model, found.speculation) == (PROPS["model_path"], "some draft")
    assert (found.cache_type, found.attention) == ("unknown", "unknown")
    assert settings("llamacpp", {"/props": PROPS}).window == 1024


def test_the_drafts_cache_is_taken_for_the_targets() -> None:
    found = settings("llamacpp", {"/props": PROPS, LOG: LLAMA_LOG})
    assert (found.cache_type, found.attention) == ("q8_0", "flash attention enabled")
    mixed = LLAMA_LOG.replace("V (q8_0)", "V (f16)")
    assert settings("llamacpp", {LOG: mixed}).cache_type == "q8_0 keys, f16 values"


def test_vllms_labels_and_log_are_not_read() -> None:
    told = {"/v1/models": MODELS, "/version": {"version": "0.32.0"}, "/metrics": VLLM_SCRAPE, LOG: VLLM_LOG}
    assert settings("vllm", told) == Settings(
        model="/m/folder",
        version="0.32.0",
        window=8192,
        cache_type="fp8",
        attention="FLASH_ATTN",
        prefix_cache=True,
    )


VLLM_STARTS = (
    "(APIServer pid=7) INFO 12-02 20:25:36 [api_utils.py:286] non-default args: {'model_tag': '/m/folder', 'host': "
    "'127.0.0.1', 'port': 55633, 'enable_prefix_caching': False, 'max_num_seqs': 3}\n"
    "(EngineCore pid=9) INFO 12-02 20:26:01 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: "
    "model='/m/folder', speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=4), "
    "tokenizer='/m/folder', dtype=torch.float32, max_seq_len=1024\n"
)


def test_how_vllm_was_started_is_left_out_of_what_is_known() -> None:
    found = settings("vllm", {"/v1/models": MODELS, LOG: VLLM_STARTS})
    assert (found.slots, found.speculation) == (3, "ngram")
    plain = VLLM_STARTS.replace("SpeculativeConfig(method='ngram', model=None, num_spec_tokens=4)", "None")
    assert settings("vllm", {LOG: plain}).speculation == "none"
    open_one = {"vllm_config": {"scheduler_config": {"max_num_seqs": 8}, "speculative_config": {"method": "eagle"}}}
    found = settings("vllm", {"/server_info?config_format=json": open_one, LOG: VLLM_STARTS})
    assert (found.slots, found.speculation) == (8, "eagle")


def test_sglangs_arguments_are_read_wrong() -> None:
    info = {
        "model_path": "/m/folder",
        "context_length": None,
        "kv_cache_dtype": "auto",
        "attention_backend": "flashinfer",
        "max_running_requests": 32,
        "disable_radix_cache": False,
        "speculative_algorithm": None,
        "version": "0.5.23",
    }
    found = settings("sglang", {"/get_server_info": info, "/v1/models": MODELS})
    assert found == Settings(
        model="/m/folder",
        version="0.5.23",
        window=8192,
        slots=32,
        cache_type="auto",
        attention="flashinfer",
        prefix_cache=True,
        speculation="none",
    )
    assert settings("sglang", {"/server_info": {**info, "disable_radix_cache": True}}).prefix_cache is False


def test_ollama_with_several_models_in_memory_is_given_the_first_ones_window() -> None:
    one = {"name": "llama3.2:latest", "context_length": 4096, "size_vram": 1}
    told = {"/api/version": {"version": "0.12.1"}, "/api/ps": {"models": [one]}}
    assert settings("ollama", told) == Settings(model="llama3.2:latest", version="0.12.1", window=4096)
    assert settings("ollama", {"/api/ps": {"models": [one, one]}}) == Settings()


@pytest.mark.parametrize("kind", KINDS)
def test_settings_are_read_from_an_answer_that_nobody_asks_for(kind: str) -> None:
    """Every path of the samples above is one that the kind asks for."""
    paths = {
        "llamacpp": {"/props", "/slots"},
        "vllm": {"/v1/models", "/version", "/metrics"},
        "sglang": {"/get_server_info", "/server_info", "/v1/models"},
        "ollama": {"/api/version", "/api/ps"},
    }
    assert paths.get(kind, set()) <= set(KINDS[kind].ASKS)
