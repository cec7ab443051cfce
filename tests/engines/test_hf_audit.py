"""The audits of the reference engine: clean runs pass, and each planted fault is found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import tiny_models as tiny
from specq.core.types import EXACT_RULES, DraftSpec, Sampling
from specq.decoding import audit, rules
from specq.decoding.drafters import chain
from specq.decoding.sampling import Warper, warp
from specq.decoding.session import Session
from specq.report import audit as report
from specq.stats.counts import g_test

PROMPT = tiny.prompt("abc abc, abd abc, abc ab")
PROMPTS = [tiny.prompt(f"{c}{c}ab {i} ab {i} {c}", id=c) for i, c in enumerate("bcdefghijklm")]
NEW = 32
WARM = Sampling(temperature=0.8, top_p=0.9, max_new_tokens=NEW, ignore_eos=True)
EARLY = DraftSpec(method="early_exit", layers=2, k=3)
SELF = DraftSpec(method="model", model="self", k=3)


class Scripted:
    """Logits by position: one table for one-row passes, another for longer ones."""

    def __init__(self, single: torch.Tensor, block: torch.Tensor) -> None:
        self.single, self.block = single, block

    def restart(self) -> None:
        self.at = -1

    def forward(self, ids, *, last_only=False):
        rows = 1 if last_only else len(ids)
        self.at += rows
        return (self.single if rows == 1 else self.block)[self.at + 1 - rows : self.at + 1]

    def rollback(self, tokens) -> None:
        assert tokens == 0


def greedy_warper() -> Warper:
    return Warper(Sampling(), prompt_tokens=2, eos_ids=())


def test_a_gap_is_measured_between_other_tokens_than_the_two_best_of_the_one_row_pass():
    single = torch.tensor([[9.0, 0, 0, 0], [5, 3, 0, 1], [0, 4, 7, 0], [1, 0, 0, 2]])
    block = torch.tensor([[9.0, 0, 0, 0], [5, 3.5, 0, 1], [0, 8, 7, 9], [1.25, 0, 0, 2]])
    # Gaps of the one-row passes: 5 - 3, 7 - 4, 2 - 1; the same two tokens in blocks: 1.5, -1, 0.75.
    moves, ties = audit.gap_moves(Scripted(single, block), greedy_warper(), (1, 2), (0, 0, 2, 3), 3)
    assert moves == [0.5, 4.0, 0.25]
    assert ties == 1


@pytest.mark.parametrize("kind", [*tiny.DENSE, "window"])
@pytest.mark.parametrize("rows", [2, 5, NEW])
def test_gaps_move_in_float32_where_nothing_is_wrong(target_of, kind, rows):
    target = target_of(kind)
    text = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0].ids
    noise = target.gap_noise(PROMPT, text, rows)
    assert (noise.prompt, noise.rows, noise.positions, noise.ties) == ("p", rows, NEW - 1, 0)
    assert len(noise.moves) == NEW - 1
    assert max(noise.moves) < 1e-3


def test_a_block_pass_that_loses_a_row_of_the_cache_looks_like_rounding(target_of):
    class Loses(Session):
        def rollback(self, tokens):
            super().rollback(tokens + (self.length > len(PROMPT.ids) + 4))

    target = target_of("llama")
    text = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0].ids
    moves, ties = audit.gap_moves(Loses(target.model), greedy_warper(), PROMPT.ids, text, 5)
    assert np.quantile(moves, 0.9) > 0.1
    assert ties > 0


def spoiled(target, text, at):
    """A greedy text whose tokens at the given positions are the second best, each followed by greedy ones."""
    ids, gaps = list(text), []
    for t in at:
        with torch.inference_mode():
            logits = target.model(input_ids=torch.tensor([[*PROMPT.ids, *ids[:t]]]), use_cache=False).logits[0, -1]
        values, tokens = logits.topk(2)
        assert int(tokens[0]) == ids[t]
        ids[t] = int(tokens[1])
        gaps.append((t, float(values[0] - values[1])))
        ids[t + 1 :] = tiny.uncached(target.model, [*PROMPT.ids, *ids[: t + 1]], len(text) - t - 1)
    return ids, gaps


def test_the_same_text_differs_and_a_text_cut_short_is_called_different(target_of):
    target = target_of("llama")
    text = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0].ids
    for ids in (text, text[:-5], text[:1]):
        found = target.audit_greedy("a", PROMPT, ids, text)
        assert (found.arm, found.prompt, found.positions) == ("a", "p", len(ids))
        assert found.first_difference is None
        assert found.gaps == ()
    assert target.audit_greedy("a", PROMPT, text, text[:-5]).gaps == ()


@pytest.mark.parametrize("kind", [*tiny.DENSE, "window"])
@pytest.mark.parametrize("at", [(0,), (9,), (NEW - 1,), (4, 5, 20)])
def test_a_wrong_token_is_missed_or_all_that_follows_it_is_blamed(target_of, kind, at):
    target = target_of(kind)
    text = target.decoder(None).generate([PROMPT], tiny.greedy(NEW))[0].ids
    ids, gaps = spoiled(target, text, at)
    found = target.audit_greedy("a", PROMPT, ids, text)
    assert found.first_difference == at[0]
    assert [t for t, _ in found.gaps] == list(at)
    assert [gap for _, gap in found.gaps] == pytest.approx([gap for _, gap in gaps], abs=1e-3)
    judged = report.greedy([found], [target.gap_noise(PROMPT, text, 5)])
    assert judged.kinds == (("p", "diverged"),)


def test_the_lower_id_of_two_equal_logits_is_no_matter():
    """Plain decoding takes the first of two equal logits; the other one is a difference with a gap of 0."""
    logits = torch.tensor([[0.0, 2, 2, 0], [3, 0, 0, 0]])
    session = Scripted(logits, logits)
    assert audit.differences(session, greedy_warper(), (1, 2), (2, 0)) == [(0, 0.0)]
    assert audit.differences(session, greedy_warper(), (1, 2), (1, 0)) == []


def sampled(target, spec, seed=0, *, sampling=WARM, drawn=None):
    """The audit's records of one arm over all prompts; `drawn` replaces the sampling of the generation."""
    decoder = target.decoder(spec)
    records = []
    for i, prompt in enumerate(PROMPTS):
        own = dataclasses.replace(sampling, seed=seed + i)
        answer = decoder.generate([prompt], drawn or own)[0]
        records.append(target.audit_sampled("a", prompt, 0, answer, spec, own))
    return records


@pytest.fixture(scope="module")
def baseline(target_of):
    return sampled(target_of("llama"), None, 100)


def test_plain_text_is_outside_its_own_law(baseline):
    found = report.sampled(baseline, [], baseline)
    assert found.status == "passed", found.reasons
    assert found.positions == NEW * len(PROMPTS)
    assert found.steps_z == 0.0
    # Without spread nothing could be seen: the texts are neither certain nor flat.
    assert sum(record.surprise_variance for record in baseline) > 100


@pytest.mark.parametrize("rule", EXACT_RULES)
@pytest.mark.parametrize("name", ["ngram", "early_exit", "self", "model"])
def test_a_clean_draft_is_outside_the_law(target_of, folder_of, baseline, name, rule):
    draft = "self" if name == "self" else str(folder_of("llama", noise=0.2))
    spec = tiny.drafts(rule, 3, draft)["model" if name == "self" else name]
    records = sampled(target_of("llama"), spec, 7)
    found = report.sampled(records, [], baseline)
    assert found.status == "passed", found.reasons
    steps = sum(record.steps for record in records)
    assert steps < (NEW - 1) * len(PROMPTS), "nothing was ever accepted"
    random = (
        name != "ngram" and rule != "greedy_draft" and (name, rule) not in (("self", "rejection"), ("self", "block"))
    )
    assert (sum(record.steps_variance for record in records) > 1) == random
    if not random:
        assert all(record.steps == pytest.approx(record.steps_mean, abs=0.01) for record in records)


def test_an_answer_that_ended_at_its_eos_takes_other_steps_than_the_law_says(target_of):
    """The steps that were proposed for went on past the end of the text; the law must not mind."""
    target, ends = target_of("llama"), dataclasses.replace(WARM, ignore_eos=False, eos_ids=tuple(range(4, 12)))
    for rule in EXACT_RULES:
        records = sampled(target, dataclasses.replace(EARLY, rule=rule), sampling=ends)
        assert any(record.positions < NEW for record in records)
        found = report.sampled(records, [], records)
        assert found.status == "passed", (rule, found.reasons)


def draws_at(temperature):
    """A draft's choice that reports the warped q, and draws from the unwarped law of another temperature."""
    honest = chain.choose

    def choose(warper, ids, logits, stream, sampled):
        assert sampled
        _, q = honest(warper, ids, logits, np.random.default_rng(0), sampled)
        other = (logits.float() / temperature).softmax(dim=-1)
        return int(chain.draw(other, torch.tensor([stream.random()], dtype=torch.float64))), q

    return choose


@pytest.mark.parametrize(
    ("rule", "temperature", "says"),
    [
        ("rejection", 0.2, "not as surprising"),
        ("block", 0.2, "not as surprising"),
        ("rejection", 2.0, "not as surprising"),
        ("match", 2.0, "steps do not fit"),
    ],
)
def test_a_q_that_was_not_drawn_from_passes(target_of, baseline, monkeypatch, rule, temperature, says):
    monkeypatch.setattr(chain, "choose", draws_at(temperature))
    found = report.sampled(sampled(target_of("llama"), dataclasses.replace(SELF, rule=rule), 7), [], baseline)
    assert found.status == "failed"
    assert any(says in reason for reason in found.reasons), found.reasons


def test_a_text_of_temperature_0_passes_for_a_sampled_one(target_of, baseline):
    records = sampled(target_of("llama"), None, drawn=tiny.greedy(NEW))
    found = report.sampled(records, [], baseline)
    assert found.status == "failed"
    assert found.surprise_z < -report.Z_LIMIT


def test_a_text_of_top_p_1_passes_for_a_truncated_one(target_of, baseline):
    drawn = dataclasses.replace(WARM, top_p=1.0, seed=3)
    found = report.sampled(sampled(target_of("llama"), None, drawn=drawn), [], baseline)
    assert found.status == "failed"
    assert any("no probability" in reason for reason in found.reasons)


def test_one_step_too_many_of_a_lookup_passes(target_of, baseline):
    records = sampled(target_of("llama"), DraftSpec(method="lookup", k=3))
    more = [dataclasses.replace(records[0], steps=records[0].steps + 1), *records[1:]]
    assert report.sampled(records, [], baseline).status == "passed"
    assert "steps do not fit" in report.sampled(more, [], baseline).sentence()


FIRST = {
    "plain": None,
    "ngram": DraftSpec(method="lookup", k=2),
    **{rule: dataclasses.replace(EARLY, k=2, rule=rule) for rule in EXACT_RULES},
}
DRAWS = 240


@pytest.fixture(scope="module")
def copied(target_of):
    """A prompt that a lookup drafts from once its likeliest token stands at its end: a likely token."""
    model = target_of("llama").model
    for seed in range(200):
        text = np.random.default_rng(seed).permutation(np.arange(4, tiny.V)).tolist()
        best = tiny.uncached(model, text, 1)[0]
        if best in text[:-1]:
            after = text[text.index(best) + 1]
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([[*text, best]]), use_cache=False).logits[0, -1]
            if 0.2 < float((logits / 0.8).softmax(dim=-1)[after]) < 0.7:
                return dataclasses.replace(tiny.prompt("a", id="copied"), ids=tuple(text))
    raise AssertionError("no prompt of 200 makes a lookup propose a likely token")


@pytest.mark.parametrize("name", FIRST)
def test_a_clean_step_draws_first_tokens_off_the_law(target_of, copied, name):
    record = target_of("llama").first_tokens("a", copied, FIRST[name], WARM, DRAWS)
    assert (record.arm, record.prompt, record.draws, sum(record.counts)) == ("a", "copied", DRAWS, DRAWS)
    assert sum(record.expected) == pytest.approx(1.0, abs=1e-6)
    assert len([p for p in record.expected if p > 0.02]) > 2
    assert g_test(record.counts, record.expected) > 1e-3


def test_draws_where_nothing_was_proposed_pass_for_draws_of_a_draft(target_of, copied):
    """A lookup that finds nothing takes plain steps: its record says how many of the draws were a draft's."""
    target, lookup = target_of("llama"), FIRST["ngram"]
    assert target.first_tokens("a", copied, lookup, WARM, 20).proposed == 20
    assert target.first_tokens("a", copied, None, WARM, 20).proposed == 0
    once = dataclasses.replace(lookup, min_ngram=3)
    assert target.first_tokens("a", copied, once, WARM, 20).proposed == 0


@pytest.mark.parametrize("name", ["ngram", "rejection", "greedy_draft", "block"])
def test_a_residual_that_was_skipped_passes(target_of, copied, baseline, monkeypatch, name):
    def skip(p, q, x, accepted, n, weight=None):
        return p[torch.arange(len(x)), accepted]

    monkeypatch.setattr(rules, "_residual", skip)
    record = target_of("llama").first_tokens("a", copied, FIRST[name], WARM, DRAWS)
    found = report.sampled(baseline, [record], baseline)
    assert found.status == "failed"
    assert "first tokens at prompt copied" in found.reasons[0]


@pytest.mark.parametrize("name", ["plain", "ngram", "rejection", "block"])
def test_first_tokens_after_a_prompt_longer_than_the_window_come_from_a_broken_cache(target_of, copied, name):
    target = target_of("window")
    assert len(copied.ids) > 3 * target.model.config.sliding_window
    record = target.first_tokens("a", copied, FIRST[name], WARM, DRAWS)
    best = tiny.uncached(target.model, copied.ids, 1)
    with torch.inference_mode():
        logits = target.model(input_ids=torch.tensor([[*copied.ids, *best]]), use_cache=False).logits[:, -1]
    law = warp(logits, WARM)[0]
    assert record.expected[:-1] == pytest.approx([float(law[token]) for token in record.cells[:-1]], abs=1e-4)
    assert g_test(record.counts, record.expected) > 1e-3
