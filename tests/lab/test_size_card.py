"""What a card holds: how many sequences, how long, beside a draft, and of several models which first."""

from __future__ import annotations

from pathlib import Path

import pytest
from size_configs import LLAMA_3B, LLAMA_8B, LLAMA_70B, MAMBA, MISTRAL_7B, folder

from specq.lab.size import size_models
from specq.lab.size_memory import Card
from specq.lab.size_result import Sized, Sizing


def sized(model: Path | str, **how: object) -> Sized:
    (one,) = size_models(str(model), **how).models  # type: ignore[arg-type]
    return one


def card(model: Path | str, **how: object) -> Card:
    found = sized(model, **how).card
    assert found is not None
    return found


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return folder(tmp_path / "small", LLAMA_3B)


def test_decimal_and_binary_cards_are_mixed_up(small: Path) -> None:
    assert card(small, card="24GB").bytes == 24 * 10**9
    assert card(small, card="24 GiB").bytes == 24 * 2**30


def test_one_sequence_more_is_said_to_fit_or_one_less(small: Path) -> None:
    found = card(small, card="24GB", context=32768, margin="0")
    weights, each = 6_425_499_648, 32768 * 114_688
    assert found.held is not None
    assert found.held["fp16"] == (24 * 10**9 - weights) // each == 4
    assert card(small, card=weights + 4 * each, context=32768, margin="0").held == {
        **found.held,
        "q8_0": 7,
        "q4_0": 14,
    }
    assert card(small, card=weights + 4 * each, context=32768, concurrency=4, margin="0").fits
    assert not card(small, card=weights + 4 * each - 1, context=32768, concurrency=4, margin="0").fits


def test_the_margin_is_forgotten(small: Path) -> None:
    exact = 6_425_499_648 + 32768 * 114_688
    assert not card(small, card=exact, context=32768).fits
    assert card(small, card=1.1001 * exact, context=32768).fits
    assert not card(small, card=exact + 10**9 - 1, context=32768, margin="1GB").fits
    assert card(small, card=exact + 10**9, context=32768, margin="1GB").fits


def test_something_fits_without_a_context(small: Path) -> None:
    found = card(small, card="80GB")
    assert (found.fits, found.held, found.free) == (None, None, None)
    assert found.room > 0
    several = size_models([str(small), str(small)], card="80GB")
    assert not several.ranked
    assert all(one.card is not None and one.card.fits is None for one in several.models)
    assert any("not said to fit" in note for note in several.models[0].notes)


def test_the_longest_context_does_not_stop_at_the_card_or_the_window(small: Path) -> None:
    alone = card(small, card="24GB", context=1024, margin="0").longest
    assert alone == 131_072 == LLAMA_3B["max_position_embeddings"]
    four = card(small, card="24GB", context=1024, concurrency=4, margin="0").longest
    assert four == (24 * 10**9 - 6_425_499_648) // (4 * 114_688)
    assert card(small, card="5GB", context=1024).longest == 0


def test_a_window_that_is_full_still_grows(tmp_path: Path) -> None:
    model = folder(tmp_path / "window", MISTRAL_7B)
    full, longer = (card(model, card="40GB", context=tokens).held for tokens in (4096, 32768))
    assert full == longer


def test_a_draft_takes_no_place(small: Path, tmp_path: Path) -> None:
    draft = folder(tmp_path / "draft", {**LLAMA_3B, "num_hidden_layers": 4})
    one = sized(small, card="24GB", context=32768, draft=str(draft), margin="0")
    weights = one.draft.weights.bytes if one.draft else 0
    assert one.card is not None
    assert one.memory is not None
    assert one.memory.draft_weights == weights > 10**9
    assert one.memory.draft_cache == 32768 * 4 * 2 * 8 * 128 * 2
    held = (24 * 10**9 - 6_425_499_648 - weights) // (32768 * (114_688 + 16_384))
    assert (one.card.held_without_draft, one.card.asked_held, one.card.displaced) == (4, held, 4 - held)
    assert one.card.displaced > 0
    assert sized(small, card="24GB", context=32768).card.displaced is None  # type: ignore[union-attr]


@pytest.fixture
def ranked(tmp_path: Path) -> Sizing:
    short = {**LLAMA_3B, "max_position_embeddings": 8192}
    names = {"large": LLAMA_70B, "middle": LLAMA_8B, "small": LLAMA_3B, "short": short}
    return size_models(
        [str(folder(tmp_path / name, config)) for name, config in names.items()], card="24GB", context="32k"
    )


def test_models_are_ranked_by_what_does_not_fit(ranked: Sizing) -> None:
    assert ranked.ranked
    names = [Path(one.model.name).name for one in ranked.models]
    assert names == ["small", "middle", "short", "large"]
    assert [one.card.fits for one in ranked.models if one.card] == [True, True, False, False]


def test_a_model_with_a_shorter_window_is_said_to_fit(ranked: Sizing) -> None:
    short = next(one for one in ranked.models if one.model.name.endswith("short"))
    assert short.beyond
    assert short.memory is None
    assert short.card is not None
    assert short.card.held == {"fp16": 0, "q8_0": 0, "q4_0": 0}


def test_the_smaller_of_ridge_and_card_does_not_bind(small: Path) -> None:
    near = sized(small, machine="h100-sxm", context=131072).ridge
    assert near is not None
    assert (near.batch, near.held, near.largest, near.binds) == (295, 4, 4, "card")
    far = sized(small, machine="h100-sxm", context=1024).ridge
    assert far is not None
    assert far.held is not None
    assert far.held > 295
    assert (far.largest, far.binds) == (295, "ridge")


def test_a_constant_state_takes_no_place(tmp_path: Path) -> None:
    one = sized(folder(tmp_path / "mamba", MAMBA), card="1GB", context=100_000, margin="0")
    state = 24 * 4 * (1536 * 16 + 1536 * 4)
    assert one.model.shape.state_bytes == state
    assert one.card is not None
    assert one.card.asked_held == (10**9 - one.model.weights.bytes) // state
    assert (one.card.longest, one.card.room) == (None, None)
