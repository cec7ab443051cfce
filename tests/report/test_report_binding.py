"""What binds in a run, and which lever is told to touch it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_runs
from report_runs import FINISHED, MACHINE, generated

from specq.core.records import LoadedModel, Machine, Record
from specq.report import Report, build
from specq.report.markdown import render


def reported(
    folder: Path,
    *,
    ttft_s: float = 0.05,
    step_s: float = 0.011,
    cache: int = 1000,
    own: int = 6 * 10**7,
    held: int = 0,
    bandwidth: float = 20e9,
) -> Report:
    arms = ("baseline#1", "baseline#2", "w#1", "c#1", "lookup#1")
    about = report_runs.info(arms, {f"p{n}": [] for n in range(3)})
    for place, target in ((2, {"recipe": "r.toml"}), (3, {"kv_cache": "q8"})):
        about["arms"][place] |= {"draft": None, "target": target, "plain": arms[place]}
    (model,) = (record for record in MACHINE if isinstance(record, LoadedModel))
    model = replace(model, cache_bytes_per_token=cache)
    packed = replace(model, arms=("w#1",), bytes_per_token=own, weight_bytes=held or own)
    everyone = replace(model, arms=tuple(arm for arm in arms if arm != "w#1"))
    spoken: list[Record] = [
        generated(arm, f"p{n}", report_runs.PLAIN, repeat=repeat, ttft_s=ttft_s, step_s=step_s)
        for arm in arms
        for n in range(3)
        for repeat in range(2)
    ]
    (machine,) = (record for record in MACHINE if isinstance(record, Machine))
    machine = replace(machine, bandwidth_bytes_per_s=bandwidth)
    return build(report_runs.write_run(folder, about, [machine, everyone, packed, *spoken, *FINISHED]))


def told(folder: Path, **given: Any) -> str:
    return " ".join(reported(folder, **given).binding)


def test_quantizing_is_advised_where_prompts_are_what_costs(tmp_path: Path) -> None:
    text = told(tmp_path, ttft_s=2.0)
    assert "What binds is the compute of prefill" in text
    assert "quantizing is the wrong answer to slow requests here" in text
    assert "lookup touches how many passes there are, and not prefill" in text


def test_what_binds_decoding_is_told_wrongly(tmp_path: Path) -> None:
    assert "of it the bytes of the weights" in told(tmp_path / "a")
    assert "of it the bytes of the cache" in told(tmp_path / "b", cache=10**8)
    assert "What binds is neither" in told(tmp_path / "c", step_s=0.1)


@pytest.mark.parametrize("ttft_s", [0.12, 0.135, 0.16])
def test_half_of_a_request_passes_for_what_binds_it(tmp_path: Path, ttft_s: float) -> None:
    # Twelve steps of 11 ms: 132 ms of decoding.
    text, prefill = told(tmp_path, ttft_s=ttft_s), ttft_s / (ttft_s + 0.132)
    assert f"Prefill takes {100 * prefill:.0f} % of a request's time" in text
    fast = f"{1 / prefill:.1f} times as fast, with prefill at no cost {1 / (1 - prefill):.1f} times"
    assert f"Neither half binds alone: with decoding at no cost a request would be {fast}" in text
    assert "What binds is" not in text
    assert "What binds within decoding is decode bandwidth, and of it the bytes of the weights" in text
    assert "quantizing is the wrong answer" not in text
    assert "lookup touches how many passes there are, and not prefill" in text


def test_what_binds_is_guessed_without_a_bandwidth(tmp_path: Path) -> None:
    report = reported(tmp_path, bandwidth=0.0)
    text = " ".join(report.binding)
    assert "What binds is not measured: there is no bandwidth" in text
    assert "of it the bytes" not in text
    assert "Ceiling: not measured, for no bandwidth was." in render(report)


def test_a_lever_on_what_costs_nothing_is_not_told_so(tmp_path: Path) -> None:
    assert "c touches the bytes of the cache, 0 % of what a pass reads here: too little to show" in told(tmp_path)


def test_freed_memory_holds_other_than_it_does(tmp_path: Path) -> None:
    # 140 MB over 1000 bytes a token, and over requests of 10 + 13 tokens.
    assert "w frees 134 MiB: 140,000 more tokens of context, or 6,086 more requests of 23 tokens" in told(
        tmp_path / "a"
    )
    assert "w frees no memory: it holds 95 MiB more" in told(tmp_path / "b", held=3 * 10**8)
