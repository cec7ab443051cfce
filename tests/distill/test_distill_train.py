from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

import tiny_models
from specq.core.errors import NonFiniteLogits, RunFailed, RunFolderError
from specq.distill import overlap, sampler, shards, shorten, train
from specq.distill.loss import Head
from specq.distill.recipe import Recipe
from specq.distill.sampler import Ask, How, Text
from specq.distill.shards import Files

HOW = How(temperature=1.0, seed=0, part="t", answer_tokens=60, most=80, eos_ids=(2,))
RECIPE = Recipe(layers="0,2", steps=6)
KEEP = (0, 2)


def said(line: str) -> None:
    """Progress that nobody reads."""


@pytest.fixture(scope="module")
def written(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of a tiny target: 64 of them, most of 60 tokens."""
    folder = tmp_path_factory.mktemp("texts")
    asks = [Ask(number=n, prompt=(1, 4 + n % 40)) for n in range(64)]
    shards.write(folder / "a", sampler.write(tiny_models.make("llama"), asks, HOW), {})
    return folder / "a"


def shifted(texts: Files, by: int) -> Callable[[Any], torch.Tensor]:
    """States of a text's other positions: a planted fault."""
    return lambda entry: Files.hidden(texts, entry).roll(by, dims=0)


def overlap_of(model: Any, texts: Files) -> float:
    return float(overlap.measure(model, texts, Head.of(tiny_models.make("llama"))).values.mean())


def test_the_target_itself_does_not_overlap_with_itself(written: Path) -> None:
    target, texts = tiny_models.make("llama"), Files([written])
    assert overlap_of(target, texts) == pytest.approx(1, abs=1e-5)
    assert overlap.measure(target, texts, Head.of(target)).agreement == 1
    for by in (1, -1):
        texts.hidden = shifted(texts, by)  # type: ignore[method-assign]
        assert overlap_of(target, texts) < 0.7


@torch.inference_mode()
def test_states_from_before_the_norm_are_not_seen(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unnormed(model: Any, ids: torch.Tensor, **more: Any) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        hook = model.model.norm.register_forward_pre_hook(lambda module, given: kept.append(given[0]))
        model(input_ids=ids)
        hook.remove()
        return kept[0]

    monkeypatch.setattr(overlap, "last_hidden", unnormed)
    assert overlap_of(tiny_models.make("llama"), Files([written])) < 0.9


def test_overlap_is_another_sum_than_by_enumeration(written: Path) -> None:
    target, texts = tiny_models.make("llama"), Files([written])
    draft = shorten.build(target, KEEP)
    found = overlap.measure(draft, texts, Head.of(target))
    values, of = [], []
    for number, entry in enumerate(texts.entries):
        ids = torch.tensor([entry.ids])
        p, q = ((m(input_ids=ids).logits[0].double() / 0.8).softmax(dim=-1) for m in (target, draft))
        for at in range(entry.start, len(entry.ids)):
            values.append(sum(min(float(a), float(b)) for a, b in zip(p[at - 1], q[at - 1], strict=True)))
            of.append(number)
        if number == 5:
            break
    assert found.values[: len(values)] == pytest.approx(values, abs=1e-4)
    assert found.of[: len(of)].tolist() == of
    told = overlap.interval(found)
    assert told.low is not None
    assert told.high is not None
    assert told.value == pytest.approx(float(np.mean(found.values)))
    assert told.low < told.value < told.high
    assert (told.clusters, told.items) == (len(texts.entries), len(found.values))


def test_a_draft_of_no_numbers_overlaps(written: Path) -> None:
    target = tiny_models.make("llama")
    draft: Any = shorten.build(target, KEEP)
    draft.model.norm.weight.data.fill_(torch.nan)
    with pytest.raises(NonFiniteLogits):
        overlap.measure(draft, Files([written]), Head.of(target))


@pytest.mark.parametrize("kind", ["kl", "overlap"])
def test_training_leads_away_from_the_target(written: Path, tmp_path: Path, kind: Any) -> None:
    target = tiny_models.make("llama")
    draft, texts = shorten.build(target, KEEP), Files([written])
    before = overlap_of(draft, texts)
    frozen = {n: p.clone() for n, p in draft.named_parameters() if n not in train.trained(draft)}
    recipe = replace(RECIPE, steps=40, loss=kind)
    done = train.train(draft, Head.of(target), texts, recipe, tmp_path, said, limit_s=600)
    assert (done.steps, len(done.curve)) == (40, 5)
    assert done.curve[-1][2] < 0.9 * done.curve[0][2]
    assert overlap_of(draft, texts) > before + 0.03
    # Embeddings and head stay the target's.
    assert set(frozen) == {"model.embed_tokens.weight", "lm_head.weight"}
    assert all(torch.equal(p, dict(draft.named_parameters())[n]) for n, p in frozen.items())


def test_the_first_step_is_taken_along_another_gradient(written: Path) -> None:
    target = tiny_models.make("llama")
    draft, texts = shorten.build(target, KEEP), Files([written])
    twin = copy.deepcopy(draft)
    some = texts.entries[:5]
    value = train._step(_learning(draft), Head.of(target), texts, some, RECIPE, True)
    # The same with whole logits, text by text, in float64, by autograd.
    _learning(twin.double())
    count = sum(entry.learned for entry in some)
    total = torch.zeros((), dtype=torch.float64)
    for entry in some:
        ids = torch.tensor([entry.ids])
        z = twin(input_ids=ids).logits[0, entry.start - 1 : -1].log_softmax(dim=-1)
        t = copy.deepcopy(target).double()(input_ids=ids).logits[0, entry.start - 1 : -1].log_softmax(dim=-1)
        total = total + (t.exp() * (t - z)).sum()
    (total / count).backward()
    assert value == pytest.approx(float(total.detach()) / count, rel=1e-4)
    names = dict(twin.named_parameters())
    for name, p in train.trained(draft).items():
        assert p.grad is not None
        torch.testing.assert_close(p.grad.double(), names[name].grad, rtol=2e-3, atol=1e-5)


def _learning(model: Any) -> Any:
    for p in train.trained(model).values():
        p.requires_grad_(True)
    return model


def weights(folder: Path) -> dict[str, torch.Tensor]:
    with safe_open(folder / train.STATE, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  the file is no mapping


def test_a_run_that_was_killed_ends_in_other_bits(written: Path, tmp_path: Path, monkeypatch: Any) -> None:
    # So small that an epoch has many batches, and going on with another one shows.
    monkeypatch.setattr(train, "STEP_TOKENS", 300)
    target = tiny_models.make("llama")
    head, texts = Head.of(target), Files([written])
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    draft = shorten.build(target, KEEP)
    whole = train.train(draft, head, texts, RECIPE, tmp_path / "whole", said, limit_s=600)

    real, calls = train._step, []

    def killed(*given: Any) -> float | None:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(train, "_step", killed)
        with pytest.raises(KeyboardInterrupt):
            train.train(
                shorten.build(target, KEEP), head, texts, RECIPE, tmp_path / "killed", said, limit_s=600, checkpoint_s=0
            )
    again = shorten.build(target, KEEP)
    resumed = train.train(again, head, texts, RECIPE, tmp_path / "killed", said, limit_s=600)
    assert (resumed.steps, resumed.tokens, resumed.curve) == (whole.steps, whole.tokens, whole.curve)
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "killed")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(torch.equal(a, b) for a, b in zip(draft.parameters(), again.parameters(), strict=True))


def test_a_loss_that_is_no_number_is_learned(written: Path, tmp_path: Path) -> None:
    target = tiny_models.make("llama")
    texts = Files([written])
    texts.hidden = lambda entry: Files.hidden(texts, entry) * torch.nan  # type: ignore[method-assign]
    with pytest.raises(RunFailed, match="training broke at step 1"):
        train.train(shorten.build(target, KEEP), Head.of(target), texts, RECIPE, tmp_path, said, limit_s=600)
    assert not list(tmp_path.iterdir())


def test_the_clock_is_not_kept_over_a_stop(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(train, "now", lambda: float(next(clock)))
    target = tiny_models.make("llama")
    recipe = replace(RECIPE, steps=None)
    head, texts = Head.of(target), Files([written])
    done = train.train(shorten.build(target, KEEP), head, texts, recipe, tmp_path, said, limit_s=100)
    assert 0 < done.steps < 10
    again = train.train(shorten.build(target, KEEP), head, texts, recipe, tmp_path, said, limit_s=100)
    assert again.steps == done.steps


def test_the_rate_jumps_or_does_not_fall() -> None:
    rates = [train.rate(i / 1000) for i in range(1001)]
    top = max(rates)
    assert top == pytest.approx(train.LEARNING_RATE)
    assert rates[0] == pytest.approx(0.1 * top)
    assert rates[-1] == pytest.approx(train.LAST_RATE * top)
    assert max(abs(a - b) for a, b in pairwise(rates)) < 0.05 * top


def test_a_damaged_file_of_texts_is_read(tmp_path: Path) -> None:
    text = Text(ids=(1, 2, 3), start=1, hidden=torch.zeros(2, 4))
    shards.write(tmp_path / "a", [text], {})
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-3])
    with pytest.raises(RunFolderError, match="damaged"):
        Files([tmp_path / "a"])
