"""A lookup before a draft in the engine: plain tokens at temperature 0, a step's proposer told, batches, refusals."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

import tiny_models as tiny
from specq.core.errors import Unsupported
from specq.core.types import EXACT_RULES, METHODS, DraftSpec, Sampling
from specq.decoding import audit
from specq.decoding.compiled import CompiledSession
from specq.decoding.drafters.chain import ModelDrafter
from specq.decoding.drafters.lookup import LookupFirstDrafter
from specq.decoding.loop import decode
from specq.decoding.sampling import Warper
from specq.engines.base import Capabilities
from specq.engines.hf import HFEngine
from specq.engines.hf_decoder import lookup
from specq.engines.mlx import CAPABILITIES
from specq.stats.counts import g_test

PROMPT = tiny.prompt("abc abd abc abd, abc ab")
OTHER = tiny.prompt("xyz 123 xyz", id="other")
NEW = 30


def specs(folder_of, kind, rule="rejection", k=3):
    first = {"k": k, "rule": rule, "lookup_first": True, "min_ngram": 2}
    close = str(folder_of(kind, noise=0.2))
    return {
        "model": DraftSpec(method="model", model=close, max_ngram=4, **first),
        "suffix": DraftSpec(method="model", model=close, match="suffix", **first),
        "early": DraftSpec(method="early_exit", layers=2, max_ngram=4, **first),
    }


@pytest.mark.parametrize(
    ("kind", "rule"), [*(("llama", rule) for rule in EXACT_RULES), ("gpt2", "match"), ("window", "rejection")]
)
def test_a_lookup_before_a_draft_changes_the_greedy_tokens(target_of, folder_of, kind, rule):
    target, who = target_of(kind), set()
    want = target.decoder(None).generate([PROMPT, OTHER], tiny.greedy(NEW))
    for name, spec in specs(folder_of, kind, rule).items():
        got = target.decoder(spec).generate([PROMPT, OTHER], tiny.greedy(NEW))
        assert [one.ids for one in got] == [one.ids for one in want], name
        steps = [step for one in got for step in one.steps]
        assert all(step.copied in (0, step.proposed) for step in steps)
        who |= {(name, step.copied > 0) for step in steps if step.proposed}
    assert who == {(name, copied) for name in ("model", "suffix", "early") for copied in (True, False)}


def test_a_step_says_that_the_draft_proposed_what_was_copied(target_of, folder_of):
    spec = specs(folder_of, "llama")["model"]
    (got,) = target_of("llama").decoder(spec).generate([PROMPT], tiny.greedy(NEW))
    warper = Warper(tiny.greedy(NEW), prompt_tokens=len(PROMPT.ids), eos_ids=())
    proposed, _ = audit.lookup_copies(lookup(spec), warper, PROMPT.ids, got.ids, spec.k)
    starts = {step.context - len(PROMPT.ids): step.copied for step in got.steps if step.proposed}
    assert {at: copied > 0 for at, copied in starts.items()} == {at: bool(proposed[at]) for at in starts}


def test_a_batch_is_copied_or_drafted_as_a_whole_or_in_other_steps(target_of, folder_of):
    target = target_of("llama")
    prompts = [PROMPT, OTHER, tiny.prompt("aaaa", id="a"), tiny.prompt("one two three four one two", id="b")]
    for spec in specs(folder_of, "llama").values():
        decoder = target.decoder(spec)
        alone = decoder.generate(prompts, tiny.greedy(NEW))
        together = decoder.generate(prompts, tiny.greedy(NEW), batch_size=4)
        assert [one.ids for one in together] == [one.ids for one in alone]
        assert [tiny.counts(one) for one in together] == [tiny.counts(one) for one in alone]
        assert [[s.copied for s in one.steps] for one in together] == [[s.copied for s in one.steps] for one in alone]


def test_what_was_copied_is_not_fed_to_the_draft(target_of, folder_of, monkeypatch):
    """After copied blocks the draft's cache holds what stands: it proposes what it would with the whole text."""
    target, spec = target_of("llama"), specs(folder_of, "llama")["model"]
    model = target.draft_model(spec)
    seen = []
    propose = LookupFirstDrafter.propose

    def watched(self, ids, k):
        proposal = propose(self, ids, k)
        seen.append((list(ids), proposal))
        return proposal

    monkeypatch.setattr(LookupFirstDrafter, "propose", watched)
    target.decoder(spec).generate([PROMPT], tiny.greedy(NEW))
    after_copies = [now for (_, before), now in itertools.pairwise(seen) if before.copied and not now[1].copied]
    assert after_copies
    for ids, proposal in after_copies:
        assert proposal.ids == tiny.uncached(model, ids, len(proposal.ids))


def test_drafts_that_differ_in_their_lookup_are_loaded_twice(target_of, folder_of):
    found = {
        id(target_of("llama").draft_model(spec.alone)) for spec in specs(folder_of, "llama").values() if spec.model
    }
    found |= {id(target_of("llama").draft_model(spec)) for spec in specs(folder_of, "llama").values() if spec.model}
    assert len(found) == 1


def test_a_compiled_draft_that_catches_up_says_something_else(folder_of):
    spec = specs(folder_of, "llama")["model"]
    plain = HFEngine(device="cpu").open(str(folder_of("llama")))
    want = plain.decoder(spec).generate([PROMPT], tiny.greedy(NEW))[0]
    decoder = plain.decoder(spec)

    session = CompiledSession(plain.draft_model(spec), (1, 8), backend="eager")
    own = ModelDrafter(session, sampled=True, vocabulary=plain.vocabulary)
    request = decoder.request(PROMPT, tiny.greedy(NEW))
    decode(request, decoder.session, LookupFirstDrafter(lookup(spec), own), spec.k)
    assert request.new_ids == list(want.ids)
    assert tiny.counts(request.generation()) == tiny.counts(want)


def test_sampled_audits_expect_the_steps_of_a_draft_without_its_lookup(target_of, folder_of):
    target = target_of("llama")
    warm = Sampling(temperature=0.7, max_new_tokens=40, ignore_eos=True, seed=3)
    spec = dataclasses.replace(specs(folder_of, "llama")["model"], rule="match")
    got = target.decoder(spec).generate([PROMPT, OTHER], warm)
    over = variance = without = 0.0
    for prompt, one in zip([PROMPT, OTHER], got, strict=True):
        record = target.audit_sampled("a#1", prompt, 0, one, spec, warm)
        assert record.steps == len(one.steps)
        over, variance = over + record.steps - record.steps_mean, variance + record.steps_variance
        without += target.audit_sampled("a#1", prompt, 0, one, spec.alone, warm).steps_mean - record.steps_mean
    assert abs(over) < 4 * variance**0.5 + 1e-6
    assert abs(without) > 0.5


def test_the_first_token_of_a_step_is_drawn_from_another_law(target_of, folder_of):

    target = target_of("llama")
    warm = Sampling(temperature=0.9, max_new_tokens=4, ignore_eos=True, seed=1)
    for spec in specs(folder_of, "llama").values():
        found = target.first_tokens("a#1", PROMPT, spec, warm, 150)
        assert found.proposed > 0
        assert g_test(list(found.counts), list(found.expected)) > 1e-4


def test_an_engine_that_has_none_runs_a_lookup_before_a_draft():

    assert not CAPABILITIES.lookup_first
    bare = Capabilities(
        rules=EXACT_RULES, methods=METHODS, devices=("cpu",), step_traces=True, logprobs=True, batches=True
    )
    assert not bare.lookup_first
    assert HFEngine.capabilities.lookup_first


def test_a_recurrent_draft_after_a_lookup_is_rolled_back(target_of, folder_of):
    spec = DraftSpec(method="model", model=str(folder_of("hybrid")), k=3, lookup_first=True)
    with pytest.raises(Unsupported, match="Qwen3NextForCausalLM"):
        target_of("llama").decoder(spec)
