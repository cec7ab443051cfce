"""Which ids a distilled draft keeps, what is said of them, and a folder that is whole for all but specq's drafting."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import tiny_models as tiny
from specq.cli import distilling
from specq.core.errors import ConfigError, SpecqError
from specq.core.types import EXACT_RULES, DraftSpec
from specq.decoding.drafters.kept_head import trimmed
from specq.distill import artifact, distill_model, making, overlap, sampler, shards, vocabulary, work
from specq.distill.loss import Head
from specq.distill.sampler import Ask, How
from specq.distill.shards import Entry, Files
from specq.engines.hf import HFEngine
from specq.models import kept, refs
from specq.models.kept import Kept

N = 12
COUNTS = {"a": 30, "b": 27, "c": 24, "d": 21, "e": 18, "f": 15, "g": 12, "h": 9, "i": 3, "j": 2}
# The special ones, and a to h.
IDS = (0, 1, 2, 3, *range(4, 12))


def entry(ids: tuple[int, ...], start: int) -> Entry:
    return Entry(ids=ids, start=start, file=0, row=0)


TEXTS = (entry((9, 9, 9, 9, 4, 5, 5), 4), entry((7, 6, 3, 3, 5), 3))


@pytest.mark.parametrize(
    ("count", "ids"),
    [
        (3, (0, 2, 5)),
        # As often learned as 4, and more often read.
        (4, (0, 2, 3, 5)),
        (5, (0, 2, 3, 4, 5)),
        # Never learned, and often read.
        (6, (0, 2, 3, 4, 5, 9)),
        (7, (0, 2, 3, 4, 5, 6, 9)),
        (9, (0, 1, 2, 3, 4, 5, 6, 7, 9)),
        (None, None),
    ],
)
def test_a_rarer_id_is_kept_or_one_that_must_stay_is_not(count: int | None, ids: tuple[int, ...] | None) -> None:
    assert vocabulary.most_frequent(TEXTS, count, (0, 2), 12) == ids


def test_what_ends_a_text_or_is_special_is_left_out() -> None:
    tokenizer = tiny.tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>"]})
    tokenizer.add_tokens(["word"])
    assert vocabulary.always(tokenizer, (2, 7, tiny.V + 40), tiny.V + 10) == (0, 1, 2, 3, 7, tiny.V)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (2, "--vocabulary 2: 2 ids are special or end a text and always stay; allowed is 3 to 11"),
        (12, "--vocabulary 12: the target has 12 ids; allowed is 3 to 11"),
        (99999, "--vocabulary 99999: the target has 12 ids; allowed is 3 to 11"),
    ],
)
def test_a_number_that_leaves_out_nothing_or_too_much_passes(asked: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        vocabulary.check(asked, (0, 2), 12)
    vocabulary.check(3, (0, 2), 12)
    vocabulary.check(11, (0, 2), 12)


@torch.inference_mode()
def test_overlap_of_some_ids_is_not_that_of_the_draft_that_serves_them(tmp_path: Path) -> None:
    target, draft, served = tiny.make("llama"), *(tiny.make("llama", noise=0.3) for _ in range(2))
    how = How(temperature=1.0, seed=0, part="t", answer_tokens=30, most=40, eos_ids=(2,))
    shards.write(tmp_path / "a", sampler.write(target, [Ask(number=n, prompt=(1, 4 + n)) for n in range(6)], how), {})
    texts, ids = Files([tmp_path / "a"]), tuple(range(0, tiny.V, 2))
    for model in (draft, served):
        model.get_output_embeddings().weight.copy_(target.get_output_embeddings().weight)
    trimmed(served, Kept(ids=ids, rows=tiny.V))

    def law(model: Any, one: Entry) -> torch.Tensor:
        logits = model(input_ids=torch.tensor([one.ids[:-1]])).logits[0, one.start - 1 :]
        return (logits / overlap.TEMPERATURE).softmax(dim=-1)

    both = [(law(target, one), law(served, one)) for one in texts.entries]
    want = torch.cat([torch.minimum(p, q).sum(dim=-1) for p, q in both])
    lost = torch.cat([p[:, 1::2].sum(dim=-1) for p, _ in both])
    found = overlap.measure(draft, texts, Head.of(target), ids)
    assert found.kept == pytest.approx(want.numpy(), abs=1e-4)
    assert found.lost == pytest.approx(lost.numpy(), abs=1e-4)
    assert found.kept is not None
    assert found.lost is not None
    assert (found.kept <= 1 - found.lost + 1e-6).all()
    # Of the whole head it is what it is without kept ids.
    assert found.values == pytest.approx(overlap.measure(draft, texts, Head.of(target)).values)
    # A planted table that is one off.
    wrong = overlap.measure(draft, texts, Head.of(target), [i + 1 for i in ids])
    assert wrong.kept != pytest.approx(want.numpy(), abs=0.05)


@pytest.fixture(scope="module")
def how(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Texts to train on of which it is known how frequent each letter is, and held-out prompts."""
    folder = tmp_path_factory.mktemp("given")
    lines = []
    for n in range(16):
        letters = [letter for letter, count in COUNTS.items() for _ in range(count)]
        random.Random(n).shuffle(letters)
        lines.append(json.dumps({"text": "".join(letters)}) + "\n")
    (folder / "texts.jsonl").write_text("".join(lines))
    held = [{"id": str(n), "prompt": f"held out {n}"} for n in range(3)]
    (folder / "held.jsonl").write_text("".join(json.dumps(one) + "\n" for one in held))
    return {"texts": folder / "texts.jsonl", "prompts": folder / "held.jsonl", "steps": 1}


@pytest.fixture(scope="module")
def made(target: Path, how: dict[str, Any]) -> artifact.Distilled:
    """A draft of two layers that proposes 12 of 50 ids."""
    return distill_model(str(target), 2, target.parent / "few", **how, vocabulary=N)


def test_the_folder_keeps_other_ids_or_is_no_whole_model(made: artifact.Distilled, target: Path) -> None:
    assert kept.read(made.folder) == Kept(ids=IDS, rows=tiny.V)
    assert artifact.read(made.folder) == made
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(made.folder)
    assert torch.isfinite(loaded(input_ids=torch.tensor([[1, 5, 6]])).logits).all()
    assert loaded.lm_head.weight.shape == (tiny.V, 32)


def test_what_the_kept_ids_cost_is_not_what_is_served(made: artifact.Distilled, target: Path) -> None:
    told, adds = made.vocabulary, made.cost["multiply_adds"]
    assert told is not None
    assert (told["ids"], told["rows"], told["always"], told["seen"]) == (N, tiny.V, 4, len(COUNTS))
    assert 0 < told["overlap"]["value"] <= 1 - told["mass_lost"]["value"] + 1e-5
    gained = told["overlap"]["value"] - made.overlap["after"]["value"]
    assert told["overlap_gain"]["value"] == pytest.approx(gained, abs=2e-5)
    assert adds["whole_head"] - adds["draft"] == (tiny.V - N) * 32
    with HFEngine(device="cpu").open(str(target)) as opened:
        read = opened.describe_draft(DraftSpec(method="model", k=1, model=str(made.folder)))
    assert read is not None
    # The table of ids, and buffers of rotary positions.
    assert read["bytes_per_token"] == pytest.approx(made.cost["bytes"]["draft"], abs=300)
    shown = dict(distilling.rows(made))
    assert shown["ids it proposes from"].startswith(f"{N} of {tiny.V}: 4 special")
    assert {"the target's mass on others", "overlap with these ids"} <= shown.keys()
    assert "with its whole head" in shown["bytes read a token"]


def test_the_folder_as_a_draft_changes_the_greedy_tokens(made: artifact.Distilled, target: Path) -> None:
    prompt = tiny.prompt("abc, abd")
    with HFEngine(device="cpu", dtype="float32").open(str(target)) as opened:
        (plain,) = opened.decoder(None).generate([prompt], tiny.greedy(24))
        for rule in EXACT_RULES:
            decoder = opened.decoder(DraftSpec(method="model", k=3, rule=rule, model=str(made.folder)))
            (drafted,) = decoder.generate([prompt], tiny.greedy(24))
            assert drafted.ids == plain.ids
            assert sum(step.proposed for step in drafted.steps) > 0
            assert f"head: {N} of {tiny.V} ids" in decoder.notes


def test_work_with_another_number_of_ids_is_gone_on_with(
    target: Path, how: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(HFEngine, "load", stopped)
    out = tmp_path / "small"

    def asked(number: int | None, *, resume: bool = True) -> None:
        distill_model(str(target), 2, out, **how, vocabulary=number, resume=resume)

    with pytest.raises(SpecqError, match="type the same again with --resume"):
        asked(N, resume=False)
    for other in (N + 1, None):
        with pytest.raises(ConfigError, match=f"vocabulary was {N} and is {other}; give what was given"):
            asked(other)
    with pytest.raises(SpecqError, match="type the same again with --resume"):
        asked(N)
    # Work that was begun before there was a choice has the whole head.
    recipe = work.part_of(out) / work.RECIPE
    recipe.write_text(json.dumps({key: v for key, v in json.loads(recipe.read_text()).items() if key != "vocabulary"}))
    with pytest.raises(ConfigError, match=f"vocabulary was None and is {N}"):
        asked(N)
    with pytest.raises(SpecqError, match="type the same again with --resume"):
        asked(None)


def test_ids_of_a_target_that_was_distilled_itself_are_taken_over(tmp_path: Path) -> None:
    source = tiny.save(tmp_path / "source", tiny.make("llama"))
    kept.write(source, IDS, tiny.V)
    saved = making._saved(tiny.make("llama"), refs.resolve(str(source)), tmp_path / "model")
    assert (saved / "tokenizer.json").is_file()
    assert kept.path(saved) is None
