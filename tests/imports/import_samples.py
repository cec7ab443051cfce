"""Small files in the formats of other tools, written after their documentation; each is free of faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
# Six steps of at most 3 proposals that accepted 3, 0, 2, 1, 0, 3: nine of eighteen, and 1 + 9 + 6 = 16 tokens.
BLOCKS = (3, 0, 2, 1, 0, 3)
HISTOGRAM = [2, 1, 1, 2]
TOKENS, ACCEPTED, PROPOSED, STEPS = 16, 9, 18, 6


def lines(path: Path, *values: Json) -> Path:
    """One object a line."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def vllm(**spec: Any) -> Json:
    counters = {
        "mean_acceptance_length": 2.5,
        "draft_acceptance_rate": 0.5,
        "acceptance_histogram": HISTOGRAM,
        "acceptance_histogram_by_draft_length": {"3": HISTOGRAM},
        "num_spec_steps": STEPS,
        "num_accepted_draft_tokens": ACCEPTED,
        "num_draft_tokens": PROPOSED,
        "num_spec_tokens": 3,
    }
    return {
        "id": "cmpl-1",
        "choices": [{"index": 0, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": TOKENS},
        "metrics": {
            "time_to_first_token_ms": 100.0,
            "generation_time_ms": 300.0,
            "queue_time_ms": 50.0,
            "mean_itl_ms": 20.0,
            "tokens_per_second": 40.0,
            "speculative_decoding": counters | spec,
        },
    }


def vllm_bench(**keys: Any) -> Json:
    return {
        "backend": "vllm",
        "duration": 2.0,
        "completed": 2,
        "failed": 0,
        "total_input_tokens": 40,
        "total_output_tokens": 32,
        "output_throughput": 16.0,
        "total_token_throughput": 36.0,
        "mean_ttft_ms": 150.0,
        "spec_decode_acceptance_rate": 50.0,
        "spec_decode_acceptance_length": 2.5,
        "spec_decode_num_drafts": 12,
        "spec_decode_draft_tokens": 36,
        "spec_decode_accepted_tokens": 18,
        "spec_decode_per_position_acceptance_rates": [8 / 12, 6 / 12, 4 / 12],
        **keys,
    }


DETAILS: Json = {
    "input_lens": [20, 20],
    "output_lens": [16, 16],
    "ttfts": [0.1, 0.2],
    "itls": [[0.05] * 15, [0.05] * 15],
    "errors": ["", ""],
}


def prometheus(drafts: int, proposed: int, accepted: int, by_position: tuple[int, ...], **more: float) -> str:
    """A scrape with one engine; `more` are further counters by their bare name."""
    labels = 'engine="0",model_name="a/b"'
    text = [
        "# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.",
        "# TYPE vllm:spec_decode_num_drafts_total counter",
        f"vllm:spec_decode_num_drafts_total{{{labels}}} {drafts}.0",
        f"vllm:spec_decode_num_drafts_created{{{labels}}} 1.7567367987e+09",
        f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {proposed}.0",
        f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {accepted}.0",
        *(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{place}"}} {count}.0'
            for place, count in enumerate(by_position)
        ),
        *(f"vllm:{name}{{{labels}}} {value}" for name, value in more.items()),
        'vllm:cache_config_info{block_size="16"} 1.0',
    ]
    return "\n".join(text) + "\n"


def sglang(**meta: Any) -> Json:
    counters = {
        "id": "r1",
        "finish_reason": {"type": "stop", "matched": 2},
        "prompt_tokens": 20,
        "completion_tokens": TOKENS,
        "cached_tokens": 4,
        "e2e_latency": 0.5,
        "spec_accept_rate": 0.5,
        "spec_accept_length": TOKENS / STEPS,
        "spec_num_correct_drafts": ACCEPTED,
        "spec_num_proposed_drafts": PROPOSED,
        "spec_accepted_drafts": ACCEPTED,
        "spec_verify_ct": STEPS,
        "spec_correct_drafts_histogram": HISTOGRAM,
    }
    return {"text": "...", "meta_info": counters | meta}


def llamacpp(**timings: Any) -> Json:
    counters = {
        "cache_n": 4,
        "prompt_n": 16,
        "prompt_ms": 100.0,
        "prompt_per_second": 160.0,
        "predicted_n": TOKENS,
        "predicted_ms": 300.0,
        "predicted_per_second": TOKENS / 0.3,
        "draft_n": PROPOSED,
        "draft_n_accepted": ACCEPTED,
    }
    return {"content": "...", "stop_type": "eos", "timings": counters | timings}


SERVER_LOG = """\
build: 6800 (abc) with cc
0.06.895.980 I slot print_timing: id  1 | task 0 | prompt eval time =     100.00 ms /    20 tokens (    5.00 ms \
per token,   200.00 tokens per second)
0.06.895.998 I slot print_timing: id  1 | task 0 |        eval time =     300.00 ms /    16 tokens (   18.75 ms \
per token,    53.33 tokens per second)
0.06.895.999 I slot print_timing: id  1 | task 0 |       total time =     400.00 ms /    36 tokens
0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.50000 (    9 accepted /    18 generated), \
mean acceptance length =  2.50, acceptance rate per position = (0.667, 0.500, 0.333)
0.06.896.057 I statistics     draft-eagle3: #calls(b,g,a) =    1      6      6, #gen drafts =      6
0.06.896.125 I slot      release: id  1 | task 0 | stop processing: n_tokens = 35, truncated = 0
slot print_timing: id  0 | task 7 | \n\
prompt eval time =     100.00 ms /    20 tokens (    5.00 ms per token,   200.00 tokens per second)
       eval time =     300.00 ms /    16 tokens (   18.75 ms per token,    53.33 tokens per second)
      total time =     400.00 ms /    36 tokens
slot print_timing: id  0 | task 7 | \n\
draft acceptance rate = 0.50000 (    9 accepted /    18 generated)
srv  update_slots: all slots are idle
"""

SPECULATIVE_LOG = """\
encoded   20 tokens in    0.100 seconds, speed:  200.000 t/s
decoded   16 tokens in    0.300 seconds, speed:   53.333 t/s

n_draft   = 3
n_predict = 16
n_drafted = 18
n_accept  = 9
accept    = 50.000%

draft:

llama_perf_context_print: prompt eval time =     100.00 ms /    20 tokens (    5.00 ms per token,   200.00 tokens \
per second)
llama_perf_context_print:        eval time =     150.00 ms /    17 runs   (    8.82 ms per token,   113.33 tokens \
per second)
"""


def mlx(ended: str = "length") -> list[Json]:
    """The lines of one answer: the first pass verifies a block, so its steps emit all tokens."""
    drafts = [flag for accepted in BLOCKS for flag in (*[True] * accepted, False)]
    return [
        {
            "text": "a",
            "token": 5,
            "from_draft": from_draft,
            "prompt_tokens": 20,
            "prompt_tps": 200.0,
            "generation_tokens": place,
            "generation_tps": 50.0,
            "peak_memory": 1.2,
            "finish_reason": ended if place == len(drafts) else None,
        }
        for place, from_draft in enumerate(drafts, start=1)
    ]


def spec_bench(**choice: Any) -> Json:
    counters = {
        "index": 0,
        "turns": ["one", "two"],
        "decoding_steps": [6, 2],
        "new_tokens": [15, 5],
        "wall_time": [0.5, 0.25],
        "accept_lengths": [*(one + 1 for one in BLOCKS), 4, 1],
    }
    return {"question_id": 81, "category": "qa", "answer_id": "x", "model_id": "m", "choices": [counters | choice]}


def aiperf(phase: str = "profiling", **spec: Any) -> Json:
    counters = {
        "engine": "vllm",
        "mean_acceptance_length": 2.5,
        "draft_acceptance_rate": 0.5,
        "acceptance_histogram": {"0": 2, "1": 1, "2": 1, "3": 2},
        "num_accepted_draft_tokens": ACCEPTED,
        "num_draft_tokens": PROPOSED,
        "num_spec_steps": STEPS,
        "num_spec_tokens": 3,
    }
    return {
        "metadata": {"x_request_id": "r1", "benchmark_phase": phase, "was_cancelled": False},
        "metrics": {
            "input_sequence_length": {"value": 20, "unit": "tokens"},
            "time_to_first_token": {"value": 100.0, "unit": "ms"},
            "request_latency": {"value": 0.4, "unit": "s"},
            "output_sequence_length": {"value": TOKENS, "unit": "tokens"},
            "inter_token_latency": {"value": 20.0, "unit": "ms"},
        },
        "spec_decode_acceptance": counters | spec,
        "error": None,
    }


def aiperf_run(**keys: Any) -> Json:
    return {
        "schema_version": "1.5",
        "request_count": {"unit": "requests", "avg": 2.0},
        "request_latency": {"unit": "ms", "avg": 400.0, "count": 2, "sum": 800.0},
        "time_to_first_token": {"unit": "ms", "avg": 100.0, "count": 2, "sum": 200.0},
        "output_sequence_length": {"unit": "tokens", "avg": 16.0, "count": 2, "sum": 32},
        "input_sequence_length": {"unit": "tokens", "avg": 20.0, "count": 2, "sum": 40},
        "total_spec_decode_steps": {"unit": "count", "avg": 12},
        "total_accepted_draft_tokens": {"unit": "tokens", "avg": 18},
        "total_draft_tokens": {"unit": "tokens", "avg": 36},
        "spec_decode_overall_draft_acceptance_rate": {"unit": "%", "avg": 50.0},
        "spec_decode_token_weighted_acceptance_length": {"unit": "ratio", "avg": 2.5},
        "pooled_spec_decode_acceptance_histogram": {"0": 4, "1": 2, "2": 2, "3": 4},
        **keys,
    }
