"""One request, many requests: log-probabilities, clocks, order, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tiny_models as tiny
from specq.core import clock
from specq.core.errors import NonFiniteLogits, PromptError
from specq.core.types import DraftSpec, Prompt, Sampling
from specq.decoding.sampling import Warper
from specq.engines.hf import HFEngine

PROMPTS = [
    tiny.prompt("abc abc, abd abc", id="a"),
    tiny.prompt("1 2 3 1 2 3 1 2", id="b"),
    tiny.prompt("the quick brown fox", id="c"),
]
NEW = 16
WARM = Sampling(temperature=0.8, top_p=0.9, max_new_tokens=NEW, ignore_eos=True, seed=5)


@pytest.fixture(scope="module")
def specs(folder_of):
    return tiny.drafts("rejection", 4, str(folder_of("llama", noise=0.2)))


@pytest.mark.parametrize(
    "sampling",
    [tiny.greedy(NEW), tiny.greedy(NEW, repetition_penalty=1.3), WARM],
    ids=["greedy", "penalty", "top-p"],
)
def test_logprobs_are_not_those_of_the_text_under_the_target(target_of, specs, sampling):
    target = target_of("llama")
    for spec in (None, *specs.values()):
        got = target.decoder(spec).generate(PROMPTS[:1], sampling, logprobs=True)[0]
        text = [*PROMPTS[0].ids, *got.ids]
        logits = target.model(input_ids=torch.tensor([text[:-1]])).logits[0, -NEW:]
        warper = Warper(sampling, prompt_tokens=len(PROMPTS[0].ids), eos_ids=target.eos_ids)
        if warper.greedy:
            want = warper.scores(text[:-1], logits).log_softmax(-1)
        else:
            want = warper.probs(text[:-1], logits).log()
        want = want[torch.arange(NEW), torch.tensor(got.ids)]
        assert got.logprobs == pytest.approx(want.tolist(), abs=1e-4)
        assert np.isfinite(got.logprobs).all()
        assert max(got.logprobs) <= 0


def test_logprobs_are_given_unasked(target_of):
    assert target_of("llama").decoder(None).generate(PROMPTS[:1], tiny.greedy(3))[0].logprobs is None


@pytest.mark.parametrize("sampling", [tiny.greedy(NEW), WARM], ids=["greedy", "warm"])
def test_a_prompt_leaves_something_behind_for_the_next(target_of, specs, sampling):
    """The same prompt twice, in another order and alone: tokens and counts stay the same."""
    for name, spec in {"plain": None, **specs}.items():
        decoder = target_of("llama").decoder(spec)
        first = {g.prompt_id: (g.ids, tiny.counts(g)) for g in decoder.generate(PROMPTS, sampling)}
        for order in ([*PROMPTS[::-1], *PROMPTS[1:]], PROMPTS[2:]):
            for got in decoder.generate(order, sampling):
                assert (got.ids, tiny.counts(got)) == first[got.prompt_id], name
        other = target_of("llama").decoder(spec).generate(PROMPTS, sampling)
        assert {g.prompt_id: (g.ids, tiny.counts(g)) for g in other} == first


def test_two_decoders_that_take_turns_disturb_each_other(target_of, specs):
    """Arms share a target and take turns; each must find its own cache."""
    decoders = {name: target_of("llama").decoder(spec) for name, spec in {"plain": None, **specs}.items()}
    alone = {name: [tiny.counts(g) for g in d.generate(PROMPTS, WARM)] for name, d in decoders.items()}
    turns = {name: [] for name in decoders}
    for prompt in PROMPTS:
        for name, decoder in reversed(decoders.items()):
            turns[name] += [tiny.counts(g) for g in decoder.generate([prompt], WARM)]
    assert turns == alone


def test_an_interrupted_request_spoils_the_next(target_of, specs):
    class Stop(Exception):
        pass

    def stop(step):
        if step.context > len(PROMPTS[0].ids) + 4:
            raise Stop

    for name, spec in {"plain": None, **specs}.items():
        decoder = target_of("llama").decoder(spec)
        want = decoder.generate(PROMPTS[1:2], WARM)[0]
        with pytest.raises(Stop):
            decoder.generate(PROMPTS[:1], WARM, on_step=stop)
        got = decoder.generate(PROMPTS[1:2], WARM)[0]
        assert (got.ids, tiny.counts(got)) == (want.ids, tiny.counts(want)), name


def test_another_seed_gives_the_same_text_or_the_same_seed_another(target_of, specs):
    decoder = target_of("llama").decoder(specs["model"])
    texts = [
        decoder.generate(PROMPTS[:1], Sampling(temperature=1.0, max_new_tokens=12, seed=s))[0].ids for s in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("name", ["plain", "model", "ngram"])
def test_time_is_lost_between_steps(target_of, specs, monkeypatch, name):
    """On a clock that ticks once a reading, the parts add up to the whole but for the two ends."""
    ticks = iter(range(10**6))
    decoder = target_of("llama").decoder({"plain": None, **specs}[name])
    monkeypatch.setattr(clock, "now", lambda: float(next(ticks)))
    for got in decoder.generate(PROMPTS[:1], tiny.greedy(NEW)):
        inside = sum(s.draft_s + s.verify_s + s.sample_s + s.rest_s for s in got.steps)
        assert 0 <= got.e2e_s - got.ttft_s - inside <= 3
        assert got.ttft_s > 0
        assert all(min(s.verify_s, s.sample_s, s.rest_s) > 0 for s in got.steps)
        assert all((s.draft_s > 0) == (name != "plain") for s in got.steps[:-1])


def test_on_step_misses_a_step_or_hears_it_twice(target_of, specs):
    heard = []
    got = target_of("llama").decoder(specs["early_exit"]).generate(PROMPTS, WARM, on_step=heard.append)
    assert heard == [step for g in got for step in g.steps]
    for g, prompt in zip(got, PROMPTS, strict=True):
        at = len(prompt.ids) + 1
        for step in g.steps:
            assert step.context == at
            at += step.emitted
        assert at == len(prompt.ids) + len(g.ids)


@pytest.fixture(scope="module")
def broken(tmp_path_factory, one_thread):
    """Folders of models whose head has one value that is no number."""
    folders = {}
    for name, value in (("nan", torch.nan), ("inf", torch.inf)):
        model = tiny.make("llama")
        model.lm_head.weight.data[5, 3] = value
        folders[name] = str(tiny.save(tmp_path_factory.mktemp("broken") / name, model))
    return folders


@pytest.mark.parametrize("name", ["nan", "inf"])
@pytest.mark.parametrize("sampling", [tiny.greedy(4), WARM], ids=["greedy", "warm"])
def test_logits_that_are_no_numbers_become_tokens(target_of, broken, name, sampling):
    target = HFEngine(device="cpu").open(broken[name])
    with pytest.raises(NonFiniteLogits, match="not finite"):
        target.decoder(None).generate(PROMPTS[:1], sampling)
    spec = DraftSpec(method="model", model=broken[name], k=2)
    with pytest.raises(NonFiniteLogits, match="not finite"):
        target_of("llama").decoder(spec).generate(PROMPTS[:1], sampling)
    with pytest.raises(NonFiniteLogits, match="not finite"):
        target.decoder(None).generate(PROMPTS, sampling, batch_size=3)


def test_an_empty_prompt_is_decoded(target_of):
    with pytest.raises(PromptError, match="'void' is empty"):
        target_of("llama").decoder(None).generate([Prompt(id="void", ids=())], tiny.greedy(3))


def test_a_prompt_beyond_the_context_is_cut_or_run(target_of):
    long = tiny.prompt("a" * (tiny.CONTEXT - 4), id="long")
    decoder = target_of("llama").decoder(None)
    assert len(decoder.generate([long], tiny.greedy(4))[0].ids) == 4
    with pytest.raises(PromptError, match=r"'long' has 188 tokens and may grow by 5; .* 192: .* at most 4"):
        decoder.generate([long], tiny.greedy(5))


@pytest.mark.parametrize("wrong", [tiny.V, 10**6, -1])
def test_a_token_that_the_model_has_no_row_for_is_read_as_another(target_of, wrong):
    with pytest.raises(PromptError, match=rf"'odd' has the token id {wrong}; the model knows 0 to {tiny.V - 1}"):
        target_of("llama").decoder(None).generate([Prompt(id="odd", ids=(4, wrong, 5))], tiny.greedy(3))


def test_nothing_is_decoded_before_every_prompt_was_checked(target_of):
    heard = []
    with pytest.raises(PromptError):
        target_of("llama").decoder(None).generate(
            [PROMPTS[0], Prompt(id="void", ids=())], tiny.greedy(3), on_step=heard.append
        )
    assert heard == []
