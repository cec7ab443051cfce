"""A prompt that reuses a kept beginning must be answered as if all of it were read, whatever was asked before it."""

from __future__ import annotations

from typing import Any

import pytest

import tiny_models as tiny
from specq.core.errors import NonFiniteLogits, Unsupported
from specq.core.types import DraftSpec, Generation
from specq.decoding.prefix import Slot, shared

SYSTEM = "be brief, be kind and be exact: "
PROMPTS = [
    tiny.prompt(f"{SYSTEM}abc abc, abd abc", id="first"),
    tiny.prompt(f"{SYSTEM}the quick brown fox", id="other"),
    tiny.prompt(f"{SYSTEM}the quick brown fox", id="same"),
    tiny.prompt(f"{SYSTEM}the", id="shorter"),
    tiny.prompt("z is no such beginning", id="unlike"),
    tiny.prompt(f"{SYSTEM}1 2 3 1 2 3 1 2", id="again"),
]
NEW = 14
DRAFTS = {
    "plain": None,
    "lookup": DraftSpec(method="lookup", k=3, rule="greedy_draft"),
    "self": DraftSpec(method="model", model="self", k=3, rule="rejection"),
    "exit": DraftSpec(method="early_exit", layers=1, k=2, rule="rejection"),
}
WIDE = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}


def both(target: Any, draft: DraftSpec | None, sampling: Any = None) -> tuple[list[Generation], list[Generation]]:
    """The answers read cold and those with a prefix cache."""
    sampling = sampling or tiny.greedy(NEW)
    return target.decoder(draft).generate(PROMPTS, sampling), warm(target, draft, sampling)


def warm(target: Any, draft: DraftSpec | None, sampling: Any = None) -> list[Generation]:
    found: list[Generation] = target.decoder(draft, prefix_cache=True).generate(PROMPTS, sampling or tiny.greedy(NEW))
    return found


def same(cold: list[Generation], kept: list[Generation]) -> bool:
    return [(a.ids, a.text, tiny.counts(a)) for a in cold] == [(b.ids, b.text, tiny.counts(b)) for b in kept]


def possible(answers: list[Generation]) -> list[int]:
    """What each prompt shares with the text before it, as far as its pass over the last token allows."""
    texts = [(*prompt.ids, *answer.ids[:-1]) for prompt, answer in zip(PROMPTS, answers, strict=True)]
    found = [
        min(shared(text, prompt.ids), len(prompt.ids) - 1) for text, prompt in zip(texts[:-1], PROMPTS[1:], strict=True)
    ]
    return [0, *found]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("kind", ["llama", "gpt2", "window"])
def test_a_kept_beginning_changes_an_answer(target_of: Any, kind: str, draft: str) -> None:
    if (kind, draft) == ("gpt2", "exit"):
        pytest.skip("gpt2 has no early exit here")
    cold, kept = both(target_of(kind), DRAFTS[draft])
    assert same(cold, kept)
    assert [one.cached_tokens for one in kept] == possible(kept)
    assert sum(one.cached_tokens or 0 for one in kept) > 3 * len(SYSTEM)
    assert {one.cached_tokens for one in cold} == {None}


@pytest.mark.parametrize("cache", ["q8", "q4"])
def test_a_quantized_cache_is_another_one_when_its_beginning_is_kept(target_of: Any, cache: Any) -> None:
    cold, kept = both(target_of("llama", **WIDE).with_cache(cache), DRAFTS["lookup"])
    assert same(cold, kept)
    assert kept[1].cached_tokens


def test_draws_depend_on_what_was_kept(target_of: Any) -> None:
    from specq.core.types import Sampling

    sampling = Sampling(temperature=0.9, max_new_tokens=NEW, seed=5, ignore_eos=True)
    assert same(*both(target_of("llama"), DRAFTS["self"], sampling))


def stale(self: Slot, ids: Any) -> int:
    """The planted bug: what is shared is counted, and nothing is taken back."""
    held, self._held = self._held, []
    reused = min(shared(held, ids), len(ids) - 1)
    if not reused:
        self.session.restart()
    return reused


def one_too_many(self: Slot, ids: Any) -> None:
    """The planted bug: the last token counts as read."""
    self._held = list(ids)


@pytest.mark.parametrize(("method", "planted"), [("ready", stale), ("keep", one_too_many)])
def test_a_stale_cache_goes_unseen(target_of: Any, monkeypatch: Any, method: str, planted: Any) -> None:
    target = target_of("llama")
    cold = target.decoder(None).generate(PROMPTS, tiny.greedy(NEW))
    monkeypatch.setattr(Slot, method, planted)
    longer = [*PROMPTS, tiny.prompt(PROMPTS[-1].text + cold[-1].text + "abc", id="goes on")]
    monkeypatch.setattr(f"{__name__}.PROMPTS", longer)
    assert not same(target.decoder(None).generate(longer, tiny.greedy(NEW)), warm(target, None))


def test_an_answer_that_goes_on_from_the_last_is_read_once(target_of: Any, monkeypatch: Any) -> None:
    target = target_of("llama")
    (first,) = target.decoder(None).generate(PROMPTS[:1], tiny.greedy(NEW))
    longer = tiny.prompt(PROMPTS[0].text + first.text + "abc", id="goes on")
    monkeypatch.setattr(f"{__name__}.PROMPTS", [PROMPTS[0], longer])
    cold, kept = both(target, None)
    assert same(cold, kept)
    assert [one.cached_tokens for one in kept] == possible(kept)


def test_a_request_that_raised_leaves_half_a_cache(target_of: Any, monkeypatch: Any) -> None:
    target = target_of("llama")
    decoder = target.decoder(None, prefix_cache=True)
    decoder.generate(PROMPTS[:1], tiny.greedy(NEW))
    forward = decoder.session.forward

    def broken(ids: Any, **how: Any) -> Any:
        forward(ids, **how)
        raise NonFiniteLogits("planted")

    monkeypatch.setattr(decoder.session, "forward", broken)
    with pytest.raises(NonFiniteLogits):
        decoder.generate(PROMPTS[1:2], tiny.greedy(NEW))
    monkeypatch.setattr(decoder.session, "forward", forward)
    found = decoder.generate(PROMPTS[2:3], tiny.greedy(NEW))
    assert found[0].ids == target.decoder(None).generate(PROMPTS[2:3], tiny.greedy(NEW))[0].ids
    assert found[0].cached_tokens == 0


@pytest.mark.parametrize("kind", ["conv", "hybrid"])
def test_a_recurrent_state_is_taken_back(target_of: Any, kind: str) -> None:
    # A convolution's state goes back over one pass, as a block needs, and not into an earlier one.
    assert target_of(kind).takes_blocks == (kind == "conv")
    with pytest.raises(Unsupported, match="cannot be taken back to an earlier token exactly"):
        target_of(kind).decoder(None, prefix_cache=True)
