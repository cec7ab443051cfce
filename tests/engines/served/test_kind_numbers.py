"""A server's own numbers, read off samples as its documentation has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from specq.engines.served.exposition import Grown, samples
from specq.engines.served.kinds import KINDS, llamacpp, vllm
from specq.engines.served.kinds.base import Numbers

USAGE = {
    "prompt_tokens": 42,
    "completion_tokens": 128,
    "total_tokens": 170,
    "prompt_tokens_details": {"cached_tokens": 16},
}
TIMINGS = {
    "cache_n": 236,
    "prompt_n": 4,
    "prompt_ms": 30.958,
    "prompt_per_second": 129.2,
    "predicted_n": 35,
    "predicted_ms": 661.064,
    "predicted_per_second": 51.4,
    "draft_n": 30,
    "draft_n_accepted": 21,
}
OLLAMA = {
    "model": "llama3.2",
    "done": True,
    "done_reason": "stop",
    "total_duration": 10706818083,
    "load_duration": 6338219291,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 130079000,
    "eval_count": 259,
    "eval_duration": 4232710000,
}
SPEC = {"num_spec_steps": 40, "num_draft_tokens": 160, "num_accepted_draft_tokens": 88, "num_spec_tokens": 4}
METRICS = {"time_to_first_token_ms": 85.2, "generation_time_ms": 1240.5, "queue_time_ms": 12.3, "mean_itl_ms": 9.1}
META = {
    "id": "x",
    "prompt_tokens": 9,
    "completion_tokens": 33,
    "cached_tokens": 1,
    "e2e_latency": 0.75,
    "finish_reason": {"type": "length", "length": 33},
    "spec_verify_ct": 12,
    "spec_accept_token_num": 20,
    "spec_draft_token_num": 48,
    "spec_accept_histogram": [3, 4, 3, 2],
}


def numbers(kind: str, *, usage: Any = None, server: Any = None) -> Numbers:
    return KINDS[kind].numbers(SimpleNamespace(usage=usage, server=server or {}))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["openai", "mlx_lm", "vllm"])
def test_usage_is_read_wrong(kind: str) -> None:
    found = numbers(kind, usage=USAGE)
    assert (found.prompt_tokens, found.cached_tokens, found.new_tokens) == (42, 16, 128)
    assert (found.prefill_s, found.decode_s, found.proposed) == (None, None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_told_nothing_is_given_numbers(kind: str) -> None:
    assert numbers(kind) == Numbers()


def test_llamacpp_forgets_the_cached_tokens_of_a_prompt_or_takes_milliseconds_for_seconds() -> None:
    found = numbers("llamacpp", server={"timings": TIMINGS})
    assert (found.prompt_tokens, found.cached_tokens, found.new_tokens) == (240, 236, 35)
    assert (found.proposed, found.accepted, found.draft_steps) == (30, 21, None)
    assert found.prefill_s == pytest.approx(0.030958)
    assert found.decode_s == pytest.approx(0.661064)
    assert found.e2e_s == pytest.approx(0.692022)


def test_llamacpp_without_a_draft_is_said_not_to_tell() -> None:
    plain = {key: value for key, value in TIMINGS.items() if not key.startswith("draft")}
    found = numbers("llamacpp", server={"timings": plain})
    assert (found.proposed, found.accepted) == (0, 0)


def test_ollama_counts_nanoseconds() -> None:
    found = numbers("ollama", server=OLLAMA)
    assert (found.prompt_tokens, found.new_tokens) == (26, 259)
    assert found.load_s == pytest.approx(6.338219291)
    assert found.prefill_s == pytest.approx(0.130079)
    assert found.decode_s == pytest.approx(4.23271)
    assert found.e2e_s == pytest.approx(10.706818083)


def test_vllm_leaves_the_queue_out_of_the_time_to_the_first_token() -> None:
    metrics = {**METRICS, "speculative_decoding": {**SPEC, "acceptance_histogram": [8, 4, 10, 8, 10]}}
    found = numbers("vllm", usage=USAGE, server={"metrics": metrics})
    assert found.queue_s == pytest.approx(0.0123)
    assert found.prefill_s == pytest.approx(0.0852)
    assert found.ttft_s == pytest.approx(0.0975)
    assert found.e2e_s == pytest.approx(1.338)
    assert (found.draft_steps, found.proposed, found.accepted) == (40, 160, 88)
    assert found.accepted_by_position == (32, 28, 18, 10)
    assert sum(found.accepted_by_position) == 88
    sparse = {**METRICS, "speculative_decoding": {**SPEC, "acceptance_histogram": {"0": 8, "2": 10, "4": 10}}}
    assert numbers("vllm", server={"metrics": sparse}).accepted_by_position == (20, 20, 10, 10)


@pytest.mark.parametrize("key", ["spec_accept_token_num", "spec_accepted_drafts", "spec_num_correct_drafts"])
def test_a_version_of_sglang_with_other_names_is_not_read(key: str) -> None:
    renamed = {key if name == "spec_accept_token_num" else name: value for name, value in META.items()}
    found = numbers("sglang", server={"meta_info": renamed})
    assert (found.prompt_tokens, found.cached_tokens, found.new_tokens) == (9, 1, 33)
    assert (found.draft_steps, found.proposed, found.accepted) == (12, 48, 20)
    assert found.accepted_by_position == (9, 5, 2)
    assert found.e2e_s == 0.75


def test_a_damaged_number_is_computed_with() -> None:
    broken = {
        **TIMINGS,
        "prompt_ms": "30",
        "predicted_n": 3.5,
        "predicted_ms": float("nan"),
        "draft_n": -1,
        "cache_n": True,
    }
    found = numbers("llamacpp", server={"timings": broken})
    assert (found.prefill_s, found.new_tokens, found.decode_s, found.proposed, found.cached_tokens) == (None,) * 5
    assert set(found.damaged) == {"prompt_ms", "predicted_n", "predicted_ms", "draft_n", "cache_n"}


BEFORE = """
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 100.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 50.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 2.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 1.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 16.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="m"} 0.5
vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 1.0
vllm:request_decode_time_seconds_sum{engine="0",model_name="m"} 4.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 10.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 40.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 25.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.9
"""
AFTER = """
vllm:generation_tokens_total{engine="0",model_name="m"} 164.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 90.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 2.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 48.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="m"} 0.75
vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 1.5
vllm:request_decode_time_seconds_sum{engine="0",model_name="m"} 6.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 30.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 120.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 69.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 27.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 20.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="10"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.1
"""


def test_vllm_counters_are_read_since_the_start_and_not_between_two_scrapes() -> None:
    found = vllm.between(BEFORE, AFTER)
    assert (found.requests, found.prompt_tokens, found.cached_tokens, found.new_tokens) == (2, 40, 32, 64)
    assert (found.queue_s, found.prefill_s, found.decode_s) == (0.25, 0.5, 2.0)
    assert (found.draft_steps, found.proposed, found.accepted) == (20, 80, 44)
    assert found.accepted_by_position == (18, 13, 1)
    assert (found.ttft_s, found.restarted) == (None, False)


def test_a_server_that_restarted_gives_negative_counts() -> None:
    found = vllm.between(AFTER, BEFORE)
    assert found.restarted
    assert (found.requests, found.new_tokens) == (3, 100)


def test_a_gauge_that_fell_is_taken_for_a_restart() -> None:
    assert not Grown(BEFORE, AFTER).restarted


def test_llamacpp_counters_leave_the_cached_tokens_out_of_prompts() -> None:
    before = "llamacpp:prompt_tokens_total 8\nllamacpp:prompt_tokens_cached_total 0\n"
    after = before.replace(" 8", " 20").replace(" 0", " 30") + "llamacpp:prompt_seconds_total 0.5\n"
    found = llamacpp.between(before, after)
    assert (found.prompt_tokens, found.cached_tokens, found.prefill_s) == (42, 30, 0.5)
    assert found.requests is None


def test_a_counter_of_tokens_with_half_a_token_is_rounded() -> None:
    found = vllm.between("", "vllm:generation_tokens_total 3.5\n")
    assert (found.new_tokens, found.damaged) == (None, ("vllm:generation_tokens",))


def test_a_page_that_is_no_scrape_is_counted() -> None:
    with pytest.raises(ValueError, match="no line of Prometheus' text format: '<html>'"):
        list(samples("# HELP a b\n<html>\n"))
    with pytest.raises(ValueError, match="no line of Prometheus' text format"):
        list(samples('a{b="c" 1\n'))


def test_a_label_is_read_with_its_escapes() -> None:
    assert list(samples('a{b="c\\"d\\ne"} 1')) == [("a", (("b", 'c"d\ne'),), 1.0)]
