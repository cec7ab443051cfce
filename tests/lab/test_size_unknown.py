"""What a card holds of a model whose sequences have no known size, and beyond a model's window: it is not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from size_configs import JAMBA, LLAMA_3B, XLSTM, folder

from specq import cli
from specq.lab.size import size_models
from specq.lab.size_memory import Card
from specq.lab.size_result import Sized

HYBRID = {**JAMBA, "mamba_d_state": None}
KEYS = ("fp16", "q8_0", "q4_0")


def sized(*models: Path, **how: object) -> dict[str, Sized]:
    return {Path(one.model.name).name: one for one in size_models([str(one) for one in models], **how).models}  # type: ignore[arg-type]


def card(model: Path, **how: object) -> Card:
    (found,) = sized(model, **how).values()
    assert found.card is not None
    return found.card


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return folder(tmp_path / "small", LLAMA_3B)


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    model = folder(tmp_path / "xlstm", XLSTM)
    index = {"metadata": {"total_size": 10**9}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    return model


def test_sequences_of_unknown_size_fit_in_billions(unknown: Path) -> None:
    found = card(unknown, weights_bytes="1GB", card="24GB", context=4096, margin="0")
    assert (found.fits, found.free, found.longest, found.room) == (None, None, None, None)
    assert found.held == dict.fromkeys(KEYS)
    assert (found.asked_held, found.displaced) == (None, None)
    assert "the size of the constant state is not known" in found.unknown


def test_what_does_not_fit_without_its_states_may_fit_with_them(unknown: Path) -> None:
    found = card(unknown, weights_bytes="25GB", card="24GB", context=4096, margin="0")
    assert (found.fits, found.held, found.longest, found.room) == (False, dict.fromkeys(KEYS, 0), 0, 0)


def test_a_hybrid_is_sized_by_its_attention_alone(tmp_path: Path) -> None:
    model = folder(tmp_path / "hybrid", HYBRID)
    one = sized(model, weights_bytes="1GB", card="24GB", context=4096, margin="0")["hybrid"]
    assert one.model.shape.cache
    assert one.at_least
    assert one.card is not None
    assert (one.card.fits, one.card.held) == (None, dict.fromkeys(KEYS))
    # One sequence's attention alone is 4 layers of 2 * 8 * 128 fp16 values a token: 16,384 bytes.
    over = card(model, weights_bytes="1GB", card=10**9 + 4096 * 16_384 - 1, context=4096, margin="0")
    assert (over.fits, over.held) == (False, {"fp16": 0, "q8_0": None, "q4_0": None})


def test_a_draft_of_unknown_size_displaces_a_number_of_sequences(small: Path, unknown: Path) -> None:
    found = card(small, card="24GB", context=32768, draft=str(unknown), margin="0")
    assert found.held_without_draft == 4
    assert (found.fits, found.displaced, found.held) == (None, None, dict.fromkeys(KEYS))
    assert "the draft's constant state" in found.unknown


def test_a_draft_displaces_sequences_beyond_the_window(small: Path, tmp_path: Path) -> None:
    short = folder(tmp_path / "short", {**LLAMA_3B, "max_position_embeddings": 8192})
    draft = folder(tmp_path / "draft", {**LLAMA_3B, "num_hidden_layers": 4})
    found = sized(small, short, card="24GB", context=32768, draft=str(draft), margin="0")
    beyond, within = found["short"].card, found["small"].card
    assert beyond is not None
    assert (beyond.fits, beyond.asked_held) == (False, 0)
    assert (beyond.held_without_draft, beyond.displaced) == (None, None)
    assert beyond.unknown == "32,768 tokens are beyond the window of 8,192: a draft takes the place of none"
    assert beyond.unknown in found["short"].notes
    assert within is not None
    assert (within.held_without_draft, within.unknown) == (4, "")


def test_yes_or_no_is_printed_where_neither_is_known(
    small: Path, unknown: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(small.parent)
    words = ["--card", "24GB", "--context", "4096", "--bandwidth", "380GB/s", "--flops", "100T"]
    assert cli.main(["size", "xlstm", "small", *words]) == 0
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert rows["small"][1] == "yes"
    assert rows["xlstm"][1:4] == ["unknown", "unknown", "unknown"]
    assert rows["xlstm"][4] == ">="
    assert list(rows).index("small") < list(rows).index("xlstm")
    assert cli.main(["size", "xlstm", *words]) == 0
    out = capsys.readouterr().out
    assert "Whether 1 sequence of 4,096 tokens fits in 24.00 GB (22.35 GiB) is not known: the size of the" in out
    assert "together, at least" in out
    assert " fits in 24.00 GB (22.35 GiB)." not in out
    assert cli.main(["size", "xlstm", *words[:2]]) == 0
    assert "weights and margin fit; how many tokens there is room for is not known" in capsys.readouterr().out
