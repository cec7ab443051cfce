"""Whole runs on real servers: llama.cpp out of xllamacpp on the built-in model, and vLLM where one is named."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import served_stubs

from specq.core.records import Generated, SameText, Serving
from specq.core.served import ServedAnswer
from specq.core.types import DraftSpec, Prompt, Sampling, TargetSpec
from specq.engines.served.answers import ServedDecoder
from specq.engines.served.kinds import llamacpp, vllm
from specq.engines.served.session import Session, Where
from specq.engines.served.target import Settings
from specq.report import assemble
from specq.run import folder, provenance, runner

LLAMA = importlib.util.find_spec("xllamacpp") is not None or bool(os.environ.get(llamacpp.SERVER))
MORE = """
[levers.lookup]
kind = "draft"
method = "lookup"
k = 2
max_ngram = 2
min_ngram = 2
"""


def check(made: Path, counted: bool) -> None:
    told = (made / "run.json").read_text(encoding="utf-8")
    assert '"command"' in told
    assert [one for one in (str(provenance.SOURCE.parent), sys.executable, str(Path.home())) if one in told] == []
    records = folder.read(made).records
    answers = [r for r in records if isinstance(r, Generated)]
    assert [r.new_tokens for r in answers] == [served_stubs.NEW] * 3
    assert all(r.has_ids for r in answers)
    told = [ServedAnswer.of(r.served) for r in answers if r.served is not None]
    assert {one.prompt_tokens for one in told} == {answers[0].prompt_tokens}
    assert {one.cached_tokens for one in told} <= {0, None}
    assert not counted or all(one.prefill_s and one.decode_s for one in told)
    settings = [r.settings for r in records if isinstance(r, Serving)]
    assert all(one["model"] != "unknown" for one in settings)
    assert {r.first_difference for r in records if isinstance(r, SameText)} == {None}
    report = assemble.build(made)
    assert report.arm("lookup#1").audit.status == "passed"
    assert report.complete


@pytest.mark.real_model
@pytest.mark.skipif(not LLAMA, reason=f"no xllamacpp in this Python, and {llamacpp.SERVER} is not set")
def test_a_real_llamacpp_runs_an_experiment_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served_stubs.quick(monkeypatch)
    engine = {"kind": "llamacpp", "threads": 1, "context": 128}
    experiment = served_stubs.experiment(
        tmp_path, engine, model="builtin:smollm2-135m", prompts=1, repeats=1, lengths="equal", more=MORE
    )
    check(runner.run(experiment, out=tmp_path / "out"), counted=True)


@pytest.mark.skipif(not os.environ.get(vllm.PYTHON), reason=f"{vllm.PYTHON} names no Python that has vLLM")
def test_a_real_vllm_runs_an_experiment_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Callable[..., Path]
) -> None:
    served_stubs.quick(monkeypatch)
    engine = {"kind": "vllm", "context": 128, "dtype": "bfloat16", "args": ["--enforce-eager"]}
    experiment = served_stubs.experiment(
        tmp_path, engine, model="builtin:smollm2-135m", prompts=1, repeats=1, lengths="equal", more=MORE
    )
    check(runner.run(experiment, out=tmp_path / "out"), counted=False)


@pytest.mark.skipif(not os.environ.get(vllm.PYTHON), reason=f"{vllm.PYTHON} names no Python that has vLLM")
def test_a_real_vllms_counters_grow_by_something_else_than_its_requests_tell(tmp_path: Path) -> None:
    settings = Settings(kind="vllm", context=256, dtype="float32", args=("--enforce-eager",))
    draft = DraftSpec(method="lookup", k=3, rule="greedy_draft", max_ngram=2, min_ngram=2)
    arm = settings.served("builtin:smollm2-135m", TargetSpec(), draft)
    with Session.open("vllm", arm, Where(log=tmp_path / "log")) as session:
        decoder = ServedDecoder(session, eos_ids=(), told=print)
        prompts = [Prompt(id=f"p{n}", ids=(), text=f"one two three {n} one two three {n} one two") for n in range(3)]
        before = session.scrape()
        answers = [one.served for one in decoder.generate(prompts, Sampling(max_new_tokens=16, ignore_eos=True))]
        after = session.scrape()
        grown = vllm.between(before or "", after or "")
    told = [one for one in answers if one is not None]
    for name in ("prompt_tokens", "draft_steps", "proposed", "accepted"):
        assert getattr(grown, name) == sum(getattr(one, name) for one in told), name
    assert sum(one.proposed or 0 for one in told) > 0
    places = [one.accepted_by_position for one in told if one.accepted_by_position]
    assert grown.accepted_by_position == tuple(map(sum, zip(*places, strict=True)))
    assert (grown.requests, grown.new_tokens) == (3, sum(one.tokens for one in told))
    for name in ("queue_s", "prefill_s", "decode_s"):
        total = sum(getattr(one, name) for one in told)
        assert getattr(grown, name) == pytest.approx(total, rel=0.05, abs=0.01), name
