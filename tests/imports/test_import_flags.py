from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import import_samples as samples
import pytest

import specq
from specq.imports import Import
from specq.imports.record import FLAGS


def flagged(found: Import) -> list[str]:
    assert all(flag.name in FLAGS for flag in found.flags)
    return [flag.name for flag in found.flags]


def of(tmp_path: Path, *values: dict[str, Any]) -> Import:
    return specq.import_metrics(samples.lines(tmp_path / "a.jsonl", *values))


def test_more_accepted_than_proposed_passes(tmp_path: Path) -> None:
    found = of(tmp_path, samples.llamacpp(), samples.llamacpp(draft_n=5))
    (flag,) = found.flags
    assert (flag.name, flag.line, flag.request) == ("accepted_above_proposed", 2, "#2")
    assert "9 accepted of 5 proposed" in flag.text
    # A flag does not stop the import.
    assert len(found.records) == 2


def test_a_bonus_token_that_is_counted_twice_passes(tmp_path: Path) -> None:
    stated = samples.vllm(mean_acceptance_length=3.5)
    assert flagged(of(tmp_path, stated)) == ["bonus_counted_twice"]
    among_accepted = samples.sglang(
        completion_tokens=61, spec_num_correct_drafts=60, spec_num_proposed_drafts=80, spec_verify_ct=20
    )
    for key in ("spec_accepted_drafts", "spec_accept_rate", "spec_accept_length", "spec_correct_drafts_histogram"):
        among_accepted["meta_info"][key] = None
    assert flagged(of(tmp_path, among_accepted)) == ["bonus_counted_twice"]


def test_a_length_above_k_plus_one_passes(tmp_path: Path) -> None:
    # Everything was accepted, and the token of the prompt's pass is in the stated length.
    answer = samples.sglang(
        completion_tokens=9,
        spec_num_correct_drafts=6,
        spec_accepted_drafts=6,
        spec_num_proposed_drafts=6,
        spec_verify_ct=2,
        spec_accept_length=4.5,
        spec_accept_rate=1.0,
        spec_correct_drafts_histogram=[0, 0, 0, 2],
    )
    found = of(tmp_path, answer)
    assert flagged(found) == ["length_above_k"]
    assert found.totals.measures()[0].value == 4


@pytest.mark.parametrize(
    ("reason", "name"), [("stop", "stop_inside_block"), ("length", "budget_cut"), (None, "block_cut")]
)
def test_tokens_after_a_cut_are_counted_as_accepted(tmp_path: Path, reason: str | None, name: str) -> None:
    answer = samples.vllm()
    answer["choices"][0]["finish_reason"] = reason
    answer["usage"]["completion_tokens"] = 14
    answer["metrics"] = {"speculative_decoding": answer["metrics"]["speculative_decoding"]}
    found = of(tmp_path, answer)
    assert flagged(found) == [name]
    assert "2 too many" in found.flags[0].text
    # What was emitted counts: 13 tokens after the first in the six steps that are known.
    assert found.totals.measures()[0].value == 13 / 6


def test_a_reply_of_one_word_has_a_negative_number_of_steps(tmp_path: Path) -> None:
    answer = samples.llamacpp(
        predicted_n=2, predicted_per_second=None, draft_rounds=1, draft_n=7, draft_n_accepted=6, draft_kind="mtp"
    )
    found = of(tmp_path, answer)
    assert flagged(found) == ["stop_inside_block"]
    assert found.records[0].steps == 1


def test_proposals_past_the_budget_are_in_the_rate(tmp_path: Path) -> None:
    answer = samples.vllm(per_step_drafted=[3] * 6, per_step_accepted=list(samples.BLOCKS))
    answer["choices"][0]["finish_reason"] = "length"
    assert flagged(of(tmp_path, answer)) == []
    # The same counts in another order: one token of the budget is left, and three are proposed for it.
    spec = answer["metrics"]["speculative_decoding"]
    spec["per_step_accepted"] = [3, 3, 2, 1, 0, 0]
    found = of(tmp_path, answer)
    assert flagged(found) == ["budget_cut"]
    assert "proposed 3 with 1 tokens" in found.flags[0].text


def test_more_tokens_than_steps_give_pass(tmp_path: Path) -> None:
    assert flagged(of(tmp_path, samples.sglang(completion_tokens=30, spec_accept_length=5.0))) == [
        "length_above_k",
        "tokens_without_step",
    ]


def test_traffic_of_others_in_a_runs_counters_passes(tmp_path: Path) -> None:
    counts = {"spec_decode_num_drafts": 40, "spec_decode_draft_tokens": 120, "spec_decode_accepted_tokens": 60}
    shares = {"spec_decode_per_position_acceptance_rates": [0.7, 0.5, 0.3]}
    found = of(tmp_path, samples.vllm_bench(**counts, **shares))
    assert flagged(found) == ["overcounted"]


@pytest.mark.parametrize(
    ("positions", "names"),
    [
        ((3, 4, 2), ["positions_rise"]),
        ((4, 3, 1), ["positions_do_not_sum"]),
        ((7, 1, 1), ["positions_do_not_sum"]),
        ((4, 3, 2), []),
    ],
)
def test_counts_by_position_that_rise_or_do_not_sum_pass(
    tmp_path: Path, positions: tuple[int, ...], names: list[str]
) -> None:
    text = samples.prometheus(0, 0, 0, (0, 0, 0)) + samples.prometheus(6, 18, 9, positions)
    (tmp_path / "a.prom").write_text(text)
    assert flagged(specq.import_metrics(tmp_path / "a.prom")) == names


def test_a_histogram_that_contradicts_its_totals_passes(tmp_path: Path) -> None:
    spec = {"acceptance_histogram": [3, 1, 1, 2], "acceptance_histogram_by_draft_length": {"3": [3, 1, 1, 2]}}
    assert flagged(of(tmp_path, samples.vllm(**spec))) == ["counts_differ", "positions_do_not_sum"]


def test_a_restart_between_scrapes_gives_negative_counts(tmp_path: Path) -> None:
    text = samples.prometheus(100, 300, 5, (3, 1, 1)) + samples.prometheus(6, 18, 9, (4, 3, 2))
    (tmp_path / "a.prom").write_text(text)
    found = specq.import_metrics(tmp_path / "a.prom")
    assert set(flagged(found)) == {"counter_reset"}
    # The accepted counter has passed its old value by now; of a restarted engine all counters count from 0.
    assert (found.records[0].draft_steps, found.records[0].accepted) == (6, 9)


def test_an_engine_that_is_gone_counts_as_nothing(tmp_path: Path) -> None:
    one = samples.prometheus(6, 18, 9, (4, 3, 2))
    text = one + one.replace('engine="0"', 'engine="1"') + samples.prometheus(12, 36, 18, (8, 6, 4))
    (tmp_path / "a.prom").write_text(text)
    found = specq.import_metrics(tmp_path / "a.prom")
    assert set(flagged(found)) == {"counter_reset"}
    assert "gone" in found.flags[0].text
    assert found.records[0].accepted == 9


def test_one_scrape_passes_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text(samples.prometheus(6, 18, 9, (4, 3, 2)))
    assert flagged(specq.import_metrics(tmp_path / "a.prom")) == ["since_start"]


@pytest.mark.parametrize(
    "answer",
    [
        samples.llamacpp(predicted_per_second=99.0),
        samples.llamacpp(prompt_per_second=200.0),
        samples.vllm(draft_acceptance_rate=0.6),
        samples.vllm(mean_acceptance_length=1.5),
        samples.sglang(spec_accept_rate=0.25),
        samples.vllm_bench(output_throughput=32.0),
        samples.vllm_bench(spec_decode_acceptance_rate=0.5),
        samples.aiperf_run(spec_decode_overall_draft_acceptance_rate={"unit": "ratio", "avg": 50.0}),
        samples.aiperf(draft_acceptance_rate=0.9),
    ],
)
def test_a_rate_that_contradicts_its_counts_passes(tmp_path: Path, answer: dict[str, Any]) -> None:
    assert flagged(of(tmp_path, answer)) == ["rate_contradicts"]


def test_the_tokens_after_the_first_over_their_time_are_called_wrong(tmp_path: Path) -> None:
    assert flagged(of(tmp_path, samples.llamacpp(predicted_per_second=50.0))) == []


def test_gaps_between_chunks_pass_for_gaps_between_tokens(tmp_path: Path) -> None:
    details = samples.DETAILS | {"itls": [[0.1] * 6, [0.1] * 6]}
    assert flagged(of(tmp_path, samples.vllm_bench(**details))) == ["chunks_not_tokens"]
    answer = samples.vllm()
    answer["metrics"]["mean_itl_ms"] = 50.0
    assert flagged(of(tmp_path, answer)) == ["rate_contradicts"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -3, 2.5, 1e30])
def test_a_count_that_is_no_number_is_summed(tmp_path: Path, value: float) -> None:
    found = of(tmp_path, samples.llamacpp(draft_n=value))
    assert flagged(found) == ["not_a_number"]
    assert found.records[0].proposed is None


def test_missing_usage_is_taken_for_nothing_generated(tmp_path: Path) -> None:
    answers = [samples.vllm(), samples.sglang(), samples.llamacpp(), samples.aiperf()]
    del answers[0]["usage"], answers[1]["meta_info"]["completion_tokens"]
    del answers[2]["timings"]["predicted_n"], answers[3]["metrics"]["output_sequence_length"]
    for answer in answers:
        found = of(tmp_path, answer)
        assert flagged(found) == ["missing_usage"]
        assert found.records[0].new_tokens is found.records[0].steps_from is None or "meta_info" in answer
        assert found.totals.measures()[0].value is None


def test_two_counters_that_differ_pass(tmp_path: Path) -> None:
    assert flagged(of(tmp_path, samples.sglang(spec_accepted_drafts=8))) == ["counts_differ"]
    assert flagged(of(tmp_path, samples.llamacpp() | {"usage": {"completion_tokens": 12}})) == ["counts_differ"]
    own = samples.aiperf(completion_tokens=16)
    own["metrics"]["output_sequence_length"]["value"] = 14
    assert flagged(of(tmp_path, own))[0] == "counts_differ"
    steps = samples.spec_bench(decoding_steps=[6, 3])
    assert flagged(of(tmp_path, steps)) == ["counts_differ"]


def test_failed_requests_pass_for_fast_ones(tmp_path: Path) -> None:
    bad = samples.aiperf() | {"error": {"code": 499, "type": "RequestCancellationError"}}
    found = of(tmp_path, samples.aiperf(), bad)
    assert (flagged(found), len(found.records), found.totals.failed) == (["failed"], 1, 1)
    assert flagged(of(tmp_path, samples.llamacpp(), {"error": {"message": "no"}})) == ["failed"]
    details = samples.DETAILS | {"errors": ["", "timed out"], "output_lens": [16, 0], "itls": [[0.1] * 15, []]}
    found = of(tmp_path, samples.vllm_bench(**details))
    assert (flagged(found), len(found.records)) == (["failed"], 2)


def test_an_exception_of_spec_bench_repeats_the_turn_before(tmp_path: Path) -> None:
    answer = samples.spec_bench(turns=["one", "ERROR"], decoding_steps=[6, 6], new_tokens=[15, 15])
    answer["choices"][0]["accept_lengths"] = [one + 1 for one in samples.BLOCKS] * 2
    found = of(tmp_path, answer)
    assert (flagged(found), len(found.records)) == (["copied_counters"], 1)


def test_an_answer_without_its_end_passes_for_whole(tmp_path: Path) -> None:
    lines = samples.mlx()
    assert flagged(of(tmp_path, *lines[:-1])) == ["unfinished"]
    found = of(tmp_path, *lines[:4], *lines[5:])
    assert flagged(found) == ["unfinished"]
    assert found.records[0].accepted is None


def values(found: Import) -> dict[str, float | None]:
    return {one.name: one.value for one in found.totals.measures()}


def test_impossible_counts_become_measures(tmp_path: Path) -> None:
    good, known = samples.llamacpp(), values(of(tmp_path, samples.llamacpp()))
    wrong = [
        (samples.llamacpp(draft_n=5), "accepted_above_proposed", {"draft_acceptance", "tokens_per_draft_step"}),
        (samples.llamacpp(predicted_n=0, draft_n=0, draft_n_accepted=0), "no_tokens", known.keys()),
        (samples.vllm(num_spec_tokens=1), "length_above_k", {"draft_acceptance", "tokens_per_draft_step"}),
    ]
    for answer, flag, names in wrong:
        for key in ("predicted_per_second",):
            answer.get("timings", {}).pop(key, None)
        alone = of(tmp_path, answer)
        assert flag in flagged(alone)
        assert {name for name, value in values(alone).items() if value is None} >= set(names)
        assert all(value is None or value > 0 for value in values(alone).values())
        if "timings" in answer:
            # Beside a good one they change no measure that they have no part in.
            both = values(of(tmp_path, good, answer))
            assert {name: both[name] for name in names} == {name: known[name] for name in names}


def test_more_tokens_than_k_plus_one_a_step_are_a_measure(tmp_path: Path) -> None:
    answer = samples.sglang(completion_tokens=60)
    for key in [*answer["meta_info"]]:
        if key.startswith("spec_") and key not in (
            "spec_verify_ct",
            "spec_num_proposed_drafts",
            "spec_draft_token_num",
        ):
            answer["meta_info"][key] = None
    found = of(tmp_path, answer)
    assert flagged(found) == ["length_above_k"]
    assert values(found)["tokens_per_step"] is None


def test_positions_that_cannot_be_are_survivals(tmp_path: Path) -> None:
    for positions in ((3, 4, 2), (7, 1, 1)):
        text = samples.prometheus(0, 0, 0, (0, 0, 0)) + samples.prometheus(6, 18, 9, positions)
        (tmp_path / "a.prom").write_text(text)
        assert not any(name.startswith("survival") for name in values(specq.import_metrics(tmp_path / "a.prom")))


def test_a_reply_without_counts_is_called_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = {"id": "cmpl-1", "choices": [{"index": 0, "finish_reason": "stop", "text": "x"}]}
    usage = {"usage": {"prompt_tokens": 20, "completion_tokens": 5}}
    for answer, lacks in ((bare, "new tokens and drafts"), (bare | usage, "drafts")):
        file = samples.lines(tmp_path / "a.jsonl", answer)
        assert specq.cli.main(["import", str(file), "--format", "vllm"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert f"the file has no counts of {lacks}, so nothing is said of them" in shown
        assert ("no count is impossible" in shown) is (lacks == "drafts")
        assert specq.import_metrics(file, "vllm").totals.to_json()["lacks"] == lacks.split(" and ")
    assert of(tmp_path, samples.vllm()).totals.lacks == ()
