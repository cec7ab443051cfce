"""The loop on real caches: what stands in them after every step, and scripted drafts."""

from __future__ import annotations

import pytest

import tiny_models as tiny
from specq.core.types import EXACT_RULES, Sampling
from specq.decoding.drafters import Proposal
from specq.decoding.drafters.chain import EarlyExitDrafter, ModelDrafter
from specq.decoding.loop import decode
from specq.decoding.request import Request
from specq.decoding.session import Session

pytestmark = pytest.mark.usefixtures("one_thread")
PROMPT = tiny.prompt("abc abc, abd abc")
NEW = 40
WARM = Sampling(temperature=0.8, top_p=0.95, max_new_tokens=NEW, ignore_eos=True, seed=11)


@pytest.fixture(scope="module")
def letters():
    return tiny.tokenizer()


@pytest.fixture(scope="module")
def models(one_thread):
    return {(kind, noise): tiny.make(kind, noise=noise) for kind in ("llama", "gpt2", "window") for noise in (0.0, 0.2)}


def request(letters, sampling, *, rule="rejection", on_step=None, eos=(2,)):
    return Request(
        prompt=PROMPT,
        sampling=sampling,
        eos_ids=eos if sampling.eos_ids is None else sampling.eos_ids,
        tokenizer=letters,
        rule=rule,
        on_step=on_step,
    )


def lengths(cache):
    return {layer.get_seq_length() for layer in cache.layers}


@pytest.mark.parametrize("sampling", [tiny.greedy(NEW), WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "window"])
def test_a_cache_holds_more_or_less_than_was_committed(models, letters, kind, sampling):
    """After each step the target's cache holds all tokens but the last, and the draft's never more."""
    target, draft = Session(models[kind, 0.0]), Session(models[kind, 0.2], keep="everything")
    drafter = ModelDrafter(draft, sampled=True, vocabulary=tiny.V)
    seen = []

    def look(step):
        committed = step.context + step.emitted
        assert committed == len(one.ids)
        assert lengths(target.cache) == {committed - 1} == {target.length}
        assert lengths(draft.cache) == {draft.length}
        if one.finish is None:
            # One token short after a refusal, two after full acceptance.
            assert committed - draft.length == (2 if step.accepted == step.proposed else 1)
        seen.append(step.accepted)

    one = request(letters, sampling, on_step=look)
    decode(one, target, drafter, 4)
    assert len(seen) > 5
    assert len(set(seen)) > 2


@pytest.mark.parametrize("kind", ["llama", "gpt2", "window"])
def test_an_early_exit_leaves_its_tokens_in_the_targets_cache(models, letters, kind):
    target = Session(models[kind, 0.0], keep="everything")

    class Watched(EarlyExitDrafter):
        def propose(self, ids, k):
            assert lengths(target.cache) == {len(ids) - 1}
            out = super().propose(ids, k)
            assert lengths(target.cache) == {len(ids) - 1}
            return out

    one = request(letters, tiny.greedy(NEW))
    decode(one, target, Watched(target, 2, sampled=True), 4)
    assert lengths(target.cache) == {len(one.ids) - 1}


class Scripted:
    """Proposes what a function of the text says, as a fixed (one-hot) proposal."""

    def __init__(self, say):
        self.say, self.heard = say, []

    def start(self, ids, warper, stream):
        self.heard = [list(ids)]

    def propose(self, ids, k):
        return Proposal(self.say(list(ids))[:k], None)

    def commit(self, ids):
        assert ids[: len(self.heard[-1])] == self.heard[-1]
        self.heard.append(list(ids))


@pytest.fixture(scope="module")
def plain(models, letters):
    one = request(letters, tiny.greedy(NEW))
    decode(one, Session(models["llama", 0.0]), None, 0)
    return one.new_ids


@pytest.mark.parametrize("rule", EXACT_RULES)
def test_an_eos_that_only_the_draft_says_ends_the_answer(models, letters, plain, rule):
    eos = next(i for i in range(tiny.V) if i not in plain)
    one = request(letters, Sampling(max_new_tokens=NEW, eos_ids=(eos,)), rule=rule)
    decode(one, Session(models["llama", 0.0]), Scripted(lambda ids: [eos] * 5), 5)
    assert (one.new_ids, one.finish) == (plain, "length")
    assert all(s.accepted == 0 and s.emitted == 1 for s in one.steps)


@pytest.mark.parametrize("wrong_at", range(5))
def test_counts_of_a_scripted_draft_are_off(models, letters, plain, wrong_at):
    """The draft knows the answer but for one place in each block."""

    def say(ids):
        at = len(ids) - len(PROMPT.ids)
        right = plain[at : at + 5]
        return [*right[:wrong_at], *[(t + 1) % tiny.V for t in right[wrong_at : wrong_at + 1]], *right[wrong_at + 1 :]]

    one = request(letters, tiny.greedy(NEW))
    drafter = Scripted(say)
    decode(one, Session(models["llama", 0.0]), drafter, 5)
    assert one.new_ids == plain
    for step in one.steps:
        proposed = min(5, len(PROMPT.ids) + NEW - step.context - 1)
        accepted = min(wrong_at, proposed)
        assert (step.proposed, step.accepted, step.emitted) == (proposed, accepted, accepted + 1)
    assert len(one.steps) == -(-(NEW - 1) // (wrong_at + 1))
    assert drafter.heard[0] == [*PROMPT.ids, plain[0]]


def test_an_answer_of_one_token_starts_the_drafter(models, letters, plain):
    drafter = Scripted(lambda ids: pytest.fail("nothing is left to propose"))
    one = request(letters, tiny.greedy(1))
    decode(one, Session(models["llama", 0.0]), drafter, 4)
    assert (one.new_ids, one.steps, drafter.heard) == (plain[:1], [], [])


def test_a_drafter_that_has_nothing_to_say_stops_the_loop(models, letters, plain):
    one = request(letters, tiny.greedy(NEW))
    decode(one, Session(models["llama", 0.0]), Scripted(lambda ids: []), 4)
    assert one.new_ids == plain
    assert all((s.proposed, s.accepted, s.emitted) == (0, 0, 1) for s in one.steps)


def planted(trim):
    """A draft whose cache is trimmed by `trim` tokens more than it should be."""

    class Planted(ModelDrafter):
        def commit(self, ids):
            super().commit(ids)
            if trim > 0:
                self._session.cache.crop(-trim)
            elif self._session.length < len(ids) - 1:
                self._session.length += 1

    return Planted


@pytest.mark.parametrize("trim", [1, 2, -1], ids=["one-too-many", "two-too-many", "one-never-fed"])
def test_a_planted_trim_of_the_draft_cache_leaves_self_draft_perfect(models, letters, trim):
    """The token stays right and the acceptance does not: self-draft is what shows it."""
    model = models["llama", 0.0]
    counts = []
    for kind in (ModelDrafter, planted(trim)):
        one = request(letters, tiny.greedy(NEW))
        drafter = kind(Session(model, keep="everything"), sampled=True, vocabulary=tiny.V)
        decode(one, Session(model), drafter, 4)
        counts.append(sum(s.accepted - s.proposed for s in one.steps))
    assert counts[0] == 0
    assert counts[1] < 0
