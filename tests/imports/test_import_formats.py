from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import import_samples as samples
import pytest

import specq
from specq.imports import Import

KNOWN = {
    "requests": 1,
    "new_tokens": 16,
    "accepted": 9,
    "proposed": 18,
    "steps": 6,
    "draft_steps": 6,
    "accepted_by_position": (4, 3, 2),
}


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def only(found: Import, name: str) -> dict[str, Any]:
    """The one record of a file that has no fault."""
    assert found.format == name
    assert found.flags == ()
    (record,) = found.records
    assert record.source == name
    return asdict(record)


def has(record: dict[str, Any], **expected: Any) -> None:
    assert {key: record[key] for key in expected} == pytest.approx(expected, abs=1e-9)


def test_vllms_counters_lose_a_step_or_its_queue_is_left_out_of_ttft(tmp_path: Path) -> None:
    record = only(specq.import_metrics(samples.lines(tmp_path / "a.jsonl", samples.vllm())), "vllm")
    assert {key: record[key] for key in KNOWN} == KNOWN
    assert (record["request"], record["line"], record["finish"], record["k"]) == ("cmpl-1", 1, "stop", 3)
    has(record, prompt_tokens=20, ttft_s=0.15, e2e_s=0.45)
    assert record["steps_from"] == "derived"


def test_a_plain_step_between_drafts_is_forgotten(tmp_path: Path) -> None:
    answer = samples.vllm()
    answer["usage"]["completion_tokens"] = 20
    answer["metrics"] = {"speculative_decoding": answer["metrics"]["speculative_decoding"]}
    record = only(specq.import_metrics(samples.lines(tmp_path / "a.jsonl", answer)), "vllm")
    # Four tokens more than the drafted steps gave: four passes without a proposal.
    has(record, steps=10, draft_steps=6)


def test_a_request_output_of_either_engine_is_not_read(tmp_path: Path) -> None:
    output = {"request_id": "7", "prompt_token_ids": [1] * 20, "outputs": [{"token_ids": [2] * 16}]}
    v0 = {"arrival_time": 10.0, "first_token_time": 10.1, "last_token_time": 10.4, "finished_time": 10.5}
    v1 = {"arrival_time": 9e9, "first_token_ts": 5.0, "last_token_ts": 5.3, "first_token_latency": 0.1}
    file = samples.lines(tmp_path / "a.jsonl", output | {"metrics": v0}, output | {"metrics": v1})
    found = specq.import_metrics(file)
    assert (found.format, found.flags) == ("vllm", ())
    for record in map(asdict, found.records):
        has(record, prompt_tokens=20, new_tokens=16, ttft_s=0.1, e2e_s=0.4)
        assert record["accepted"] is record["steps"] is None


def test_several_answers_of_a_request_have_the_first_ones_steps_or_one_first_token(tmp_path: Path) -> None:
    own = samples.vllm()["metrics"]["speculative_decoding"]
    other = {"num_spec_steps": 4, "num_accepted_draft_tokens": 2, "num_draft_tokens": 12, "num_spec_tokens": 3}
    answers = [
        {"token_ids": [2] * 16, "spec_decode_metrics": own, "finish_reason": "stop"},
        {"token_ids": [2] * 7, "spec_decode_metrics": other | {"mean_acceptance_length": 1.5}},
    ]
    # The times are those of one answer, nobody knows of which.
    times = {"first_token_ts": 5.0, "last_token_ts": 5.3, "first_token_latency": 0.1}
    output = {"request_id": "7", "prompt_token_ids": [1] * 20, "num_cached_tokens": 8, "outputs": answers}
    found = specq.import_metrics(samples.lines(tmp_path / "a.jsonl", output | {"metrics": times}))
    assert found.flags == ()
    first, second = map(asdict, found.records)
    assert {key: first[key] for key in KNOWN} == KNOWN
    has(second, requests=1, new_tokens=7, accepted=2, proposed=12, steps=4)
    assert first["ttft_s"] is second["ttft_s"] is first["e2e_s"] is None
    # The prompt was read once.
    assert [found.totals.count(name) for name in ("requests", "prompt_tokens", "cached_tokens")] == [2, 20, 8]
    assert found.totals.measures()[0].value == 21 / 10


def test_a_response_of_several_answers_has_one_first_token(tmp_path: Path) -> None:
    answer = samples.vllm()
    answer["choices"] *= 2
    answer["usage"]["completion_tokens"] = 17
    answer["metrics"] = {"speculative_decoding": answer["metrics"]["speculative_decoding"]}
    record = only(specq.import_metrics(samples.lines(tmp_path / "a.jsonl", answer)), "vllm")
    # Of 17 tokens two are first ones; nine were accepted, so that six steps remain.
    has(record, requests=2, new_tokens=17, steps=6)


def test_a_run_of_vllm_bench_and_its_requests_are_counted_twice(tmp_path: Path) -> None:
    file = samples.lines(tmp_path / "a.json", samples.vllm_bench(**samples.DETAILS))
    found = specq.import_metrics(file)
    assert (found.format, found.flags) == ("vllm-bench", ())
    run, *requests = map(asdict, found.records)
    has(run, requests=2, new_tokens=32, steps=12, proposed=36, accepted=18, ttft_s=0.3, wall_s=2.0)
    assert (run["scope"], run["accepted_by_position"]) == ("run", (8, 6, 4))
    has(requests[1], new_tokens=16, ttft_s=0.2, e2e_s=0.95)
    totals = found.totals
    assert [totals.count(name) for name in ("requests", "new_tokens", "accepted")] == [2, 32, 18]
    measures = {one.name: one for one in totals.measures()}
    assert measures["tokens_per_step"].value == 30 / 12
    assert measures["ttft_s"].value == pytest.approx(0.15)


def test_scrapes_are_not_subtracted_series_by_series(tmp_path: Path) -> None:
    idle = {"num_requests_running": 0.0}
    first = samples.prometheus(100, 300, 200, (90, 70, 40), generation_tokens_total=900, **idle)
    last = samples.prometheus(106, 318, 209, (94, 73, 42), generation_tokens_total=916, request_success_total=1, **idle)
    before, after = write(tmp_path / "a.prom", first), write(tmp_path / "b.prom", last)
    record = only(specq.import_metrics(after, before=before), "prometheus")
    assert {key: record[key] for key in KNOWN} == KNOWN
    both = write(tmp_path / "both.prom", first + last)
    assert [asdict(one) | {"line": 0} for one in specq.import_metrics(both).records] == [record | {"line": 0}]


def test_engines_of_one_model_are_not_added_up(tmp_path: Path) -> None:
    one = samples.prometheus(6, 18, 9, (4, 3, 2))
    other = one.replace('engine="0"', 'engine="1"')
    zero = samples.prometheus(0, 0, 0, (0, 0, 0))
    before = write(tmp_path / "a.prom", zero + zero.replace('engine="0"', 'engine="1"'))
    record = only(specq.import_metrics(write(tmp_path / "b.prom", one + other), before=before), "prometheus")
    has(record, draft_steps=12, proposed=36, accepted=18, request="a/b")
    # Requests may be under way, so tokens and drafts need not be of the same ones.
    assert record["steps"] is None


@pytest.mark.parametrize("place", ["alone", "choice"])
def test_sglangs_length_is_taken_for_tokens_per_step(tmp_path: Path, place: str) -> None:
    answer = samples.sglang()
    if place == "choice":
        meta = {key: value for key, value in answer["meta_info"].items() if "tokens" not in key}
        usage = {"prompt_tokens": 20, "completion_tokens": 16}
        answer = {"id": "x", "choices": [{"meta_info": meta}], "usage": usage}
    found = specq.import_metrics(samples.lines(tmp_path / "a.jsonl", answer))
    record = only(found, "sglang")
    assert {key: record[key] for key in KNOWN} == KNOWN
    assert (record["steps_from"], record["finish"], record["k"], record["e2e_s"]) == ("counted", "stop", 3, 0.5)
    assert found.totals.measures()[0].value == 15 / 6


def test_llamacpps_timings_are_read_without_the_cache_or_the_last_step(tmp_path: Path) -> None:
    record = only(specq.import_metrics(samples.lines(tmp_path / "a.jsonl", samples.llamacpp())), "llama.cpp")
    has(record, new_tokens=16, accepted=9, proposed=18, steps=6, prompt_tokens=20, ttft_s=0.1, e2e_s=0.4)
    assert (record["finish"], record["steps_from"], record["draft_steps"]) == ("eos", "derived", None)


def test_plain_decoding_of_llamacpp_is_not_one_token_a_step(tmp_path: Path) -> None:
    answer = samples.llamacpp()
    del answer["timings"]["draft_n"], answer["timings"]["draft_n_accepted"]
    found = specq.import_metrics(samples.lines(tmp_path / "a.jsonl", answer))
    has(only(found, "llama.cpp"), steps=15, proposed=0, accepted=0)
    values = {one.name: one.value for one in found.totals.measures()}
    assert values["tokens_per_step"] == 1
    assert values["draft_acceptance"] is None


def test_a_log_of_either_form_is_read_or_its_tasks_are_mixed(tmp_path: Path) -> None:
    found = specq.import_metrics(write(tmp_path / "a.log", samples.SERVER_LOG))
    assert (found.format, found.flags) == ("llama.cpp-log", ())
    new, old = map(asdict, found.records)
    assert {key: new[key] for key in KNOWN} == KNOWN
    has(old, new_tokens=16, accepted=9, proposed=18, steps=6, ttft_s=0.1, e2e_s=0.4)
    assert [one["request"] for one in (new, old)] == ["id 1 task 0", "id 0 task 7"]
    assert old["draft_steps"] is None


def test_the_passes_of_a_speculative_run_become_requests(tmp_path: Path) -> None:
    record = only(specq.import_metrics(write(tmp_path / "a.log", samples.SPECULATIVE_LOG)), "llama.cpp-log")
    has(record, new_tokens=16, accepted=9, proposed=18, steps=6, e2e_s=0.4)
    alone = samples.SPECULATIVE_LOG.split("draft:\n\n")[1]
    has(only(specq.import_metrics(write(tmp_path / "b.log", alone)), "llama.cpp-log"), new_tokens=18, steps=17)


def test_mlx_lines_are_split_into_answers_and_steps(tmp_path: Path) -> None:
    file = samples.lines(tmp_path / "a.jsonl", *samples.mlx(), *samples.mlx("stop"))
    found = specq.import_metrics(file)
    assert (found.format, found.flags) == ("mlx-lm", ())
    first, second = map(asdict, found.records)
    has(first, new_tokens=15, accepted=9, steps=6, ttft_s=0.1, e2e_s=0.4)
    assert first["accepted_by_position"] == (4, 3, 2)
    assert first["proposed"] is None
    assert (first["line"], second["line"], second["finish"]) == (1, 16, "stop")


def test_a_step_that_the_budget_cut_is_lost(tmp_path: Path) -> None:
    cut = samples.mlx()[:-1]
    cut[-1]["finish_reason"] = "length"
    record = only(specq.import_metrics(samples.lines(tmp_path / "a.jsonl", *cut)), "mlx-lm")
    has(record, new_tokens=14, accepted=9, steps=6)
    plain = [line | {"from_draft": False} for line in samples.mlx()]
    has(only(specq.import_metrics(samples.lines(tmp_path / "b.jsonl", *plain)), "mlx-lm"), steps=14, accepted=0)
    has(only(specq.import_metrics(samples.lines(tmp_path / "c.jsonl", plain[-1])), "mlx-lm"), new_tokens=15)


def test_turns_of_spec_bench_share_their_steps(tmp_path: Path) -> None:
    found = specq.import_metrics(samples.lines(tmp_path / "a.jsonl", samples.spec_bench()))
    assert (found.format, found.flags) == ("spec-bench", ())
    first, second = map(asdict, found.records)
    has(first, new_tokens=15, accepted=9, steps=6, e2e_s=0.5)
    has(second, new_tokens=5, accepted=3, steps=2, e2e_s=0.25)
    assert first["accepted_by_position"] == (4, 3, 2)
    baseline = {"turns": ["one"], "decoding_steps": [5], "new_tokens": [5], "accept_lengths": [1] * 5}
    plain = samples.spec_bench(**baseline, wall_time=[1.0])
    has(only(specq.import_metrics(samples.lines(tmp_path / "b.jsonl", plain)), "spec-bench"), steps=4, accepted=0)


def test_aiperfs_units_or_its_warm_up_are_ignored(tmp_path: Path) -> None:
    file = samples.lines(tmp_path / "a.jsonl", samples.aiperf("warmup"), samples.aiperf())
    found = specq.import_metrics(file)
    assert [flag.name for flag in found.flags] == ["left_out"]
    (record,) = map(asdict, found.records)
    assert {key: record[key] for key in KNOWN} == KNOWN
    has(record, prompt_tokens=20, ttft_s=0.1, e2e_s=0.4)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_run_of_aiperf_is_read_on_one_line_only(tmp_path: Path, indent: int | None) -> None:
    file = write(tmp_path / "a.json", json.dumps(samples.aiperf_run(), indent=indent))
    record = only(specq.import_metrics(file), "aiperf")
    has(record, requests=2, new_tokens=32, steps=12, proposed=36, accepted=18, ttft_s=0.2, e2e_s=0.8)
    assert record["accepted_by_position"] == (8, 6, 4)


@pytest.mark.parametrize(
    "form", [json.dumps, lambda value: json.dumps(value, indent=1), lambda value: f"\ufeff{json.dumps(value)}"]
)
def test_a_list_of_answers_or_a_byte_order_mark_is_refused(tmp_path: Path, form: Callable[[Any], str]) -> None:
    found = specq.import_metrics(write(tmp_path / "a.json", form([samples.llamacpp(), samples.llamacpp()])))
    assert [one.request for one in found.records] == ["#1", "#2"]
    assert found.flags == ()


def test_survival_counts_requests_that_tell_no_position(tmp_path: Path) -> None:
    bare = samples.vllm()
    bare["metrics"]["speculative_decoding"] |= {
        "acceptance_histogram": None,
        "acceptance_histogram_by_draft_length": None,
    }
    found = specq.import_metrics(samples.lines(tmp_path / "a.jsonl", samples.vllm(), bare, bare))
    n = {one.name: one.n for one in found.totals.measures()}
    assert (n["tokens_per_step"], n["survival[1]"], n["survival[3]"]) == (3, 1, 1)
