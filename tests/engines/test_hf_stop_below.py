"""Drafts that stop by their own confidence, in the engine: plain tokens, replayed steps, batches, audits."""

from __future__ import annotations

import dataclasses

import pytest

import tiny_models as tiny
from specq.core.types import EXACT_RULES, DraftSpec, Sampling
from specq.forecast import replay, written

PROMPTS = [tiny.prompt(f"{c}{c}ab {i} ab {i} {c}", id=c) for i, c in enumerate("bcdefg")]
BELOW = 0.3
NEW = 40


def specs(folder_of, rule="rejection"):
    more = {"k": 4, "rule": rule, "stop_below": BELOW}
    close = str(folder_of("llama", noise=0.2))
    return {
        "model": DraftSpec(method="model", model=close, **more),
        "early": DraftSpec(method="early_exit", layers=2, **more),
        "self8": DraftSpec(method="model", model="self", bits=8, **more),
        "early_lookup": DraftSpec(method="early_exit", layers=2, lookup_first=True, min_ngram=2, **more),
    }


@pytest.mark.parametrize("name", ["model", "early", "self8", "early_lookup"])
def test_greedy_steps_of_a_draft_that_stops_are_others_than_replayed(target_of, folder_of, name):
    target, spec = target_of("llama"), specs(folder_of)[name]
    want = [one.ids for one in target.decoder(None).generate(PROMPTS, tiny.greedy(NEW))]
    for k in (1, 3, 8):
        own = dataclasses.replace(spec, k=k)
        live = target.decoder(own).generate(PROMPTS, tiny.greedy(NEW))
        assert [one.ids for one in live] == want
        texts = written.read(target, {name: own}, PROMPTS, live, tiny.greedy(NEW))[name]
        steps = [len(one.steps) for one in live]
        at = (slice(None), EXACT_RULES.index(own.rule), k - 1)
        assert replay.steps(texts, k).mean[at].tolist() == steps
        drafted = [step for one in live for step in one.steps[:-k] if not step.copied]
        if k > 1:
            # Some stop and some do not, and a replay that never stops counts other steps.
            assert {step.proposed < k for step in drafted} == {True, False}
            free = written.read(
                target, {name: dataclasses.replace(own, stop_below=None)}, PROMPTS, live, tiny.greedy(NEW)
            )
            assert (replay.steps(free[name], k).mean[at].tolist() != steps) or spec.lookup_first
        # What a step proposes until it is refused is known.
        if not spec.lookup_first:
            for text, one in zip(texts, live, strict=True):
                starts = replay.starts(text, own.rule, k)
                for step, prompt in ((step, PROMPTS[live.index(one)]) for step in one.steps):
                    expected = int(starts.proposed[step.context - len(prompt.ids)])
                    assert step.proposed == expected or step.accepted < min(step.proposed, expected)


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_sampled_steps_of_a_draft_that_stops_are_others_than_expected(target_of, folder_of, rule):
    target = target_of("llama")
    warm = Sampling(temperature=0.7, max_new_tokens=NEW, ignore_eos=True, seed=3)
    for name, spec in specs(folder_of, rule).items():
        live = target.decoder(spec).generate(PROMPTS, warm)
        texts = written.read(target, {name: spec}, PROMPTS, live, warm)[name]
        found = replay.steps(texts, spec.k)
        at = (slice(None), EXACT_RULES.index(rule), spec.k - 1)
        over = sum(len(one.steps) for one in live) - found.mean[at].sum()
        assert abs(over) < 4 * found.variance[at].sum() ** 0.5 + 1e-6, name
        # The audit's slow twin expects the same steps, and without the stop others.
        free = dataclasses.replace(spec, stop_below=None)
        told = [
            [target.audit_sampled("a#1", prompt, 0, one, each, warm).steps_mean for each in (spec, free)]
            for prompt, one in zip(PROMPTS, live, strict=True)
        ]
        assert [mean for mean, _ in told] == pytest.approx(found.mean[at].tolist(), abs=1e-3)
        # A likeliest token that the draft is unsure of is hardly ever right, so that its stop costs no steps here.
        if rule != "greedy_draft" and not spec.lookup_first:
            assert sum(mean - without for mean, without in told) > 0.5


def test_a_batch_of_drafts_that_stop_makes_other_steps(target_of, folder_of):
    target = target_of("llama")
    for sampling in (tiny.greedy(NEW), Sampling(temperature=0.7, max_new_tokens=NEW, ignore_eos=True, seed=3)):
        for spec in specs(folder_of).values():
            decoder = target.decoder(spec)
            alone = decoder.generate(PROMPTS, sampling)
            together = decoder.generate(PROMPTS, sampling, batch_size=4)
            assert [one.ids for one in together] == [one.ids for one in alone]
            assert [tiny.counts(one) for one in together] == [tiny.counts(one) for one in alone]


def test_drafts_that_differ_in_their_stop_are_loaded_twice(target_of, folder_of):
    spec = specs(folder_of)["model"]
    free = dataclasses.replace(spec, stop_below=None)
    assert target_of("llama").draft_model(spec) is target_of("llama").draft_model(free)
