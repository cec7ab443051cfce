"""The audit at temperature 0 on the built-in model in bfloat16, where one row and five rows round differently."""

from __future__ import annotations

import pytest
import torch

import tiny_models as tiny
from specq.core.types import DraftSpec
from specq.decoding.session import Session
from specq.engines import hf_target
from specq.engines.hf import HFEngine
from specq.report import audit as report

pytestmark = pytest.mark.real_model
NEW = 24
QUESTIONS = (
    "Repeat this line three times: the quick brown fox jumps over the lazy dog",
    "Name three planets and say one thing about each.",
)
ARMS = {
    "lookup": DraftSpec(method="lookup", k=4, rule="greedy_draft"),
    "early_exit": DraftSpec(method="early_exit", layers=25, k=2),
}


class TrimsOneMore(Session):
    """After a refusal the cache lacks the last token that stands."""

    def rollback(self, tokens):
        super().rollback(tokens + 1 if tokens else 0)


class TrimsOneLess(Session):
    """After a refusal the cache keeps one refused token."""

    def rollback(self, tokens):
        super().rollback(max(0, tokens - 1))


@pytest.fixture(scope="module")
def target():
    threads = torch.get_num_threads()
    # One thread: two that wait for each other on a busy machine take many times as long.
    with HFEngine(device="cpu", dtype="bfloat16", threads=1).open("builtin:smollm2-135m") as target:
        yield target
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def prompts(target):
    return [target.encode([{"role": "user", "content": text}], id=text.split()[0]) for text in QUESTIONS]


@pytest.fixture(scope="module")
def plain(target, prompts):
    return [answer.ids for answer in target.decoder(None).generate(prompts, tiny.greedy(NEW))]


@pytest.fixture(scope="module")
def noise(target, prompts, plain):
    return [target.gap_noise(prompt, ids, 5) for prompt, ids in zip(prompts, plain, strict=True)]


def audited(target, prompts, plain, noise, spec):
    """The report's audit of one arm."""
    answers = target.decoder(spec).generate(prompts, tiny.greedy(NEW))
    assert any(step.accepted < step.proposed for answer in answers for step in answer.steps), "nothing was rolled back"
    triples = zip(prompts, answers, plain, strict=True)
    return report.greedy([target.audit_greedy("a", p, answer.ids, ids) for p, answer, ids in triples], noise)


def test_the_baseline_against_itself_moves_by_nothing_or_by_whole_logits(noise):
    moves = [move for record in noise for move in record.moves]
    assert len(moves) == len(QUESTIONS) * (NEW - 1)
    assert 0.02 < sorted(moves)[len(moves) // 2] < 1.0


@pytest.mark.parametrize("arm", ARMS)
def test_a_clean_arm_diverges_in_bfloat16(target, prompts, plain, noise, arm):
    found = audited(target, prompts, plain, noise, ARMS[arm])
    assert found.count("diverged") == 0, found.reasons
    assert found.status == "passed", found.reasons


@pytest.mark.parametrize("fault", [TrimsOneMore, TrimsOneLess])
@pytest.mark.parametrize("arm", ARMS)
def test_a_cache_that_is_off_by_one_passes_for_a_tie(target, prompts, plain, noise, monkeypatch, arm, fault):
    monkeypatch.setattr(hf_target, "Session", fault)
    found = audited(target, prompts[:1], plain[:1], noise, ARMS[arm])
    assert found.kinds == (("Repeat", "diverged"),), found
    assert found.status == "failed"
