from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tiny_models
from specq.core.errors import NonFiniteLogits
from specq.core.hashes import seed_of
from specq.decoding import sampling
from specq.distill import sampler, shards
from specq.distill.sampler import Ask, How, Text
from specq.distill.shorten import last_hidden
from tiny_models import uncached

HOW = How(temperature=1.0, seed=3, part="t", answer_tokens=12, most=40, eos_ids=(2,))
PROMPTS = [(1, 7, 9), (1,), (1, 30, 12, 9, 25, 7, 7), (1, 5, 5, 8)]


def asks() -> list[Ask]:
    return [Ask(number=n, prompt=ids) for n, ids in enumerate(PROMPTS)]


def slow(model: Any, ask: Ask, how: How) -> tuple[int, ...]:
    """One text from whole passes without a cache, each token drawn from the whole law at once."""
    stream = np.random.default_rng(seed_of(how.seed, "distill", how.part, ask.number))
    ids = list(ask.prompt)
    while len(ids) - len(ask.prompt) < how.answer_tokens and len(ids) < how.most:
        p = (model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1:] / how.temperature).softmax(dim=-1)
        ids.append(int(sampling.draw(p, torch.tensor([stream.random()], dtype=torch.float64))))
        if ids[-1] in how.eos_ids:
            break
    return tuple(ids)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "window", "conv"])
@pytest.mark.parametrize("ends", [(2,), (2, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)])
def test_a_row_of_a_batch_is_another_text_than_alone(one_thread: None, kind: str, ends: tuple[int, ...]) -> None:
    model = tiny_models.make(kind)
    how = replace(HOW, eos_ids=ends)
    found = sampler.write(model, asks(), how)
    assert [text.ids for text in found] == [slow(model, ask, how) for ask in asks()]
    assert [text.start for text in found] == [len(ids) for ids in PROMPTS]
    # Rows that end early leave the batch, and rows of unlike lengths stay.
    assert len(ends) == 1 or len({len(text.ids) - text.start for text in found}) > 1


def test_the_states_are_those_of_other_tokens_or_before_the_norm(one_thread: None) -> None:
    model: Any = tiny_models.make("llama")
    for text in sampler.write(model, asks(), HOW):
        ids = torch.tensor([text.ids[:-1]])
        torch.testing.assert_close(text.hidden, last_hidden(model, ids)[0, text.start - 1 :], rtol=1e-4, atol=1e-4)
        logits = model(input_ids=ids).logits[0, text.start - 1 :]
        torch.testing.assert_close(model.lm_head(text.hidden), logits, rtol=1e-4, atol=1e-3)


def test_greedy_is_not_the_argmax(one_thread: None) -> None:
    model = tiny_models.make("qwen2")
    for text in sampler.write(model, asks(), replace(HOW, temperature=0.0, eos_ids=())):
        assert list(text.ids[text.start :]) == uncached(model, text.ids[: text.start], 12)


def test_a_question_has_no_answer_or_is_learned(one_thread: None) -> None:
    model = tiny_models.make("llama")
    ends = tuple(range(9, 20))
    some = [Ask(number=n, prompt=(1, 4 + n), bridge=(2, 30, 31), question_tokens=5) for n in range(24)]
    found = sampler.write(model, some, replace(HOW, eos_ids=ends, most=100))
    lengths: set[int] = set()
    for text in found:
        question = text.ids[2 : text.start - 3]
        assert text.ids[0] == 1
        assert text.ids[text.start - 3 : text.start] == (2, 30, 31)
        assert 1 <= len(question) <= 5
        assert not set(question) & set(ends)
        assert not set(text.ids[text.start : -1]) & set(ends)
        assert len(text.hidden) == len(text.ids) - text.start
        lengths.add(len(question))
    assert len(lengths) > 2
    # An empty question is dropped, and nothing else is.
    assert 0 < len(found) < 24
    # Each text has a seed of its own: another batch writes the same.
    again = sampler.write(model, some[5:9], replace(HOW, eos_ids=ends, most=100))
    assert {text.ids for text in again} <= {text.ids for text in found}


def test_a_batch_waits_for_its_last_rows(one_thread: None) -> None:
    model = tiny_models.make("llama")
    ends = tuple(range(9, 20))
    some = [Ask(number=n, prompt=(1, 7)) for n in range(16)]
    whole = sampler.write(model, some, replace(HOW, eos_ids=ends, answer_tokens=60, most=100))
    cut = sampler.write(model, some, replace(HOW, eos_ids=ends, answer_tokens=60, most=100, leave=3))
    assert len(whole) == len(cut) == 16
    shorter = [a for a, b in zip(cut, whole, strict=True) if len(a.ids) < len(b.ids)]
    assert 0 < len(shorter) <= 3
    assert all(b.ids[: len(a.ids)] == a.ids for a, b in zip(cut, whole, strict=True))


@pytest.mark.parametrize("size", [48, 256, 1000])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_tokens_are_drawn_from_another_law(one_thread: None, size: int, temperature: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(3000, size) * 3
    logits[:, 1::3] = -torch.inf
    u = np.random.default_rng(0).random(3000)
    u[:2] = 0.0, np.nextafter(1.0, 0.0)
    found = torch.tensor(sampler.draw(logits, temperature, u.tolist()))
    expected = sampling.draw((logits / temperature).softmax(dim=-1), torch.tensor(u))
    # Sums in two orders part by rounding alone.
    assert int((found != expected).sum()) <= 1
    assert bool(torch.isfinite(logits.gather(1, found[:, None])).all())


def test_logits_that_are_no_numbers_are_drawn_from(one_thread: None) -> None:
    for wrong in (torch.nan, torch.inf):
        with pytest.raises(NonFiniteLogits):
            sampler.draw(torch.tensor([[0.0, wrong]]), 1.0, [0.5])


def texts(*shapes: tuple[int, int]) -> list[Text]:
    made, number = [], 0
    for length, start in shapes:
        ids = tuple(range(number, number + length))
        made.append(Text(ids=ids, start=start, hidden=torch.tensor(ids[start:], dtype=torch.float32)[:, None] * 2))
        number += length
    return made


def test_texts_on_disk_have_the_states_of_others(tmp_path: Path) -> None:
    shards.write(tmp_path / "a", texts((5, 2), (4, 3)), {"seconds": "1"})
    shards.write(tmp_path / "b", [], {"seconds": "2"})
    shards.write(tmp_path / "c", texts((3, 1)), {"seconds": "3"})
    files = shards.Files([tmp_path / name for name in "abc"])
    assert [about["seconds"] for about in files.about] == ["1", "2", "3"]
    assert [(entry.ids, entry.start) for entry in files.entries] == [
        ((0, 1, 2, 3, 4), 2),
        ((5, 6, 7, 8), 3),
        ((0, 1, 2), 1),
    ]
    for entry in files.entries:
        assert files.hidden(entry)[:, 0].tolist() == [2.0 * i for i in entry.ids[entry.start :]]


def test_learned_positions_are_shifted(tmp_path: Path) -> None:
    shards.write(tmp_path / "a", texts((5, 2), (4, 3)), {})
    ids, learned = shards.padded(shards.Files([tmp_path / "a"]).entries)
    assert ids.tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 0]]
    # The token at start is predicted one place before it, and nothing at the last place.
    assert learned.nonzero().tolist() == [[0, 1], [0, 2], [0, 3], [1, 2]]


def test_an_epoch_leaves_texts_out_or_repeats_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = [(int(n), 1) for n in rng.integers(3, 40, 97)]
    shards.write(tmp_path / "a", texts(*shapes), {})
    entries = shards.Files([tmp_path / "a"]).entries
    order = shards.batches(entries, 100, seed=5)
    seen: list[int] = []
    epochs = []
    while len(epochs) < 2:
        batch = next(order)
        assert sum(entries[i].learned for i in batch) >= 100
        seen += batch
        if len(seen) >= len(entries):
            assert sorted(seen) == list(range(len(entries)))
            epochs.append(seen)
            seen = []
    assert epochs[0] != epochs[1]
    again = shards.batches(entries, 100, seed=5)
    first = [i for _ in range(3) for i in next(again)]
    assert first == epochs[0][: len(first)]
