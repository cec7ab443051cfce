"""A row of a batch must be what it is alone: tokens, ends and counts, whatever its neighbours do."""

from __future__ import annotations

import pytest

import tiny_models as tiny
from specq.core.errors import Unsupported
from specq.core.types import EXACT_RULES, DraftSpec, Sampling
from specq.decoding.ragged import RaggedSession

PROMPTS = [
    tiny.prompt("abc abc, abd abc", id="loop"),
    tiny.prompt("z", id="one"),
    tiny.prompt("the quick brown fox jumps over it", id="long"),
    tiny.prompt("1 2 3 1 2 3 1 2", id="digits"),
    tiny.prompt("q?", id="two"),
]
NEW = 22


@pytest.fixture(scope="module")
def eos_of(target_of):
    """Eos ids of a kind that end its rows at different times."""

    def eos(kind, sampling=None):
        rows = target_of(kind).decoder(None).generate(PROMPTS, sampling or tiny.greedy(NEW))
        return (rows[0].ids[5], rows[2].ids[11])

    return eos


def sampled(**more):
    return Sampling(**{"temperature": 0.8, "top_p": 0.95, "max_new_tokens": NEW, "seed": 3, **more})


def equal(decoder, sampling, *, size=5, prompts=PROMPTS):
    """Whether each row of a batched run equals its single run; returns the single runs too."""
    alone = decoder.generate(prompts, sampling, logprobs=True)
    together = decoder.generate(prompts, sampling, batch_size=size, logprobs=True)
    same = all(
        (a.prompt_id, a.ids, a.text, a.finish, tiny.counts(a)) == (b.prompt_id, b.ids, b.text, b.finish, tiny.counts(b))
        for a, b in zip(alone, together, strict=True)
    )
    close = all(b.logprobs == pytest.approx(a.logprobs, abs=1e-4) for a, b in zip(alone, together, strict=True))
    return same and close, alone


def half(drafts, kind, rule, kinds):
    """Every second of the drafters: each meets each rule on one of two kinds, and each kind under two rules."""
    first = (kinds.index(kind) + EXACT_RULES.index(rule)) % 2
    return list(drafts.items())[first::2]


def ragged(rows):
    """Whether rows accepted different counts in one step."""
    return any(len({row.steps[n].accepted for row in rows if len(row.steps) > n}) > 1 for n in range(NEW))


@pytest.mark.parametrize("kind", tiny.DENSE)
def test_a_plain_row_depends_on_its_neighbours(target_of, eos_of, kind):
    for settings in ({"temperature": 0.0}, {"temperature": 0.8, "top_p": 0.95}):
        free = sampled(**settings, ignore_eos=True)
        same, alone = equal(target_of(kind).decoder(None), sampled(**settings, eos_ids=eos_of(kind, free)))
        assert same
        assert len({len(row.ids) for row in alone}) > 1


@pytest.mark.parametrize("rule", EXACT_RULES)
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_greedy_row_depends_on_its_neighbours(target_of, folder_of, eos_of, kind, rule):
    drafts = tiny.drafts(rule, 4, str(folder_of(kind, noise=0.2)))
    for name, spec in half(drafts, kind, rule, ("llama", "gpt2")):
        decoder = target_of(kind).decoder(spec)
        same, alone = equal(decoder, tiny.greedy(NEW))
        assert same, name
        assert ragged(alone), name
        same, alone = equal(decoder, Sampling(max_new_tokens=NEW, eos_ids=eos_of(kind)))
        assert same, name
        assert len({len(row.ids) for row in alone}) > 1


@pytest.mark.parametrize("rule", EXACT_RULES)
@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
def test_a_sampled_row_depends_on_its_neighbours(target_of, folder_of, eos_of, kind, rule):
    settings = sampled(eos_ids=eos_of(kind, sampled(ignore_eos=True)))
    drafts = tiny.drafts(rule, 4, str(folder_of(kind, noise=0.2)))
    for name, spec in half(drafts, kind, rule, ("qwen2", "gpt2")):
        same, _ = equal(target_of(kind).decoder(spec), settings)
        assert same, name


def test_a_batch_without_a_draft_for_one_row_counts_the_bonus_twice(target_of):
    """Lookup finds nothing in some rows while others propose: their blocks are one token long."""
    same, alone = equal(target_of("llama").decoder(tiny.drafts("match", 6, "")["suffix"]), tiny.greedy(NEW))
    assert same
    assert {s.proposed == 0 for row in alone for s in row.steps} == {True, False}


@pytest.mark.parametrize("size", [2, 3, 4])
def test_rows_depend_on_how_the_prompts_are_cut_into_batches(target_of, folder_of, size):
    spec = DraftSpec(method="model", model=str(folder_of("llama", noise=0.2)), k=3)
    assert equal(target_of("llama").decoder(spec), tiny.greedy(NEW), size=size)[0]


def test_penalties_are_shared_between_rows(target_of, folder_of, eos_of):
    spec = DraftSpec(method="model", model=str(folder_of("llama", noise=0.2)), k=3)
    settings = Sampling(max_new_tokens=NEW, repetition_penalty=1.4, min_new_tokens=9, eos_ids=eos_of("llama"))
    assert equal(target_of("llama").decoder(spec), settings)[0]


def test_a_prompt_as_long_as_the_context_allows_does_not_fit_in_a_batch(target_of, folder_of):
    """Padding beside a row at the end of its context must not ask for a position beyond it."""
    edge = tiny.prompt("ab, " * ((tiny.CONTEXT - NEW) // 4), id="edge")
    spec = DraftSpec(method="model", model=str(folder_of("gpt2", noise=0.2)), k=4)
    assert equal(target_of("gpt2").decoder(spec), tiny.greedy(NEW), prompts=[edge, *PROMPTS[:2]])[0]


def test_planted_holes_that_stay_visible_are_not_noticed(target_of, folder_of, monkeypatch):
    """The same check on a batch whose refused tokens are not masked must fail."""

    def leave(self, counts):
        self.lengths = [length - count for length, count in zip(self.lengths, counts, strict=True)]

    spec = DraftSpec(method="model", model=str(folder_of("llama", noise=0.2)), k=4)
    decoder = target_of("llama").decoder(spec)
    assert equal(decoder, tiny.greedy(NEW))[0]
    monkeypatch.setattr(RaggedSession, "rollback", leave)
    assert not equal(decoder, tiny.greedy(NEW))[0]


def test_planted_rows_that_keep_their_places_are_not_noticed(target_of, eos_of, monkeypatch):
    """A finished row that leaves the cache but not the mask shifts its neighbours."""
    select = RaggedSession.select

    def wrong(self, rows):
        valid = self.valid
        select(self, rows)
        self.valid = valid[: len(rows)]

    decoder, settings = target_of("llama").decoder(None), Sampling(max_new_tokens=NEW, eos_ids=eos_of("llama"))
    assert equal(decoder, settings)[0]
    monkeypatch.setattr(RaggedSession, "select", wrong)
    assert not equal(decoder, settings)[0]


def test_planted_positions_that_count_padding_are_not_noticed(target_of, monkeypatch):
    forward = RaggedSession.forward

    def wrong(self, tokens, **how):
        lengths, self.lengths = self.lengths, [self.valid.shape[1]] * len(tokens)
        out = forward(self, tokens, **how)
        self.lengths = [length + len(row) for length, row in zip(lengths, tokens, strict=True)]
        return out

    monkeypatch.setattr(RaggedSession, "forward", wrong)
    assert not equal(target_of("llama").decoder(None), tiny.greedy(NEW))[0]


@pytest.mark.parametrize("kind", ["window", "hybrid", "conv"])
def test_a_window_or_a_state_that_would_count_holes_is_not_refused(target_of, kind):
    with pytest.raises(Unsupported, match=r"^\w+ has layers with sliding windows or states of their own.*batch_size 1"):
        target_of(kind).decoder(None).generate(PROMPTS, tiny.greedy(4), batch_size=2)
